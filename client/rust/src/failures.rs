//! What the attempts of one call met.

use std::time::Duration;

use crate::{CallError, CallErrorKind};

/// What the attempts of one call met, for the error where none of them was answered.
#[derive(Default)]
pub(crate) struct Failures {
    /// The last of those after which nobody knows whether hookd would let the call be.
    last: Option<CallError>,
    /// The last where the two ends do not trust each other. It counts more: what blocks must not turn into what
    /// [`OnUnavailable`](crate::OnUnavailable) lets go by another replica being away.
    untrusted: Option<CallError>,
}

impl Failures {
    pub(crate) fn add(&mut self, error: CallError) {
        let place = if error.kind == CallErrorKind::NotTrusted { &mut self.untrusted } else { &mut self.last };
        *place = Some(error);
    }

    /// One more round can have another end: somebody was away, who may be back.
    pub(crate) fn may_pass(&self) -> bool {
        self.last.is_some()
    }

    fn most(self) -> Option<CallError> {
        self.untrusted.or(self.last)
    }

    /// There is no time left.
    pub(crate) fn late(self, at: &str, granted: Duration) -> CallError {
        let last = self.most();
        let late = CallError::deadline(at, granted, last.as_ref());
        match last {
            Some(CallError { kind: CallErrorKind::NotTrusted, code, .. }) => {
                CallError { kind: CallErrorKind::NotTrusted, code, ..late }
            }
            _ => late,
        }
    }

    /// All attempts are made, at all of `tried`.
    pub(crate) fn unanswered(self, granted: Duration, tried: &[String]) -> CallError {
        let mut error = self.most().unwrap_or_else(|| CallError::deadline("any address", granted, None));
        if tried.len() > 1 {
            error.message.push_str(&format!("; tried {}", tried.join(", ")));
        }
        error
    }
}
