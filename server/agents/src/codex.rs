//! Codex CLI: Claude Code's names, and a strict reader: an unknown key fails the hook, and a failed hook lets the tool
//! run. Nothing is said that is not in its schema.

use hookd_json::{Map, Value};
use serde_json::json;

use crate::{
    Agent, Answer, Call, Draft, Fields, Problem, Told, Transport, Verdict,
    claude_code::{common, decision_block, event_name, tool_call, universal, with_specific},
    kind, table,
    v1::TriggerRequest,
};

const KINDS: [(&str, &[&str]); 4] = [
    ("shell", &["Bash", "shell", "local_shell", "exec_command", "unified_exec", "write_stdin"]),
    ("read", &["view_image"]),
    ("edit", &["apply_patch"]),
    ("spawn", &["spawn_agent", "Agent"]),
];

/// Tools whose parameters have to hold the command, or the patch, as a string.
const COMMAND_TOOLS: [&str; 2] = ["Bash", "apply_patch"];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    let native_event = event_name(event, fields, "hook_event_name")?;
    let mut tool_call = tool_call(&native_event, fields)?;
    let mut row = None;
    if let Some(call) = &mut tool_call {
        kind::from_list(call, &KINDS);
        if native_event == "PreToolUse" && call.kind != "mcp" && !COMMAND_TOOLS.contains(&call.tool.as_str()) {
            row = table::row(Agent::Codex, "PreToolUse of another tool");
        }
    }
    let turn_id = fields.text("turn_id");
    let request = TriggerRequest { tool_call, turn_id, ..common(fields) };
    Ok(Draft { native_event, row, request })
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    let event = call.native_event.as_str();
    let blocks = told.verdict == Verdict::Block;
    if blocks && call.row.is_none() {
        return match call.transport {
            Transport::Command => Answer::exit(call.transport, 2, told.reason),
            Transport::Http => {
                let mut top = Map::new();
                decision_block(&told, &mut top);
                Answer::object(top)
            }
        };
    }
    let tool = call.request.tool_call.as_ref().map_or("", |call| call.tool.as_str());
    if let Some(params) = &told.params
        && COMMAND_TOOLS.contains(&tool)
        && !params.get("command").is_some_and(Value::is_string)
    {
        let why = format!("the call was rewritten to one without a `command`, which {tool} needs");
        return write(call, told.instead_of_rewrite(call, params.clone(), &why));
    }
    let mut top = match event {
        "SessionEnd" => Map::new(),
        _ => universal(&told),
    };
    let mut specific = Map::new();
    match event {
        "PreToolUse" if blocks => {
            specific.insert("permissionDecision".to_owned(), json!("deny"));
            specific.insert("permissionDecisionReason".to_owned(), json!(told.reason));
        }
        // An allow without a rewrite is refused, a rewrite without an allow too; neither silences Codex's own prompt.
        "PreToolUse" => {
            if let Some(params) = told.params {
                specific.insert("permissionDecision".to_owned(), json!("allow"));
                specific.insert("updatedInput".to_owned(), Value::Object(params));
            }
        }
        "PermissionRequest" => match told.verdict {
            Verdict::Block => {
                let decision = json!({ "behavior": "deny", "message": told.reason });
                specific.insert("decision".to_owned(), decision);
            }
            Verdict::Allow => {
                specific.insert("decision".to_owned(), json!({ "behavior": "allow" }));
            }
            Verdict::Nothing | Verdict::Ask | Verdict::Defer => {}
        },
        _ if blocks => decision_block(&told, &mut top),
        _ => {}
    }
    if let Some(context) = told.context {
        specific.insert("additionalContext".to_owned(), Value::String(context));
    }
    with_specific(&mut top, event, specific);
    Answer::object_or_silent(top)
}
