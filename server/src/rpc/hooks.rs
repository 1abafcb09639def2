//! `POST /v1/hooks/{agent}`: an agent's own hook input in, its own answer out, whatever happens between.

use std::{sync::OnceLock, time::Duration};

use hookd_agents::{Agent, Answer, Call, Native, OnUnavailable, Transport};
use hookd_proto::v1;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::{
    json::{self, Refusal, Reply},
    status::{NotJudged, Violation},
};

/// Header of an answer to an agent that takes its answers from commands: the exit code that belongs to it.
pub const EXIT_CODE: HeaderName = HeaderName::from_static("hookd-exit-code");
/// Header of an answer that is not hookd's decision, since there is none: the reason, such as `OVERLOADED`.
pub const NOT_JUDGED: HeaderName = HeaderName::from_static("hookd-not-judged");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// One call of `POST /v1/hooks/{agent}`. What is learnt of it stays here, whatever becomes of the call, so that every
/// answer has the form of its event.
#[derive(Debug)]
pub struct HookCall {
    agent: Agent,
    /// The native name of the event, from the URL.
    event: Option<String>,
    on_unavailable: OnUnavailable,
    /// How long the caller waits, where it says so.
    timeout: Option<Duration>,
    /// What is wrong with the URL and the headers.
    violations: Vec<Violation>,
    /// The body, once it was read.
    call: OnceLock<Call>,
    /// The native name of the event in a body that cannot be read.
    seen: OnceLock<String>,
}

