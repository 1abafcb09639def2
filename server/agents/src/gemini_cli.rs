//! Gemini CLI: decisions at the top of the answer, rewrites that are merged into the call.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Agent, Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::{event_name, universal, with_specific},
    derived_id::derived_id,
    kind, table,
    v1::{ToolCall, TriggerRequest},
};

const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["run_shell_command"]),
    ("read", &["read_file", "read_many_files"]),
    ("write", &["write_file"]),
    ("edit", &["replace"]),
    ("fetch", &["web_fetch"]),
    ("search", &["list_directory", "glob", "grep_search", "search_file_content", "google_web_search"]),
    ("spawn", &["codebase_investigator", "delegate_to_agent"]),
];

/// The outputs of `event_output_json` that the agent has on an event.
const EXTRA: [(&str, &[&str]); 4] = [
    ("AfterAgent", &["clearContext"]),
    ("BeforeModel", &["llm_request", "llm_response"]),
    ("AfterModel", &["llm_response"]),
    ("BeforeToolSelection", &["toolConfig"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hook_event_name")?;
    let session_id = fields.text("session_id");
    let tool_call = tool_call(&native_event, &session_id, fields)?;
    let failed = native_event == "AfterTool" && tool_call.as_ref().is_some_and(|call| call.error.is_some());
    let row = if failed { table::row(Agent::GeminiCli, "AfterTool with an error") } else { None };
    fields.rename("prompt_response", "last_assistant_message");
    let model = fields.peek("llm_request").and_then(|request| request.get("model")).and_then(Value::as_str);
    let model = model.unwrap_or_default().to_owned();
    let request = TriggerRequest {
        session_id,
        tool_call,
        model,
        timestamp: fields.take_time("timestamp"),
        transcript_path: fields.text("transcript_path"),
        cwd: fields.text("cwd"),
        ..TriggerRequest::default()
    };
    Ok(Draft { native_event, row, request })
}

fn tool_call(event: &str, session: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    if fields.peek("tool_name").is_none() && !matches!(event, "BeforeTool" | "AfterTool") {
        return Ok(None);
    }
    let tool = fields.need_text(event, "tool_name")?;
    let mut call = ToolCall { tool, params_json: fields.params_text("tool_input"), ..ToolCall::default() };
    call.tool_use_id = derived_id(session, &call);
    result(fields, &mut call);
    let context = |key: &str| fields.peek("mcp_context")?.get(key)?.as_str().map(str::to_owned);
    // Where there is no context, the name is all there is; servers with `_` in their names cannot be told from tools.
    let from_name = || {
        let (server, tool) = call.tool.strip_prefix("mcp_")?.split_once('_')?;
        Some((server.to_owned(), tool.to_owned()))
    };
    if let Some((server, tool)) = context("server_name").zip(context("tool_name")).or_else(from_name) {
        kind::mcp(&mut call, &server, &tool);
    }
    kind::from_list(&mut call, &KINDS);
    Ok(Some(call))
}

/// Takes the text for the model out of `tool_response`; what else it holds stays in the payload.
fn result(fields: &mut Fields, call: &mut ToolCall) {
    match fields.take("tool_response") {
        Some(Value::Object(mut response)) => {
            call.result_json = response.shift_remove("llmContent").map(|content| hookd_json::to_text(&content));
            call.error = match response.get("error") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(error) => Some(
                    error
                        .get("message")
                        .and_then(Value::as_str)
                        .map_or_else(|| hookd_json::to_text(error), str::to_owned),
                ),
            };
            if !response.is_empty() {
                fields.put("tool_response", response);
            }
        }
        Some(other) => call.result_json = Some(hookd_json::to_text(&other)),
        None => {}
    }
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    let event = call.native_event.as_str();
    if let Some(params) = &told.params
        && loses_a_key(call, params)
    {
        let why = "the call was rewritten to one with fewer parameters, and this agent merges a rewrite into the call";
        return write(call, told.instead_of_rewrite(call, params.clone(), why));
    }
    let mut top = universal(&told);
    let mut specific = Map::new();
    if let Some((_, keys)) = EXTRA.iter().find(|(name, _)| *name == event)
        && told.verdict != Verdict::Block
    {
        specific.extend(
            told.extra.iter().filter(|(key, _)| keys.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone())),
        );
    }
    match told.verdict {
        Verdict::Block => {
            top.insert("decision".to_owned(), json!("deny"));
            top.insert("reason".to_owned(), json!(told.reason));
        }
        Verdict::Allow if event == "BeforeTool" => {
            top.insert("decision".to_owned(), json!("allow"));
        }
        Verdict::Nothing | Verdict::Allow | Verdict::Ask | Verdict::Defer => {}
    }
    if let Some(params) = told.params {
        specific.insert("tool_input".to_owned(), Value::Object(params));
    }
    if let Some(context) = told.context {
        specific.insert("additionalContext".to_owned(), Value::String(context));
    }
    with_specific(&mut top, event, specific);
    Answer::object_or_silent(top)
}

/// A parameter of the call is not in the rewritten one: merged, it would be there again, in a call that nobody judged.
fn loses_a_key(call: &Call, rewritten: &Map<String, Value>) -> bool {
    let text = call.request.tool_call.as_ref().map_or("{}", |call| call.params_json.as_str());
    match hookd_json::parse(text) {
        Ok(Value::Object(original)) => original.keys().any(|key| !rewritten.contains_key(key)),
        _ => true,
    }
}
