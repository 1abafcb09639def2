//! The table of events: what a matcher tests, what BLOCK means, what may be rewritten.

use std::sync::LazyLock;

/// What a matcher tests on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Nothing: matchers are ignored.
    None,
    /// The name of the tool. The event needs a tool call.
    Tool,
    /// The string at this key of the payload. A call without it matches every rule.
    Payload(&'static str),
    /// The last component of the path at this key of the payload. A call without it matches every rule.
    PayloadFileName(&'static str),
    /// `caller.agent_type`, or else the payload's `agent_type`. A call without either matches every rule.
    AgentType,
}

/// What a BLOCK means on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// It keeps something from being done; the first one ends the chain (law 2).
    Prevents,
    /// It keeps the agent from stopping: the reason is its next instruction. Ends the chain as well.
    PreventsStop,
    /// The reason goes to the model beside what has happened. Every rule runs.
    Feedback,
    /// It is recorded only. Every rule runs.
    Recorded,
}

/// What rules may rewrite on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modifies {
    /// Nothing.
    Nothing,
    /// The parameters of the tool call.
    Params,
    /// The result of the tool call.
    Result,
}

/// What hookd knows of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The name, exact case. Empty for an event that is not in the table.
    pub name: &'static str,
    /// What a matcher tests.
    pub subject: Subject,
    /// What BLOCK means.
    pub block: Block,
    /// What may be rewritten.
    pub modifies: Modifies,
    /// Failures of managed rules block unless they say otherwise (law 7).
    pub guarded: bool,
    /// What BLOCK does, in words.
    pub block_means: &'static str,
}

impl Event {
    /// The event of this name, exact case.
    #[must_use]
    pub fn known(name: &str) -> Option<&'static Self> {
        EVENTS.iter().find(|event| event.name == name)
    }

    /// What an event outside the table is taken for (law 11): it can block, and with a tool call it matches and
    /// modifies like `PreToolUse`.
    #[must_use]
    pub fn unknown(has_tool_call: bool) -> &'static Self {
        if has_tool_call { &UNKNOWN_WITH_TOOL } else { &UNKNOWN }
    }

    /// Whether BLOCK keeps something from happening, so that the first one ends the chain (law 2).
    #[must_use]
    pub fn prevents(&self) -> bool {
        matches!(self.block, Block::Prevents | Block::PreventsStop)
    }

    /// Whether what BLOCK prevents is the agent's end.
    #[must_use]
    pub fn is_stop_like(&self) -> bool {
        self.block == Block::PreventsStop
    }

    /// Whether the event is about a tool call and needs one.
    #[must_use]
    pub fn needs_tool(&self) -> bool {
        self.subject == Subject::Tool && !self.name.is_empty()
    }
}

/// Why a name that is not in the table is not taken for an event of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownEvent {
    /// It differs from a known name only in case or punctuation, so it was meant to be that one (law 11).
    #[error("event `{name}` is not known, did you mean `{known}`")]
    NearName {
        /// The name.
        name: String,
        /// The known name.
        known: &'static str,
    },
    /// It is empty, too long, or holds control characters.
    #[error("event {name:?} is not a name of 1 to 128 characters without control characters")]
    NotAName {
        /// The name, cut to 128 characters.
        name: String,
    },
}

impl UnknownEvent {
    /// Checks a name that [`Event::known`] does not know.
    ///
    /// # Errors
    /// [`UnknownEvent`] where it cannot stand for an event of its own.
    pub fn check(name: &str) -> Result<(), Self> {
        if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
            return Err(Self::NotAName { name: name.chars().take(128).collect() });
        }
        let folded = fold(name);
        match FOLDED.iter().find(|(known, _)| *known == folded) {
            Some((_, known)) => Err(Self::NearName { name: name.to_owned(), known }),
            None => Ok(()),
        }
    }
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

