//! The files under `tests/vectors/{agent}/`: what an agent says, what hookd is asked, what hookd says, what the agent gets.
//!
//! ```json
//! { "event": "PreToolUse", "input": {…}, "request": {…}, "response": {…}, "stdout": {…}, "stderr": "", "exitCode": 0 }
//! ```
//!
//! `event` is the native name, as it stands on a command line or in a URL; `"transport": "http"` where the agent asked by
//! http. `request` is what the `TriggerRequest` must hold at least and `response` the `TriggerResponse`, both as proto
//! JSON. `stdout` is JSON, or a string where the output is no JSON.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hookd_json::{Map, Value};
use hookd_proto::v1::{self, TriggerRequest, TriggerResponse};

/// One file.
pub(crate) struct Vector {
    /// Its path, for messages.
    pub(crate) path: PathBuf,
    /// The name of the folder.
    pub(crate) agent: String,
    /// The native event.
    pub(crate) event: String,
    /// The agent asked by http.
    pub(crate) http: bool,
    /// What the agent says, JSON text.
    pub(crate) input: String,
    /// What the request must hold.
    pub(crate) request: Value,
    /// What hookd says.
    pub(crate) response: TriggerResponse,
    /// What the agent gets.
    pub(crate) stdout: Value,
    /// As it is.
    pub(crate) stderr: String,
    /// As it is.
    pub(crate) exit_code: u8,
}

/// All files, in the order of their paths.
pub(crate) fn load() -> Vec<Vector> {
    // Also the end-to-end tests read them, from a crate that lies elsewhere.
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/vectors"));
    let root = folders.find(|folder| folder.join("claude-code").is_dir()).unwrap();
    let mut vectors = Vec::new();
    for agent in entries(&root).into_iter().filter(|path| path.is_dir()) {
        vectors
            .extend(entries(&agent).into_iter().filter(|path| path.extension().is_some_and(|e| e == "json")).map(read));
    }
    vectors
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    paths.sort();
    paths
}

fn read(path: PathBuf) -> Vector {
    let text = fs::read_to_string(&path).unwrap();
    let Value::Object(mut file) =
        hookd_json::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    else {
        panic!("{} is not an object", path.display());
    };
    let agent = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap().to_owned();
    let mut take = |key: &str| file.shift_remove(key);
    let vector = Vector {
        agent,
        event: take("event").unwrap().as_str().unwrap().to_owned(),
        http: take("transport").is_some_and(|transport| transport == "http"),
        input: hookd_json::to_text(&take("input").unwrap()),
        request: take("request").unwrap(),
        response: response(take("response").unwrap()),
        stdout: take("stdout").unwrap(),
        stderr: take("stderr").unwrap().as_str().unwrap().to_owned(),
        exit_code: take("exitCode").unwrap().to_string().parse().unwrap(),
        path,
    };
    assert!(file.is_empty(), "{}: unknown keys {file:?}", vector.path.display());
    vector
}

impl Vector {
    /// What is wrong with `request`. Empty: nothing.
    pub(crate) fn differences_of_request(&self, request: &TriggerRequest) -> Vec<String> {
        let mut differences = Vec::new();
        hold("", &self.request, &request_json(request), &mut differences);
        differences
    }

    /// `stdout` is what the agent has to get.
    pub(crate) fn is_stdout(&self, stdout: &str) -> bool {
        match &self.stdout {
            Value::String(text) => stdout == text,
            json => hookd_json::parse(stdout).as_ref() == Ok(json),
        }
    }
}

/// Everything in `expected` is in `found`. Strings under keys that end in `Json` are compared as the JSON they hold.
fn hold(path: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                hold(&format!("{path}.{key}"), value, found.get(key).unwrap_or(&Value::Null), differences);
            }
        }
        (Value::String(a), Value::String(b))
            if path.ends_with("Json") && hookd_json::parse(a) == hookd_json::parse(b) => {}
        _ if expected == found => {}
        _ => differences.push(format!("{path} is {found}, not {expected}")),
    }
}

