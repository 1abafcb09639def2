use std::time::Duration;

use crate::{
    model::{Cause, Decision, RuleResult, Trigger},
    telemetry::Field::{self, Count, Flag, Millis, Text},
};

/// What is logged of a decision. Names only: no parameters, no outputs, no reasons.
pub(super) fn fields(
    trigger: &Trigger,
    decision: &Decision,
    took: Duration,
    put: &mut dyn FnMut(&'static str, Field<'_>),
) {
    let by = decision.decided_by.as_ref();
    let (failed, forgiven) = (listed(decision, RuleResult::is_unforgiven), listed(decision, RuleResult::is_forgiven));
    let shadow = listed(decision, RuleResult::is_shadow);
    let mut text = |name, text: &str| {
        if !text.is_empty() {
            put(name, Text(text));
        }
    };
    text("event", &trigger.event_name);
    text("tool", trigger.tool_call.as_ref().map_or("", |call| &call.tool));
    text("session", &trigger.session_id);
    text("verdict", decision.verdict.name());
    text("rule", by.map_or("", |by| &by.rule_id));
    text("tier", by.and_then(|by| by.tier).map_or("", |tier| tier.name()));
    text("cause", by.map_or("", |by| cause(by.cause)));
    text("revision", &decision.revision);
    text("failed", &failed);
    text("forgiven", &forgiven);
    text("shadow", &shadow);
    text("decision_id", &trigger.decision_id);
    text("request_id", &trigger.request_id);
    text("trace_id", trigger.traceparent.split('-').nth(1).unwrap_or_default());
    put("considered", Count(decision.considered));
    put("matched", Count(decision.matched));
    put("degraded", Flag(decision.degraded));
    if decision.halt.is_some() {
        put("halt", Flag(true));
    }
    if !decision.rewrites.is_empty() {
        put("rewrites", Count(decision.rewrites.len()));
    }
    put("ms", Millis((took.as_secs_f64() * 1e6).round() / 1e3));
}

/// `tier/rule: what` for each of the results that are `wanted`. Empty: there are none.
fn listed(decision: &Decision, wanted: impl Fn(&RuleResult) -> bool) -> String {
    let mut text = String::new();
    for result in decision.results.iter().filter(|result| wanted(result)) {
        let what = result.ran.said.as_ref().map_or_else(|failed| failed.kind.name(), |_| result.outcome.name());
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&format!("{}/{}: {what}", result.rule.tier, result.rule.id));
    }
    text
}

pub(super) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Rule => "rule",
        Cause::FailurePolicy => "failure_policy",
        Cause::Default => "default",
        Cause::Capability => "capability",
    }
}
