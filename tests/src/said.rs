//! An answer as one value that a test can compare whole.

use hookd_proto::v1::{Cause, Failure, HookResult, Outcome, RewriteTarget, Tier, TriggerResponse, Verdict};
use serde_json::{Map, Value, json};

/// What an answer says, without what differs from run to run (ids, times, paths, revision). What is empty, false or
/// absent is left out.
///
/// | Key | |
/// | --- | --- |
/// | `verdict` | `none`, `allow`, `ask`, `defer`, `block` |
/// | `reason` | as it is |
/// | `decidedBy` | `rule managed/ID`, `failure_policy shared/ID`, `default team`, `capability` |
/// | `params`, `result`, `eventOutput` | JSON values |
/// | `context`, `messages` | `TIER/ID: text` |
/// | `halt` | its reason, also where that is empty |
/// | `results` | `TIER/ID OUTCOME[ FAILURE][ shadow][ recheck][ blocked][: error]`, `blocked` where the outcome alone does not say so |
/// | `rewrites` | `TIER/ID TARGET[ recheck] PATCH` |
/// | `degraded`, `truncated` | true |
/// | `considered`, `matched` | numbers |
/// | `downgrades` | `MISSING: from -> to` |
#[must_use]
pub fn said(answer: &TriggerResponse) -> Value {
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| {
        let empty = match &value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::String(text) => text.is_empty() && key != "halt",
            Value::Array(items) => items.is_empty(),
            Value::Number(_) | Value::Object(_) => false,
        };
        if !empty {
            all.insert(key.to_owned(), value);
        }
    };
    put("verdict", verdict(answer.verdict).into());
    put("reason", answer.reason.clone().into());
    put("decidedBy", decided_by(answer).into());
    put("params", value(answer.modified_params_json.as_deref()));
    put("result", value(answer.modified_result_json.as_deref()));
    put("eventOutput", value(answer.event_output_json.as_deref()));
    for (key, notes) in [("context", &answer.additional_context), ("messages", &answer.system_messages)] {
        put(key, notes.iter().map(|note| format!("{}: {}", rule(note.tier, &note.rule_id), note.text)).collect());
    }
    if answer.halt {
        put("halt", answer.halt_reason.clone().into());
    }
    put("results", answer.results.iter().map(result).collect());
    put("rewrites", answer.rewrites.iter().map(rewrite).collect());
    put("degraded", answer.degraded.into());
    put("truncated", answer.results_truncated.into());
    put("considered", answer.rules_considered.into());
    put("matched", answer.rules_matched.into());
    put("downgrades", answer.downgrades.iter().map(downgrade).collect());
    Value::Object(all)
}

fn decided_by(answer: &TriggerResponse) -> String {
    let Some(by) = &answer.decided_by else { return String::new() };
    let cause = word::<Cause>(by.cause, "CAUSE_");
    match (by.tier, by.rule_id.as_str()) {
        (0, "") => cause,
        (tier, "") => format!("{cause} {}", word::<Tier>(tier, "TIER_")),
        (tier, id) => format!("{cause} {}", rule(tier, id)),
    }
}

fn result(result: &HookResult) -> Value {
    let outcome = word::<Outcome>(result.outcome, "OUTCOME_");
    let mut text = format!("{} {outcome}", rule(result.tier, &result.rule_id));
    if result.failure != 0 {
        text = format!("{text} {}", word::<Failure>(result.failure, "FAILURE_"));
    }
    let marks = [("shadow", result.shadow), ("recheck", result.recheck)];
    for (mark, _) in marks.iter().filter(|(_, set)| *set) {
        text = format!("{text} {mark}");
    }
    if result.blocked && outcome != "block" {
        text += " blocked";
    }
    if let Some(error) = &result.error {
        text = format!("{text}: {error}");
    }
    text.into()
}

fn rewrite(rewrite: &hookd_proto::v1::Rewrite) -> Value {
    let target = word::<RewriteTarget>(rewrite.target, "REWRITE_TARGET_");
    let recheck = if rewrite.recheck { " recheck" } else { "" };
    format!("{} {target}{recheck} {}", rule(rewrite.tier, &rewrite.rule_id), rewrite.patch_json).into()
}

fn downgrade(downgrade: &hookd_proto::v1::Downgrade) -> Value {
    let missing = word::<hookd_proto::v1::Capability>(downgrade.missing, "CAPABILITY_");
    json!(format!("{missing}: {} -> {}", verdict(downgrade.from), verdict(downgrade.to)))
}

fn rule(tier: i32, id: &str) -> String {
    format!("{}/{id}", word::<Tier>(tier, "TIER_"))
}

fn verdict(number: i32) -> String {
    word::<Verdict>(number, "VERDICT_")
}

fn value(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// The name of an enum's value without its prefix, in small letters.
fn word<E: TryFrom<i32> + Named>(number: i32, prefix: &str) -> String {
    let name = E::try_from(number).ok().map_or("?", |value| value.name());
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

trait Named {
    fn name(&self) -> &'static str;
}

macro_rules! named {
    ($($name:ty),*) => { $(impl Named for $name {
        fn name(&self) -> &'static str { self.as_str_name() }
    })* };
}

named!(Cause, Failure, Outcome, RewriteTarget, Tier, Verdict, hookd_proto::v1::Capability);
