//! Claude Code: hookd's own names of events and fields, so that nothing is renamed.

use hookd_json::Value;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict, kind,
    v1::{Caller, ToolCall, TriggerRequest},
};

/// Tools whose kind their name does not say.
const KINDS: [(&str, &[&str]); 1] = [("shell", &["Monitor"])];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = match fields.take_text("hook_event_name").filter(|name| !name.is_empty()) {
        Some(name) => name,
        None => event.ok_or(Problem::NoEvent("hook_event_name"))?.to_owned(),
    };
    let tool_call = tool_call(&native_event, fields)?;
    let request = TriggerRequest { tool_call, ..common(fields) };
    Ok(Draft { native_event, row: None, request })
}

/// The fields that every event may have.
pub(crate) fn common(fields: &mut Fields) -> TriggerRequest {
    TriggerRequest {
        session_id: fields.text("session_id"),
        transcript_path: fields.text("transcript_path"),
        cwd: fields.text("cwd"),
        permission_mode: fields.text("permission_mode"),
        model: fields.text("model"),
        caller: Some(Caller {
            agent_id: fields.text("agent_id"),
            agent_type: fields.text("agent_type"),
            ..Caller::default()
        }),
        ..TriggerRequest::default()
    }
}

/// The tool call of an event that is about one.
pub(crate) fn tool_call(event: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    if fields.peek("tool_name").is_none() && !is_about_a_tool(event) {
        return Ok(None);
    }
    let mut call = ToolCall {
        tool: fields.need_text(event, "tool_name")?,
        params_json: fields.object_text("tool_input")?,
        result_json: fields.take_json("tool_response"),
        tool_use_id: fields.text("tool_use_id"),
        error: fields.take_text("error"),
        elapsed: fields.take_millis("duration_ms"),
        ..ToolCall::default()
    };
    kind::split_double_underscore(&mut call);
    kind::from_list(&mut call, &KINDS);
    // The object stays in the payload: it says where the server comes from, too.
    if let Some(Value::String(name)) = fields.peek("mcp_server").and_then(|server| server.get("name")) {
        name.clone_into(&mut call.mcp_server);
    }
    Ok(Some(call))
}

fn is_about_a_tool(event: &str) -> bool {
    matches!(
        event,
        "PreToolUse"
            | "PermissionRequest"
            | "PermissionDenied"
            | "PostToolUse"
            | "PostToolUseFailure"
            | "PreSkillShellCommand"
    )
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    if told.verdict == Verdict::Block {
        return Answer::exit(call.transport, 2, told.reason);
    }
    Answer::silent()
}
