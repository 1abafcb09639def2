//! Hooks of other agents: told by their forms, so that the reason for which they are not loaded says what to do.

use hookd_json::{Node, Tree};

use crate::{Event, shape::Fields};

/// An agent whose own files are not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    Copilot,
    Cursor,
    /// One of these two: the entry fits both.
    CopilotOrCursor,
    Gemini,
    Windsurf,
}

const COPILOT_EVENTS: [&str; 6] =
    ["agentStop", "errorOccurred", "notification", "permissionRequest", "userPromptSubmitted", "userPromptTransformed"];
const CURSOR_EVENTS: [&str; 13] = [
    "afterAgentResponse",
    "afterAgentThought",
    "afterFileEdit",
    "afterMCPExecution",
    "afterShellExecution",
    "afterTabFileEdit",
    "beforeMCPExecution",
    "beforeReadFile",
    "beforeShellExecution",
    "beforeSubmitPrompt",
    "beforeTabFileRead",
    "stop",
    "workspaceOpen",
];
const GEMINI_EVENTS: [&str; 8] = [
    "AfterAgent",
    "AfterModel",
    "AfterTool",
    "BeforeAgent",
    "BeforeModel",
    "BeforeTool",
    "BeforeToolSelection",
    "PreCompress",
];
const WINDSURF_EVENTS: [&str; 12] = [
    "post_cascade_response",
    "post_cascade_response_with_transcript",
    "post_mcp_tool_use",
    "post_read_code",
    "post_run_command",
    "post_setup_worktree",
    "post_write_code",
    "pre_mcp_tool_use",
    "pre_read_code",
    "pre_run_command",
    "pre_user_prompt",
    "pre_write_code",
];

const COPILOT_KEYS: [&str; 4] = ["bash", "exec", "powershell", "timeoutSec"];
const CURSOR_KEYS: [&str; 2] = ["failClosed", "loop_limit"];

/// What the top of a file says of whose it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    /// It has a `version`, which Claude Code's files do not have.
    has_version: bool,
    /// Some of its events are this agent's alone.
    events: Option<Foreign>,
}

impl Marks {
    /// The marks of a file with these keys at its top and in its `hooks`.
    pub(super) fn of(top: Fields<'_>, hooks: &[hookd_json::Entry]) -> Self {
        Self { has_version: top.node("version").is_some(), events: hooks.iter().find_map(|entry| of_event(&entry.key)) }
    }

    /// Whose the entry `node` of the list of `event` is, if it is not Claude Code's. `is_flat`: it is a handler without
    /// a group around it.
    pub(super) fn owner(self, event: &str, node: &Node, is_flat: bool) -> Option<Foreign> {
        let owner = of_event(event);
        if !is_flat {
            // The others have no groups, so it is Claude Code's event, misspelt.
            return owner.filter(|owner| *owner == Foreign::Gemini);
        }
        if owner.is_some() {
            return owner;
        }
        let keys = |keys: &[&str]| match &node.value {
            Tree::Map(entries) => entries.iter().any(|entry| keys.contains(&entry.key.as_str())),
            _ => false,
        };
        if keys(&COPILOT_KEYS) {
            return Some(Foreign::Copilot);
        }
        if keys(&CURSOR_KEYS) {
            return Some(Foreign::Cursor);
        }
        let is_known = Event::known(event).is_some();
        let events = self.events.filter(|_| self.has_version || !is_known);
        events.or(self.has_version.then_some(Foreign::CopilotOrCursor))
    }
}

impl Foreign {
    /// Why its hooks are not loaded, and what to do.
    pub(super) fn reason(self) -> String {
        let (name, relay) = match self {
            Self::Copilot => ("GitHub Copilot CLI", "hookctl relay --agent copilot-cli"),
            Self::Cursor => ("Cursor", "hookctl relay --agent cursor"),
            Self::CopilotOrCursor => ("GitHub Copilot CLI or Cursor", "hookctl relay"),
            Self::Gemini => ("Gemini CLI", "hookctl relay --agent gemini-cli"),
            Self::Windsurf => ("Windsurf", "hookctl relay --agent windsurf"),
        };
        format!(
            "is a hook of {name}, which hookd does not load: `hookctl import` makes a rule of it, or the agent runs it \
             and asks hookd as well by `{relay}`"
        )
    }
}

/// The agent that alone has this event. Events that Claude Code has too tell nothing.
fn of_event(event: &str) -> Option<Foreign> {
    let tables = [
        (&COPILOT_EVENTS[..], Foreign::Copilot),
        (&CURSOR_EVENTS[..], Foreign::Cursor),
        (&GEMINI_EVENTS[..], Foreign::Gemini),
        (&WINDSURF_EVENTS[..], Foreign::Windsurf),
    ];
    tables.into_iter().find(|(events, _)| events.contains(&event)).map(|(_, owner)| owner)
}
