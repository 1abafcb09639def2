//! The only place where a failure to judge becomes what its caller is told: a gRPC status (`deploy/docs/rules.md`,
//! "Statuses"), or the words of it for callers of another kind. A verdict is never a status.

use std::{collections::HashMap, time::Duration};

use hookd_rules::Lacking;
use tonic::{Code, Status, metadata::MetadataMap};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    model::{Permission, Unproven},
    telemetry::call::NoPlace,
};

/// Metadata key that every status of hookd's own carries: one without it comes from the transport.
pub const DECISION_ID: &str = "hookd-decision-id";

const DOMAIN: &str = "hookd";
/// Details stay under 4 KiB, so texts of the caller's are cut.
const MAX_TEXT_BYTES: usize = 200;
const MAX_VIOLATIONS: usize = 6;

/// Why a call was not judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotJudged {
    /// The request is not one: the fields and what is wrong with each.
    Invalid(Vec<Violation>),
    /// The caller insists on another revision than the one in force.
    RevisionMismatch {
        /// What the caller insists on.
        expected: String,
        /// What is in force.
        actual: String,
    },
    /// Less time than the margin was left on arrival (law 8).
    TooLate,
    /// The request did not arrive within its time.
    TooSlow,
    /// No place was free.
    Shed,
    /// The caller's tenant made more calls than it may.
    RateLimited {
        /// What it may.
        calls_per_second: u32,
        /// When it may make the next one.
        retry_after: Duration,
    },
    /// The message is over the limit of so many bytes.
    TooLarge(usize),
    /// The server shuts down.
    Stopping,
    /// The caller lacks a label that the selector of a source needs.
    MissingLabel(Lacking),
    /// Nobody knows who calls.
    Unauthenticated(Unproven),
    /// Who calls may not do this: none of the grants in the settings gives it.
    NotPermitted(Permission),
    /// A fault in hookd.
    Internal,
}

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The field, as a path in proto names.
    pub field: String,
    /// What is wrong and what would be right.
    pub description: String,
}

/// What the caller of a call that was not judged is told. It is small: texts of the caller's are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The kind of failure.
    pub code: Code,
    /// The kind, finer: an `ErrorInfo.reason`.
    pub reason: &'static str,
    /// For people: one line, or as many as a text of the caller's has.
    pub message: String,
    /// What is wrong with the request, where it is the request.
    pub violations: Vec<Violation>,
    /// Values that belong to the reason, by their names.
    pub info: HashMap<String, String>,
    /// When to try again; only where another try can help.
    pub retry_after: Option<Duration>,
    /// hookd has too much to do, which is no fault of this caller's. Only then do callers over gRPC hear of
    /// `retry_after` where they look for it: they take it for this, and may then do as if hookd were away.
    pub is_shed: bool,
}

impl From<NoPlace> for NotJudged {
    fn from(no_place: NoPlace) -> Self {
        match no_place {
            NoPlace::Shed => Self::Shed,
            NoPlace::RateLimited { calls_per_second, retry_after } => {
                Self::RateLimited { calls_per_second, retry_after }
            }
        }
    }
}

impl NotJudged {
    /// What to tell the caller.
    #[must_use]
    pub fn told(self) -> Told {
        let mut told = Told {
            code: Code::Internal,
            reason: "INTERNAL",
            message: String::new(),
            violations: Vec::new(),
            info: HashMap::new(),
            retry_after: None,
            is_shed: false,
        };
        let (code, reason, message) = match self {
            Self::Invalid(violations) => {
                let mut message = String::new();
                for mut violation in violations.into_iter().take(MAX_VIOLATIONS) {
                    violation.description = cut(violation.description);
                    if !message.is_empty() {
                        message.push_str("; ");
                    }
                    message.push_str(&violation.field);
                    message.push_str(": ");
                    message.push_str(&violation.description);
                    told.violations.push(violation);
                }
                (Code::InvalidArgument, "INVALID_REQUEST", message)
            }
            Self::RevisionMismatch { expected, actual } => {
                let message = format!("policy revision is `{actual}`, not `{}`", cut(expected));
                told.info.insert("policy_revision".to_owned(), actual);
                (Code::FailedPrecondition, "REVISION_MISMATCH", message)
            }
            Self::TooLate => {
                let message = "less time was left on arrival than the answer needs for its way".to_owned();
                (Code::DeadlineExceeded, "DEADLINE_TOO_SHORT", message)
            }
            Self::TooSlow => {
                (Code::DeadlineExceeded, "REQUEST_TOO_SLOW", "the request did not arrive in time".to_owned())
            }
            Self::Shed => {
                told.retry_after = Some(Duration::from_millis(100));
                told.is_shed = true;
                (Code::ResourceExhausted, "OVERLOADED", "too many calls in flight, try again".to_owned())
            }
            // Not shed: whoever may fail open then must not get there by calling too often.
            Self::RateLimited { calls_per_second, retry_after } => {
                told.retry_after = Some(retry_after);
                told.info.insert("retry_after_ms".to_owned(), retry_after.as_millis().to_string());
                let message = format!("this tenant makes more than {calls_per_second} calls a second");
                (Code::ResourceExhausted, "RATE_LIMITED", message)
            }
            Self::TooLarge(limit) => {
                told.info.insert("limit_bytes".to_owned(), limit.to_string());
                (Code::ResourceExhausted, "TOO_LARGE", format!("the message is over the limit of {limit} bytes"))
            }
            Self::Stopping => (Code::Unavailable, "STOPPING", "the server is shutting down".to_owned()),
            Self::Unauthenticated(unproven) => (Code::Unauthenticated, unproven.reason(), unproven.to_string()),
            Self::NotPermitted(permission) => {
                told.info.insert("permission".to_owned(), permission.name().to_owned());
                let message = format!("the caller may not do this: no grant in `permissions` gives it `{permission}`");
                (Code::PermissionDenied, "NOT_PERMITTED", message)
            }
            Self::MissingLabel(lacking) => {
                told.info.insert("label".to_owned(), cut(lacking.label.to_string()));
                told.info.insert("tier".to_owned(), lacking.tier.to_string());
                told.info.insert("source".to_owned(), cut(lacking.source_path.display().to_string()));
                (Code::PermissionDenied, "MISSING_LABEL", cut_to(lacking.to_string(), 4 * MAX_TEXT_BYTES))
            }
            Self::Internal => (Code::Internal, "INTERNAL", "a fault in hookd, see its log".to_owned()),
        };
        Told { code, reason, message, ..told }
    }

