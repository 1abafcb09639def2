use std::{sync::Arc, time::Duration};

use hookd_rules::Mode;

use crate::model::{Failure, Outcome, Ran, Rule, RuleResult};

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
    /// That of a handler in the background, which has none in the decision.
    pub(super) fn in_background(rule: &Arc<Rule>, ran: &Ran) -> Self {
        let outcome = match &ran.said {
            Ok(answer) => Outcome::Gave(answer.verdict),
            Err(_) => Outcome::Failed,
        };
        Self {
            rule: Arc::clone(rule),
            outcome,
            failure: ran.said.as_ref().err().map(|failed| failed.kind),
            elapsed: ran.elapsed,
            ended: None,
            recheck: false,
            shadow: rule.mode == Mode::Shadow,
            forgiven: false,
        }
    }

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
