//! GitHub Copilot CLI and cloud agent: two dialects of payloads (the casing of the event's name chooses), one of
//! answers: one JSON object whose keys stand at its top.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::event_name,
    derived_id::derived_id,
    kind,
    v1::{Caller, ToolCall, TriggerRequest},
};

/// Both dialects' names of the same tools.
const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["bash", "powershell", "Bash"]),
    ("read", &["view", "Read"]),
    ("write", &["create", "Write"]),
    ("edit", &["edit", "str_replace_editor", "apply_patch", "Edit"]),
    ("fetch", &["web_fetch", "WebFetch"]),
    ("search", &["grep", "rg", "glob", "web_search", "Grep", "Glob", "WebSearch"]),
    ("spawn", &["task", "Agent", "Task"]),
];

/// camelCase keys that mean the same as one of Claude Code's.
const RENAMED: [(&str, &str); 2] =
    [("customInstructions", "custom_instructions"), ("response", "last_assistant_message")];

/// The outputs of `event_output_json` that the agent has on an event, by hookd's names.
const EXTRA: [(&str, &str); 2] =
    [("userPromptTransformed", "modifiedTransformedPrompt"), ("SubagentStop", "modifiedResponse")];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    // The camelCase dialect does not say its event, but for notifications, which say it in Pascal case.
    let said = event_name(None, fields, "hook_event_name").ok();
    let native_event = match (event, said) {
        (Some(event), Some(said)) if event.eq_ignore_ascii_case(&said) => event.to_owned(),
        (_, Some(said)) => said,
        (Some(event), None) => event.to_owned(),
        (None, None) => return Err(Problem::NoEvent("hook_event_name")),
    };
    let mut either =
        |camel: &str, pascal: &str| fields.take_text(camel).or_else(|| fields.take_text(pascal)).unwrap_or_default();
    let session_id = either("sessionId", "session_id");
    let transcript_path = either("transcriptPath", "transcript_path");
    let agent_id = either("agentId", "agent_id");
    let agent_type = either("agentType", "agent_type");
    let tool_call = tool_call(&native_event, &session_id, fields)?;
    for (from, to) in RENAMED {
        fields.rename(from, to);
    }
    // A subagent that starts has its type in its name alone.
    let agent_type = if agent_type.is_empty() && native_event.eq_ignore_ascii_case("subagentStart") {
        fields.take_text("agentName").or_else(|| fields.take_text("agent_name")).unwrap_or_default()
    } else {
        agent_type
    };
    let request = TriggerRequest {
        session_id,
        transcript_path,
        cwd: fields.text("cwd"),
        timestamp: fields.take_time("timestamp"),
        caller: Some(Caller { agent_id, agent_type, ..Caller::default() }),
        tool_call,
        ..TriggerRequest::default()
    };
    Ok(Draft { native_event, row: None, request })
}

fn tool_call(event: &str, session: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    let about = ["preToolUse", "permissionRequest", "postToolUse", "postToolUseFailure"];
    let is_about = about.iter().any(|name| name.eq_ignore_ascii_case(event));
    let has = |key: &str| fields.peek(key).is_some();
    if !is_about && !has("toolName") && !has("tool_name") {
        return Ok(None);
    }
    let camel = has("toolName") || (!has("tool_name") && event.starts_with(char::is_lowercase));
    let names = if camel {
        ["toolName", "toolArgs", "toolResult", "textResultForLlm"]
    } else {
        ["tool_name", "tool_input", "tool_result", "text_result_for_llm"]
    };
    let [tool, params, result, text] = names;
    let mut call = ToolCall {
        tool: fields.need_text(event, tool)?,
        // The request for a permission has its own name for them.
        params_json: fields.params_text(if camel && fields.peek(params).is_none() { "toolInput" } else { params }),
        error: fields.take_text("error"),
        ..ToolCall::default()
    };
    // The text is the result that a model sees; what else the result holds stays in the payload.
    call.result_json = match fields.take(result) {
        Some(Value::Object(mut object)) => match object.shift_remove(text) {
            Some(text) => {
                if !object.is_empty() {
                    fields.put(result, object);
                }
                Some(hookd_json::to_text(&text))
            }
            None => Some(hookd_json::to_text(&Value::Object(object))),
        },
        other => other.map(|other| hookd_json::to_text(&other)),
    };
    call.tool_use_id = derived_id(session, &call);
    kind::split_double_underscore(&mut call);
    kind::from_list(&mut call, &KINDS);
    Ok(Some(call))
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    let blocks = told.verdict == Verdict::Block;
    let mut answer = Map::new();
    for (event, key) in EXTRA {
        if call.request.event == event
            && !blocks
            && let Some(text @ Value::String(_)) = told.extra.get(key)
        {
            answer.insert(key.to_owned(), text.clone());
        }
    }
    match call.request.event.as_str() {
        "PreToolUse" => pre_tool_use(&told, &mut answer),
        "PermissionRequest" => permission_request(&told, &mut answer),
        "Stop" | "SubagentStop" if blocks => {
            answer.insert("decision".to_owned(), json!("block"));
            answer.insert("reason".to_owned(), json!(told.reason));
        }
        // An event that nobody knows may be one of the two that can be denied.
        _ if blocks && call.row.is_none() => {
            pre_tool_use(&told, &mut answer);
            permission_request(&told, &mut answer);
        }
        _ => {}
    }
    if let Some(result) = told.result {
        let text = match result {
            Value::String(text) => text,
            other => hookd_json::to_text(&other),
        };
        answer.insert("modifiedResult".to_owned(), json!({ "resultType": "success", "textResultForLlm": text }));
    }
    // After the fact a block is a text beside what has happened.
    let after = matches!(call.request.event.as_str(), "PostToolUse" | "PostToolUseFailure");
    let feedback = (blocks && after).then_some(told.reason);
    let texts = [told.context, feedback].into_iter().flatten().collect::<Vec<_>>();
    if !texts.is_empty() {
        answer.insert("additionalContext".to_owned(), json!(texts.join("\n")));
    }
    Answer::object_or_silent(answer)
}

fn pre_tool_use(told: &Told, answer: &mut Map<String, Value>) {
    let decision = match told.verdict {
        Verdict::Nothing => None,
        Verdict::Allow => Some("allow"),
        Verdict::Ask => Some("ask"),
        Verdict::Defer | Verdict::Block => Some("deny"),
    };
    if let Some(decision) = decision {
        answer.insert("permissionDecision".to_owned(), json!(decision));
        if !told.reason.is_empty() {
            answer.insert("permissionDecisionReason".to_owned(), json!(told.reason));
        }
    }
    if let Some(params) = &told.params {
        answer.insert("modifiedArgs".to_owned(), Value::Object(params.clone()));
    }
}

fn permission_request(told: &Told, answer: &mut Map<String, Value>) {
    match told.verdict {
        Verdict::Allow => {
            answer.insert("behavior".to_owned(), json!("allow"));
        }
        Verdict::Block => {
            answer.insert("behavior".to_owned(), json!("deny"));
            answer.insert("message".to_owned(), json!(told.reason));
            if told.halt.is_some() {
                answer.insert("interrupt".to_owned(), Value::Bool(true));
            }
        }
        Verdict::Nothing | Verdict::Ask | Verdict::Defer => {}
    }
}
