use std::{sync::Arc, time::Duration};

use crate::model::{Failure, Outcome, Rule, RuleResult};

/// One rule's part in a decision, without its texts.
pub(super) struct Part {
    pub(super) rule: Arc<Rule>,
    pub(super) outcome: Outcome,
    pub(super) failure: Option<Failure>,
    pub(super) elapsed: Option<Duration>,
    pub(super) ended: Option<Duration>,
    pub(super) recheck: bool,
    pub(super) shadow: bool,
    pub(super) forgiven: bool,
}

impl Part {
    pub(super) fn of(result: &RuleResult) -> Self {
        Self {
            rule: Arc::clone(&result.rule),
            outcome: result.outcome,
            failure: result.ran.said.as_ref().err().map(|failed| failed.kind),
            elapsed: result.ran.elapsed,
            ended: result.ran.ended,
            recheck: result.recheck,
            shadow: result.is_shadow(),
            forgiven: result.is_forgiven(),
        }
    }
}
