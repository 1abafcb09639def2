//! Outputs of events that have no field of their own: the higher tier's counts, key by key, and what comes with an
//! ALLOW counts as that ALLOW does.

use hookd_json::{Map, Value};
use hookd_rules::{AskFallback, Fallbacks, Mode};

use super::support::*;
use crate::model::{Answer, Capabilities, Capability, Form, Tier, Verdict};

fn outputs(text: &str) -> Map<String, Value> {
    hookd_json::parse(text).unwrap().as_object().unwrap().clone()
}

fn tells(verdict: Verdict, text: &str) -> Said {
    Said::Answer(Box::new(Answer { verdict, event_output: outputs(text), ..Answer::default() }))
}

#[tokio::test]
async fn of_two_under_one_key_the_higher_tiers_counts_and_inside_a_tier_the_later_one() {
    let judged = Rules::default()
        .says(Tier::Managed, "managed", tells(Verdict::None, r#"{"a":"managed"}"#))
        .says(Tier::Local, "first", tells(Verdict::None, r#"{"a":"first","b":"first","c":"first"}"#))
        .says(Tier::Local, "second", tells(Verdict::None, r#"{"b":"second"}"#))
        .says(Tier::Shared, "shared", tells(Verdict::None, r#"{"c":"shared","d":["shared"]}"#))
        .says(Tier::Plugin, "shadow", tells(Verdict::None, r#"{"e":1}"#))
        .with(|rule| rule.mode = Mode::Shadow)
        .decide(call("SessionStart", "{}"))
        .await;
    assert_eq!(judged.decision.event_output, outputs(r#"{"a":"managed","b":"second","c":"first","d":["shared"]}"#));
}

#[tokio::test]
async fn law_03_what_comes_with_an_allow_counts_as_the_allow_does() {
    let granted = r#"{"updatedPermissions":[{"type":"setMode","mode":"acceptEdits"}]}"#;
    for (tier, other, expected) in [
        (Tier::Managed, Verdict::None, granted),
        (Tier::Local, Verdict::None, granted),
        (Tier::Local, Verdict::Allow, granted),
        // A tier that may not allow cannot hand out permissions either.
        (Tier::Shared, Verdict::None, "{}"),
        (Tier::Shared, Verdict::Allow, "{}"),
        // An allow that something stricter outranks gives nothing.
        (Tier::Managed, Verdict::Ask, "{}"),
        (Tier::Managed, Verdict::Block, "{}"),
    ] {
        let judged = Rules::default()
            .says(tier, "grants", tells(Verdict::Allow, granted))
            .says(Tier::Plugin, "other", gives(other))
            .decide(call("PermissionRequest", "{}"))
            .await;
        assert_eq!(judged.decision.event_output, outputs(expected), "{tier} {other}");
    }
    // What a tier of more right allows lends it none.
    let judged = Rules::default()
        .says(Tier::Managed, "allows", gives(Verdict::Allow))
        .says(Tier::Shared, "grants", tells(Verdict::Allow, granted))
        .decide(call("PermissionRequest", "{}"))
        .await;
    assert_eq!((judged.decision.verdict, judged.decision.event_output), (Verdict::Allow, Map::new()));
    // Nor does the allow of another form than the final one.
    for (then, expected) in [(granted, granted), ("{}", "{}")] {
        let grants = move |form: &Form| tells(Verdict::Allow, if &*form.params == "{}" { granted } else { then });
        let judged = Rules::default()
            .rule(Tier::Local, "grants", grants)
            .says(Tier::Shared, "rewrites", rewrites(r#"{"a":1}"#))
            .decide(call("PermissionRequest", "{}"))
            .await;
        assert_eq!(judged.verdict().0, Verdict::Allow, "its tier was asked again");
        assert_eq!(judged.decision.event_output, outputs(expected));
    }
}

#[tokio::test]
async fn what_comes_with_an_allow_that_the_caller_cannot_carry_out_or_did_not_get_is_not_sent() {
    let granted = r#"{"updatedPermissions":[{"type":"setMode","mode":"acceptEdits"}]}"#;
    // The call was rewritten and the caller cannot rewrite: a block.
    let mut rewritten = call("PermissionRequest", "{}");
    rewritten.capabilities = Capabilities::NONE.with(Capability::Block);
    let modified_params = Some(hookd_json::parse(r#"{"a":1}"#).unwrap());
    let event_output = outputs(granted);
    let answer = Answer { verdict: Verdict::Allow, modified_params, event_output, ..Answer::default() };
    let judged = Rules::default().says(Tier::Managed, "grants", Said::Answer(answer.into())).decide(rewritten).await;
    assert_eq!((judged.decision.verdict, judged.decision.event_output), (Verdict::Block, Map::new()));
    // Somebody was to be asked, and an allow is what the settings put in the place of that.
    let mut asked = call("PermissionRequest", "{}");
    asked.capabilities = Capabilities::NONE.with(Capability::Block);
    let mut rules = Rules::default().says(Tier::Managed, "grants", tells(Verdict::Allow, granted)).says(
        Tier::Team,
        "asks",
        gives(Verdict::Ask),
    );
    rules.fallbacks = Fallbacks { ask: AskFallback::Allow, ..Fallbacks::default() };
    let judged = rules.decide(asked).await;
    assert_eq!((judged.decision.verdict, judged.decision.event_output), (Verdict::Allow, Map::new()));
}
