use std::sync::Arc;

use super::output::{self, Expect};
use crate::model::{Answer, Ran, Rule, Trigger, Verdict};

/// Answers a `decide` rule in process: no I/O, no budget.
#[must_use]
pub fn decide(rule: &Rule, trigger: &Trigger, answer: &Arc<Answer>) -> Ran {
    let decides = answer.verdict != Verdict::None;
    Ran::said(output::check(answer, decides, &Expect::of(rule, trigger)).map(|()| Arc::clone(answer)))
}
