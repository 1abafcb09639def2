use std::{fmt, time::Duration};

/// Why a handler gave nothing usable (`deploy/docs/rules.md`, "When something fails").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The program could not be started, or its directory or input is missing.
    DidNotStart,
    /// It did not answer in the time that it was granted.
    TimedOut,
    /// The program was ended by a signal that hookd did not send.
    Killed,
    /// The program exited with another code than 0.
    Exited,
    /// Its answer could not be understood, or held no decision where one is required.
    BadOutput,
    /// Its answer was over the limit, or its input over that of a message to the caller.
    TooLarge,
    /// The connection could not be made, or broke.
    Connection,
    /// The http answer's status was not 2xx.
    HttpStatus,
    /// An expression failed at run time.
    Expression,
    /// No place was free to run it.
    Overloaded,
    /// It was cancelled because the server shuts down.
    Cancelled,
    /// It may not do what it is there for.
    NotPermitted,
    /// Whoever would have to run it cannot.
    Unsupported,
    /// The caller, whose command it is, asks or answers no more.
    CallerGone,
    /// A fault in hookd itself.
    Internal,
}

impl Failure {
    /// The name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DidNotStart => "did_not_start",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
            Self::Exited => "exited",
            Self::BadOutput => "bad_output",
            Self::TooLarge => "too_large",
            Self::Connection => "connection",
            Self::HttpStatus => "http_status",
            Self::Expression => "expression",
            Self::Overloaded => "overloaded",
            Self::Cancelled => "cancelled",
            Self::NotPermitted => "not_permitted",
            Self::Unsupported => "unsupported",
            Self::CallerGone => "caller_gone",
            Self::Internal => "internal",
        }
    }
}

/// A failure with what to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its kind.
    pub kind: Failure,
    /// What went wrong, for a person. Not empty.
    pub message: String,
}

impl Failed {
    /// A failure of this kind.
    pub fn new(kind: Failure, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A handler that did not answer in the time that it was granted.
    #[must_use]
    pub fn timed_out(granted: Duration) -> Self {
        Self::new(Failure::TimedOut, format!("Timed out after {}ms", granted.as_millis()))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
