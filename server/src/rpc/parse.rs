//! Message → [`Trigger`]: everything that can be wrong with a request is found here, before anything runs.

use std::{path::Path, sync::Arc, time::Duration};

use hookd_json::{Kind, Value};
use hookd_proto::v1;
use hookd_rules::UnknownEvent;

use super::status::{NotJudged, Violation};
use crate::model::{Caller, Capabilities, Capability, Event, Form, Identity, Session, Subject, ToolCall, Trigger};

const MAX_TOOL_BYTES: usize = 512;
/// Of what matchers test, so that no pattern takes long over it. Names of files are shorter.
const MAX_SUBJECT_BYTES: usize = 512;
const MAX_ID_BYTES: usize = 1024;
const MAX_PATH_BYTES: usize = 4096;
const MAX_LABELS: usize = 64;
const MAX_ROOTS: usize = 256;

/// What hookd itself knows of a call on arrival.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The id of the decision: a UUID.
    pub decision_id: String,
    /// The clock, in milliseconds since 1970: the time of events that do not say theirs.
    pub now_ms: i64,
    /// The `traceparent` of hookd's own span.
    pub traceparent: String,
    /// Who calls, as was proved.
    pub identity: Arc<Identity>,
}

/// Parses and checks a request.
///
/// # Errors
/// [`NotJudged::Invalid`] with everything that is wrong.
pub fn parse(request: v1::TriggerRequest, arrival: Arrival) -> Result<Trigger, NotJudged> {
    let mut check = Check::default();
    for (field, text) in [
        ("session_id", &request.session_id),
        ("request_id", &request.request_id),
        ("turn_id", &request.turn_id),
        ("permission_mode", &request.permission_mode),
        ("model", &request.model),
        ("expected_policy_revision", &request.expected_policy_revision),
    ] {
        check.identifier(field, text, MAX_ID_BYTES);
    }
    check.identifier("cwd", &request.cwd, MAX_PATH_BYTES);
    check.identifier("transcript_path", &request.transcript_path, MAX_PATH_BYTES);
    check.at_most("workspace_roots", request.workspace_roots.len(), MAX_ROOTS);
    for root in &request.workspace_roots {
        check.identifier("workspace_roots", root, MAX_PATH_BYTES);
    }
    let event = check.event(&request.event, request.tool_call.is_some());
    let (tool_call, form) = check.tool_call(request.tool_call, event);
    let payload = check.json("payload_json", request.payload_json, Some(Kind::Object), "");
    let caller = request.caller.map(|caller| check.caller(caller));
    let timestamp_ms = check.timestamp(request.timestamp, arrival.now_ms);
    if !check.violations.is_empty() {
        return Err(NotJudged::Invalid(check.violations));
    }
    let subject = match payload_subject(event, &payload, caller.as_ref()) {
        Some((field, subject)) if subject.len() > MAX_SUBJECT_BYTES => {
            let description =
                format!("what matchers test in it has {} bytes, at most {MAX_SUBJECT_BYTES} are taken", subject.len());
            return Err(NotJudged::Invalid(vec![Violation { field: field.to_owned(), description }]));
        }
        subject => subject.map(|(_, subject)| subject),
    };
    Ok(Trigger {
        event_name: Arc::from(request.event),
        event,
        session_id: request.session_id,
        timestamp_ms,
        tool_call,
        form,
        payload,
        subject,
        identity: arrival.identity,
        caller,
        request_id: request.request_id,
        cwd: request.cwd,
        session: Session {
            turn_id: request.turn_id,
            transcript_path: request.transcript_path,
            permission_mode: request.permission_mode,
            model: request.model,
            workspace_roots: request.workspace_roots,
        },
        capabilities: capabilities(request.capabilities),
        expected_revision: request.expected_policy_revision,
        decision_id: arrival.decision_id,
        traceparent: arrival.traceparent,
    })
}

#[derive(Default)]
struct Check {
    violations: Vec<Violation>,
}

impl Check {
    fn violation(&mut self, field: &str, description: impl Into<String>) {
        self.violations.push(Violation { field: field.to_owned(), description: description.into() });
    }

    fn at_most(&mut self, field: &str, count: usize, most: usize) {
        if count > most {
            self.violation(field, format!("{count} entries, at most {most} are taken"));
        }
    }

    fn identifier(&mut self, field: &str, text: &str, most: usize) {
        if text.len() > most {
            self.violation(field, format!("{} bytes, at most {most} are taken", text.len()));
        } else if text.chars().any(char::is_control) {
            self.violation(field, format!("holds control characters: {text:?}"));
        }
    }

