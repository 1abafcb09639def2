//! What each agent writes and how it takes an answer, by its own documentation and not by hookd's code.

use serde_json::{Value, json};

use super::Ran;

/// All of them.
pub const AGENTS: [&str; 13] = [
    "claude-code",
    "codex",
    "gemini-cli",
    "cursor",
    "copilot-cli",
    "vscode",
    "qwen-code",
    "factory-droid",
    "windsurf",
    "goose",
    "cline",
    "amazon-q",
    "kiro",
];

/// Those that ask before they stop, and can be made to go on.
pub const STOPPING: [&str; 9] =
    ["claude-code", "codex", "gemini-cli", "cursor", "copilot-cli", "vscode", "qwen-code", "factory-droid", "goose"];

/// How an agent takes an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It does not do it (or does not stop), for this reason.
    Block(String),
    /// It does it without asking the person.
    Allow,
    /// It does what it would do without a hook.
    Nothing,
}

/// What the agent writes before it runs `ls` in a shell, and what stands on the command line of its hook.
pub fn shell_call(agent: &str) -> (Value, &'static [&'static str]) {
    let command = json!({ "command": "ls" });
    let input = match agent {
        "claude-code" => json!({
            "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/tmp", "permission_mode": "default",
            "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": command, "tool_use_id": "t1",
        }),
        "codex" => json!({
            "session_id": "s1", "transcript_path": null, "cwd": "/tmp", "hook_event_name": "PreToolUse", "model": "m",
            "turn_id": "u1", "permission_mode": "default", "tool_name": "Bash", "tool_use_id": "t1",
            "tool_input": command,
        }),
        "gemini-cli" => json!({
            "session_id": "s1", "transcript_path": "/t.json", "cwd": "/tmp", "hook_event_name": "BeforeTool",
            "timestamp": "2026-08-21T10:00:00.000Z", "tool_name": "run_shell_command", "tool_input": command,
        }),
        "cursor" => json!({
            "conversation_id": "c1", "generation_id": "g1", "model": "m", "hook_event_name": "beforeShellExecution",
            "cursor_version": "2.0.0", "workspace_roots": ["/tmp"], "user_email": null, "transcript_path": null,
            "command": "ls", "cwd": "/tmp", "sandbox": false,
        }),
        "copilot-cli" => {
            let input = json!({
                "sessionId": "s1", "cwd": "/tmp", "timestamp": 1_770_000_000_000_u64, "toolName": "bash",
                "toolArgs": command,
            });
            return (input, &["--event", "preToolUse"]);
        }
        "vscode" => json!({
            "timestamp": "2026-08-21T10:00:00.000Z", "cwd": "/tmp", "session_id": "s1", "hook_event_name": "PreToolUse",
            "transcript_path": "/t.json", "tool_name": "run_in_terminal", "tool_input": command, "tool_use_id": "t1",
        }),
        "qwen-code" => json!({
            "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/tmp", "hook_event_name": "PreToolUse",
            "timestamp": "2026-08-21T10:00:00.000Z", "permission_mode": "default", "tool_name": "run_shell_command",
            "tool_input": command, "tool_use_id": "t1",
        }),
        "factory-droid" => json!({
            "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/tmp", "permission_mode": "auto-low",
            "hook_event_name": "PreToolUse", "tool_name": "Execute", "tool_input": command,
        }),
        "windsurf" => json!({
            "agent_action_name": "pre_run_command", "trajectory_id": "s1", "execution_id": "e1",
            "timestamp": "2026-04-01T10:00:00Z", "tool_info": { "command_line": "ls", "cwd": "/tmp" },
        }),
        "goose" => json!({
            "event": "PreToolUse", "session_id": "s1", "matcher_context": "developer__shell",
            "tool_name": "developer__shell", "tool_input": command, "tool_call_id": "t1", "working_dir": "/tmp",
        }),
        "cline" => json!({
            "hookName": "tool_call", "clineVersion": "4.0.0", "timestamp": "1770000000000", "taskId": "k1",
            "sessionContext": { "rootSessionId": "s1" }, "workspaceRoots": ["/tmp"], "userId": "u",
            "tool_call": { "id": "t1", "name": "execute_command", "input": command },
            "preToolUse": { "toolName": "execute_command", "parameters": command },
        }),
        "amazon-q" => json!({
            "hook_event_name": "preToolUse", "cwd": "/tmp", "tool_name": "execute_bash", "tool_input": command,
        }),
        "kiro" => json!({
            "hook_event_name": "preToolUse", "cwd": "/tmp", "session_id": "s1", "tool_name": "execute_bash",
            "tool_input": command,
        }),
        other => panic!("{other}?"),
    };
    (input, &[])
}

