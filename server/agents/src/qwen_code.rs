//! Qwen Code: Claude Code's shapes with tools, modes and a few events of its own. Over http the body is the same JSON.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Agent, Answer, Call, Draft, Fields, Problem, Told, Transport, Verdict,
    claude_code::{
        common, decision_block, event_name, permission_decision, permission_request, tool_call, universal,
        with_specific,
    },
    kind, table,
    v1::TriggerRequest,
};

const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["run_shell_command"]),
    ("read", &["read_file", "read_many_files"]),
    ("write", &["write_file"]),
    ("edit", &["edit", "replace", "notebook_edit"]),
    ("fetch", &["web_fetch"]),
    ("search", &["grep_search", "search_file_content", "glob", "list_directory", "web_search", "lsp"]),
    ("spawn", &["task", "agent"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hook_event_name")?;
    if fields.peek_text("tool_use_id").is_none_or(str::is_empty) {
        fields.take("tool_use_id");
        fields.rename("tool_call_id", "tool_use_id");
    }
    // `prompt` is what the model gets, large pastes in full; `submitted_prompt` may have placeholders for them, so that a
    // guard that looked there alone would miss them.
    if fields.peek("prompt").is_none()
        && let Some(Value::String(prompt)) = fields.peek("submitted_prompt").cloned()
    {
        fields.put("prompt", prompt);
    }
    let mut tool_call = tool_call(&native_event, fields)?;
    if let Some(call) = &mut tool_call {
        kind::from_list(call, &KINDS);
    }
    // Such a hook is asked twice, and what it says after the write is ignored.
    let row = match (native_event.as_str(), fields.peek_text("phase")) {
        ("TodoCreated", Some("postWrite")) => table::row(Agent::QwenCode, "TodoCreated after the write"),
        ("TodoCompleted", Some("postWrite")) => table::row(Agent::QwenCode, "TodoCompleted after the write"),
        _ => None,
    };
    let request = TriggerRequest { timestamp: fields.take_time("timestamp"), tool_call, ..common(fields) };
    Ok(Draft { native_event, row, request })
}

pub(crate) fn write(call: &Call, mut told: Told) -> Answer {
    let event = call.request.event.as_str();
    if event == "PermissionRequest"
        && told.verdict != Verdict::Allow
        && let Some(params) = told.params.take()
    {
        let why = "the call was rewritten and this agent runs a rewritten call only where it is allowed";
        return write(call, told.instead_of_rewrite(call, params, why));
    }
    let blocks = told.verdict == Verdict::Block;
    let mut top = universal(&told);
    let mut specific = Map::new();
    match event {
        "PreToolUse" => permission_decision(&told, &mut specific),
        "PermissionRequest" => permission_request(&told, &mut specific),
        // What is not known here: exit 2 blocks whatever can be blocked, a decision on a tool that is about to run does
        // not. (Over http there is nothing better.)
        _ if blocks && call.row.is_none() && told.halt.is_none() && call.transport == Transport::Command => {
            return Answer::exit(call.transport, 2, told.reason);
        }
        _ if blocks => {
            decision_block(&told, &mut top);
            // A decision after the tool is documented, but what the model gets to see is the context.
            if matches!(event, "PostToolUse" | "PostToolUseFailure") {
                let context = told.context.take().map(|context| format!("\n{context}")).unwrap_or_default();
                told.context = Some(format!("{}{context}", told.reason));
            }
        }
        _ => {}
    }
    if let Some(context) = told.context {
        specific.insert("additionalContext".to_owned(), json!(context));
    }
    with_specific(&mut top, &call.native_event, specific);
    Answer::object_or_silent(top)
}
