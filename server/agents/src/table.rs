//! The one table: which agent has which event, what hookd calls it, and what the agent can carry out there.
//!
//! BLOCK on an event after the fact means that the reason reaches the model as feedback; FORCE_CONTINUE stands for it on
//! stop-like events. What is not listed is downgraded by the server. Where what an agent can do depends on more than the
//! event's name, there is a row for each case; only the first has the bare name, and the agent's module chooses.

use Capability::{
    AdditionalContext as C, Ask as A, Block as B, ForceContinue as F, Halt as H, ModifyParams as P, ModifyResult as R,
};

use crate::{Agent, v1::Capability};

/// One event of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The agent's own name.
    name: &'static str,
    /// hookd's name. The agent's own where hookd has none for it: an event of its own.
    pub(crate) event: &'static str,
    /// What the agent can carry out.
    pub(crate) can: &'static [Capability],
}

impl Row {
    /// The agent's own name of the event.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

/// The rows of an agent.
struct Table {
    rows: &'static [Row],
    /// What it can carry out on an event that is not in the rows.
    unknown: &'static [Capability],
    /// The keys of its payloads that may hold the event's name.
    event_keys: &'static [&'static str],
}

/// The row of the native event `name`.
pub(crate) fn row(agent: Agent, name: &str) -> Option<&'static Row> {
    table(agent).rows.iter().find(|row| row.name == name)
}

/// All rows of an agent.
pub(crate) fn rows(agent: Agent) -> &'static [Row] {
    table(agent).rows
}

/// What an agent can carry out on an event that is not in its rows.
pub(crate) fn unknown(agent: Agent) -> &'static [Capability] {
    table(agent).unknown
}

/// The keys of an agent's payloads that may hold the event's name.
pub(crate) fn event_keys(agent: Agent) -> &'static [&'static str] {
    table(agent).event_keys
}

const fn table(agent: Agent) -> &'static Table {
    match agent {
        Agent::ClaudeCode => &CLAUDE_CODE,
        Agent::Codex => &CODEX,
        Agent::GeminiCli => &GEMINI_CLI,
        Agent::Cursor => &CURSOR,
        Agent::CopilotCli => &COPILOT_CLI,
        Agent::VsCode => &VS_CODE,
        Agent::QwenCode => &QWEN_CODE,
        Agent::FactoryDroid => &FACTORY_DROID,
        Agent::Windsurf => &WINDSURF,
        Agent::Goose => &GOOSE,
        Agent::Cline => &CLINE,
        Agent::AmazonQ => &AMAZON_Q,
        Agent::Kiro => &KIRO,
    }
}

/// An event that has the same name in hookd.
const fn own(name: &'static str, can: &'static [Capability]) -> Row {
    Row { name, event: name, can }
}

/// An event that has another name in hookd.
const fn is(name: &'static str, event: &'static str, can: &'static [Capability]) -> Row {
    Row { name, event, can }
}

// DEFER stands nowhere here: Claude Code takes it in `-p` alone and ignores it elsewhere, without a sign in the input of
// which it is, and a delay that is ignored is a consent.
#[rustfmt::skip]
static CLAUDE_CODE: Table = Table {
    unknown: &[B, H],
    event_keys: &["hook_event_name"],
    rows: &[
        own("PreToolUse", &[A, B, P, C, H]),
        own("PermissionRequest", &[A, B, P, H]),
        own("PermissionDenied", &[]),
        own("PostToolUse", &[B, R, C, H]),
        own("PostToolUseFailure", &[B, C, H]),
        own("PostToolBatch", &[B, C, H]),
        // A question or a delay stops it as a block does, and a rewrite is never applied.
        own("PreSkillShellCommand", &[B]),
        own("UserPromptSubmit", &[B, C, H]),
        own("UserPromptExpansion", &[B, C, H]),
        own("MessageDisplay", &[]),
        own("SessionStart", &[C, H]),
        own("Setup", &[C]),
        own("SessionEnd", &[]),
        own("InstructionsLoaded", &[]),
        own("Notification", &[]),
        // Context would make it go on, whatever the verdict.
        own("Stop", &[F, H]),
        own("StopFailure", &[]),
        own("SubagentStart", &[C]),
        own("SubagentStop", &[F, H]),
        own("TaskCreated", &[B]),
        own("TaskCompleted", &[F, H]),
        own("TeammateIdle", &[F, H]),
        own("ConfigChange", &[B]),
        own("CwdChanged", &[]),
        own("DirectoryAdded", &[]),
        own("FileChanged", &[]),
        own("WorktreeCreate", &[B]),
        own("WorktreeRemove", &[]),
        own("PreCompact", &[B]),
        own("PostCompact", &[]),
        own("Elicitation", &[B]),
        own("ElicitationResult", &[B]),
        own("PreModelSwitch", &[A, B]),
        own("PostModelSwitch", &[C]),
    ],
};