impl HookCall {
    /// A call of `agent` with this query and these headers. What is wrong with them is told when the body has been read.
    #[must_use]
    pub fn new(agent: Agent, query: &str, headers: &HeaderMap) -> Self {
        let mut this = Self {
            agent,
            event: None,
            on_unavailable: OnUnavailable::Block,
            timeout: None,
            violations: Vec::new(),
            call: OnceLock::new(),
            seen: OnceLock::new(),
        };
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let wrong = match (&*key, &*value) {
                ("event", _) if this.event.is_some() => "stands in the URL twice".to_owned(),
                ("event", "") => "is empty, expected the agent's name of the event".to_owned(),
                ("event", name) => {
                    this.event = Some(name.to_owned());
                    continue;
                }
                ("on_unavailable", "block") => continue,
                ("on_unavailable", "allow") => {
                    this.on_unavailable = OnUnavailable::Allow;
                    continue;
                }
                ("on_unavailable", other) => format!("is {other:?}, expected block or allow"),
                _ => "is not known in the URL, expected event or on_unavailable".to_owned(),
            };
            this.violations.push(Violation { field: key.into_owned(), description: wrong });
        }
        match json::timeout(headers) {
            Ok(timeout) => this.timeout = timeout,
            Err(violation) => this.violations.push(violation),
        }
        this
    }

    /// The event that the body holds.
    ///
    /// # Errors
    /// [`NotJudged::Invalid`] with everything that is wrong with the body, the URL and the headers.
    pub fn read(&self, body: &[u8]) -> Result<v1::TriggerRequest, NotJudged> {
        let native =
            Native { agent: self.agent, event: self.event.as_deref(), input: body, transport: self.transport() };
        let call = hookd_agents::read(&native).map_err(|error| {
            if let Some(event) = error.native_event() {
                let _ = self.seen.set(event.to_owned());
            }
            json::invalid("body", error.to_string())
        })?;
        let request = self.call.get_or_init(|| call).request.clone();
        if self.violations.is_empty() { Ok(request) } else { Err(NotJudged::Invalid(self.violations.clone())) }
    }

    /// The deadline of the call: what the caller says, or else `default` and at most four fifths of what the agent itself
    /// gives a hook. An answer that comes later than the agent waits is none, and the agent goes on without it.
    #[must_use]
    pub fn deadline(&self, default: Duration) -> Duration {
        let of_agent = || self.agent.time_limit(self.native_event().unwrap_or_default()).mul_f64(0.8);
        self.timeout.unwrap_or_else(|| of_agent().min(default))
    }

    /// The agent's own form of what hookd decided.
    #[must_use]
    pub fn answer(&self, response: &v1::TriggerResponse) -> Reply {
        let Some(call) = self.call.get() else {
            // Nothing can be decided of a body that was not read.
            return self.unanswered(Refusal::of(NotJudged::Internal), &response.decision_id);
        };
        self.reply(StatusCode::OK, hookd_agents::answer(call, response))
    }

    /// The agent's own form of a block, or of nothing where the caller asked for that and it is not the request's fault.
    /// The status is 200 for agents that send their hooks by http, since they go on at every other; for others it says
    /// what happened.
    #[must_use]
    pub fn unanswered(&self, refusal: Refusal, decision_id: &str) -> Reply {
        let policy = if refusal.unavailable { self.on_unavailable } else { OnUnavailable::Block };
        let why = format!("{} ({decision_id})", refusal.told.message.replace(['\n', '\r'], " "));
        let answer =
            hookd_agents::unanswered(self.agent, self.native_event(), self.call.get(), self.transport(), policy, &why);
        let status = if self.agent.has_http_hooks() { StatusCode::OK } else { refusal.status };
        let mut reply = self.reply(status, answer);
        reply.headers_mut().insert(NOT_JUDGED, HeaderValue::from_static(refusal.told.reason));
        json::retry_after(&mut reply, refusal.told.retry_after);
        reply
    }

    fn transport(&self) -> Transport {
        if self.agent.has_http_hooks() { Transport::Http } else { Transport::Command }
    }

    /// The agent's name of the event, as far as it is known.
    fn native_event(&self) -> Option<&str> {
        let read = self.call.get().map(|call| call.native_event.as_str());
        read.or(self.seen.get().map(String::as_str)).or(self.event.as_deref())
    }

    /// What the agent would read: standard output, or standard error where the exit code is not 0.
    fn reply(&self, status: StatusCode, answer: Answer) -> Reply {
        let Answer { stdout, stderr, exit_code } = answer;
        let body = if exit_code == 0 || stderr.is_empty() { stdout } else { stderr };
        let kind = if body.trim_start().starts_with('{') { JSON } else { TEXT };
        let mut reply = Reply::new(body);
        *reply.status_mut() = status;
        reply.headers_mut().insert(header::CONTENT_TYPE, kind);
        if self.transport() == Transport::Command {
            reply.headers_mut().insert(EXIT_CODE, HeaderValue::from(u16::from(exit_code)));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hookd_rules::{Lacking, Tier};

    use super::*;
    use crate::model::{Permission, Unproven};

    const PRE: &str = r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse",
        "tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t"}"#;

    fn call(agent: Agent, query: &str) -> HookCall {
        HookCall::new(agent, query, &HeaderMap::new())
    }

    fn violations(call: &HookCall, body: &str) -> Vec<String> {
        match call.read(body.as_bytes()) {
            Err(NotJudged::Invalid(violations)) => violations
                .into_iter()
                .map(|violation| format!("{}: {}", violation.field, violation.description))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Status, exit code, reason and body of the answer to a call that was not judged.
    fn unanswered(call: &HookCall, not_judged: NotJudged) -> (u16, Option<String>, String, String) {
        let reply = call.unanswered(Refusal::of(not_judged), "the-id");
        let header = |name: &HeaderName| reply.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        (reply.status().as_u16(), header(&EXIT_CODE), header(&NOT_JUDGED).unwrap(), reply.body().clone())
    }

    #[test]
    fn everything_that_is_wrong_is_told_and_the_event_is_known_all_the_same() {
        let wrong = call(Agent::ClaudeCode, "event=&on_unavailable=yes&x=1&event=Stop&event=Stop");
        let expected = [
            "event: is empty, expected the agent's name of the event",
            "on_unavailable: is \"yes\", expected block or allow",
            "x: is not known in the URL, expected event or on_unavailable",
            "event: stands in the URL twice",
        ];
        assert_eq!(violations(&wrong, PRE), expected);
        assert_eq!(wrong.native_event(), Some("PreToolUse"), "the body's own name counts");
        let broken = call(Agent::ClaudeCode, "event=Stop");
        assert!(violations(&broken, "{")[0].starts_with("body: "));
        assert_eq!(broken.native_event(), Some("Stop"));
        let broken = call(Agent::ClaudeCode, "");
        assert!(violations(&broken, &PRE.replace("\"Bash\"", ""))[0].starts_with("body: "));
        assert_eq!(broken.native_event(), Some("PreToolUse"));
    }

    #[test]
    fn the_deadline_is_before_the_agents_own() {
        let default = Duration::from_secs(30);
        let pre = call(Agent::ClaudeCode, "");
        pre.read(PRE.as_bytes()).unwrap();
        assert_eq!(pre.deadline(default), default);
        assert_eq!(pre.deadline(Duration::from_secs(1000)), Duration::from_secs(480));
        let end = call(Agent::ClaudeCode, "event=SessionEnd");
        assert_eq!(end.deadline(default), Duration::from_millis(1200));
        assert_eq!(call(Agent::CopilotCli, "event=preToolUse").deadline(default), Duration::from_secs(24));
        let mut headers = HeaderMap::new();
        headers.insert(json::TIMEOUT, HeaderValue::from_static("2500"));
        let told = HookCall::new(Agent::ClaudeCode, "event=SessionEnd", &headers);
        assert_eq!(told.deadline(default), Duration::from_millis(2500));
    }

    #[test]
    fn only_what_is_hookds_own_fault_can_be_let_through() {
        let invalid = || NotJudged::Invalid(Vec::new());
        let lacking = Lacking { label: "tenant".into(), tier: Tier::Team, source_path: Path::new("/t").into() };
        let unauthenticated = NotJudged::Unauthenticated(Unproven::Nothing);
        let request = [
            invalid(),
            NotJudged::TooLarge(4),
            NotJudged::NotPermitted(Permission::Trigger),
            lacking.into(),
            unauthenticated,
        ];
        for not_judged in request {
            let pre = call(Agent::ClaudeCode, "on_unavailable=allow&event=PreToolUse");
            let (status, exit_code, _, body) = unanswered(&pre, not_judged);
            assert_eq!((status, exit_code), (200, None));
            assert!(body.contains(r#""permissionDecision":"deny""#) && body.contains("(the-id)"), "{body}");
        }
        let unavailable =
            [NotJudged::Shed, NotJudged::TooLate, NotJudged::TooSlow, NotJudged::Stopping, NotJudged::Internal];
        for not_judged in unavailable {
            let blocked = unanswered(&call(Agent::ClaudeCode, "event=PreToolUse"), not_judged.clone());
            assert!(blocked.3.contains(r#""permissionDecision":"deny""#), "{blocked:?}");
            let allow = call(Agent::ClaudeCode, "on_unavailable=allow&event=PreToolUse");
            let reason = not_judged.clone().told().reason.to_owned();
            assert_eq!(unanswered(&allow, not_judged), (200, None, reason, String::new()));
        }
    }

    #[test]
    fn agents_without_http_hooks_are_told_the_status_and_the_exit_code() {
        let q = call(Agent::AmazonQ, "event=preToolUse");
        let (status, exit_code, reason, body) = unanswered(&q, NotJudged::Shed);
        assert_eq!((status, exit_code.as_deref(), reason.as_str()), (429, Some("2"), "OVERLOADED"));
        assert!(body.contains("too many calls in flight, try again (the-id)"), "{body}");
    }
}
