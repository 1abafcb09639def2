//! What a subcommand ends with.

use std::io;

use hookd_client::CallError;

/// Nothing stands against it: none or allow.
pub(crate) const OK: u8 = 0;
/// hookd could not be asked; or what was checked is not in order.
pub(crate) const FAILED: u8 = 1;
/// Blocked or halted.
pub(crate) const BLOCKED: u8 = 2;
/// A person or someone outside has to decide: ask or defer.
pub(crate) const UNDECIDED: u8 = 3;
/// Wrong usage.
pub(crate) const USAGE: u8 = 64;

/// Parts of what the client says where somebody is there: to start `hookd` would not help.
const ANSWERED: [&str; 3] = ["it speaks TLS", "does not speak HTTP/2", "permission denied"];

/// Something to print on standard output.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) exit: u8,
}

/// Something to print on standard error, in one line.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) exit: u8,
}

/// What the system says, in lowercase and without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

impl Report {
    pub(crate) fn ok(text: String) -> Self {
        Self { text, exit: OK }
    }
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: USAGE }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: FAILED }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let mut message = error.to_string();
        let is_away = error.code == Some(hookd_client::Code::Unavailable) && error.decision_id.is_none();
        if is_away && !ANSWERED.iter().any(|part| message.contains(part)) {
            message.push_str("; start `hookd`, or say where it listens with `--address` or HOOKD_ADDRESS");
        }
        Self { message, exit: FAILED }
    }
}