// Rewrites are known to work for the shell, patches and MCP tools alone. `PermissionRequest` fires when a person would be
// asked, so that no answer is a question there.
#[rustfmt::skip]
static CODEX: Table = Table {
    unknown: &[B],
    event_keys: &["hook_event_name"],
    rows: &[
        own("PreToolUse", &[B, P, C]),
        is("PreToolUse of another tool", "PreToolUse", &[B, C]),
        own("PermissionRequest", &[A, B]),
        own("PostToolUse", &[B, C, H]),
        own("UserPromptSubmit", &[B, C, H]),
        own("SessionStart", &[C, H]),
        own("SessionEnd", &[]),
        own("SubagentStart", &[C]),
        own("SubagentStop", &[F, H]),
        own("Stop", &[F, H]),
        own("PreCompact", &[H]),
        own("PostCompact", &[H]),
        own("Interrupt", &[]),
    ],
};

#[rustfmt::skip]
static GEMINI_CLI: Table = Table {
    unknown: &[B, H],
    event_keys: &["hook_event_name"],
    rows: &[
        is("BeforeTool", "PreToolUse", &[B, P, H]),
        is("AfterTool", "PostToolUse", &[B, C, H]),
        is("AfterTool with an error", "PostToolUseFailure", &[B, C, H]),
        is("BeforeAgent", "UserPromptSubmit", &[B, C, H]),
        is("AfterAgent", "Stop", &[F, H]),
        own("SessionStart", &[C]),
        own("SessionEnd", &[]),
        own("Notification", &[]),
        is("PreCompress", "PreCompact", &[]),
        own("BeforeModel", &[B, H]),
        own("AfterModel", &[B, H]),
        own("BeforeToolSelection", &[]),
    ],
};

// A question before `preToolUse` is accepted and not enforced; before a subagent starts it is a no.
#[rustfmt::skip]
static CURSOR: Table = Table {
    unknown: &[B],
    event_keys: &["hook_event_name"],
    rows: &[
        is("preToolUse", "PreToolUse", &[B, P]),
        is("beforeShellExecution", "PreToolUse", &[A, B]),
        is("beforeMCPExecution", "PreToolUse", &[A, B]),
        is("beforeReadFile", "PreToolUse", &[B]),
        is("beforeTabFileRead", "PreToolUse", &[B]),
        is("postToolUse", "PostToolUse", &[B, C]),
        is("postToolUse of an MCP tool", "PostToolUse", &[B, R, C]),
        is("postToolUseFailure", "PostToolUseFailure", &[]),
        is("afterShellExecution", "PostToolUse", &[]),
        is("afterMCPExecution", "PostToolUse", &[]),
        is("afterFileEdit", "PostToolUse", &[]),
        is("afterTabFileEdit", "PostToolUse", &[]),
        is("beforeSubmitPrompt", "UserPromptSubmit", &[B]),
        is("sessionStart", "SessionStart", &[C]),
        is("sessionEnd", "SessionEnd", &[]),
        is("subagentStart", "SubagentStart", &[B]),
        is("subagentStop", "SubagentStop", &[F]),
        is("subagentStop that is not completed", "SubagentStop", &[]),
        is("stop", "Stop", &[F]),
        is("stop with an error", "StopFailure", &[]),
        is("stop by the user", "Interrupt", &[]),
        is("preCompact", "PreCompact", &[]),
        own("afterAgentResponse", &[]),
        own("afterAgentThought", &[]),
        own("workspaceOpen", &[]),
    ],
};

