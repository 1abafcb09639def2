use std::{sync::Arc, time::Duration};

use hookd_rules::{Answer, Mode, Rule, Verdict};

use super::Failed;

/// What one run of a handler gave, before it is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// What it says, or why it says nothing usable.
    pub said: Result<Arc<Answer>, Failed>,
    /// Its output as text. `None`: it has none (`decide`), or gave none.
    pub output: Option<String>,
    /// How long it ran, without the wait for a free place. `None`: it was not started.
    pub elapsed: Option<Duration>,
    /// When it ended, counted from the arrival of the call. `None`: it ran in this process, or not at all.
    pub ended: Option<Duration>,
    /// Exit code of the program.
    pub exit_code: Option<i32>,
    /// Signal that ended the program.
    pub signal: Option<i32>,
    /// Status of the http answer, where it was refused for that.
    pub http_status: Option<u16>,
    /// The output was cut at the limit.
    pub truncated: bool,
    /// The http request was sent a second time, on a fresh connection.
    pub retried: bool,
    /// The program ended like one that could not be launched: what it was to run is missing, or cannot be parsed.
    pub looks_unlaunched: bool,
    /// What kept it from running is what the caller says: the directory that it works in, what it does not say of itself, or
    /// what its calls have done to the workers.
    pub kept_by_caller: bool,
    /// What of its output was not taken for an answer although it looks like one. Empty: nothing.
    pub dropped: String,
}

impl Ran {
    /// A run that says this, and of which there is nothing else to tell.
    #[must_use]
    pub fn said(said: Result<Arc<Answer>, Failed>) -> Self {
        Self {
            said,
            output: None,
            elapsed: None,
            ended: None,
            exit_code: None,
            signal: None,
            http_status: None,
            truncated: false,
            retried: false,
            looks_unlaunched: false,
            kept_by_caller: false,
            dropped: String::new(),
        }
    }

    /// It looks like a program that could not be launched rather than a deliberate answer.
    #[must_use]
    pub fn launch_suspect(&self) -> bool {
        self.looks_unlaunched || self.said.as_ref().is_err_and(|failed| failed.kind == super::Failure::DidNotStart)
    }
}

/// What a rule's turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It gave this; [`Verdict::None`] is no opinion.
    Gave(Verdict),
    /// It gave nothing usable.
    Failed,
    /// It runs in the background.
    Queued,
}

/// One rule's part in a decision.
#[derive(Debug, Clone)]
pub struct RuleResult {
    /// The rule.
    pub rule: Arc<Rule>,
    /// What its turn came to. For a shadow rule: what it would have come to.
    pub outcome: Outcome,
    /// The run itself.
    pub ran: Ran,
    /// From the extra pass (law 5).
    pub recheck: bool,
    /// It blocked, for this reason; an unforgiven failure blocks too.
    pub blocked: Option<String>,
}

impl RuleResult {
    /// It was evaluated and recorded only (law 6).
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.rule.mode == Mode::Shadow
    }

    /// It should have had a say, failed, and was forgiven (law 7).
    #[must_use]
    pub fn is_forgiven(&self) -> bool {
        self.outcome == Outcome::Failed && self.rule.decides() && self.blocked.is_none()
    }

    /// It failed, and blocked by that (law 7).
    #[must_use]
    pub fn is_unforgiven(&self) -> bool {
        self.outcome == Outcome::Failed && self.blocked.is_some()
    }
}

impl Outcome {
    /// The name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gave(verdict) => verdict.name(),
            Self::Failed => "failed",
            Self::Queued => "queued",
        }
    }
}
