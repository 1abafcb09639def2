//! Agent hooks of VS Code (Preview): Claude Code's answers, VS Code's own tools. Its documentation and its source name the
//! common fields differently; both are taken.

use hookd_json::Map;
use serde_json::json;

use crate::{
    Answer, Call, Draft, Fields, Problem, Told, Verdict,
    claude_code::{common, decision_block, permission_decision, tool_call, universal, with_specific},
    kind,
    v1::TriggerRequest,
};

const KINDS: [(&str, &[&str]); 7] = [
    (
        "shell",
        &["run_in_terminal", "runInTerminal", "runTerminalCommand", "create_and_run_task", "run_task", "runTask"],
    ),
    ("read", &["read_file", "readFile", "view_image"]),
    ("write", &["create_file", "createFile", "create_new_jupyter_notebook", "create_directory", "createDirectory"]),
    (
        "edit",
        &[
            "replace_string_in_file",
            "multi_replace_string_in_file",
            "insert_edit_into_file",
            "apply_patch",
            "edit_notebook_file",
            "editFiles",
            "editNotebook",
        ],
    ),
    ("fetch", &["fetch_webpage", "fetch"]),
    (
        "search",
        &["grep_search", "file_search", "semantic_search", "list_dir", "list_code_usages", "github_repo", "codebase"],
    ),
    ("spawn", &["runSubagent", "execution_subagent", "search_subagent"]),
];

pub(crate) fn read(event: Option<&str>, fields: &mut Fields) -> Result<Draft, Problem> {
    // In its source they have the names of Claude Code, in its documentation these.
    fields.rename("hookEventName", "hook_event_name");
    fields.rename("sessionId", "session_id");
    let native_event = crate::claude_code::event_name(event, fields, "hook_event_name")?;
    let mut tool_call = tool_call(&native_event, fields)?;
    if let Some(call) = &mut tool_call {
        kind::from_list(call, &KINDS);
        // A server's own name may hold `_`, so that the name does not say where it ends.
        if call.kind.is_empty() && call.tool.starts_with("mcp_") {
            kind::mcp(call, "", "");
        }
    }
    let request = TriggerRequest { timestamp: fields.take_time("timestamp"), tool_call, ..common(fields) };
    Ok(Draft { native_event, row: None, request })
}

pub(crate) fn write(call: &Call, told: Told) -> Answer {
    let blocks = told.verdict == Verdict::Block;
    let mut top = universal(&told);
    let mut specific = Map::new();
    match call.request.event.as_str() {
        "PreToolUse" => permission_decision(&told, &mut specific),
        "PostToolUse" if blocks => decision_block(&told, &mut top),
        // The documentation wants it inside on `Stop` and at the top on `SubagentStop`.
        "Stop" | "SubagentStop" if blocks => {
            decision_block(&told, &mut top);
            specific.insert("decision".to_owned(), json!("block"));
            specific.insert("reason".to_owned(), json!(told.reason));
        }
        // No field blocks a prompt or what is not known here; exit 2 does, without ending the session.
        _ if blocks && told.halt.is_none() => return Answer::exit(call.transport, 2, told.reason),
        _ => {}
    }
    if let Some(context) = told.context {
        specific.insert("additionalContext".to_owned(), json!(context));
    }
    with_specific(&mut top, &call.native_event, specific);
    Answer::object_or_silent(top)
}
