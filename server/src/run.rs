//! Runs handlers: programs, http calls and answers in process. Knows what handlers read and answer
//! (`deploy/docs/rules.md`), and the laws that bound a run; what an answer means for the verdict is decided elsewhere.

mod bulkheads;
mod claude;
mod command;
mod decide;
mod holding;
mod http;
pub mod input;
mod launch;
pub mod output;
mod pool;
pub mod remote;
#[cfg(test)]
mod testing;

use std::{future::Future, sync::Arc, time::Duration};

pub use bulkheads::{BreakerSettings, BulkheadSettings, OneEach, Slot, Slots};
pub use decide::decide;
pub use holding::{Holding, HoldingError};
pub use http::{HttpError, check_authorities};
pub use pool::{Pool, PoolError, PoolSettings};

use crate::model::{Failed, Failure, Form, Ran, Rule, Tier, Trigger, Verdict};

/// Whatever can run the handler of a rule.
pub trait Handlers: Send + Sync + 'static {
    /// Runs the rule's handler and gives what it said within `call.granted`. Dropping the future kills what runs.
    fn run(&self, call: Call<'_>) -> impl Future<Output = Ran> + Send;

    /// Starts the rule's handler in the background (law 6). Its end is logged and counted and has no part in the
    /// answer.
    ///
    /// # Errors
    /// [`Failed`] where no place is free, or the server shuts down.
    fn queue(&self, job: Job) -> Result<(), Failed>;
}

/// One run whose answer is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// The event.
    pub trigger: &'a Arc<Trigger>,
    /// The form at the rule's turn.
    pub form: &'a Form,
    /// It is the extra pass (law 5).
    pub recheck: bool,
    /// The time it is granted: its own timeout or what is left of the budget (law 8). Not zero.
    pub granted: Duration,
}

/// One run in the background.
#[derive(Debug, Clone)]
pub struct Job {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The event.
    pub trigger: Arc<Trigger>,
    /// The form at the rule's turn.
    pub form: Form,
    /// The decision, for a rule that is queued after it is known.
    pub decision: Option<Known>,
}

/// A decision as a handler in the background sees it.
#[derive(Debug, Clone)]
pub struct Known {
    /// The verdict.
    pub verdict: Verdict,
    /// Why. Empty: no reason was given.
    pub reason: String,
    /// The rule that decided. Empty: none.
    pub rule_id: Arc<str>,
    /// The tier that decided.
    pub tier: Option<Tier>,
}

/// The failure of what the server's shutdown ended or did not let begin.
fn cancelled() -> Failed {
    Failed::new(Failure::Cancelled, "the server shuts down")
}

/// The beginning of `text`, at most `bytes` long, with a mark where something was cut off.
fn cut(text: &str, bytes: usize) -> String {
    match text.get(..text.floor_char_boundary(bytes)) {
        Some(head) if head.len() < text.len() => format!("{head}…"),
        _ => text.to_owned(),
    }
}