fn response(value: Value) -> TriggerResponse {
    let Value::Object(mut map) = value else { panic!("the response is not an object") };
    let verdict = match map.shift_remove("verdict").unwrap() {
        Value::String(name) => v1::Verdict::from_str_name(&name).unwrap_or_else(|| panic!("no verdict {name}")).into(),
        number => number.to_string().parse().unwrap(),
    };
    let mut notes = |key: &str| match map.shift_remove(key) {
        Some(Value::Array(notes)) => notes
            .iter()
            .map(|note| v1::Note { text: note["text"].as_str().unwrap().to_owned(), ..Default::default() })
            .collect(),
        _ => Vec::new(),
    };
    let (additional_context, system_messages) = (notes("additionalContext"), notes("systemMessages"));
    let decided_by = map.shift_remove("decidedBy").map(|by| v1::DecidedBy {
        rule_id: by["ruleId"].as_str().unwrap_or_default().to_owned(),
        ..Default::default()
    });
    let halt = map.shift_remove("halt").is_some_and(|halt| halt == true);
    let mut text = |key: &str| map.shift_remove(key).map(|text| text.as_str().unwrap().to_owned());
    let response = TriggerResponse {
        verdict,
        reason: text("reason").unwrap_or_default(),
        modified_params_json: text("modifiedParamsJson"),
        modified_result_json: text("modifiedResultJson"),
        additional_context,
        system_messages,
        halt,
        halt_reason: text("haltReason").unwrap_or_default(),
        decided_by,
        decision_id: text("decisionId").unwrap_or_default(),
        event_output_json: text("eventOutputJson"),
        ..Default::default()
    };
    assert!(map.is_empty(), "unknown keys in the response: {map:?}");
    response
}

fn request_json(request: &TriggerRequest) -> Value {
    let mut json = Map::new();
    let mut text = |key: &str, text: &str| {
        if !text.is_empty() {
            json.insert(key.to_owned(), text.into());
        }
    };
    text("event", &request.event);
    text("sessionId", &request.session_id);
    text("cwd", &request.cwd);
    text("turnId", &request.turn_id);
    text("transcriptPath", &request.transcript_path);
    text("permissionMode", &request.permission_mode);
    text("model", &request.model);
    text("payloadJson", &request.payload_json);
    text("timestamp", &request.timestamp.map(|time| time.to_string()).unwrap_or_default());
    if let Some(call) = &request.tool_call {
        json.insert("toolCall".to_owned(), tool_call_json(call));
    }
    if let Some(caller) = &request.caller {
        let pairs = [
            ("agent", &caller.agent),
            ("agentVersion", &caller.agent_version),
            ("user", &caller.user),
            ("parentSessionId", &caller.parent_session_id),
            ("agentId", &caller.agent_id),
            ("agentType", &caller.agent_type),
            ("parentAgentId", &caller.parent_agent_id),
        ];
        json.insert("caller".to_owned(), said(&pairs));
    }
    if let Some(capabilities) = &request.capabilities {
        let names = capabilities.supported().map(|one| Value::from(one.as_str_name())).collect::<Vec<_>>();
        json.insert("capabilities".to_owned(), Map::from_iter([("supported".to_owned(), names.into())]).into());
    }
    if !request.workspace_roots.is_empty() {
        json.insert("workspaceRoots".to_owned(), request.workspace_roots.clone().into());
    }
    Value::Object(json)
}

fn tool_call_json(call: &v1::ToolCall) -> Value {
    let elapsed = call.elapsed.map(|elapsed| elapsed.to_string()).unwrap_or_default();
    said(&[
        ("tool", call.tool.as_str()),
        ("paramsJson", call.params_json.as_str()),
        ("resultJson", call.result_json.as_deref().unwrap_or_default()),
        ("toolUseId", call.tool_use_id.as_str()),
        ("kind", call.kind.as_str()),
        ("mcpServer", call.mcp_server.as_str()),
        ("mcpTool", call.mcp_tool.as_str()),
        ("error", call.error.as_deref().unwrap_or_default()),
        ("elapsed", elapsed.as_str()),
    ])
}

fn said<T: AsRef<str>>(pairs: &[(&str, T)]) -> Value {
    let there = pairs.iter().filter(|(_, text)| !text.as_ref().is_empty());
    Value::Object(there.map(|(key, text)| ((*key).to_owned(), text.as_ref().into())).collect())
}