// The casing of the event's name chooses the dialect of the payload. `permissionRequest` fires before the agent's own
// rules, which may allow: no answer is no question there.
#[rustfmt::skip]
static COPILOT_CLI: Table = Table {
    unknown: &[B],
    event_keys: &["hook_event_name"],
    rows: &[
        is("preToolUse", "PreToolUse", &[A, B, P, C]),
        own("PreToolUse", &[A, B, P, C]),
        is("permissionRequest", "PermissionRequest", &[B, H]),
        own("PermissionRequest", &[B, H]),
        is("postToolUse", "PostToolUse", &[B, R, C]),
        own("PostToolUse", &[B, R, C]),
        is("postToolUseFailure", "PostToolUseFailure", &[B, C]),
        own("PostToolUseFailure", &[B, C]),
        is("userPromptSubmitted", "UserPromptSubmit", &[]),
        own("UserPromptSubmit", &[]),
        own("userPromptTransformed", &[]),
        is("sessionStart", "SessionStart", &[C]),
        own("SessionStart", &[C]),
        is("sessionEnd", "SessionEnd", &[]),
        own("SessionEnd", &[]),
        is("agentStop", "Stop", &[F]),
        own("Stop", &[F]),
        is("subagentStart", "SubagentStart", &[C]),
        own("SubagentStart", &[C]),
        is("subagentStop", "SubagentStop", &[F]),
        own("SubagentStop", &[F]),
        is("preCompact", "PreCompact", &[]),
        own("PreCompact", &[]),
        is("notification", "Notification", &[C]),
        own("Notification", &[C]),
        is("errorOccurred", "StopFailure", &[]),
        is("ErrorOccurred", "StopFailure", &[]),
    ],
};

#[rustfmt::skip]
static VS_CODE: Table = Table {
    unknown: &[B, H],
    event_keys: &["hook_event_name", "hookEventName"],
    rows: &[
        own("PreToolUse", &[A, B, P, C, H]),
        own("PostToolUse", &[B, C, H]),
        own("UserPromptSubmit", &[B, H]),
        own("SessionStart", &[C, H]),
        own("SubagentStart", &[C, H]),
        own("SubagentStop", &[F, H]),
        own("Stop", &[F, H]),
        own("PreCompact", &[H]),
    ],
};

// `updatedInput` before a tool is documented, but not applied: the call would run as it was. So a rewrite is not listed
// there, and becomes a block with the corrected call in its reason.
#[rustfmt::skip]
static QWEN_CODE: Table = Table {
    unknown: &[B, H],
    event_keys: &["hook_event_name"],
    rows: &[
        own("PreToolUse", &[A, B, C, H]),
        own("PermissionRequest", &[A, B, P, H]),
        own("PermissionDenied", &[]),
        own("PostToolUse", &[B, C, H]),
        own("PostToolUseFailure", &[B, C]),
        own("PostToolBatch", &[B, C, H]),
        own("UserPromptSubmit", &[B, C, H]),
        own("UserPromptExpansion", &[B, C, H]),
        own("MessageDisplay", &[]),
        own("SessionStart", &[C]),
        own("SessionEnd", &[]),
        own("SessionDelete", &[]),
        own("InstructionsLoaded", &[]),
        own("Notification", &[]),
        own("Stop", &[F, H]),
        own("StopFailure", &[]),
        own("SubagentStart", &[C]),
        own("SubagentStop", &[F, H]),
        own("PreCompact", &[C]),
        own("PostCompact", &[]),
        own("TodoCreated", &[B]),
        is("TodoCreated after the write", "TodoCreated", &[]),
        own("TodoCompleted", &[B]),
        is("TodoCompleted after the write", "TodoCompleted", &[]),
    ],
};

#[rustfmt::skip]
static FACTORY_DROID: Table = Table {
    unknown: &[B, H],
    event_keys: &["hook_event_name", "hookEventName"],
    rows: &[
        own("PreToolUse", &[A, B, P, H]),
        own("PostToolUse", &[B, C, H]),
        own("UserPromptSubmit", &[B, C, H]),
        own("SessionStart", &[C, H]),
        own("SessionEnd", &[]),
        own("Notification", &[]),
        own("Stop", &[F, H]),
        own("SubagentStop", &[F, H]),
        own("PreCompact", &[]),
    ],
};

#[rustfmt::skip]
static WINDSURF: Table = Table {
    unknown: &[B],
    event_keys: &["agent_action_name"],
    rows: &[
        is("pre_run_command", "PreToolUse", &[B]),
        is("pre_read_code", "PreToolUse", &[B]),
        is("pre_write_code", "PreToolUse", &[B]),
        is("pre_mcp_tool_use", "PreToolUse", &[B]),
        is("post_run_command", "PostToolUse", &[]),
        is("post_read_code", "PostToolUse", &[]),
        is("post_write_code", "PostToolUse", &[]),
        is("post_mcp_tool_use", "PostToolUse", &[]),
        is("pre_user_prompt", "UserPromptSubmit", &[B]),
        is("post_cascade_response", "Stop", &[]),
        is("post_cascade_response_with_transcript", "Stop", &[]),
        is("post_setup_worktree", "SessionStart", &[]),
    ],
};

