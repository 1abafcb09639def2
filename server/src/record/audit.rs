use std::time::Duration;

use tracing::info;

use crate::model::{Cause, Decision, RuleResult, Trigger};

/// One line for a decision. Names only: no parameters, no outputs, no reasons.
pub(super) fn log(trigger: &Trigger, decision: &Decision, took: Duration) {
    let by = decision.decided_by.as_ref();
    info!(
        event = &*trigger.event_name,
        tool = trigger.tool_call.as_ref().map(|call| call.tool.as_str()),
        session = some(&trigger.session_id),
        verdict = decision.verdict.name(),
        halt = decision.halt.is_some().then_some(true),
        rule = by.and_then(|by| some(&by.rule_id)),
        tier = by.and_then(|by| by.tier).map(|tier| tier.name()),
        cause = by.map(|by| cause(by.cause)),
        revision = &*decision.revision,
        considered = decision.considered,
        matched = decision.matched,
        rewrites = Some(decision.rewrites.len()).filter(|count| *count > 0),
        degraded = decision.degraded,
        forgiven = listed(decision, RuleResult::is_forgiven).as_deref(),
        shadow = listed(decision, RuleResult::is_shadow).as_deref(),
        decision_id = trigger.decision_id,
        request_id = some(&trigger.request_id),
        trace_id = trigger.traceparent.split('-').nth(1),
        ms = (took.as_secs_f64() * 1e6).round() / 1e3,
        "decided",
    );
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// `tier/rule: what` for each of the results that are `wanted`. `None`: there are none.
fn listed(decision: &Decision, wanted: impl Fn(&RuleResult) -> bool) -> Option<String> {
    let mut text = String::new();
    for result in decision.results.iter().filter(|result| wanted(result)) {
        let what = result.ran.said.as_ref().map_or_else(|failed| failed.kind.name(), |_| result.outcome.name());
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&format!("{}/{}: {what}", result.rule.tier, result.rule.id));
    }
    Some(text).filter(|text| !text.is_empty())
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Rule => "rule",
        Cause::FailurePolicy => "failure_policy",
        Cause::Default => "default",
        Cause::Capability => "capability",
    }
}
