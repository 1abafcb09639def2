//! What a machine sees: whole answers as JSON. Keys are the names of the proto, every one is there, and what is absent
//! is `null`. Enums are the lowercase words of rule files (a number that is not known stays one), times are RFC 3339,
//! durations are seconds with an `s`, and JSON texts are the JSON that they hold.

use hookd_agents::plain::{Names, tier, word};
use hookd_client::proto::{
    ExplainResponse, GetStatusResponse, ListRulesResponse, ReloadResponse, RuleSummary, SourceState, SourceStatus,
    TriggerResponse,
};
use hookd_json::Value;
use serde_json::json;

/// `value` on one line, with the line break.
pub(crate) fn line(value: &Value) -> String {
    let mut line = hookd_json::to_text(value);
    line.push('\n');
    line
}

pub(crate) fn answer(answer: &TriggerResponse) -> Value {
    hookd_agents::plain::answer(answer, Names::Proto)
}

pub(crate) fn rules(answer: &ListRulesResponse) -> Value {
    json!({
        "rules": answer.rules.iter().map(summary).collect::<Vec<_>>(),
        "policy_revision": answer.policy_revision,
    })
}

pub(crate) fn explanation(answer: &ExplainResponse) -> Value {
    json!({
        "rules": answer.rules.iter().map(|explained| json!({
            "rule": explained.rule.as_ref().map(summary),
            "would_run": explained.would_run,
            "because": explained.because,
        })).collect::<Vec<_>>(),
        "policy_revision": answer.policy_revision,
        "block_means": answer.block_means,
        "refused": answer.refused,
    })
}

pub(crate) fn status(answer: &GetStatusResponse) -> Value {
    json!({
        "version": answer.version,
        "policy_revision": answer.policy_revision,
        "started_at": answer.started_at.map(|time| time.to_string()),
        "loaded_at": answer.loaded_at.map(|time| time.to_string()),
        "sources": answer.sources.iter().map(source).collect::<Vec<_>>(),
        "rules": answer.rules,
        "waiting_for": answer.waiting_for,
        "warnings": answer.warnings,
        "tiers": answer.tiers.iter().map(|status| json!({
            "tier": tier(status.tier),
            "enforced": status.enforced,
            "shadow": status.shadow,
            "shadow_by_settings": status.shadow_by_settings,
        })).collect::<Vec<_>>(),
    })
}

pub(crate) fn reload(answer: &ReloadResponse) -> Value {
    json!({
        "policy_revision": answer.policy_revision,
        "changed": answer.changed,
        "ok": answer.ok,
        "sources": answer.sources.iter().map(source).collect::<Vec<_>>(),
        "warnings": answer.warnings,
    })
}

fn summary(rule: &RuleSummary) -> Value {
    json!({
        "rule_id": rule.rule_id,
        "tier": tier(rule.tier),
        "source": rule.source,
        "events": rule.events,
        "matcher": rule.matcher,
        "handler": rule.handler,
        "async": rule.r#async,
        "shadow": rule.shadow,
        "final": rule.r#final,
        "must_decide": rule.must_decide,
        "concurrent": rule.concurrent,
        "when": rule.when,
        "if": rule.permission,
        "selector": rule.selector,
        "missing_label": rule.missing_label,
        "failure_blocks": rule.failure_blocks,
        "description": rule.description,
        "line": rule.line,
    })
}

fn source(source: &SourceStatus) -> Value {
    json!({
        "tier": tier(source.tier),
        "path": source.path,
        "state": word(source.state, SourceState::try_from(source.state).ok().map(|it| it.as_str_name())),
        "rules": source.rules,
        "errors": source.errors,
        "selector": source.selector,
    })
}

#[cfg(test)]
mod tests {
    use hookd_client::proto::Tier;

    use super::*;

    #[test]
    fn texts_are_parsed_with_their_digits_and_enums_are_words() {
        assert_eq!(tier(Tier::Managed.into()), Value::String("managed".into()));
        assert_eq!((tier(0), tier(77)), (Value::Null, Value::from(77)));
        let text = line(&answer(&crate::render::sample::answer()));
        insta::assert_snapshot!(text);
    }
}
