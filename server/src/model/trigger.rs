use std::{sync::Arc, time::Duration};

use hookd_rules::{Event, Subject};

use super::{Capabilities, Form, Identity};

/// One event to evaluate, parsed and checked.
#[derive(Debug)]
pub struct Trigger {
    /// The name of the event as the caller gave it.
    pub event_name: Arc<str>,
    /// What hookd knows of the event.
    pub event: &'static Event,
    /// The agent's session. May be empty.
    pub session_id: String,
    /// When the event happened, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The tool call without its parameters and result, which stand in `form`.
    pub tool_call: Option<ToolCall>,
    /// The form in which the call arrived. `{}` without a tool call.
    pub form: Form,
    /// Payload, the text of a JSON object on one line. Empty: none.
    pub payload: String,
    /// What a matcher tests, where the event has a subject and the call holds it.
    pub subject: Option<String>,
    /// Who calls, as was proved.
    pub identity: Arc<Identity>,
    /// What the caller says of itself.
    pub caller: Option<Caller>,
    /// The caller's id of this request. May be empty.
    pub request_id: String,
    /// Working directory of the agent. May be empty.
    pub cwd: String,
    /// What else the agent says of itself and its session.
    pub session: Session,
    /// What the caller can carry out.
    pub capabilities: Capabilities,
    /// Revision that the caller insists on. Empty: any.
    pub expected_revision: String,
    /// Id of this decision, made by hookd on arrival: a UUID.
    pub decision_id: String,
    /// The `traceparent` of hookd's own span for this call, for http handlers.
    pub traceparent: String,
}

/// A tool call without its parameters and result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCall {
    /// The tool's own name in the agent.
    pub tool: String,
    /// The agent's id of this call. May be empty.
    pub tool_use_id: String,
    /// Its normalised kind, where the caller says it. May be empty.
    pub kind: String,
    /// The MCP server that provides it, where the caller says it. May be empty.
    pub mcp_server: String,
    /// Error text of a call that failed.
    pub error: Option<String>,
    /// How long the tool ran.
    pub elapsed: Option<Duration>,
}

/// What an agent says of itself and its session beside the event: for handlers that speak its protocol. Every field
/// may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Session {
    /// The agent's turn within the session.
    pub turn_id: String,
    /// Path of the session's transcript on the caller's machine.
    pub transcript_path: String,
    /// Permission mode of the agent, in its own words.
    pub permission_mode: String,
    /// Model that the agent runs on.
    pub model: String,
    /// Root directories of the agent's workspace, absolute paths.
    pub workspace_roots: Vec<String>,
}

/// What the caller says of itself: data, never identity. Every field may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of `hookd.v1.Caller`, documented there")]
pub struct Caller {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub project: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent_session_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent_agent_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub labels: Vec<(String, String)>,
}

impl Trigger {
    /// What a rule's matcher tests: `None` where the event has no subject or the call lacks it.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        match self.event.subject {
            Subject::None => None,
            Subject::Tool => self.tool_call.as_ref().map(|call| call.tool.as_str()),
            Subject::Payload(_) | Subject::PayloadFileName(_) | Subject::AgentType => self.subject.as_deref(),
        }
    }
}

fn as_map<S: serde::Serializer>(labels: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(key, value)| (key, value)))
}
