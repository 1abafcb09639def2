//! Claude Code: hookd's own names of events and fields, so that nothing is renamed.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Transport, Verdict, kind,
    v1::{Caller, ToolCall, TriggerRequest},
};

const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["Bash", "PowerShell", "Monitor"]),
    ("read", &["Read", "NotebookRead"]),
    ("write", &["Write"]),
    ("edit", &["Edit", "MultiEdit", "NotebookEdit"]),
    ("fetch", &["WebFetch"]),
    ("search", &["Grep", "Glob", "LS", "WebSearch"]),
    ("spawn", &["Agent", "Task"]),
];

/// Outputs of an event that stand beside `hookSpecificOutput` and not in it.
const AT_THE_TOP: [&str; 2] = ["suppressOutput", "terminalSequence"];

/// Outputs that give consent or an answer in the person's place, and the events that have them. They go with no block,
/// question or delay.
const GRANTS: [(&str, &[&str]); 4] = [
    ("action", &["Elicitation", "ElicitationResult"]),
    ("content", &["Elicitation", "ElicitationResult"]),
    ("updatedPermissions", &["PermissionRequest"]),
    ("worktreePath", &["WorktreeCreate"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hook_event_name")?;
    let mut tool_call = tool_call(&native_event, fields)?;
    if let Some(call) = &mut tool_call {
        kind::from_list(call, &KINDS);
        // The object stays in the payload: it says where the server comes from, too.
        if let Some(Value::String(name)) = fields.peek("mcp_server").and_then(|server| server.get("name")) {
            name.clone_into(&mut call.mcp_server);
        }
    }
    let request = TriggerRequest { tool_call, ..common(fields) };
    Ok(Draft { native_event, row: None, request })
}

/// The event's name at `key`, or else the one that was given beside the input.
pub(crate) fn event_name(event: Option<&str>, fields: &mut Fields, key: &'static str) -> Result<String, Problem> {
    match fields.take_text(key).filter(|name| !name.is_empty()) {
        Some(name) => Ok(name),
        None => event.map(str::to_owned).ok_or(Problem::NoEvent(key)),
    }
}

/// The fields that every event of an agent with Claude Code's names may have.
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

/// The tool call of an event that is about one, by Claude Code's names. `kind` is set for MCP tools alone.
pub(crate) fn tool_call(event: &str, fields: &mut Fields) -> Result<Option<ToolCall>, Problem> {
    if fields.peek("tool_name").is_none() && !is_about_a_tool(event) {
        return Ok(None);
    }
    let mut call = ToolCall {
        tool: fields.need_text(event, "tool_name")?,
        params_json: fields.params_text("tool_input"),
        result_json: fields.take_json("tool_response"),
        tool_use_id: fields.text("tool_use_id"),
        error: fields.take_text("error"),
        elapsed: fields.take_millis("duration_ms"),
        ..ToolCall::default()
    };
    kind::split_double_underscore(&mut call);
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
    let event = call.native_event.as_str();
    let blocks = told.verdict == Verdict::Block;
    match (event, call.transport) {
        // The answer is the path alone.
        ("WorktreeCreate", Transport::Command) if !blocks => {
            let path = told.extra.get("worktreePath").and_then(Value::as_str).unwrap_or_default();
            return Answer::text(path.to_owned());
        }
        // No JSON blocks these, and an event that is not known may be one of them: exit 2 blocks whatever can be blocked.
        ("TaskCompleted" | "TeammateIdle" | "WorktreeCreate", Transport::Command) if blocks => {
            return Answer::exit(call.transport, 2, told.reason);
        }
        (_, Transport::Command) if blocks && call.row.is_none() && told.halt.is_none() => {
            return Answer::exit(call.transport, 2, told.reason);
        }
        ("PermissionRequest", _) if told.params.is_some() && told.verdict != Verdict::Allow => {
            let why = "the call was rewritten and this agent runs a rewritten call only where it is allowed";
            let params = told.params.clone().unwrap_or_default();
            return write(call, told.instead_of_rewrite(call, params, why));
        }
        _ => {}
    }
    let mut top = universal(&told);
    let mut specific = Map::new();
    for (key, value) in &told.extra {
        let fits = GRANTS.iter().find(|(grant, _)| grant == key).is_none_or(|(_, events)| {
            events.contains(&event) && matches!(told.verdict, Verdict::Nothing | Verdict::Allow)
        });
        if AT_THE_TOP.contains(&key.as_str()) {
            top.insert(key.clone(), value.clone());
        } else if fits && key != "interrupt" {
            specific.insert(key.clone(), value.clone());
        }
    }
    match event {
        "PreToolUse" | "PreModelSwitch" | "PreSkillShellCommand" => permission_decision(&told, &mut specific),
        "PermissionRequest" => permission_request(&told, &mut specific),
        "Elicitation" | "ElicitationResult" if blocks => {
            specific.insert("action".to_owned(), json!("decline"));
        }
        _ if blocks => decision_block(&told, &mut top),
        _ => {}
    }
    if let Some(result) = told.result {
        specific.insert("updatedToolOutput".to_owned(), result);
    }
    if let Some(context) = told.context {
        specific.insert("additionalContext".to_owned(), Value::String(context));
    }
    with_specific(&mut top, event, specific);
    Answer::object_or_silent(top)
}

/// `continue` and `stopReason` where the agent has to stop, `systemMessage` where there is one.
pub(crate) fn universal(told: &Told) -> Map<String, Value> {
    let mut top = Map::new();
    if let Some(halt) = &told.halt {
        top.insert("continue".to_owned(), Value::Bool(false));
        top.insert("stopReason".to_owned(), json!(halt));
    }
    if let Some(message) = &told.message {
        top.insert("systemMessage".to_owned(), json!(message));
    }
    top
}

/// `decision: block` and `reason`.
pub(crate) fn decision_block(told: &Told, top: &mut Map<String, Value>) {
    top.insert("decision".to_owned(), json!("block"));
    top.insert("reason".to_owned(), json!(told.reason));
}

/// `permissionDecision`, its reason and `updatedInput`, without which a call goes the agent's own way.
pub(crate) fn permission_decision(told: &Told, specific: &mut Map<String, Value>) {
    let decision = match told.verdict {
        Verdict::Nothing => None,
        Verdict::Allow => Some("allow"),
        Verdict::Ask => Some("ask"),
        Verdict::Defer => Some("defer"),
        Verdict::Block => Some("deny"),
    };
    if let Some(decision) = decision {
        specific.insert("permissionDecision".to_owned(), json!(decision));
        if !told.reason.is_empty() {
            specific.insert("permissionDecisionReason".to_owned(), json!(told.reason));
        }
    }
    if let Some(params) = &told.params {
        specific.insert("updatedInput".to_owned(), Value::Object(params.clone()));
    }
}

/// `decision: { behavior, … }`. No decision is the agent's own prompt: a question is asked by not answering.
pub(crate) fn permission_request(told: &Told, specific: &mut Map<String, Value>) {
    let permissions = specific.shift_remove("updatedPermissions");
    let mut decision = Map::new();
    match told.verdict {
        Verdict::Nothing | Verdict::Ask | Verdict::Defer => return,
        Verdict::Allow => {
            decision.insert("behavior".to_owned(), json!("allow"));
            if let Some(params) = &told.params {
                decision.insert("updatedInput".to_owned(), Value::Object(params.clone()));
            }
            if let Some(permissions) = permissions {
                decision.insert("updatedPermissions".to_owned(), permissions);
            }
        }
        Verdict::Block => {
            decision.insert("behavior".to_owned(), json!("deny"));
            decision.insert("message".to_owned(), json!(told.reason));
            if told.halt.is_some() || told.extra.get("interrupt") == Some(&Value::Bool(true)) {
                decision.insert("interrupt".to_owned(), Value::Bool(true));
            }
        }
    }
    specific.insert("decision".to_owned(), Value::Object(decision));
}

/// Puts what is specific to the event into the answer, under the name without which it would be refused.
pub(crate) fn with_specific(top: &mut Map<String, Value>, event: &str, specific: Map<String, Value>) {
    if specific.is_empty() {
        return;
    }
    let mut named = Map::from_iter([("hookEventName".to_owned(), json!(event))]);
    named.extend(specific);
    top.insert("hookSpecificOutput".to_owned(), Value::Object(named));
}
