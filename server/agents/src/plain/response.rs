use hookd_json::Value;

use crate::v1::{Capability, Cause, Failure, HookResult, Note, Outcome, RewriteTarget, Tier, TriggerResponse, Verdict};

/// How the keys of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As in the proto: `modified_params_json`.
    Proto,
    /// As in the reference engine: `modifiedParams`. The proto's names in camelCase, without the `_json` of those that
    /// hold a text there, since here they hold what the text says.
    Camel,
}

impl Names {
    /// The key for a name of the proto, which may be a path with dots.
    #[must_use]
    pub fn of(self, name: &str) -> String {
        match self {
            Self::Proto => name.to_owned(),
            Self::Camel => {
                let mut key = String::new();
                let mut raised = false;
                for c in name.strip_suffix("_json").unwrap_or(name).chars() {
                    match c {
                        '_' => raised = true,
                        _ if raised => {
                            key.push(c.to_ascii_uppercase());
                            raised = false;
                        }
                        _ => key.push(c),
                    }
                }
                key
            }
        }
    }

    fn object<const FIELDS: usize>(self, fields: [(&str, Value); FIELDS]) -> Value {
        Value::Object(fields.into_iter().map(|(name, value)| (self.of(name), value)).collect())
    }
}

/// The whole answer. Every key is there, and what is absent is `null`. Enums are the lowercase words of rule files (a
/// number that is not known stays one), durations are seconds with an `s`, and JSON texts are the JSON that they hold.
#[must_use]
pub fn answer(answer: &TriggerResponse, names: Names) -> Value {
    let notes = |notes: &[Note]| notes.iter().map(|note| self::note(note, names)).collect::<Value>();
    let rewrites = answer.rewrites.iter().map(|rewrite| {
        let target = RewriteTarget::try_from(rewrite.target).ok().map(|target| target.as_str_name());
        names.object([
            ("rule_id", rewrite.rule_id.as_str().into()),
            ("tier", tier(rewrite.tier)),
            ("target", word(rewrite.target, target)),
            ("patch_json", embedded((!rewrite.patch_json.is_empty()).then_some(&rewrite.patch_json))),
            ("recheck", rewrite.recheck.into()),
        ])
    });
    let decided_by = answer.decided_by.as_ref().map(|by| {
        names.object([
            ("cause", word(by.cause, Cause::try_from(by.cause).ok().map(|cause| cause.as_str_name()))),
            ("rule_id", by.rule_id.as_str().into()),
            ("tier", tier(by.tier)),
            ("source", by.source.as_str().into()),
        ])
    });
    let downgrades = answer.downgrades.iter().map(|downgrade| {
        let missing = Capability::try_from(downgrade.missing).ok().map(|missing| missing.as_str_name());
        names.object([
            ("missing", word(downgrade.missing, missing)),
            ("from", verdict(downgrade.from)),
            ("to", verdict(downgrade.to)),
        ])
    });
    names.object([
        ("verdict", verdict(answer.verdict)),
        ("reason", answer.reason.as_str().into()),
        ("modified_params_json", embedded(answer.modified_params_json.as_deref())),
        ("modified_result_json", embedded(answer.modified_result_json.as_deref())),
        ("additional_context", notes(&answer.additional_context)),
        ("system_messages", notes(&answer.system_messages)),
        ("halt", answer.halt.into()),
        ("halt_reason", answer.halt_reason.as_str().into()),
        ("results", answer.results.iter().map(|one| result(one, names)).collect()),
        ("rewrites", rewrites.collect()),
        ("decided_by", decided_by.unwrap_or_default()),
        ("degraded", answer.degraded.into()),
        ("policy_revision", answer.policy_revision.as_str().into()),
        ("decision_id", answer.decision_id.as_str().into()),
        ("rules_considered", answer.rules_considered.into()),
        ("rules_matched", answer.rules_matched.into()),
        ("event_output_json", embedded(answer.event_output_json.as_deref())),
        ("downgrades", downgrades.collect()),
        ("results_truncated", answer.results_truncated.into()),
        ("offered_revision", answer.offered_revision.as_str().into()),
    ])
}

/// The word of a tier.
#[must_use]
pub fn tier(tier: i32) -> Value {
    word(tier, Tier::try_from(tier).ok().map(|it| it.as_str_name()))
}

