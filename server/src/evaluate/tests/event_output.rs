//! Outputs of events that have no field of their own: the higher tier's counts, key by key, and what comes with an
//! ALLOW counts as that ALLOW does.

use hookd_json::{Map, Value};
use hookd_rules::Mode;

use super::support::*;
use crate::model::{Answer, Tier, Verdict};

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
    // Nor does the allow of another form than the final one.
    let judged = Rules::default()
        .says(Tier::Local, "grants", tells(Verdict::Allow, granted))
        .says(Tier::Shared, "rewrites", rewrites(r#"{"a":1}"#))
        .decide(call("PermissionRequest", "{}"))
        .await;
    assert_eq!(judged.verdict().0, Verdict::Allow, "its tier was asked again");
    assert_eq!(judged.decision.event_output, outputs(granted));
}
