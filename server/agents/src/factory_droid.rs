//! Factory Droid: Claude Code's early protocol with tools and modes of its own. Its documentation has the common fields in
//! snake_case in one edition and in camelCase in another; both are taken.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::{common, decision_block, event_name, permission_decision, tool_call, universal, with_specific},
    derived_id::derived_id,
    kind,
    v1::TriggerRequest,
};

const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["Execute", "Bash"]),
    ("read", &["Read"]),
    ("write", &["Create", "Write"]),
    ("edit", &["Edit", "MultiEdit", "ApplyPatch"]),
    ("fetch", &["FetchUrl", "WebFetch"]),
    ("search", &["Grep", "Glob", "LS", "WebSearch"]),
    ("spawn", &["Task"]),
];

/// Names of the other edition, and what they are here.
const CAMEL: [(&str, &str); 6] = [
    ("hookEventName", "hook_event_name"),
    ("sessionId", "session_id"),
    ("transcriptPath", "transcript_path"),
    ("permissionMode", "permission_mode"),
    ("stopHookActive", "stop_hook_active"),
    ("customInstructions", "custom_instructions"),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    for (from, to) in CAMEL {
        fields.rename(from, to);
    }
    let native_event = event_name(event, fields, "hook_event_name")?;
    let mut request = TriggerRequest { tool_call: tool_call(&native_event, fields)?, ..common(fields) };
    if let Some(call) = &mut request.tool_call {
        kind::from_list(call, &KINDS);
        if call.tool_use_id.is_empty() {
            call.tool_use_id = derived_id(&request.session_id, call);
        }
    }
    Ok(Draft { native_event, row: None, request })
}

pub(crate) fn write(call: &Call, mut told: Told) -> Answer {
    if told.params.as_ref().is_some_and(|params| takes_away(call, params))
        && let Some(params) = told.params.take()
    {
        let why = "the call was rewritten without some of its parameters and this agent only changes and adds";
        return write(call, told.instead_of_rewrite(call, params, why));
    }
    let blocks = told.verdict == Verdict::Block;
    let mut top = universal(&told);
    let mut specific = Map::new();
    match call.request.event.as_str() {
        "PreToolUse" => permission_decision(&told, &mut specific),
        "PostToolUse" | "UserPromptSubmit" | "Stop" | "SubagentStop" if blocks => decision_block(&told, &mut top),
        // What is not known here: exit 2 blocks whatever can be blocked.
        _ if blocks && told.halt.is_none() => return Answer::exit(call.transport, 2, told.reason),
        _ => {}
    }
    if let Some(context) = told.context {
        specific.insert("additionalContext".to_owned(), json!(context));
    }
    with_specific(&mut top, &call.native_event, specific);
    Answer::object_or_silent(top)
}

/// `updatedInput` is laid over the call's own parameters, so that what is not in it stays.
fn takes_away(call: &Call, params: &Map<String, Value>) -> bool {
    let before = call.request.tool_call.as_ref().and_then(|tool| hookd_json::parse(&tool.params_json).ok());
    let Some(Value::Object(before)) = before else { return false };
    before.keys().any(|key| !params.contains_key(key))
}
