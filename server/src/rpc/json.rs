//! `POST /v1/trigger`: the reference engine's context in, the answer as JSON; and what else plain HTTP is told in JSON.

use std::time::Duration;

use hookd_agents::plain::{self, Names};
use hookd_json::{Map, Value};
use hookd_proto::v1;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::status::{NotJudged, Told, Violation};

/// Header that says how long the caller waits for its answer, in whole milliseconds: the deadline of the call (law 8).
pub const TIMEOUT: HeaderName = HeaderName::from_static("hookd-timeout-ms");

/// Longest time that a caller can name: what is longer is a mistake in the unit.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer of plain HTTP.
pub type Reply = Response<String>;

/// One call of `POST /v1/trigger`.
#[derive(Debug)]
pub struct TriggerCall {
    deadline: Result<Option<Duration>, Violation>,
}

/// A failure to judge, as plain HTTP is told it.
#[derive(Debug)]
pub struct Refusal {
    /// The status that stands for it.
    pub status: StatusCode,
    /// hookd could not be asked (in time). Everything else is the request's fault, and never let through, so that a
    /// padded call does not buy an allow.
    pub unavailable: bool,
    /// What to tell.
    pub told: Told,
}

impl TriggerCall {
    /// A call with these headers.
    #[must_use]
    pub fn new(headers: &HeaderMap) -> Self {
        Self { deadline: timeout(headers) }
    }

    /// The event that the body holds.
    ///
    /// # Errors
    /// [`NotJudged::Invalid`] with what is wrong with the body or a header.
    pub fn read(&self, body: &[u8]) -> Result<v1::TriggerRequest, NotJudged> {
        self.deadline.as_ref().map_err(|violation| NotJudged::Invalid(vec![violation.clone()]))?;
        let text = str::from_utf8(body).map_err(|error| invalid("body", format!("is not UTF-8: {error}")))?;
        plain::request(text).map_err(|error| invalid("body", error))
    }

    /// The caller's deadline. `None`: it says none.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline.as_ref().ok().copied().flatten()
    }

    /// 200 and the whole answer.
    #[must_use]
    pub fn answer(response: &v1::TriggerResponse) -> Reply {
        reply(StatusCode::OK, &plain::answer(response, Names::Camel))
    }

    /// The failure's status, and what is wrong as JSON.
    #[must_use]
    pub fn unanswered(refusal: Refusal, decision_id: &str) -> Reply {
        let Refusal { status, told, .. } = refusal;
        let mut reply = error(status, told.reason, told.message, decision_id, |error| {
            for (name, value) in told.info {
                error.insert(Names::Camel.of(&name), value.into());
            }
            if !told.violations.is_empty() {
                error.insert("violations".to_owned(), told.violations.into_iter().map(violation).collect());
            }
        });
        retry_after(&mut reply, told.retry_after);
        if status == StatusCode::UNAUTHORIZED {
            reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply
    }
}

impl Refusal {
    /// What `not_judged` is in HTTP.
    #[must_use]
    pub fn of(not_judged: NotJudged) -> Self {
        let (status, unavailable) = match &not_judged {
            NotJudged::Invalid(_) => (StatusCode::BAD_REQUEST, false),
            NotJudged::RevisionMismatch { .. } => (StatusCode::PRECONDITION_FAILED, false),
            NotJudged::TooLate => (StatusCode::GATEWAY_TIMEOUT, true),
            NotJudged::TooSlow => (StatusCode::REQUEST_TIMEOUT, true),
            NotJudged::Shed => (StatusCode::TOO_MANY_REQUESTS, true),
            NotJudged::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, false),
            NotJudged::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, false),
            NotJudged::Stopping => (StatusCode::SERVICE_UNAVAILABLE, true),
            NotJudged::MissingLabel(_) | NotJudged::NotPermitted(_) => (StatusCode::FORBIDDEN, false),
            NotJudged::Unauthenticated(_) => (StatusCode::UNAUTHORIZED, false),
            NotJudged::Internal => (StatusCode::INTERNAL_SERVER_ERROR, true),
        };
        Self { status, unavailable, told: not_judged.told() }
    }
}

/// An error as JSON: `{"error": {"reason", "message", "decisionId", …}}`; `more` adds what else belongs to it.
pub fn error(
    status: StatusCode,
    reason: &str,
    message: impl Into<String>,
    decision_id: &str,
    more: impl FnOnce(&mut Map<String, Value>),
) -> Reply {
    let mut error = Map::new();
    error.insert("reason".to_owned(), reason.into());
    error.insert("message".to_owned(), Value::String(message.into()));
    error.insert("decisionId".to_owned(), decision_id.into());
    more(&mut error);
    reply(status, &Value::Object([("error".to_owned(), Value::Object(error))].into_iter().collect()))
}

/// Says when to try again, where that can help: in whole seconds, from one.
pub(super) fn retry_after(reply: &mut Reply, after: Option<Duration>) {
    if let Some(after) = after {
        let seconds = after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).max(1);
        reply.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
}

