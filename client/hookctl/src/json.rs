//! What a machine sees: whole answers as JSON. Keys are the names of the proto, every one is there, and what is absent
//! is `null`. Enums are the lowercase words of rule files (a number that is not known stays one), times are RFC 3339,
//! durations are seconds with an `s`, and JSON texts are the JSON that they hold.

use hookd_client::proto::{
    Capability, Cause, ExplainResponse, Failure, GetStatusResponse, HookResult, ListRulesResponse, Note, Outcome,
    ReloadResponse, RewriteTarget, RuleSummary, SourceState, SourceStatus, Tier, TriggerResponse, Verdict,
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
    json!({
        "verdict": word(answer.verdict, Verdict::try_from(answer.verdict).ok().map(|it| it.as_str_name())),
        "reason": answer.reason,
        "modified_params_json": embedded(answer.modified_params_json.as_deref()),
        "modified_result_json": embedded(answer.modified_result_json.as_deref()),
        "additional_context": answer.additional_context.iter().map(note).collect::<Vec<_>>(),
        "system_messages": answer.system_messages.iter().map(note).collect::<Vec<_>>(),
        "halt": answer.halt,
        "halt_reason": answer.halt_reason,
        "results": answer.results.iter().map(result).collect::<Vec<_>>(),
        "rewrites": answer.rewrites.iter().map(|rewrite| json!({
            "rule_id": rewrite.rule_id,
            "tier": tier(rewrite.tier),
            "target": word(rewrite.target, RewriteTarget::try_from(rewrite.target).ok().map(|it| it.as_str_name())),
            "patch_json": embedded((!rewrite.patch_json.is_empty()).then_some(&rewrite.patch_json)),
            "recheck": rewrite.recheck,
        })).collect::<Vec<_>>(),
        "decided_by": answer.decided_by.as_ref().map(|by| json!({
            "cause": word(by.cause, Cause::try_from(by.cause).ok().map(|it| it.as_str_name())),
            "rule_id": by.rule_id,
            "tier": tier(by.tier),
            "source": by.source,
        })),
        "degraded": answer.degraded,
        "policy_revision": answer.policy_revision,
        "decision_id": answer.decision_id,
        "rules_considered": answer.rules_considered,
        "rules_matched": answer.rules_matched,
        "event_output_json": embedded(answer.event_output_json.as_deref()),
        "downgrades": answer.downgrades.iter().map(|downgrade| json!({
            "missing": word(downgrade.missing, Capability::try_from(downgrade.missing).ok().map(|it| it.as_str_name())),
            "from": word(downgrade.from, Verdict::try_from(downgrade.from).ok().map(|it| it.as_str_name())),
            "to": word(downgrade.to, Verdict::try_from(downgrade.to).ok().map(|it| it.as_str_name())),
        })).collect::<Vec<_>>(),
        "results_truncated": answer.results_truncated,
        "offered_revision": answer.offered_revision,
    })
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

fn result(result: &HookResult) -> Value {
    json!({
        "ok": result.ok,
        "output": result.output,
        "error": result.error,
        "modified_params_json": embedded(result.modified_params_json.as_deref()),
        "blocked": result.blocked,
        "block_reason": result.block_reason,
        "rule_id": result.rule_id,
        "tier": tier(result.tier),
        "source": result.source,
        "outcome": word(result.outcome, Outcome::try_from(result.outcome).ok().map(|it| it.as_str_name())),
        "failure": word(result.failure, Failure::try_from(result.failure).ok().map(|it| it.as_str_name())),
        "elapsed": result.elapsed.map(|elapsed| elapsed.to_string()),
        "exit_code": result.exit_code,
        "truncated": result.truncated,
        "shadow": result.shadow,
        "recheck": result.recheck,
        "signal": result.signal,
        "launch_suspect": result.launch_suspect,
        "retried": result.retried,
        "modified_result_json": embedded(result.modified_result_json.as_deref()),
        "reason": result.reason,
    })
}

fn note(note: &Note) -> Value {
    json!({ "text": note.text, "rule_id": note.rule_id, "tier": tier(note.tier) })
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
    })
}

fn tier(tier: i32) -> Value {
    word(tier, Tier::try_from(tier).ok().map(|it| it.as_str_name()))
}

/// The word of an enum value of the proto, `null` where it is unspecified, and the bare number where it has no name.
fn word(number: i32, name: Option<&str>) -> Value {
    let word = name.and_then(crate::render::word_of);
    match (number, word) {
        (0, _) => Value::Null,
        (_, Some(word)) => Value::String(word),
        (_, None) => number.into(),
    }
}

/// A JSON text as what it holds; as a string where it is not JSON.
fn embedded(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| hookd_json::parse(text).unwrap_or_else(|_| text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_with_their_digits_and_enums_are_words() {
        assert_eq!(hookd_json::to_text(&embedded(Some("{\"n\":9007199254740993}"))), "{\"n\":9007199254740993}");
        assert_eq!(embedded(Some("{")), Value::String("{".into()));
        assert_eq!(tier(Tier::Managed.into()), Value::String("managed".into()));
        assert_eq!((tier(0), tier(77)), (Value::Null, Value::from(77)));
        let text = line(&answer(&crate::render::sample::answer()));
        insta::assert_snapshot!(text);
    }
}
