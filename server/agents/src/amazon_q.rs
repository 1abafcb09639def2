//! Amazon Q Developer CLI: an exit code, and plain text as context. One exit 2 cancels every call of the same batch.

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::event_name,
    derived_id::derived_id,
    kind,
    v1::{ToolCall, TriggerRequest},
};

const KINDS: [(&str, &[&str]); 6] = [
    ("shell", &["execute_bash", "execute_cmd", "shell"]),
    ("read", &["fs_read", "read"]),
    ("edit", &["edit"]),
    ("fetch", &["web_fetch"]),
    ("search", &["grep", "glob", "code", "web_search"]),
    ("spawn", &["delegate", "subagent", "use_subagent"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hook_event_name")?;
    let mut request =
        TriggerRequest { session_id: fields.text("session_id"), cwd: fields.text("cwd"), ..TriggerRequest::default() };
    request.tool_call = tool_call(&native_event, fields)?;
    if let Some(call) = &mut request.tool_call
        && call.tool_use_id.is_empty()
    {
        call.tool_use_id = derived_id(&request.session_id, call);
    }
    fields.rename("assistant_response", "last_assistant_message");
    Ok(Draft { native_event, row: None, request })
}

fn tool_call(event: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    let needs_tool = matches!(event, "preToolUse" | "postToolUse" | "PreToolUse" | "PostToolUse");
    if fields.peek_text("tool_name").is_none_or(str::is_empty) && !needs_tool {
        return Ok(None);
    }
    let mut call = ToolCall {
        tool: fields.need_text(event, "tool_name")?,
        params_json: fields.params_text("tool_input"),
        result_json: fields.take_json("tool_response"),
        tool_use_id: fields.text("tool_use_id"),
        ..ToolCall::default()
    };
    kind::from_list(&mut call, &KINDS);
    if matches!(call.tool.as_str(), "fs_write" | "write") {
        writer(&call.params_json).clone_into(&mut call.kind);
    } else if let Some((server, tool)) = call.tool.clone().strip_prefix('@').and_then(|tool| tool.split_once('/')) {
        kind::mcp(&mut call, server, tool);
    }
    Ok(Some(call))
}

/// What the one tool that writes does: its `command` says it.
fn writer(params: &str) -> &'static str {
    let params = hookd_json::parse(params).unwrap_or_default();
    match params.get("command").and_then(hookd_json::Value::as_str) {
        Some("str_replace" | "insert" | "append") => "edit",
        _ => "write",
    }
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    match told.verdict {
        Verdict::Block => Answer::exit(call.transport, 2, told.reason),
        _ => told.context.map_or_else(Answer::silent, Answer::text),
    }
}
