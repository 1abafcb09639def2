//! goose: the event stands at `event`, and only `PreToolUse` and `Stop` can be blocked. An empty object or any other text
//! would be a failed hook there, so "no opinion" is no output at all.

use serde_json::json;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::event_name,
    derived_id::derived_id,
    kind,
    v1::{ToolCall, TriggerRequest},
};

const KINDS: [(&str, &[&str]); 5] = [
    ("shell", &["shell", "developer__shell"]),
    ("write", &["write", "developer__write"]),
    ("edit", &["edit", "developer__edit"]),
    ("search", &["tree", "developer__tree"]),
    ("fetch", &["web_fetch", "developer__web_fetch"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "event")?;
    let mut request = TriggerRequest {
        session_id: fields.text("session_id"),
        cwd: fields.text("working_dir"),
        ..TriggerRequest::default()
    };
    request.tool_call = tool_call(&native_event, fields)?;
    if let Some(call) = &mut request.tool_call
        && call.tool_use_id.is_empty()
    {
        call.tool_use_id = derived_id(&request.session_id, call);
    }
    if native_event == "UserPromptSubmit" {
        fields.rename("message", "prompt");
    }
    Ok(Draft { native_event, row: None, request })
}

fn tool_call(event: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    let needs_tool = matches!(event, "PreToolUse" | "PostToolUse" | "PostToolUseFailure");
    if fields.peek_text("tool_name").is_none_or(str::is_empty) && !needs_tool {
        return Ok(None);
    }
    let mut call = ToolCall {
        tool: fields.need_text(event, "tool_name")?,
        params_json: fields.params_text("tool_input"),
        result_json: fields.take_json("tool_output"),
        tool_use_id: fields.text("tool_call_id"),
        ..ToolCall::default()
    };
    if event == "PostToolUseFailure" {
        call.error = fields.take_text("message");
    }
    kind::from_list(&mut call, &KINDS);
    if call.tool == "developer__text_editor" {
        text_editor(&call.params_json).clone_into(&mut call.kind);
    }
    // Every tool of an extension is one of an MCP server, but the developer's are known by what they do.
    if call.kind.is_empty()
        && let Some((extension, tool)) = call.tool.clone().split_once("__")
        && !extension.is_empty()
    {
        kind::mcp(&mut call, extension, tool);
    }
    Ok(Some(call))
}

/// What the older editor does: its `command` says it.
fn text_editor(params: &str) -> &'static str {
    let params = hookd_json::parse(params).unwrap_or_default();
    match params.get("command").and_then(hookd_json::Value::as_str) {
        Some("view") => "read",
        Some("write") => "write",
        _ => "edit",
    }
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    match told.verdict {
        Verdict::Block => Answer::exit(call.transport, 2, told.reason),
        Verdict::Allow if call.native_event == "PreToolUse" => Answer::text(json!({ "decision": "allow" }).to_string()),
        _ => Answer::silent(),
    }
}