    fn event(&mut self, name: &str, has_tool_call: bool) -> &'static Event {
        if let Some(event) = Event::known(name) {
            if event.needs_tool() && !has_tool_call {
                self.violation("tool_call", format!("{name} is about a tool call and needs one"));
            }
            return event;
        }
        if let Err(unknown) = UnknownEvent::check(name) {
            self.violation("event", unknown.to_string());
        }
        Event::unknown(has_tool_call)
    }

    fn tool_call(&mut self, call: Option<v1::ToolCall>, event: &Event) -> (Option<ToolCall>, Form) {
        let Some(call) = call else { return (None, Form { params: Arc::from("{}"), result: None }) };
        if call.tool.is_empty() && event.subject == Subject::Tool {
            self.violation("tool_call.tool", "is empty, the name of the tool is needed");
        }
        self.identifier("tool_call.tool", &call.tool, MAX_TOOL_BYTES);
        for (field, text) in [
            ("tool_call.tool_use_id", &call.tool_use_id),
            ("tool_call.kind", &call.kind),
            ("tool_call.mcp_server", &call.mcp_server),
            ("tool_call.mcp_tool", &call.mcp_tool),
        ] {
            self.identifier(field, text, MAX_ID_BYTES);
        }
        let params = self.json("tool_call.params_json", call.params_json, Some(Kind::Object), "{}");
        let result = call.result_json.map(|result| Arc::from(self.json("tool_call.result_json", result, None, "null")));
        let form = Form { params: Arc::from(params), result };
        let elapsed = call.elapsed.and_then(|elapsed| self.elapsed(elapsed));
        let call = ToolCall {
            tool: call.tool,
            tool_use_id: call.tool_use_id,
            kind: call.kind,
            mcp_server: call.mcp_server,
            error: call.error,
            elapsed,
        };
        (Some(call), form)
    }

    fn elapsed(&mut self, elapsed: prost_types::Duration) -> Option<Duration> {
        let time = Duration::try_from(elapsed).ok();
        if time.is_none() {
            self.violation("tool_call.elapsed", "is not a time from 0 on");
        }
        time
    }

    /// Checks a JSON text and brings it onto one line; an empty one becomes `empty`.
    fn json(&mut self, field: &str, text: String, kind: Option<Kind>, empty: &str) -> String {
        if text.is_empty() {
            return empty.to_owned();
        }
        match hookd_json::check(&text) {
            Err(error) => self.violation(field, format!("is not JSON: {error}")),
            Ok(found) => match kind {
                Some(kind) if kind != found => {
                    self.violation(field, format!("is {}, not {}", found.noun(), kind.noun()));
                }
                _ if text.as_bytes().contains(&b'\n') || text.as_bytes().contains(&b'\r') => {
                    return hookd_json::parse(&text).map(|value| hookd_json::to_text(&value)).unwrap_or(text);
                }
                _ => return text,
            },
        }
        String::new()
    }

    fn caller(&mut self, caller: v1::Caller) -> Caller {
        let caller = Caller {
            agent: caller.agent,
            agent_version: caller.agent_version,
            project: caller.project,
            user: caller.user,
            parent_session_id: caller.parent_session_id,
            agent_id: caller.agent_id,
            agent_type: caller.agent_type,
            parent_agent_id: caller.parent_agent_id,
            labels: sorted(caller.labels),
        };
        for (field, text) in [
            ("caller.agent", &caller.agent),
            ("caller.agent_version", &caller.agent_version),
            ("caller.project", &caller.project),
            ("caller.user", &caller.user),
            ("caller.parent_session_id", &caller.parent_session_id),
            ("caller.agent_id", &caller.agent_id),
            ("caller.agent_type", &caller.agent_type),
            ("caller.parent_agent_id", &caller.parent_agent_id),
        ] {
            self.identifier(field, text, MAX_ID_BYTES);
        }
        self.at_most("caller.labels", caller.labels.len(), MAX_LABELS);
        for (key, value) in &caller.labels {
            self.identifier("caller.labels", key, MAX_ID_BYTES);
            self.identifier("caller.labels", value, MAX_ID_BYTES);
        }
        caller
    }

    fn timestamp(&mut self, timestamp: Option<prost_types::Timestamp>, now_ms: i64) -> i64 {
        let Some(timestamp) = timestamp else { return now_ms };
        let millis = i64::from(timestamp.nanos).checked_div(1_000_000);
        let total =
            timestamp.seconds.checked_mul(1000).zip(millis).and_then(|(seconds, rest)| seconds.checked_add(rest));
        let in_range = (0..1_000_000_000).contains(&timestamp.nanos);
        match total.filter(|_| in_range) {
            Some(total) => total,
            None => {
                self.violation("timestamp", "is not a time: seconds out of range, or nanos not in 0..=999999999");
                now_ms
            }
        }
    }
}

fn sorted(labels: std::collections::HashMap<String, String>) -> Vec<(String, String)> {
    let mut labels = labels.into_iter().collect::<Vec<_>>();
    labels.sort_unstable();
    labels
}

/// What matchers test, where it is no tool, and the field that it stands in.
fn payload_subject(event: &Event, payload: &str, caller: Option<&Caller>) -> Option<(&'static str, String)> {
    let from_payload = |key: &str| match hookd_json::parse(payload).ok()?.get(key)? {
        Value::String(text) => Some(("payload_json", text.clone())),
        _ => None,
    };
    match event.subject {
        Subject::None | Subject::Tool => None,
        Subject::Payload(key) => from_payload(key),
        Subject::PayloadFileName(key) => {
            let (field, path) = from_payload(key)?;
            Path::new(&path).file_name().map(|name| (field, name.to_string_lossy().into_owned()))
        }
        Subject::AgentType => {
            let claimed = caller.map(|caller| caller.agent_type.clone()).filter(|agent_type| !agent_type.is_empty());
            claimed.map(|claimed| ("caller.agent_type", claimed)).or_else(|| from_payload("agent_type"))
        }
    }
}

fn capabilities(message: Option<v1::Capabilities>) -> Capabilities {
    let Some(message) = message else { return Capabilities::ALL };
    message.supported().fold(Capabilities::NONE, |all, capability| match capability {
        v1::Capability::Unspecified => all,
        v1::Capability::Ask => all.with(Capability::Ask),
        v1::Capability::Defer => all.with(Capability::Defer),
        v1::Capability::Block => all.with(Capability::Block),
        v1::Capability::ModifyParams => all.with(Capability::ModifyParams),
        v1::Capability::ModifyResult => all.with(Capability::ModifyResult),
        v1::Capability::AdditionalContext => all.with(Capability::AdditionalContext),
        v1::Capability::Halt => all.with(Capability::Halt),
        v1::Capability::ForceContinue => all.with(Capability::ForceContinue),
    })
}

#[cfg(test)]
mod tests;