/// What the agent writes before it stops, and what stands on the command line of its hook.
pub fn stop_call(agent: &str) -> (Value, &'static [&'static str]) {
    let input = match agent {
        "gemini-cli" => json!({
            "session_id": "s1", "transcript_path": "/t.json", "cwd": "/tmp", "hook_event_name": "AfterAgent",
            "timestamp": "2026-08-21T10:00:00.000Z", "prompt": "p", "prompt_response": "r", "stop_hook_active": false,
        }),
        "cursor" => json!({
            "conversation_id": "c1", "generation_id": "g1", "model": "m", "hook_event_name": "stop",
            "cursor_version": "2.0.0", "workspace_roots": ["/tmp"], "user_email": null, "transcript_path": null,
            "status": "completed", "loop_count": 0,
        }),
        "copilot-cli" => {
            let input = json!({
                "sessionId": "s1", "cwd": "/tmp", "timestamp": 1_770_000_000_000_u64, "transcriptPath": "/t.jsonl",
                "stopReason": "end_turn", "stop_hook_active": false,
            });
            return (input, &["--event", "agentStop"]);
        }
        "goose" => json!({
            "event": "Stop", "session_id": "s1", "last_assistant_message": "done", "working_dir": "/tmp",
        }),
        _ => json!({
            "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/tmp", "hook_event_name": "Stop",
            "stop_hook_active": false, "last_assistant_message": "done",
        }),
    };
    (input, &[])
}

/// How `agent` takes what its hook did before it runs a tool.
///
/// # Panics
/// The answer is mixed, or one that the agent takes for a broken hook.
pub fn taken(agent: &str, ran: &Ran) -> Taken {
    if ran.exit == 2 {
        assert_eq!(ran.out, "", "{agent}: an exit code and an output at once: {ran:?}");
        assert!(!ran.err.trim().is_empty(), "{agent}: exit 2 without a reason: {ran:?}");
        // Cline goes on whatever the exit code is.
        assert_ne!(agent, "cline", "{ran:?}");
        return Taken::Block(ran.err.clone());
    }
    assert_eq!(ran.exit, 0, "{agent}: {ran:?}");
    if ran.out.is_empty() {
        // Cursor has been seen to block everything then.
        assert_ne!(agent, "cursor", "{ran:?}");
        return Taken::Nothing;
    }
    let said: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{agent}: {error}: {ran:?}"));
    let specific = &said["hookSpecificOutput"];
    let (decision, reason) = match agent {
        "claude-code" | "codex" | "qwen-code" | "factory-droid" | "vscode" => {
            if !specific.is_null() {
                assert_eq!(specific["hookEventName"], "PreToolUse", "{agent}: {ran:?}");
            }
            (&specific["permissionDecision"], &specific["permissionDecisionReason"])
        }
        "copilot-cli" => (&said["permissionDecision"], &said["permissionDecisionReason"]),
        "gemini-cli" | "goose" => (&said["decision"], &said["reason"]),
        "cursor" => (&said["permission"], &said["agent_message"]),
        "cline" if said["cancel"] == true => return Taken::Block(text(&said["errorMessage"])),
        "cline" => (&Value::Null, &Value::Null),
        // Nothing but the exit code counts.
        _ => panic!("{agent} does not read this: {ran:?}"),
    };
    match decision.as_str() {
        Some("deny" | "block") => {
            assert!(!text(reason).is_empty(), "{agent}: a block without a reason: {ran:?}");
            Taken::Block(text(reason))
        }
        // One without new parameters is an error there, and runs.
        Some("allow") if agent == "codex" => panic!("{ran:?}"),
        Some("allow") => Taken::Allow,
        None => Taken::Nothing,
        Some(other) => panic!("{agent}: {other}: {ran:?}"),
    }
}

/// Whether `agent` stops after what its hook did before it stops.
pub fn stops(agent: &str, ran: &Ran) -> bool {
    if ran.exit == 2 {
        return false;
    }
    if ran.out.is_empty() {
        return true;
    }
    let said: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{agent}: {error}: {ran:?}"));
    let blocks = |said: &Value| matches!(said["decision"].as_str(), Some("block" | "deny"));
    !blocks(&said) && !blocks(&said["hookSpecificOutput"]) && said["followup_message"].is_null()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
