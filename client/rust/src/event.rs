//! What a client has to know of events: what a BLOCK does on each.

/// What a BLOCK means on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// It keeps something from being done.
    Prevents,
    /// It keeps the agent from stopping.
    PreventsStop,
    /// The reason goes to the model beside what has happened.
    Feedback,
    /// The same, and the result that the model sees can be replaced.
    FeedbackOnResult,
    /// It is recorded only.
    Recorded,
}

impl Block {
    /// What a BLOCK means on the event of this name. On one that is not known it prevents: the unknown never loses a
    /// denial.
    pub(crate) fn on(event: &str) -> Self {
        match event {
            "Stop" | "SubagentStop" | "TaskCompleted" | "TeammateIdle" => Self::PreventsStop,
            "PostToolUse" => Self::FeedbackOnResult,
            "PostToolUseFailure" => Self::Feedback,
            "PermissionDenied" | "MessageDisplay" | "SessionStart" | "SessionEnd" | "Setup" | "InstructionsLoaded"
            | "Notification" | "StopFailure" | "SubagentStart" | "CwdChanged" | "DirectoryAdded" | "FileChanged"
            | "WorktreeRemove" | "PostCompact" | "PostModelSwitch" => Self::Recorded,
            _ => Self::Prevents,
        }
    }
}

#[cfg(test)]
mod tests {
    use hookd_rules::{EVENTS, Modifies};

    use super::*;

    #[test]
    fn the_client_and_the_server_agree_on_every_event() {
        for event in EVENTS {
            let expected = match (event.block, event.modifies) {
                (hookd_rules::Block::Prevents, _) => Block::Prevents,
                (hookd_rules::Block::PreventsStop, _) => Block::PreventsStop,
                (hookd_rules::Block::Feedback, Modifies::Result) => Block::FeedbackOnResult,
                (hookd_rules::Block::Feedback, _) => Block::Feedback,
                (hookd_rules::Block::Recorded, _) => Block::Recorded,
            };
            assert_eq!(Block::on(event.name), expected, "{}", event.name);
        }
        assert_eq!(Block::on("PreDeploy"), Block::Prevents);
    }
}