// `Before…`, `After…` and `PreToolUseResult` are fired beside `PreToolUse` and `PostToolUse` for the same call and can
// only look on: under names of their own no rule on a tool runs twice, and no block is recorded that stops nothing.
#[rustfmt::skip]
static GOOSE: Table = Table {
    unknown: &[B],
    event_keys: &["event"],
    rows: &[
        own("PreToolUse", &[B]),
        own("PreToolUseResult", &[]),
        own("PostToolUse", &[]),
        own("PostToolUseFailure", &[]),
        own("BeforeReadFile", &[]),
        own("AfterFileEdit", &[]),
        own("BeforeShellExecution", &[]),
        own("AfterShellExecution", &[]),
        own("UserPromptSubmit", &[]),
        own("SessionStart", &[]),
        own("SessionEnd", &[]),
        own("Stop", &[F]),
    ],
};

// Names with a capital are those of the files and of the older VS Code path, which waits for every hook. The SDK waits
// for `tool_call` and `tool_result` alone. A block ends the run, since nothing smaller can be said.
#[rustfmt::skip]
static CLINE: Table = Table {
    unknown: &[B, H],
    event_keys: &["hookName"],
    rows: &[
        own("PreToolUse", &[B, C, H]),
        is("tool_call", "PreToolUse", &[B, P, C, H]),
        own("PostToolUse", &[B, C, H]),
        is("PostToolUse of a failed call", "PostToolUseFailure", &[B, C, H]),
        is("tool_result", "PostToolUse", &[B, C, H]),
        is("tool_result of a failed call", "PostToolUseFailure", &[B, C, H]),
        own("UserPromptSubmit", &[B, C, H]),
        is("prompt_submit", "UserPromptSubmit", &[]),
        is("TaskStart", "SessionStart", &[C, H]),
        is("TaskResume", "SessionStart", &[C, H]),
        is("agent_start", "SessionStart", &[]),
        is("agent_start of a subagent", "SubagentStart", &[]),
        is("agent_resume", "SessionStart", &[]),
        is("SessionShutdown", "SessionEnd", &[]),
        is("session_shutdown", "SessionEnd", &[]),
        is("TaskComplete", "Stop", &[]),
        is("agent_end", "Stop", &[]),
        is("agent_end of a subagent", "SubagentStop", &[]),
        is("TaskError", "StopFailure", &[]),
        is("agent_error", "StopFailure", &[]),
        is("TaskCancel", "Interrupt", &[]),
        is("agent_abort", "Interrupt", &[]),
        own("PreCompact", &[]),
        is("pre_compact", "PreCompact", &[]),
        own("Notification", &[]),
    ],
};

#[rustfmt::skip]
static AMAZON_Q: Table = Table {
    unknown: &[B],
    event_keys: &["hook_event_name"],
    rows: &[
        is("preToolUse", "PreToolUse", &[B]),
        is("postToolUse", "PostToolUse", &[]),
        is("userPromptSubmit", "UserPromptSubmit", &[C]),
        is("agentSpawn", "SessionStart", &[C]),
        is("stop", "Stop", &[]),
    ],
};

// Names with a small letter are those of CLI 2, the others those of CLI 3 and IDE 1.
#[rustfmt::skip]
static KIRO: Table = Table {
    unknown: &[B],
    event_keys: &["hook_event_name"],
    rows: &[
        is("preToolUse", "PreToolUse", &[B]),
        own("PreToolUse", &[B]),
        is("postToolUse", "PostToolUse", &[]),
        own("PostToolUse", &[]),
        is("userPromptSubmit", "UserPromptSubmit", &[C]),
        own("UserPromptSubmit", &[B, C]),
        is("agentSpawn", "SessionStart", &[C]),
        is("AgentSpawn", "SessionStart", &[C]),
        own("SessionStart", &[C]),
        is("stop", "Stop", &[F]),
        own("Stop", &[]),
        own("PreTaskExec", &[B]),
        own("PostTaskExec", &[]),
        own("PostFileCreate", &[]),
        own("PostFileSave", &[]),
        own("PostFileDelete", &[]),
        own("Manual", &[]),
    ],
};
