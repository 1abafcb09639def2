//! Permission rules (`if`), and handlers that stand twice.

use std::{path::Path, sync::Arc};

use hookd_condition::{Condition, PermissionRule};
use hookd_rules::{Mode, Timing};

use super::support::*;
use crate::model::{
    Tier::{Local, Managed, Shared},
    Verdict,
};

fn permission(text: &str) -> Option<PermissionRule> {
    Some(PermissionRule::parse(text).unwrap())
}

fn when(text: &str) -> Option<Condition> {
    Some(Condition::compile(text).unwrap())
}

#[tokio::test]
async fn law_05_a_permission_rule_sees_the_form_at_its_rules_turn() {
    let rules = Rules::default()
        .says(Managed, "no-rm", gives(Verdict::Block))
        .with(|rule| rule.permission = permission("Bash(rm *)"))
        .says(Local, "edits", silent())
        .with(|rule| rule.permission = permission("Edit(*.ts)"))
        .says(Shared, "rewriter", rewrites(r#"{"command":"sleep 1 && rm -rf /"}"#))
        .with(|rule| rule.permission = permission("Bash(ls *)"));
    let judged = rules.decide(call("PreToolUse", r#"{"command":"ls"}"#)).await;
    assert_eq!(judged.results(), ["rewriter none", "no-rm block again"]);
    assert_eq!((judged.decision.considered, judged.decision.matched), (3, 1));
}

#[tokio::test]
async fn permission_rules_and_conditions_must_both_hold() {
    let rules = Rules::default()
        .says(Managed, "both", silent())
        .with(|rule| (rule.permission, rule.when) = (permission("Bash(ls *)"), when("tool == 'Bash'")))
        .says(Managed, "when", silent())
        .with(|rule| (rule.permission, rule.when) = (permission("Bash(rm *)"), when("tool == 'Bash'")))
        .says(Managed, "permission", silent())
        .with(|rule| (rule.permission, rule.when) = (permission("Bash(ls *)"), when("tool == 'Read'")))
        .says(Managed, "not asked", silent())
        .with(|rule| (rule.permission, rule.when) = (permission("Bash(rm *)"), when("params.missing == 1")));
    let judged = rules.decide(call("PreToolUse", r#"{"command":"ls"}"#)).await;
    assert_eq!(judged.results(), ["both none"]);
}

/// anthropics/claude-code 76297: a handler that stands twice in one source runs once, and one that stands in two runs
/// twice. Here the numbers of twins say so; `hookd-rules` gives them.
#[tokio::test]
async fn twins_have_one_turn_for_each_form() {
    let rules = Rules::default()
        .says(Managed, "m1", silent())
        .with(|rule| rule.twins = Some(1))
        .says(Managed, "m2", silent())
        .with(|rule| rule.twins = Some(1))
        .says(Shared, "s1", silent())
        .with(|rule| (rule.twins, rule.when) = (Some(2), when("params.n == 7")))
        .says(Shared, "s2", silent())
        .with(|rule| rule.twins = Some(2))
        .says(Shared, "rewriter", rewrites(r#"{"n":1}"#))
        .says(Shared, "s3", silent())
        .with(|rule| rule.twins = Some(2))
        .says(Shared, "s4", silent())
        .with(|rule| (rule.twins, rule.mode) = (Some(2), Mode::Shadow))
        .says(Shared, "a1", silent())
        .with(|rule| (rule.twins, rule.timing) = (Some(3), Timing::Async))
        .says(Shared, "a2", silent())
        .with(|rule| (rule.twins, rule.timing) = (Some(3), Timing::Async));
    let judged = rules.decide(call("PreToolUse", r#"{"n":0}"#)).await;
    assert_eq!(judged.results(), ["m1 none", "s2 none", "rewriter none", "s3 none", "a1 queued", "m1 none again"]);
    assert_eq!((judged.decision.considered, judged.decision.matched), (9, 5));
}

/// `/x` starts at the project whose file it is. Of other files nobody says where the caller has them: any directory.
#[tokio::test]
async fn paths_from_the_settings_start_at_their_project() {
    for (tier, file, cwd, path, runs) in [
        (Shared, "/p/.claude/settings.json", "/p", "/p/src/a", true),
        (Shared, "/p/.claude/settings.json", "/p/deep", "/p/src/a", true),
        (Shared, "/p/.claude/settings.json", "/p", "/p/vendor/src/a", false),
        (Shared, "/p/.claude/settings.json", "/elsewhere", "/elsewhere/src/a", true),
        (Shared, "/p/.claude/settings.json", "", "/q/src/a", true),
        (Shared, "/p/.claude/settings.local.json", "/p", "/p/deep/src/a", true),
        (Shared, "/p/hooks.json", "/p", "/p/deep/src/a", true),
        (Local, "/home/ann/.claude/settings.json", "/home/ann/p", "/home/ann/.claude/src/a", true),
        (Managed, "/etc/hookd/managed/.claude/settings.json", "/p", "/p/src/a", true),
        (Managed, "/etc/hookd/managed/.claude/settings.json", "/p", "/p/lib/a", false),
    ] {
        let rules = Rules::default()
            .says(tier, "guard", silent())
            .with(|rule| (rule.file, rule.permission) = (Arc::from(Path::new(file)), permission("Edit(/src/**)")));
        let mut trigger = call("PreToolUse", &format!(r#"{{"file_path":"{path}"}}"#));
        trigger.cwd = cwd.to_owned();
        trigger.tool_call.as_mut().unwrap().tool = "Edit".to_owned();
        let judged = rules.decide(trigger).await;
        assert_eq!(judged.decision.matched == 1, runs, "{tier} {file} {cwd} {path}");
    }
}
