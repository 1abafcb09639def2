//! The conductor: select, run, combine, under one budget and by one catalog.

mod budget;
mod chain;
mod side_by_side;

use std::sync::Arc;

use hookd_rules::{Catalog, Timing};

pub use budget::Budget;

use crate::{
    combine,
    model::{Decision, Outcome, Ran, Rule, RuleResult, Trigger},
    run::{Handlers, Job, Known},
    select,
};

/// What the reference engine gives as the output of a rule that is not waited for.
pub const QUEUED_OUTPUT: &str = "(async, no wait)";

/// Evaluates one event by one catalog (law 9) and decides.
pub async fn evaluate<H: Handlers>(
    handlers: &H,
    catalog: &Catalog,
    trigger: &Arc<Trigger>,
    budget: Budget,
) -> Decision {
    let selected = select::select(catalog, trigger);
    let walked = chain::walk(handlers, catalog, trigger, selected.rules(), budget).await;
    let mut decision = combine::decide(catalog, trigger, walked);
    decision.considered = selected.considered;
    decision.matched = selected.rules().len();
    queue_after_verdict(handlers, trigger, selected.rules(), &mut decision);
    decision
}

/// Queues the rules whose `onVerdict` names the verdict (law 6). They observe: neither a block before their turn nor
/// `final` keeps them from it.
fn queue_after_verdict<H: Handlers>(
    handlers: &H,
    trigger: &Arc<Trigger>,
    rules: &[Arc<Rule>],
    decision: &mut Decision,
) {
    for rule in rules {
        let Timing::AfterVerdict(verdicts) = &rule.timing else { continue };
        if !verdicts.contains(&decision.verdict) {
            continue;
        }
        let known = Known {
            verdict: decision.verdict,
            reason: decision.reason.clone(),
            rule_id: decision.decided_by.as_ref().map_or_else(|| Arc::from(""), |by| Arc::clone(&by.rule_id)),
            tier: decision.decided_by.as_ref().and_then(|by| by.tier),
        };
        let mut form = trigger.form.clone();
        if let Some(params) = &decision.modified_params {
            form.params = Arc::clone(params);
        }
        if let Some(result) = &decision.modified_result {
            form.result = Some(Arc::clone(result));
        }
        let job = Job { rule: Arc::clone(rule), trigger: Arc::clone(trigger), form, decision: Some(known) };
        decision.results.push(queue(handlers, job));
    }
}

/// Queues a handler that has no part in the verdict.
fn queue<H: Handlers>(handlers: &H, job: Job) -> RuleResult {
    let rule = Arc::clone(&job.rule);
    let (outcome, ran) = match handlers.queue(job) {
        Ok(()) => (Outcome::Queued, Ran { output: Some(QUEUED_OUTPUT.to_owned()), ..Ran::said(Ok(Arc::default())) }),
        Err(failed) => (Outcome::Failed, Ran::said(Err(failed))),
    };
    RuleResult { rule, outcome, ran, recheck: false, blocked: None }
}

#[cfg(test)]
mod tests;