/// The time that the caller waits, by its header.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Violation> {
    let mut values = headers.get_all(TIMEOUT).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let millis = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let timeout = millis.and_then(|text| text.parse().ok()).map(Duration::from_millis);
    let timeout = timeout.filter(|timeout| !timeout.is_zero() && *timeout <= LONGEST_TIMEOUT);
    timeout.filter(|_| values.next().is_none()).map(Some).ok_or_else(|| Violation {
        field: TIMEOUT.to_string(),
        description: format!("is {value:?}, not one whole number of milliseconds from 1 to 86400000"),
    })
}

/// The one thing that is wrong with a request.
pub(super) fn invalid(field: &str, description: String) -> NotJudged {
    NotJudged::Invalid(vec![Violation { field: field.to_owned(), description }])
}

fn violation(violation: Violation) -> Value {
    let fields = [("field", Names::Camel.of(&violation.field)), ("description", violation.description)];
    Value::Object(fields.into_iter().map(|(key, text)| (key.to_owned(), Value::String(text))).collect())
}

fn reply(status: StatusCode, body: &Value) -> Reply {
    let mut body = hookd_json::to_text(body);
    body.push('\n');
    let mut reply = Reply::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, JSON);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Permission, Unproven};

    fn body(reply: &Reply) -> Value {
        hookd_json::parse(reply.body()).unwrap()
    }

    #[test]
    fn every_failure_has_a_status_and_says_what_is_wrong() {
        let violation = Violation { field: "tool_call.params_json".to_owned(), description: "is not JSON".to_owned() };
        let mismatch = NotJudged::RevisionMismatch { expected: "a".to_owned(), actual: "b".to_owned() };
        let limited = NotJudged::RateLimited { calls_per_second: 2, retry_after: Duration::from_millis(1001) };
        let cases = [
            (NotJudged::Invalid(vec![violation]), 400, false, "INVALID_REQUEST"),
            (mismatch, 412, false, "REVISION_MISMATCH"),
            (NotJudged::TooLate, 504, true, "DEADLINE_TOO_SHORT"),
            (NotJudged::TooSlow, 408, true, "REQUEST_TOO_SLOW"),
            (NotJudged::Shed, 429, true, "OVERLOADED"),
            (limited, 429, false, "RATE_LIMITED"),
            (NotJudged::TooLarge(4), 413, false, "TOO_LARGE"),
            (NotJudged::Stopping, 503, true, "STOPPING"),
            (NotJudged::NotPermitted(Permission::Trigger), 403, false, "NOT_PERMITTED"),
            (NotJudged::Unauthenticated(Unproven::Expired), 401, false, "EXPIRED"),
            (NotJudged::Internal, 500, true, "INTERNAL"),
        ];
        for (not_judged, status, unavailable, reason) in cases {
            let after = match &not_judged {
                NotJudged::Shed => Some("1"),
                NotJudged::RateLimited { .. } => Some("2"),
                _ => None,
            };
            let refusal = Refusal::of(not_judged);
            assert_eq!((refusal.status.as_u16(), refusal.unavailable), (status, unavailable), "{reason}");
            let reply = TriggerCall::unanswered(refusal, "the-id");
            assert_eq!(reply.status(), status);
            let said = reply.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(said, after, "{reason}");
            assert_eq!(body(&reply)["error"]["reason"], reason);
            assert_eq!(body(&reply)["error"]["decisionId"], "the-id");
        }
    }

    #[test]
    fn what_is_wrong_is_named_as_the_caller_names_it() {
        let violation = Violation { field: "tool_call.params_json".to_owned(), description: "is not JSON".to_owned() };
        let invalid = TriggerCall::unanswered(Refusal::of(NotJudged::Invalid(vec![violation])), "the-id");
        let expected = serde_json::json!({ "error": {
            "reason": "INVALID_REQUEST", "message": "tool_call.params_json: is not JSON", "decisionId": "the-id",
            "violations": [{ "field": "toolCall.params", "description": "is not JSON" }],
        }});
        assert_eq!(body(&invalid), expected);
        let large = TriggerCall::unanswered(Refusal::of(NotJudged::TooLarge(4)), "the-id");
        assert_eq!(body(&large)["error"]["limitBytes"], "4");
    }

    #[test]
    fn timeouts_are_whole_milliseconds() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TIMEOUT, value.parse().unwrap());
            }
            timeout(&headers).map_err(|violation| violation.description)
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["2500"]), Ok(Some(Duration::from_millis(2500))));
        assert_eq!(read(&["86400000"]), Ok(Some(LONGEST_TIMEOUT)));
        for wrong in ["", "0", "-1", "+1", "1.5", "1s", "86400001", "99999999999999999999999"] {
            let expected = format!("is \"{wrong}\", not one whole number of milliseconds from 1 to 86400000");
            assert_eq!(read(&[wrong]), Err(expected));
        }
        assert!(read(&["1", "2"]).is_err());
    }
}
