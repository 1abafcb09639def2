//! Proto JSON as messages of the wire, as far as the table and the vectors have it. A key that is not known stops the test.

use hookd_proto::v1::{
    Caller, Capabilities, Capability, DecidedBy, Note, ToolCall, TriggerRequest, TriggerResponse, Verdict,
};
use serde_json::{Map, Value};

/// A `TriggerRequest`.
#[must_use]
pub fn request(value: &Value) -> TriggerRequest {
    let mut of = Fields::of("the request", value);
    let request = TriggerRequest {
        event: of.text("event"),
        session_id: of.text("sessionId"),
        timestamp: of.optional("timestamp").map(|text| text.parse().unwrap()),
        tool_call: of.take("toolCall").map(|value| tool_call(&value)),
        payload_json: of.text("payloadJson"),
        caller: of.take("caller").map(|value| caller(&value)),
        request_id: of.text("requestId"),
        cwd: of.text("cwd"),
        turn_id: of.text("turnId"),
        transcript_path: of.text("transcriptPath"),
        permission_mode: of.text("permissionMode"),
        model: of.text("model"),
        capabilities: of.take("capabilities").map(|value| capabilities(&value)),
        expected_policy_revision: of.text("expectedPolicyRevision"),
        workspace_roots: of.list("workspaceRoots").iter().map(|root| root.as_str().unwrap().to_owned()).collect(),
    };
    of.end();
    request
}

/// A `TriggerResponse`. Its verdict is a name, or a number that no client of today knows.
#[must_use]
pub fn response(value: &Value) -> TriggerResponse {
    let mut of = Fields::of("the response", value);
    let verdict = match of.take("verdict").expect("a verdict") {
        Value::String(name) => Verdict::from_str_name(&name).unwrap_or_else(|| panic!("no verdict {name}")).into(),
        number => number.to_string().parse().unwrap(),
    };
    let response = TriggerResponse {
        verdict,
        reason: of.text("reason"),
        modified_params_json: of.optional("modifiedParamsJson"),
        modified_result_json: of.optional("modifiedResultJson"),
        additional_context: notes(&of.list("additionalContext")),
        system_messages: notes(&of.list("systemMessages")),
        halt: of.take("halt").is_some_and(|halt| halt == true),
        halt_reason: of.text("haltReason"),
        decided_by: of.take("decidedBy").map(|value| decided_by(&value)),
        policy_revision: of.text("policyRevision"),
        decision_id: of.text("decisionId"),
        event_output_json: of.optional("eventOutputJson"),
        ..TriggerResponse::default()
    };
    of.end();
    response
}

fn tool_call(value: &Value) -> ToolCall {
    let mut of = Fields::of("the tool call", value);
    let call = ToolCall {
        tool: of.text("tool"),
        params_json: of.text("paramsJson"),
        result_json: of.optional("resultJson"),
        tool_use_id: of.text("toolUseId"),
        kind: of.text("kind"),
        mcp_server: of.text("mcpServer"),
        mcp_tool: of.text("mcpTool"),
        error: of.optional("error"),
        elapsed: of.optional("elapsed").map(|text| text.parse().unwrap()),
    };
    of.end();
    call
}

fn caller(value: &Value) -> Caller {
    let mut of = Fields::of("the caller", value);
    let caller = Caller {
        agent: of.text("agent"),
        agent_version: of.text("agentVersion"),
        project: of.text("project"),
        user: of.text("user"),
        parent_session_id: of.text("parentSessionId"),
        agent_id: of.text("agentId"),
        agent_type: of.text("agentType"),
        parent_agent_id: of.text("parentAgentId"),
        ..Caller::default()
    };
    of.end();
    caller
}

fn capabilities(value: &Value) -> Capabilities {
    let mut of = Fields::of("the capabilities", value);
    let number = |name: &Value| Capability::from_str_name(name.as_str().unwrap()).unwrap().into();
    let capabilities = Capabilities { supported: of.list("supported").iter().map(number).collect() };
    of.end();
    capabilities
}

fn decided_by(value: &Value) -> DecidedBy {
    let mut of = Fields::of("what decided", value);
    let by = DecidedBy { rule_id: of.text("ruleId"), ..DecidedBy::default() };
    of.end();
    by
}

fn notes(values: &[Value]) -> Vec<Note> {
    let note = |value: &Value| {
        let mut of = Fields::of("the note", value);
        let note = Note { text: of.text("text"), rule_id: of.text("ruleId"), ..Note::default() };
        of.end();
        note
    };
    values.iter().map(note).collect()
}

/// The fields of a message, each taken once.
struct Fields {
    what: &'static str,
    left: Map<String, Value>,
}

impl Fields {
    fn of(what: &'static str, value: &Value) -> Self {
        let left = value.as_object().unwrap_or_else(|| panic!("{what} is not an object: {value}")).clone();
        Self { what, left }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.left.shift_remove(key)
    }

    fn optional(&mut self, key: &str) -> Option<String> {
        self.take(key).map(|text| text.as_str().unwrap_or_else(|| panic!("`{key}` is not a text: {text}")).to_owned())
    }

    fn text(&mut self, key: &str) -> String {
        self.optional(key).unwrap_or_default()
    }

    fn list(&mut self, key: &str) -> Vec<Value> {
        self.take(key).map_or_else(Vec::new, |list| list.as_array().unwrap().clone())
    }

    fn end(self) {
        assert!(self.left.is_empty(), "unknown keys of {}: {:?}", self.what, self.left);
    }
}