static FOLDED: LazyLock<Vec<(String, &'static str)>> =
    LazyLock::new(|| EVENTS.iter().map(|event| (fold(event.name), event.name)).collect());

const fn event(
    name: &'static str,
    subject: Subject,
    block: Block,
    modifies: Modifies,
    guarded: bool,
    block_means: &'static str,
) -> Event {
    Event { name, subject, block, modifies, guarded, block_means }
}

static UNKNOWN: Event =
    event("", Subject::None, Block::Prevents, Modifies::Nothing, false, "what the event announces does not happen");
static UNKNOWN_WITH_TOOL: Event =
    event("", Subject::Tool, Block::Prevents, Modifies::Params, true, "the tool call does not run");

use Block::{Feedback, Prevents, PreventsStop, Recorded};
use Modifies::Nothing;
use Subject::{AgentType, Payload, PayloadFileName, Tool};

/// The known events, by their names in Claude Code.
#[rustfmt::skip]
pub static EVENTS: [Event; 34] = [
    event("PreToolUse", Tool, Prevents, Modifies::Params, true, "the tool call does not run, the reason goes to the model"),
    event("PostToolUse", Tool, Feedback, Modifies::Result, false, "the reason goes to the model beside the result"),
    event("PostToolUseFailure", Tool, Feedback, Nothing, false, "the reason goes to the model beside the error"),
    event("PostToolBatch", Subject::None, Prevents, Nothing, false, "the agent's loop ends before the next model call"),
    event("PermissionRequest", Tool, Prevents, Modifies::Params, true, "the permission is refused"),
    event("PermissionDenied", Tool, Recorded, Nothing, false, "recorded only"),
    event("PreSkillShellCommand", Tool, Prevents, Nothing, true, "the command does not run"),
    event("UserPromptSubmit", Subject::None, Prevents, Nothing, true, "the prompt is refused"),
    event("UserPromptExpansion", Payload("command_name"), Prevents, Nothing, true, "the command is not expanded"),
    event("MessageDisplay", Subject::None, Recorded, Nothing, false, "recorded only"),
    event("SessionStart", Payload("source"), Recorded, Nothing, false, "recorded only"),
    event("SessionEnd", Payload("reason"), Recorded, Nothing, false, "recorded only"),
    event("Setup", Payload("trigger"), Recorded, Nothing, false, "recorded only"),
    event("InstructionsLoaded", Payload("load_reason"), Recorded, Nothing, false, "recorded only"),
    event("Notification", Payload("notification_type"), Recorded, Nothing, false, "recorded only"),
    event("Stop", Subject::None, PreventsStop, Nothing, false, "the agent goes on, the reason is its next instruction"),
    event("StopFailure", Payload("error"), Recorded, Nothing, false, "recorded only"),
    event("SubagentStart", AgentType, Recorded, Nothing, false, "recorded only"),
    event("SubagentStop", AgentType, PreventsStop, Nothing, false, "the subagent goes on, the reason is its next instruction"),
    event("TaskCreated", Subject::None, Prevents, Nothing, false, "the task is not created"),
    event("TaskCompleted", Subject::None, PreventsStop, Nothing, false, "the task is not completed, the reason goes to the model"),
    event("TeammateIdle", Subject::None, PreventsStop, Nothing, false, "the teammate keeps working, the reason is its feedback"),
    event("ConfigChange", Payload("source"), Prevents, Nothing, false, "the change is not taken over"),
    event("CwdChanged", Subject::None, Recorded, Nothing, false, "recorded only"),
    event("DirectoryAdded", Payload("source"), Recorded, Nothing, false, "recorded only"),
    event("FileChanged", PayloadFileName("file_path"), Recorded, Nothing, false, "recorded only"),
    event("WorktreeCreate", Subject::None, Prevents, Nothing, false, "the worktree is not created"),
    event("WorktreeRemove", Subject::None, Recorded, Nothing, false, "recorded only"),
    event("PreCompact", Payload("trigger"), Prevents, Nothing, false, "the context is not compacted"),
    event("PostCompact", Payload("trigger"), Recorded, Nothing, false, "recorded only"),
    event("Elicitation", Payload("mcp_server_name"), Prevents, Nothing, false, "the request of the MCP server is declined"),
    event("ElicitationResult", Payload("mcp_server_name"), Prevents, Nothing, false, "the answer becomes a refusal"),
    event("PreModelSwitch", Subject::None, Prevents, Nothing, true, "the model is not switched"),
    event("PostModelSwitch", Subject::None, Recorded, Nothing, false, "recorded only"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_also_when_folded() {
        let mut names = EVENTS.iter().map(|event| fold(event.name)).collect::<Vec<_>>();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), EVENTS.len());
    }

    #[test]
    fn law_11_near_names_are_not_events_of_their_own() {
        for name in ["pretooluse", "PRE_TOOL_USE", "Pre-Tool Use", "preToolUse", "stop!"] {
            assert!(matches!(UnknownEvent::check(name), Err(UnknownEvent::NearName { .. })), "{name}");
        }
        for name in ["", "a\nb", "a\u{7f}", &"x".repeat(129)] {
            assert!(matches!(UnknownEvent::check(name), Err(UnknownEvent::NotAName { .. })), "{name:?}");
        }
        for name in ["PreDeploy", "vendor.event", "预部署"] {
            assert_eq!(UnknownEvent::check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn law_11_unknown_events_can_block_and_modify_with_a_tool_call() {
        let with_tool = Event::unknown(true);
        let known = Event::known("PreToolUse").unwrap();
        assert_eq!(
            (with_tool.subject, with_tool.block, with_tool.modifies, with_tool.guarded),
            (known.subject, known.block, known.modifies, known.guarded)
        );
        assert!(Event::unknown(false).prevents());
    }
}
