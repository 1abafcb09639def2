use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{Answer, Event, Handler, Tier, claude::read_matcher, file::Patterns};

/// A rule with this matcher, after `claude: ` as that agent reads it.
fn rule(id: u32, matcher: &str) -> Arc<Rule> {
    let mut patterns = Patterns::default();
    let matcher = match matcher.strip_prefix("claude: ") {
        Some(text) => read_matcher(text, "PreToolUse", Event::known("PreToolUse").unwrap(), &mut patterns),
        None => patterns.matcher(matcher),
    };
    Arc::new(Rule {
        events: vec![Arc::from("PreToolUse")],
        matcher: matcher.unwrap(),
        ..Rule::plain(
            format!("r{id}"),
            Tier::Managed,
            Path::new("/rules.json"),
            Handler::Decide(Answer::default().into()),
        )
    })
}

fn index(matchers: &[&str]) -> EventIndex {
    EventIndex::new((0..).zip(matchers).map(|(place, matcher)| (place, rule(place, matcher))).collect())
}

fn ids(matching: &Matching) -> Vec<&str> {
    matching.rules.iter().map(|rule| &*rule.id).collect()
}

#[test]
fn each_kind_of_matcher_is_found_in_evaluation_order() {
    let index = index(&["^mcp__.*", "Bash", "^(Edit|Write)$", "*", "Edit|Bash", "^Bash$"]);
    assert_eq!(ids(&index.matching(Some("Bash"))), ["r1", "r3", "r4", "r5"]);
    assert_eq!(ids(&index.matching(Some("BashOutput"))), ["r1", "r3", "r4"]);
    assert_eq!(ids(&index.matching(Some("Edit"))), ["r2", "r3", "r4"]);
    assert_eq!(ids(&index.matching(Some("mcp__db__drop"))), ["r0", "r3"]);
    assert_eq!(ids(&index.matching(Some(""))), ["r3"]);
}

#[test]
fn case_049_all_names_of_a_renamed_tool_are_found() {
    let texts = [
        "claude: Task",
        "claude: ^Ta.k$",
        "claude: Tas",
        "claude: Ag.*",
        "Task",
        "claude: Bash|Agent",
        "claude: T(as)k",
    ];
    let index = index(&texts);
    assert_eq!(ids(&index.matching(Some("Agent"))), ["r0", "r1", "r3", "r5", "r6"]);
    assert_eq!(ids(&index.matching(Some("Task"))), ["r0", "r1", "r3", "r4", "r5", "r6"]);
    assert_eq!(ids(&index.matching(Some("TaskGet"))), ["r4", "r6"]);
}

#[test]
fn law_11_a_call_without_its_subject_matches_every_rule() {
    assert_eq!(ids(&index(&["^a$", "b", "c.*"]).matching(None)), ["r0", "r1", "r2"]);
}

#[test]
fn subjects_are_remembered_under_a_bound_and_share_what_is_equal() {
    let index = index(&["^a$", "*"]);
    assert!(Arc::ptr_eq(&index.matching(Some("x")), &index.matching(Some("y"))));
    for subject in 0..MAX_REMEMBERED * 2 {
        assert_eq!(ids(&index.matching(Some(&format!("tool{subject}")))), ["r1"]);
    }
    assert_eq!(index.remembered.load().len(), MAX_REMEMBERED);
    assert_eq!(ids(&index.matching(Some("a"))), ["r0", "r1"], "one that is not remembered is found all the same");
}

proptest! {
    #[test]
    fn it_finds_what_looking_at_every_rule_finds(
        matchers in prop::collection::vec(
            prop_oneof![
                Just("*".to_owned()), "[ab]{1,2}", r"\^[ab]{1,2}\$", r"\^\([ab]\|[bc]{1,2}\)\$", r"[ab]\|c", r"\^[abc]\.\*", r"\^[abc]{1,2}", r"\^[ab]{1,2}\.[ab]\$", r"[abc]{1,2}\.", "claude: [ab]{1,2}(\\|[bc])?", r"claude: \^[ab]\.\[c\]",
            ],
            0..60,
        ),
        subjects in prop::collection::vec("[abc]{0,3}", 1..5),
    ) {
        let matchers = matchers.iter().map(String::as_str).collect::<Vec<_>>();
        let index = index(&matchers);
        for subject in &subjects {
            let all = index.rules().iter().filter(|rule| rule.matcher.matches(Some(subject)));
            let expected = all.map(|rule| &*rule.id).collect::<Vec<_>>();
            for time in ["found", "remembered"] {
                let matching = index.matching(Some(subject));
                prop_assert_eq!(ids(&matching), expected.clone(), "{}", time);
            }
        }
    }
}
