//! Windsurf (Cascade): actions instead of tools, and an exit code instead of an answer.
//!
//! The payload names no tool. Rules see `run_command`, `read_code` and `write_code`, and `mcp__<server>__<tool>` for tools
//! of MCP servers; a command line stands at `command`, as at other agents, since nothing goes back that could be
//! rewritten.

use hookd_json::Value;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::event_name,
    derived_id::derived_id,
    kind,
    v1::{ToolCall, TriggerRequest},
};

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "agent_action_name")?;
    let mut info = match fields.take("tool_info") {
        Some(Value::Object(info)) => Fields::of(info),
        _ => Fields::default(),
    };
    let cwd = info.peek_text("cwd").unwrap_or_default().to_owned();
    let mut request = TriggerRequest {
        session_id: fields.text("trajectory_id"),
        turn_id: fields.text("execution_id"),
        timestamp: fields.take_time("timestamp"),
        cwd,
        ..TriggerRequest::default()
    };
    request.tool_call = tool_call(&native_event, &mut info)?;
    match &mut request.tool_call {
        Some(call) => call.tool_use_id = derived_id(&request.session_id, call),
        None => {
            request.transcript_path = info.text("transcript_path");
            info.rename("user_prompt", "prompt");
            info.rename("response", "last_assistant_message");
            if native_event == "post_setup_worktree" {
                fields.put("source", "worktree");
            }
            fields.put_all(info);
        }
    }
    Ok(Draft { native_event, row: None, request })
}

/// The call behind an action. What the action does not need of the rest are parameters, too.
fn tool_call(action: &str, info: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    let mut call = ToolCall::default();
    match action.split_once('_').map_or(action, |(_, what)| what) {
        "run_command" => {
            "run_command".clone_into(&mut call.tool);
            "shell".clone_into(&mut call.kind);
            let command = info.need_text(action, "command_line")?;
            info.take("command");
            info.put("command", command);
        }
        "read_code" => {
            "read_code".clone_into(&mut call.tool);
            "read".clone_into(&mut call.kind);
            let path = info.need_text(action, "file_path")?;
            info.put("file_path", path);
        }
        "write_code" => {
            "write_code".clone_into(&mut call.tool);
            let kind = if replaces_nothing(info.peek("edits")) { "write" } else { "edit" };
            kind.clone_into(&mut call.kind);
            let path = info.need_text(action, "file_path")?;
            info.put("file_path", path);
        }
        "mcp_tool_use" => {
            let server = info.need_text(action, "mcp_server_name")?;
            let tool = info.need_text(action, "mcp_tool_name")?;
            call.tool = format!("mcp__{server}__{tool}");
            kind::mcp(&mut call, &server, &tool);
            call.result_json = info.take_json("mcp_result");
            call.params_json = info.params_text("mcp_tool_arguments");
            return Ok(Some(call));
        }
        _ => return Ok(None),
    }
    call.params_json = std::mem::take(info).into_payload();
    Ok(Some(call))
}

/// A new file is written by edits of nothing.
fn replaces_nothing(edits: Option<&Value>) -> bool {
    let old = |edit: &Value| edit.get("old_string").and_then(Value::as_str).is_some_and(|old| !old.is_empty());
    edits.and_then(Value::as_array).is_some_and(|edits| !edits.is_empty() && !edits.iter().any(old))
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    match told.verdict {
        Verdict::Block => Answer::exit(call.transport, 2, told.reason),
        _ => Answer::silent(),
    }
}
