//! Why hookd gave no answer that can be carried out.

use std::{error::Error, time::Duration};

use tonic::{Code, Status, metadata::MetadataMap};
use tonic_types::StatusExt as _;

use crate::{dial::DialError, one_line::one_line, transport::NotUnderstood};

/// Metadata that every status of hookd itself carries; a status without it comes from the transport.
const DECISION_ID: &str = "hookd-decision-id";

/// Why a call gave no usable answer. Its text is one line for a person: lowercase, no full stop, with the address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What went wrong.
    pub kind: CallErrorKind,
    /// The gRPC status code. `None`: the call ended before there was one.
    pub code: Option<Code>,
    /// hookd's id of this decision, to be found in its logs. `None`: hookd itself did not answer.
    pub decision_id: Option<String>,
    /// What happened, in one line.
    pub message: String,
}

/// What went wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// Nobody answered: no connection, a connection that broke, or a hookd that shuts down (`UNAVAILABLE`).
    Unavailable,
    /// No answer came in time.
    DeadlineExceeded,
    /// hookd had a fault of its own (`INTERNAL`).
    Internal,
    /// hookd has too many calls in flight and did not take this one.
    Shed {
        /// When it may be worth another try.
        retry_after: Duration,
    },
    /// The call itself is at fault: too large, invalid, unauthenticated, denied, not implemented, another revision.
    Refused,
    /// The two ends do not trust each other, so hookd was not asked: its certificate has expired, is by an unknown CA, or
    /// is for another name; it does not take this client's; or a file of the
    /// [credentials](crate::Credentials) cannot be used.
    NotTrusted,
    /// There is an answer, but it is not understood or cannot be carried out.
    NotUnderstood,
}

impl CallErrorKind {
    /// Whether [`OnUnavailable`](crate::OnUnavailable) says what happens. Otherwise it is a block where the event can
    /// block, so that a padded or broken call does not buy an allow.
    #[must_use]
    pub fn is_unavailable(self) -> bool {
        match self {
            Self::Unavailable | Self::DeadlineExceeded | Self::Internal | Self::Shed { .. } => true,
            Self::Refused | Self::NotTrusted | Self::NotUnderstood => false,
        }
    }
}

impl CallError {
    /// An answer that cannot be carried out.
    pub(crate) fn not_understood(message: impl Into<String>) -> Self {
        let message = format!("the answer of hookd cannot be carried out: {}", message.into());
        Self { kind: CallErrorKind::NotUnderstood, code: None, decision_id: None, message }
    }

    /// A request that is not even sent.
    pub(crate) fn too_large(bytes: usize, limit: usize) -> Self {
        let message = format!("the call has {bytes} bytes, the limit is {limit}");
        Self { kind: CallErrorKind::Refused, code: Some(Code::ResourceExhausted), decision_id: None, message }
    }

    /// There is no connection to `at`.
    pub(crate) fn of_dial(error: &DialError, at: &str) -> Self {
        match error {
            DialError::NotTrusted(why) => Self::not_trusted(why, at),
            DialError::Unreachable(why) => {
                let message = format!("hookd cannot be reached at {at}: {why}");
                Self { kind: CallErrorKind::Unavailable, code: Some(Code::Unavailable), decision_id: None, message }
            }
        }
    }

    /// Nothing is said to `at`.
    pub(crate) fn not_trusted(why: &str, at: &str) -> Self {
        let message = format!("hookd at {at} is not asked: {why}");
        Self { kind: CallErrorKind::NotTrusted, code: None, decision_id: None, message }
    }

    /// No answer in time; `last` is what the last finished attempt met.
    pub(crate) fn deadline(at: &str, granted: Duration, last: Option<&Self>) -> Self {
        let mut message = format!("hookd at {at} gave no answer within {granted:?}");
        if let Some(last) = last {
            message.push_str(": ");
            message.push_str(&last.message);
        }
        Self { kind: CallErrorKind::DeadlineExceeded, code: Some(Code::DeadlineExceeded), decision_id: None, message }
    }

    /// What `status` means; `headers` came before it, and `at` is the address.
    pub(crate) fn of_status(status: &Status, headers: &MetadataMap, at: &str) -> Self {
        let id = status.metadata().get(DECISION_ID).or_else(|| headers.get(DECISION_ID));
        let decision_id = id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        let of_hookd = decision_id.is_some();
        let kind = match status.code() {
            _ if source::<NotUnderstood>(status).is_some() => CallErrorKind::NotUnderstood,
            Code::DeadlineExceeded => CallErrorKind::DeadlineExceeded,
            Code::Unavailable => CallErrorKind::Unavailable,
            // What the transport makes of a connection that closes under a call.
            Code::Internal | Code::Cancelled | Code::Unknown if !of_hookd => CallErrorKind::Unavailable,
            Code::Internal => CallErrorKind::Internal,
            Code::ResourceExhausted => match status.get_details_retry_info() {
                Some(info) => CallErrorKind::Shed { retry_after: info.retry_delay.unwrap_or_default() },
                None => CallErrorKind::Refused,
            },
            _ => CallErrorKind::Refused,
        };
        let code = code_name(status.code());
        let said = one_line(status.message());
        let message = match kind {
            CallErrorKind::Unavailable if of_hookd => format!("hookd at {at} is not available: {said}"),
            CallErrorKind::Unavailable => format!("hookd cannot be reached at {at}: {}", root_cause(status)),
            CallErrorKind::DeadlineExceeded => format!("hookd at {at} gave no answer in time: {said}"),
            CallErrorKind::Internal => format!("hookd at {at} failed: {said}"),
            CallErrorKind::Shed { .. } => format!("hookd at {at} has too many calls: {said}"),
            CallErrorKind::Refused | CallErrorKind::NotTrusted => {
                format!("hookd at {at} refused the call: {said} ({code})")
            }
            CallErrorKind::NotUnderstood => format!("the answer of hookd at {at} is not understood: {said}"),
        };
        Self { kind, code: Some(status.code()), decision_id, message }
    }
}

fn source<E: Error + 'static>(status: &Status) -> Option<&E> {
    causes(status).find_map(|error| error.downcast_ref())
}

/// The innermost error, which says the most (`connection refused` rather than `transport error`).
fn root_cause(status: &Status) -> String {
    one_line(&causes(status).last().map_or_else(|| status.message().to_owned(), ToString::to_string))
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let mut next = status.source();
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
