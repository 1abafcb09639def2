//! The conductor: select, run, combine, under one budget and by one catalog.

mod budget;
mod chain;
mod side_by_side;

use std::sync::Arc;

use hookd_condition::Facts;
use hookd_rules::{Handler, Policy, Timing};

pub use budget::Budget;

use crate::{
    combine, condition,
    model::{Cause, DecidedBy, Decision, Failed, Failure, Outcome, Ran, Rule, RuleResult, Trigger},
    run::{Handlers, Job, Known},
    select::{self, Selected},
};

/// What the reference engine gives as the output of a rule that is not waited for.
pub const QUEUED_OUTPUT: &str = "(async, no wait)";

/// Parameters, result and payload of more bytes than this are long to look at.
const LONG_TEXTS: usize = 16 << 10;

/// Evaluates one event by what one catalog has for its caller (law 9) and decides.
pub async fn evaluate<H: Handlers>(handlers: &H, policy: &Policy, trigger: &Arc<Trigger>, budget: Budget) -> Decision {
    judge(handlers, policy, trigger, &select::select(policy, trigger), budget).await
}

/// What a caller brings along.
#[derive(Debug, Default)]
pub struct Brought {
    /// Its rules, in evaluation order. They stand after the server's own of their tier.
    pub rules: Vec<Arc<Rule>>,
    /// A rule that stands for each of its files that was not taken, and why. These failures are forgiven: what a caller
    /// does not bring at all cannot be missed either.
    pub refused: Vec<(Arc<Rule>, Failed)>,
}

/// As [`evaluate`], with what the caller brings along.
pub async fn evaluate_with_offered<H: Handlers>(
    handlers: &H,
    policy: &Policy,
    brought: Brought,
    trigger: &Arc<Trigger>,
    budget: Budget,
) -> Decision {
    let selected = select::select(policy, trigger).with_offered(&brought.rules, trigger);
    let mut decision = judge(handlers, policy, trigger, &selected, budget).await;
    for (rule, failed) in brought.refused {
        let is_before = |result: &RuleResult| !result.recheck && result.rule.tier >= rule.tier;
        let place = decision.results.iter().take_while(|result| is_before(result)).count();
        decision.degraded = true;
        decision.decided_by.get_or_insert_with(|| DecidedBy {
            cause: Cause::FailurePolicy,
            rule_id: Arc::clone(&rule.id),
            tier: Some(rule.tier),
            file: Some(Arc::clone(&rule.file)),
        });
        decision.results.insert(place, without_a_run(rule, failed));
    }
    decision
}

async fn judge<H: Handlers>(
    handlers: &H,
    policy: &Policy,
    trigger: &Arc<Trigger>,
    selected: &Selected,
    budget: Budget,
) -> Decision {
    if takes_long(trigger, selected.rules()) {
        // The first poll of a call is on the task of its connection, whose other calls would have to wait.
        tokio::task::yield_now().await;
    }
    let walked = chain::walk(handlers, policy, trigger, selected.rules(), budget).await;
    let unmatched = walked.unmatched;
    let mut decision = combine::decide(policy.catalog(), trigger, walked);
    decision.considered = selected.considered;
    decision.matched = selected.rules().len().saturating_sub(unmatched);
    queue_after_verdict(handlers, trigger, selected.rules(), &mut decision);
    decision
}

/// Whether evaluating may take more than some ten microseconds of the processor: starting a program does, and so do
/// expressions that are interpreted, rewrites, and long texts.
fn takes_long(trigger: &Trigger, rules: &[Arc<Rule>]) -> bool {
    let result = trigger.form.result.as_ref().map_or(0, |result| result.len());
    let bytes = [trigger.form.params.len(), result, trigger.payload.len()].into_iter().fold(0, usize::saturating_add);
    let is_long = |rule: &Arc<Rule>| {
        rule.permission.is_some()
            || rule.when.as_ref().is_some_and(|when| !when.is_native())
            || match &rule.handler {
                Handler::Command(_) => true,
                Handler::Http(_) => false,
                Handler::Decide(decide) => decide.rewrites(),
            }
    };
    bytes > LONG_TEXTS || rules.iter().any(is_long)
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
        match holds(rule, &mut condition::facts(trigger, &form)) {
            Ok(true) => {
                let job = Job { rule: Arc::clone(rule), trigger: Arc::clone(trigger), form, decision: Some(known) };
                decision.results.push(queue(handlers, job));
            }
            Ok(false) => decision.matched = decision.matched.saturating_sub(1),
            Err(failed) => decision.results.push(without_a_run(Arc::clone(rule), failed)),
        }
    }
}

/// Queues a handler that has no part in the verdict.
fn queue<H: Handlers>(handlers: &H, job: Job) -> RuleResult {
    let rule = Arc::clone(&job.rule);
    match handlers.queue(job) {
        Ok(()) => {
            let ran = Ran { output: Some(QUEUED_OUTPUT.to_owned()), ..Ran::said(Ok(Arc::default())) };
            RuleResult { rule, outcome: Outcome::Queued, ran, recheck: false, blocked: None }
        }
        Err(failed) => without_a_run(rule, failed),
    }
}

/// The failure of a rule that has no part in the verdict and did not run.
fn without_a_run(rule: Arc<Rule>, failed: Failed) -> RuleResult {
    RuleResult { rule, outcome: Outcome::Failed, ran: Ran::said(Err(failed)), recheck: false, blocked: None }
}

/// Whether the conditions of `rule` hold. That one has no value is a failure, never false.
fn holds(rule: &Rule, facts: &mut Facts<'_>) -> Result<bool, Failed> {
    if let Some(permission) = &rule.permission
        && !permission.runs(facts, condition::settings_root(rule, facts.call().cwd))
    {
        return Ok(false);
    }
    let Some(when) = &rule.when else { return Ok(true) };
    when.evaluate(facts).map_err(|error| Failed::new(Failure::Expression, format!("`when` failed: {error}")))
}

#[cfg(test)]
mod tests;
