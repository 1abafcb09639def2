//! Runs handlers: programs, http calls and answers in process. Knows the protocol of design §5 and the laws that
//! bound a run; what an answer means for the verdict is decided elsewhere.

use std::{future::Future, sync::Arc, time::Duration};

use crate::model::{Failed, Form, Ran, Rule, Tier, Trigger, Verdict};

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
