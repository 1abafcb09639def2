//! Cline: executables named after events. Two dialects, told by the casing of the event's name: the SDK's
//! (`tool_call`) and that of the files and the older VS Code path (`PreToolUse`).
//!
//! The one form of a block is `cancel`, and it ends the run.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Agent, Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::event_name,
    derived_id::derived_id,
    kind, table,
    v1::{Caller, ToolCall, TriggerRequest},
};

const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["execute_command", "run_commands", "bash"]),
    ("read", &["read_file", "read_files"]),
    ("write", &["write_to_file"]),
    ("edit", &["replace_in_file", "apply_patch", "editor"]),
    ("fetch", &["web_fetch", "fetch_web_content"]),
    ("search", &["search_files", "search_codebase", "list_files", "list_code_definition_names", "web_search"]),
    ("spawn", &["new_task", "use_subagents", "spawn_agent", "team_spawn_teammate"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hookName")?;
    let tool_call = tool_call(&native_event, fields)?;
    let row = row(&native_event, tool_call.as_ref(), fields);
    let roots = fields.take_texts("workspaceRoots");
    let mut request = TriggerRequest {
        session_id: session(fields),
        turn_id: fields.take("iteration").map(|iteration| hookd_json::to_text(&iteration)).unwrap_or_default(),
        timestamp: timestamp(fields),
        cwd: roots.first().cloned().unwrap_or_default(),
        workspace_roots: roots,
        model: fields
            .peek("model")
            .and_then(|model| model.get("slug"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        caller: Some(Caller {
            agent_version: fields.text("clineVersion"),
            user: fields.text("userId"),
            agent_id: fields.text("agent_id"),
            parent_agent_id: fields.text("parent_agent_id"),
            ..Caller::default()
        }),
        tool_call,
        ..TriggerRequest::default()
    };
    if let Some(call) = &mut request.tool_call
        && call.tool_use_id.is_empty()
    {
        call.tool_use_id = derived_id(&request.session_id, call);
    }
    payload(&native_event, fields);
    Ok(Draft { native_event, row, request })
}

/// The row that holds for this call, where its event's name does not say it.
fn row(event: &str, call: Option<&ToolCall>, fields: &Fields) -> Option<&'static table::Row> {
    let failed = call.is_some_and(|call| call.error.is_some());
    let subagent = fields.peek_text("parent_agent_id").is_some_and(|parent| !parent.is_empty());
    let name = match event {
        "PostToolUse" if failed => "PostToolUse of a failed call",
        "tool_result" if failed => "tool_result of a failed call",
        "agent_start" if subagent => "agent_start of a subagent",
        "agent_end" if subagent => "agent_end of a subagent",
        _ => return None,
    };
    table::row(Agent::Cline, name)
}

/// The SDK sends the call twice, whole and with its parameters as strings; the older path only the latter.
fn tool_call(event: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    let mut call = match event {
        "tool_call" => whole(event, fields, "tool_call", "preToolUse")?,
        "tool_result" => whole(event, fields, "tool_result", "postToolUse")?,
        "PreToolUse" => as_strings(event, fields, "preToolUse")?,
        "PostToolUse" => as_strings(event, fields, "postToolUse")?,
        _ => return Ok(None),
    };
    kind::from_list(&mut call, &KINDS);
    if let ("use_mcp_tool" | "access_mcp_resource", Ok(params)) =
        (call.tool.as_str(), hookd_json::parse(&call.params_json))
    {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        kind::mcp(&mut call, text("server_name"), text("tool_name"));
    } else if call.kind.is_empty()
        && let Some((server, tool)) = call.tool.clone().split_once("__")
        && !server.is_empty()
    {
        kind::mcp(&mut call, server, tool);
    }
    Ok(Some(call))
}

fn whole(event: &str, fields: &mut Fields, key: &'static str, again: &'static str) -> Result<ToolCall, Problem> {
    let Some(Value::Object(call)) = fields.take(key) else { return as_strings(event, fields, again) };
    fields.take(again);
    let mut call = Fields::of(call);
    // In the input itself, so that parameters that are no object are known for what they are.
    if let Some(input) = call.take("input") {
        fields.take("input");
        fields.put("input", input);
    }
    Ok(ToolCall {
        tool: call.need_text(event, "name")?,
        params_json: fields.params_text("input"),
        result_json: call.take_json("output"),
        tool_use_id: call.text("id"),
        error: call.take_text("error"),
        elapsed: call.take_millis("durationMs"),
        ..ToolCall::default()
    })
}

fn as_strings(event: &str, fields: &mut Fields, key: &'static str) -> Result<ToolCall, Problem> {
    let Some(Value::Object(call)) = fields.take(key) else {
        return Err(Problem::Missing { event: event.to_owned(), key });
    };
    let mut call = Fields::of(call);
    let failed = call.take("success") == Some(Value::Bool(false));
    let text = call.peek_text("result").unwrap_or_default().to_owned();
    Ok(ToolCall {
        tool: call.need_text(event, "toolName")?,
        params_json: call.params_text("parameters"),
        result_json: call.take_json("result"),
        error: failed.then_some(text),
        elapsed: call.take_millis("executionTimeMs"),
        ..ToolCall::default()
    })
}

/// The root session where there is one; a task of its own within it stays in the payload.
fn session(fields: &mut Fields) -> String {
    let root = fields.peek("sessionContext").and_then(|context| context.get("rootSessionId")).and_then(Value::as_str);
    match root.filter(|root| !root.is_empty()).map(str::to_owned) {
        Some(root) => {
            fields.take("sessionContext");
            root
        }
        None => fields.text("taskId"),
    }
}

/// RFC 3339 in the SDK, milliseconds in a string on the older path.
fn timestamp(fields: &mut Fields) -> Option<prost_types::Timestamp> {
    let digits = fields.peek_text("timestamp").filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    if let Some(millis) = digits.and_then(|text| text.parse::<u64>().ok()) {
        fields.take("timestamp");
        fields.put("timestamp", millis);
    }
    fields.take_time("timestamp")
}

/// What the payload says in other words than Claude Code's.
fn payload(event: &str, fields: &mut Fields) {
    match event {
        "UserPromptSubmit" | "prompt_submit" => {
            if let Some(Value::Object(prompt)) = fields.take("userPromptSubmit") {
                fields.put_all(Fields::of(prompt));
            }
        }
        "TaskStart" | "agent_start" => fields.put("source", "startup"),
        "TaskResume" | "agent_resume" => fields.put("source", "resume"),
        "agent_end" => {
            let said = fields.peek("turn").and_then(|turn| turn.get("outputText")).and_then(Value::as_str);
            if let Some(said) = said.map(str::to_owned) {
                fields.put("last_assistant_message", said);
            }
        }
        _ => {}
    }
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    let after_the_fact = matches!(call.request.event.as_str(), "PostToolUse" | "PostToolUseFailure");
    let blocks = told.verdict == Verdict::Block;
    if let Some(why) = told.halt.as_ref().or((blocks && !after_the_fact).then_some(&told.reason)) {
        return Answer::text(json!({ "cancel": true, "errorMessage": why }).to_string());
    }
    let mut answer = Map::new();
    if !call.native_event.starts_with(|first: char| first.is_ascii_lowercase()) {
        answer.insert("cancel".to_owned(), Value::Bool(false));
    }
    if let Some(params) = told.params {
        answer.insert("overrideInput".to_owned(), Value::Object(params));
    }
    // Feedback has no form of its own: what the model gets to see is the context.
    let feedback = blocks.then_some(told.reason);
    let context = feedback.into_iter().chain(told.context).collect::<Vec<_>>().join("\n");
    if !context.is_empty() {
        answer.insert("contextModification".to_owned(), json!(context));
    }
    Answer::object(answer)
}