    /// The status to send, for the decision of this id.
    #[must_use]
    pub fn into_status(self, decision_id: &str) -> Status {
        let told = self.told();
        let mut details = ErrorDetails::new();
        for violation in told.violations {
            details.add_bad_request_violation(violation.field, violation.description);
        }
        if told.is_shed {
            details.set_retry_info(told.retry_after);
        }
        details.set_error_info(told.reason, DOMAIN, told.info);
        let mut metadata = MetadataMap::new();
        if let Ok(id) = decision_id.parse() {
            metadata.insert(DECISION_ID, id);
        }
        Status::with_error_details_and_metadata(told.code, told.message, details, metadata)
    }
}

/// The finer kind of a status of hookd's own. Empty: it is another's.
#[must_use]
pub fn reason(status: &Status) -> String {
    status.get_details_error_info().filter(|info| info.domain == DOMAIN).map(|info| info.reason).unwrap_or_default()
}

fn cut(text: String) -> String {
    cut_to(text, MAX_TEXT_BYTES)
}

fn cut_to(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

impl From<Lacking> for NotJudged {
    fn from(lacking: Lacking) -> Self {
        Self::MissingLabel(lacking)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hookd_rules::Tier;

    use super::*;

    #[test]
    fn statuses_have_details_a_decision_id_and_stay_small() {
        let violation =
            Violation { field: "tool_call.params_json".to_owned(), description: "línea1\nlínea2 ".repeat(500) };
        let status = NotJudged::Invalid(vec![violation; 100]).into_status("the-id");
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.metadata().get(DECISION_ID).and_then(|id| id.to_str().ok()), Some("the-id"));
        assert!(status.details().len() < 4096, "{}", status.details().len());
        assert!(status.get_details_bad_request().is_some_and(|bad| bad.field_violations.len() == MAX_VIOLATIONS));
        assert_eq!(status.get_details_error_info().map(|info| info.domain), Some("hookd".to_owned()));
    }

    #[test]
    fn a_missing_label_is_named_with_the_source_that_needs_it() {
        let lacking =
            Lacking { label: "tenant".into(), tier: Tier::Team, source_path: Path::new("/etc/hookd/payments").into() };
        let status = NotJudged::from(lacking).into_status("the-id");
        let message =
            "the caller lacks the label `tenant`, which the selector of the team source /etc/hookd/payments needs";
        assert_eq!((status.code(), status.message()), (Code::PermissionDenied, message));
        let info = status.get_details_error_info().unwrap();
        let values = ["label", "tier", "source"].map(|key| info.metadata[key].as_str());
        assert_eq!((info.reason.as_str(), values), ("MISSING_LABEL", ["tenant", "team", "/etc/hookd/payments"]));

        let long = "x".repeat(100_000);
        let lacking = Lacking { label: long.as_str().into(), tier: Tier::Team, source_path: Path::new(&long).into() };
        let status = NotJudged::from(lacking).into_status("the-id");
        assert!(status.details().len() < 4096 && status.message().len() < 1024);
    }

    #[test]
    fn only_shed_calls_are_told_to_retry() {
        let retries = |not_judged: NotJudged| not_judged.into_status("x").get_details_retry_info().is_some();
        assert!(retries(NotJudged::Shed));
        let limited = NotJudged::RateLimited { calls_per_second: 1, retry_after: Duration::from_secs(1) };
        for other in [limited, NotJudged::TooLarge(4), NotJudged::TooLate, NotJudged::Stopping, NotJudged::Internal] {
            assert!(!retries(other));
        }
    }
}
