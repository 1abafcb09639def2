use std::time::Duration;

use crate::{
    table::{self, Row},
    v1,
};

/// An agent whose hook protocol hookd speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Agent {
    /// Claude Code.
    ClaudeCode,
    /// OpenAI Codex CLI.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// Cursor.
    Cursor,
    /// GitHub Copilot CLI, and the cloud agent on the same engine.
    CopilotCli,
    /// Agent hooks of VS Code.
    VsCode,
    /// Qwen Code.
    QwenCode,
    /// Factory Droid.
    FactoryDroid,
    /// Windsurf (Cascade).
    Windsurf,
    /// goose.
    Goose,
    /// Cline.
    Cline,
    /// Amazon Q Developer CLI.
    AmazonQ,
    /// Kiro: CLI 2 and 3, IDE 1.
    Kiro,
}

impl Agent {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::GeminiCli,
        Self::Cursor,
        Self::CopilotCli,
        Self::VsCode,
        Self::QwenCode,
        Self::FactoryDroid,
        Self::Windsurf,
        Self::Goose,
        Self::Cline,
        Self::AmazonQ,
        Self::Kiro,
    ];

    /// The name on command lines and in URLs, and what `caller.agent` is set to.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Cursor => "cursor",
            Self::CopilotCli => "copilot-cli",
            Self::VsCode => "vscode",
            Self::QwenCode => "qwen-code",
            Self::FactoryDroid => "factory-droid",
            Self::Windsurf => "windsurf",
            Self::Goose => "goose",
            Self::Cline => "cline",
            Self::AmazonQ => "amazon-q",
            Self::Kiro => "kiro",
        }
    }

    /// The agent of this name, exact case. `None`: hookd knows none of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// The agent itself can send its hooks by http, so that it needs no `hookctl relay`.
    #[must_use]
    pub fn has_http_hooks(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::CopilotCli | Self::QwenCode)
    }

    /// hookd's name of the agent's event `native` (the agent's own name, exact case). `None`: the event is not in the
    /// agent's table; it reaches the server under its own name and is evaluated as an event of its own (law 11).
    #[must_use]
    pub fn event(self, native: &str) -> Option<&'static str> {
        table::row(self, native).map(|row| row.event)
    }

    /// What the agent can carry out on its event `native` (the agent's own name, exact case). On an event that is not
    /// in the agent's table: what it can carry out on any.
    #[must_use]
    pub fn can(self, native: &str) -> &'static [v1::Capability] {
        table::row(self, native).map_or_else(|| table::unknown(self), |row| row.can)
    }

    /// The agent's events, by the agent's own names, in the order of its documentation.
    pub fn events(self) -> impl Iterator<Item = &'static str> {
        table::rows(self).iter().map(Row::name).filter(|name| !name.contains(' '))
    }

    /// How long the agent lets a hook run on its event `native` where its settings say nothing. What is asked within a
    /// hook has to be answered before that.
    #[must_use]
    pub fn time_limit(self, native: &str) -> Duration {
        match (self, native) {
            (Self::ClaudeCode, "SessionEnd") => Duration::from_millis(1500),
            (Self::ClaudeCode, "MessageDisplay") => Duration::from_secs(10),
            (Self::ClaudeCode, "UserPromptSubmit" | "PreModelSwitch" | "PostModelSwitch") => Duration::from_secs(30),
            (Self::Codex, "SessionEnd" | "Interrupt") => Duration::from_secs(1),
            (Self::ClaudeCode | Self::Codex, _) => Duration::from_secs(600),
            // CLI 2, whose events begin with a small letter, kept Amazon Q's limit.
            (Self::Kiro, "preToolUse" | "postToolUse" | "userPromptSubmit" | "agentSpawn" | "stop" | "") => {
                Duration::from_secs(30)
            }
            (Self::GeminiCli | Self::QwenCode | Self::FactoryDroid | Self::Kiro, _) => Duration::from_secs(60),
            // Cursor and Windsurf do not say: the shortest of the others is safe.
            (
                Self::Cursor
                | Self::CopilotCli
                | Self::VsCode
                | Self::Windsurf
                | Self::Goose
                | Self::Cline
                | Self::AmazonQ,
                _,
            ) => Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_agents() {
        for agent in Agent::ALL {
            assert_eq!(Agent::from_name(agent.name()), Some(agent));
        }
        assert_eq!(Agent::from_name("Claude-Code"), None);
    }
}