/// The word of an enum value of the proto by its number and name, `null` where it is unspecified, and the bare number
/// where it has no name.
#[must_use]
pub fn word(number: i32, name: Option<&str>) -> Value {
    match (number, name.and_then(word_of)) {
        (0, _) => Value::Null,
        (_, Some(word)) => Value::String(word),
        (_, None) => number.into(),
    }
}

/// The word in the name of an enum value: `VERDICT_BLOCK` is `block`. `None` where it is the unspecified one.
#[must_use]
pub fn word_of(name: &str) -> Option<String> {
    const PREFIXES: [&str; 8] =
        ["VERDICT_", "TIER_", "OUTCOME_", "FAILURE_", "CAPABILITY_", "REWRITE_TARGET_", "CAUSE_", "SOURCE_STATE_"];
    let word = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    (word != "UNSPECIFIED").then(|| word.to_lowercase())
}

/// A JSON text as what it holds; as a string where it is not JSON.
#[must_use]
fn embedded(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| hookd_json::parse(text).unwrap_or_else(|_| text.into()))
}

fn verdict(verdict: i32) -> Value {
    word(verdict, Verdict::try_from(verdict).ok().map(|it| it.as_str_name()))
}

fn note(note: &Note, names: Names) -> Value {
    names.object([
        ("text", note.text.as_str().into()),
        ("rule_id", note.rule_id.as_str().into()),
        ("tier", tier(note.tier)),
    ])
}

fn result(result: &HookResult, names: Names) -> Value {
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::String);
    names.object([
        ("ok", result.ok.into()),
        ("output", text(&result.output)),
        ("error", text(&result.error)),
        ("modified_params_json", embedded(result.modified_params_json.as_deref())),
        ("blocked", result.blocked.into()),
        ("block_reason", result.block_reason.as_str().into()),
        ("rule_id", result.rule_id.as_str().into()),
        ("tier", tier(result.tier)),
        ("source", result.source.as_str().into()),
        ("outcome", word(result.outcome, Outcome::try_from(result.outcome).ok().map(|it| it.as_str_name()))),
        ("failure", word(result.failure, Failure::try_from(result.failure).ok().map(|it| it.as_str_name()))),
        ("elapsed", result.elapsed.map_or(Value::Null, |elapsed| elapsed.to_string().into())),
        ("exit_code", result.exit_code.into()),
        ("truncated", result.truncated.into()),
        ("shadow", result.shadow.into()),
        ("recheck", result.recheck.into()),
        ("signal", result.signal.into()),
        ("launch_suspect", result.launch_suspect.into()),
        ("retried", result.retried.into()),
        ("modified_result_json", embedded(result.modified_result_json.as_deref())),
        ("reason", result.reason.as_str().into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::DecidedBy;

    #[test]
    fn keys_follow_one_rule() {
        for (name, camel) in [
            ("verdict", "verdict"),
            ("modified_params_json", "modifiedParams"),
            ("event_output_json", "eventOutput"),
            ("patch_json", "patch"),
            ("rules_considered", "rulesConsidered"),
            ("tool_call.params_json", "toolCall.params"),
        ] {
            assert_eq!((Names::Camel.of(name), Names::Proto.of(name)), (camel.to_owned(), name.to_owned()));
        }
    }

    #[test]
    fn texts_are_parsed_with_their_digits_and_enums_are_words() {
        let params = r#"{"modified_by":"me","n":9007199254740993,"x":1.0}"#;
        let response = TriggerResponse {
            verdict: Verdict::Block.into(),
            modified_params_json: Some(params.to_owned()),
            modified_result_json: Some("{".to_owned()),
            decided_by: Some(DecidedBy { tier: Tier::Managed.into(), cause: 77, ..DecidedBy::default() }),
            ..TriggerResponse::default()
        };
        let value = answer(&response, Names::Camel);
        assert_eq!(value["verdict"], "block");
        assert_eq!(hookd_json::to_text(&value["modifiedParams"]), params, "keys of the caller's stay as they are");
        assert_eq!(value["modifiedResult"], "{");
        let decided_by = serde_json::json!({ "cause": 77, "ruleId": "", "tier": "managed", "source": "" });
        assert_eq!(value["decidedBy"], decided_by);
        assert_eq!(value["eventOutput"], Value::Null);
    }
}
