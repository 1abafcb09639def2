//! Cursor: a name of its own for every event, several of them for one call, and always one JSON object as the answer:
//! an empty one blocks whatever asks for permission.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Agent, Answer, Call, Draft, Fields, Problem, Told, Transport, Verdict,
    claude_code::event_name,
    kind,
    table::{self, Row},
    v1::{Caller, ToolCall, TriggerRequest},
};

const KINDS: [(&str, &[&str]); 5] = [
    ("shell", &["Shell"]),
    ("read", &["Read"]),
    ("write", &["Write", "Delete"]),
    ("search", &["Grep"]),
    ("spawn", &["Task"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hook_event_name")?;
    let tool_call = tool_call(&native_event, fields)?;
    let row = row(&native_event, tool_call.as_ref(), fields);
    let workspace_roots = fields.take_texts("workspace_roots");
    let cwd = fields.take_text("cwd").or_else(|| workspace_roots.first().cloned()).unwrap_or_default();
    let session_id = fields.take_text("conversation_id").or_else(|| fields.take_text("session_id")).unwrap_or_default();
    // Session events say it under both names.
    if fields.peek_text("session_id") == Some(&session_id) {
        fields.take("session_id");
    }
    if let Some(Value::Number(count)) = fields.peek("loop_count") {
        let again = count.to_string() != "0";
        fields.put("stop_hook_active", again);
    }
    let request = TriggerRequest {
        session_id,
        turn_id: fields.text("generation_id"),
        model: fields.text("model"),
        transcript_path: fields.text("transcript_path"),
        cwd,
        workspace_roots,
        caller: Some(Caller {
            agent_version: fields.text("cursor_version"),
            user: fields.text("user_email"),
            parent_session_id: fields.text("parent_conversation_id"),
            agent_id: fields.text("subagent_id"),
            agent_type: fields.text("subagent_type"),
            ..Caller::default()
        }),
        tool_call,
        ..TriggerRequest::default()
    };
    Ok(Draft { native_event, row, request })
}

/// The tool call of an event that is about one. Where the event implies the tool, its keys are the parameters.
fn tool_call(event: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    let mut call = match event {
        "beforeShellExecution" | "afterShellExecution" => {
            let cwd = fields.peek("cwd").cloned();
            let mut params = needed(event, "command", fields)?;
            params.extend(cwd.map(|cwd| ("cwd".to_owned(), cwd)));
            ToolCall { result_json: fields.take_json("output"), ..implied("Shell", params) }
        }
        "beforeReadFile" | "beforeTabFileRead" => {
            let mut params = needed(event, "file_path", fields)?;
            params.extend(fields.take_all(&["content", "attachments"]));
            implied("Read", params)
        }
        "afterFileEdit" | "afterTabFileEdit" => {
            let mut params = needed(event, "file_path", fields)?;
            params.extend(fields.take_all(&["edits"]));
            ToolCall { kind: "edit".to_owned(), ..implied("Write", params) }
        }
        "beforeMCPExecution" | "afterMCPExecution" => {
            let mut call = named(event, fields)?;
            let tool = call.tool.clone();
            kind::mcp(&mut call, "", &tool);
            ToolCall { result_json: fields.take_json_in_text("result_json"), ..call }
        }
        "preToolUse" | "postToolUse" | "postToolUseFailure" => named(event, fields)?,
        _ if fields.peek("tool_name").is_some() => named(event, fields)?,
        _ => return Ok(None),
    };
    if let Some(tool) = call.tool.strip_prefix("MCP:") {
        let tool = tool.to_owned();
        kind::mcp(&mut call, "", &tool);
    }
    kind::from_list(&mut call, &KINDS);
    call.elapsed = fields.take_millis("duration");
    Ok(Some(call))
}

fn named(event: &str, fields: &mut Fields) -> Result<ToolCall, Problem> {
    Ok(ToolCall {
        tool: fields.need_text(event, "tool_name")?,
        params_json: fields.params_text("tool_input"),
        result_json: fields.take_json_in_text("tool_output"),
        tool_use_id: fields.text("tool_use_id"),
        error: fields.take_text("error_message"),
        ..ToolCall::default()
    })
}

/// A string without which the call cannot be judged, as its first parameter.
fn needed(event: &str, key: &'static str, fields: &mut Fields) -> Result<Map<String, Value>, Problem> {
    let text = fields.need_text(event, key)?;
    Ok(Map::from_iter([(key.to_owned(), Value::String(text))]))
}

fn implied(tool: &str, params: Map<String, Value>) -> ToolCall {
    ToolCall { tool: tool.to_owned(), params_json: hookd_json::to_text(&Value::Object(params)), ..ToolCall::default() }
}

/// The row of an event whose abilities depend on more than its name.
fn row(event: &str, call: Option<&ToolCall>, fields: &Fields) -> Option<&'static Row> {
    let status = fields.peek_text("status");
    let name = match (event, status) {
        ("postToolUse", _) if call.is_some_and(|call| call.kind == "mcp") => "postToolUse of an MCP tool",
        ("stop", Some("error")) => "stop with an error",
        ("stop", Some("aborted")) => "stop by the user",
        ("subagentStop", Some("error" | "aborted")) => "subagentStop that is not completed",
        _ => return None,
    };
    table::row(Agent::Cursor, name)
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    let blocks = told.verdict == Verdict::Block;
    let mut answer = Map::new();
    match call.native_event.as_str() {
        "preToolUse"
        | "beforeShellExecution"
        | "beforeMCPExecution"
        | "beforeReadFile"
        | "beforeTabFileRead"
        | "subagentStart" => permission(told, &mut answer),
        "beforeSubmitPrompt" => {
            answer.insert("continue".to_owned(), Value::Bool(!blocks));
            if blocks {
                answer.insert("user_message".to_owned(), json!(for_the_person(&told)));
            }
        }
        "postToolUse" => {
            let feedback = blocks.then_some(told.reason);
            let texts = [told.context, feedback].into_iter().flatten().collect::<Vec<_>>();
            if !texts.is_empty() {
                answer.insert("additional_context".to_owned(), json!(texts.join("\n")));
            }
            if let Some(result) = told.result {
                answer.insert("updated_mcp_tool_output".to_owned(), result);
            }
        }
        "stop" | "subagentStop" if blocks => {
            answer.insert("followup_message".to_owned(), json!(told.reason));
        }
        "sessionStart" => {
            if let Some(env @ Value::Object(_)) = told.extra.get("env") {
                answer.insert("env".to_owned(), env.clone());
            }
            if let Some(context) = told.context {
                answer.insert("additional_context".to_owned(), json!(context));
            }
        }
        "preCompact" => {
            if let Some(message) = told.message {
                answer.insert("user_message".to_owned(), json!(message));
            }
        }
        _ if blocks => match call.transport {
            Transport::Command => return Answer::exit(call.transport, 2, told.reason),
            Transport::Http => permission(told, &mut answer),
        },
        _ => {}
    }
    Answer::object(answer)
}

fn permission(told: Told, answer: &mut Map<String, Value>) {
    let permission = match told.verdict {
        // A rewrite without a permission is not known to be carried out.
        Verdict::Nothing if told.params.is_some() => "allow",
        Verdict::Nothing => return,
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Defer | Verdict::Block => "deny",
    };
    answer.insert("permission".to_owned(), json!(permission));
    if permission != "allow" {
        answer.insert("user_message".to_owned(), json!(for_the_person(&told)));
        answer.insert("agent_message".to_owned(), json!(told.reason));
    }
    if let Some(params) = told.params {
        answer.insert("updated_input".to_owned(), Value::Object(params));
    }
}

fn for_the_person(told: &Told) -> String {
    told.message.as_ref().map_or_else(|| told.reason.clone(), |message| format!("{message}\n{}", told.reason))
}
