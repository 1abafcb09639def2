use std::time::Duration;

use hookd_condition::Condition;
use hookd_rules::{Handler, Mode, OnError, Pattern, PerTier, RunOn, Timing};

use super::support::*;
use crate::model::{
    Answer, Capabilities, Capability, Cause, Failure,
    Tier::{Local, Managed, Plugin, Shared, Team},
    Verdict,
};

/// Blocks what holds `rm -rf`, otherwise has no opinion.
fn no_rm(form: &crate::model::Form) -> Said {
    if form.params.contains("rm -rf") { gives(Verdict::Block) } else { silent() }
}

#[tokio::test]
async fn law_01_order_is_by_tier_then_position_and_each_sees_the_form_the_one_before_left() {
    let rules = Rules::default()
        .says(Plugin, "plugin", silent())
        .says(Shared, "shared", rewrites(r#"{"n":3}"#))
        .says(Managed, "managed-1", rewrites(r#"{"n":1}"#))
        .says(Managed, "managed-2", silent())
        .says(Local, "local", silent())
        .says(Team, "team", rewrites(r#"{"n":2}"#));
    let judged = rules.decide(call("PreToolUse", r#"{"n":0}"#)).await;
    assert_eq!(
        judged.asked(),
        [
            r#"managed-1: {"n":0}"#,
            r#"managed-2: {"n":1}"#,
            r#"team: {"n":1}"#,
            r#"local: {"n":2}"#,
            r#"shared: {"n":2}"#,
            r#"plugin: {"n":3}"#,
            r#"local again: {"n":3}"#,
            r#"team again: {"n":3}"#,
            r#"managed-1 again: {"n":2}"#,
            r#"managed-2 again: {"n":1}"#,
        ]
    );
    assert_eq!(judged.params(), Some(r#"{"n":1}"#));
}

#[tokio::test]
async fn law_02_first_block_ends_the_chain_where_block_prevents() {
    let rules = || {
        Rules::default().says(Managed, "a", silent()).says(Local, "b", gives(Verdict::Block)).says(
            Shared,
            "c",
            gives(Verdict::Block),
        )
    };
    for event in ["PreToolUse", "UserPromptSubmit", "Stop", "SomethingNew"] {
        let judged = rules().decide(call(event, "{}")).await;
        assert_eq!(judged.results(), ["a none", "b block"], "{event}");
        assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("b")), "{event}");
    }
    for event in ["PostToolUse", "SessionStart", "Notification"] {
        let judged = rules().decide(call(event, "{}")).await;
        assert_eq!(judged.results(), ["a none", "b block", "c block"], "{event}");
        assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("b")), "{event}");
    }
}

#[tokio::test]
async fn law_02_a_block_that_prevents_rewrites_nothing() {
    let modified_params = Some(hookd_json::parse(r#"{"n":1}"#).unwrap());
    let blocks = Answer { verdict: Verdict::Block, modified_params, ..Answer::default() };
    let judged =
        Rules::default().says(Managed, "guard", Said::Answer(blocks.into())).decide(call("PreToolUse", "{}")).await;
    assert_eq!((judged.decision.verdict, judged.decision.rewrites.len()), (Verdict::Block, 0));
}

#[tokio::test]
async fn law_02_feedback_of_every_rule_reaches_the_model() {
    let block = |reason: &str| {
        Said::Answer(Box::new(Answer { verdict: Verdict::Block, reason: reason.to_owned(), ..Answer::default() }))
    };
    let rules = || Rules::default().says(Local, "a", block("lint")).says(Shared, "b", block("format"));
    let judged = rules().decide(call("PostToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "lint\nformat", Some("a")));
    let judged = rules().with_default(Team, Verdict::Block).decide(call("PostToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "by default\nlint\nformat", Some("")));
}

#[tokio::test]
async fn law_03_case_066_and_035_most_restrictive_wins() {
    let rules = Rules::default().says(Managed, "a", gives(Verdict::Allow)).says(Shared, "b", gives(Verdict::Block));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("b")));
}

#[tokio::test]
async fn law_03_case_034_silence_and_allow_are_two_things() {
    let silent = Rules::default().says(Local, "a", silent()).decide(call("PreToolUse", "{}")).await;
    assert_eq!(silent.verdict(), (Verdict::None, "", None));
    let allowed = Rules::default().says(Local, "a", gives(Verdict::Allow)).decide(call("PreToolUse", "{}")).await;
    assert_eq!(allowed.verdict(), (Verdict::Allow, "says allow", Some("a")));
    let shared = Rules::default().says(Shared, "a", gives(Verdict::Allow)).decide(call("PreToolUse", "{}")).await;
    assert_eq!(shared.verdict(), (Verdict::None, "", None));
}

#[tokio::test]
async fn law_03_an_allow_of_another_form_than_the_final_one_does_not_count() {
    let rules = Rules::default()
        .rule(Managed, "guard", |form| if form.params.contains("ls") { gives(Verdict::Allow) } else { silent() })
        .says(Shared, "rewriter", rewrites(r#"{"command":"rm"}"#));
    let judged = rules.decide(call("PreToolUse", r#"{"command":"ls"}"#)).await;
    assert_eq!(judged.verdict(), (Verdict::None, "", None));
    let ask = Rules::default().says(Managed, "asker", gives(Verdict::Ask)).says(
        Shared,
        "rewriter",
        rewrites(r#"{"command":"rm"}"#),
    );
    assert_eq!(ask.decide(call("PreToolUse", "{}")).await.decision.verdict, Verdict::Ask, "the others stick");
}

#[tokio::test]
async fn law_03_case_065_an_ask_carries_the_rewrite() {
    let rules =
        Rules::default().says(Local, "a", allows_and_rewrites(r#"{"n":1}"#)).says(Local, "b", gives(Verdict::Ask));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!((judged.decision.verdict, judged.params()), (Verdict::Ask, Some(r#"{"n":1}"#)));
}

#[tokio::test]
async fn law_04_final_keeps_lower_tiers_from_being_asked_and_nobody_else() {
    for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Defer] {
        let rules = Rules::default()
            .says(Team, "final", gives(verdict))
            .with(|rule| rule.is_final = true)
            .says(Team, "same-tier", silent())
            .says(Managed, "above", silent())
            .says(Local, "below", gives(Verdict::Block));
        let judged = rules.decide(call("PreToolUse", "{}")).await;
        assert_eq!(
            judged.results(),
            ["above none".to_owned(), format!("final {verdict}"), "same-tier none".to_owned()]
        );
        assert_eq!(judged.decision.verdict, verdict);
    }
}

#[tokio::test]
async fn law_04_final_without_a_decision_or_without_the_right_to_allow_closes_nothing() {
    for (tier, said) in [(Managed, silent()), (Managed, Said::Fails(Failure::Exited)), (Shared, gives(Verdict::Allow))]
    {
        let rules = Rules::default()
            .says(tier, "final", said)
            .with(|rule| (rule.is_final, rule.on_error) = (true, Some(OnError::Allow)))
            .says(Plugin, "below", gives(Verdict::Block));
        assert_eq!(rules.decide(call("PreToolUse", "{}")).await.verdict().2, Some("below"));
    }
}

#[tokio::test]
async fn law_04_the_extra_pass_runs_in_spite_of_final() {
    let rules = Rules::default()
        .rule(Managed, "guard", no_rm)
        .says(Team, "final", allows_and_rewrites(r#"{"command":"rm -rf /"}"#))
        .with(|rule| rule.is_final = true);
    let judged = rules.decide(call("PreToolUse", r#"{"command":"ls"}"#)).await;
    assert_eq!(judged.results(), ["guard none", "final allow", "guard block again"]);
    assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("guard")));
}

#[tokio::test]
async fn law_05_rewrites_from_below_do_not_pass_a_guard_above() {
    let attackers = [rewrites(r#"{"command":"rm -rf /"}"#), allows_and_rewrites(r#"{"command":"rm -rf /"}"#)];
    for attacker in attackers {
        let rules = Rules::default().rule(Managed, "guard", no_rm).says(Shared, "attacker", attacker);
        let judged = rules.decide(call("PreToolUse", r#"{"command":"ls"}"#)).await;
        assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("guard")));
        assert_eq!(judged.params(), None, "a call that does not run has no parameters");
        assert!(judged.decision.results.last().is_some_and(|result| result.recheck));
        let patches = judged.decision.rewrites.iter().map(|rewrite| rewrite.patch.as_str()).collect::<Vec<_>>();
        assert_eq!(patches, [r#"[{"op":"replace","path":"/command","value":"rm -rf /"}]"#]);
    }
}

#[tokio::test]
async fn law_05_a_managed_rewrite_cannot_be_undone_from_below() {
    let rules = Rules::default()
        .rule(Managed, "trash", |form| {
            if form.params.contains("\"rm\"") { rewrites(r#"{"command":"trash"}"#) } else { silent() }
        })
        .says(Shared, "undo", rewrites(r#"{"command":"rm"}"#));
    let judged = rules.decide(call("PreToolUse", r#"{"command":"rm"}"#)).await;
    assert_eq!(judged.params(), Some(r#"{"command":"trash"}"#));
    assert_eq!(judged.results(), ["trash none", "undo none", "trash none again"]);
}

#[tokio::test]
async fn law_05_a_form_that_comes_back_to_what_a_tier_passed_is_not_asked_again() {
    let rules = Rules::default().says(Managed, "guard", silent()).says(Shared, "there", rewrites(r#"{"n":1}"#)).says(
        Shared,
        "and-back",
        rewrites(r#"{"n":0}"#),
    );
    let judged = rules.decide(call("PreToolUse", r#"{"n":0}"#)).await;
    assert_eq!(judged.results(), ["guard none", "there none", "and-back none"]);
    assert_eq!(judged.params(), None);
}

#[tokio::test]
async fn law_05_a_rule_of_which_one_of_several_alike_runs_is_asked_again_about_a_form_that_it_saw_before() {
    let judged =
        Rules::default()
            .says(Managed, "guard", silent())
            .with(|rule| rule.twins = Some(7))
            .rule(Managed, "rewrites-first", |form| {
                if &*form.params == r#"{"n":1}"# { rewrites(r#"{"n":2}"#) } else { silent() }
            })
            .says(Shared, "rewrites-back", rewrites(r#"{"n":1}"#))
            .decide(call("PreToolUse", r#"{"n":1}"#))
            .await;
    let asked = [
        r#"guard: {"n":1}"#,
        r#"rewrites-first: {"n":1}"#,
        r#"rewrites-back: {"n":2}"#,
        r#"guard again: {"n":1}"#,
        r#"rewrites-first again: {"n":1}"#,
    ];
    assert_eq!(judged.asked(), asked);
}

#[tokio::test]
async fn law_05_a_rewrite_in_the_extra_pass_is_passed_by_the_tiers_above_it_alone() {
    let rules = Rules::default()
        .says(Managed, "managed", silent())
        .rule(Local, "local", |form| if form.params.contains('3') { rewrites(r#"{"n":4}"#) } else { silent() })
        .says(Shared, "shared", silent())
        .says(Plugin, "plugin", rewrites(r#"{"n":3}"#));
    let judged = rules.decide(call("PreToolUse", r#"{"n":0}"#)).await;
    assert_eq!(
        judged.asked()[4..],
        [r#"shared again: {"n":3}"#, r#"local again: {"n":3}"#, r#"managed again: {"n":4}"#]
    );
    assert_eq!(judged.params(), Some(r#"{"n":4}"#));
}

#[tokio::test]
async fn law_05_results_are_rechecked_too_and_every_tier_above_runs() {
    let redact = |form: &crate::model::Form| {
        if form.result.as_deref().is_some_and(|result| result.contains("secret")) {
            hides("\"[hidden]\"")
        } else {
            silent()
        }
    };
    let rules = Rules::default().rule(Managed, "redactor", redact).says(Team, "complains", gives(Verdict::Block)).says(
        Shared,
        "leaks",
        hides("\"the secret again\""),
    );
    let judged = rules.decide(call_with_result("PostToolUse", "\"the secret\"")).await;
    assert_eq!(judged.decision.modified_result.as_deref(), Some("\"[hidden]\""));
    assert_eq!(
        judged.results(),
        ["redactor none", "complains block", "leaks none", "complains block again", "redactor none again"]
    );
}

#[tokio::test]
async fn law_06_async_and_shadow_never_decide() {
    let everything = || {
        Said::Answer(Box::new(Answer {
            verdict: Verdict::Block,
            modified_params: Some(hookd_json::parse(r#"{"n":9}"#).unwrap()),
            additional_context: Some("context".to_owned()),
            system_message: Some("message".to_owned()),
            halt: Some("halt".to_owned()),
            ..Answer::default()
        }))
    };
    let rules = Rules::default()
        .says(Managed, "async", everything())
        .with(|rule| (rule.timing, rule.is_final) = (Timing::Async, true))
        .says(Managed, "shadow", everything())
        .with(|rule| (rule.mode, rule.is_final) = (Mode::Shadow, true))
        .says(Managed, "shadow-decide", silent())
        .with(|rule| {
            rule.mode = Mode::Shadow;
            rule.is_final = true;
            let Said::Answer(answer) = everything() else { panic!("it is an answer") };
            rule.handler = Handler::Decide(Answer::into(*answer));
        })
        .says(Plugin, "last", gives(Verdict::Ask));
    let judged = rules.decide(call("PreToolUse", r#"{"n":0}"#)).await;
    assert_eq!(judged.results(), ["async queued", "shadow queued", "shadow-decide block", "last ask"]);
    assert_eq!(judged.verdict(), (Verdict::Ask, "says ask", Some("last")));
    assert_eq!(judged.queued(), [r#"async: {"n":0}"#, r#"shadow: {"n":0}"#]);
    let decision = &judged.decision;
    assert_eq!((decision.additional_context.len(), decision.system_messages.len()), (0, 0));
    assert_eq!((&decision.halt, judged.params(), decision.degraded), (&None, None, false));
    assert_eq!(decision.results[0].ran.output.as_deref(), Some("(async, no wait)"));
}

#[tokio::test]
async fn law_06_on_verdict_rules_are_queued_after_the_verdict_is_known() {
    let after = |verdicts: &[Verdict]| Timing::AfterVerdict(verdicts.to_vec());
    let rules = Rules::default()
        .says(Managed, "on-block", silent())
        .with(|rule| rule.timing = after(&[Verdict::Block, Verdict::Ask]))
        .says(Managed, "on-allow", silent())
        .with(|rule| rule.timing = after(&[Verdict::Allow]))
        .says(Local, "blocks", gives(Verdict::Block))
        .says(Plugin, "below", silent())
        .with(|rule| rule.timing = after(&[Verdict::Block]));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.queued(), ["on-block after block: {}", "below after block: {}"]);
    assert_eq!(judged.results(), ["blocks block", "on-block queued", "below queued"]);

    let rules = Rules::default()
        .says(Managed, "observes", silent())
        .with(|rule| rule.timing = after(&[Verdict::None]))
        .says(Local, "rewrites", rewrites(r#"{"n":1}"#));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.queued(), [r#"observes after none: {"n":1}"#], "what runs is what it is told");
}

#[tokio::test]
async fn law_07_failures_follow_the_policy_and_are_named() {
    let fails = || Said::Fails(Failure::Exited);
    let verdict = async |event: &str, tier, on_error| {
        let rules = Rules::default().says(tier, "broken", fails()).with(|rule| rule.on_error = on_error);
        let judged = rules.decide(call(event, "{}")).await;
        let cause = judged.decision.decided_by.as_ref().map(|by| by.cause);
        assert_eq!(cause, Some(Cause::FailurePolicy), "case 105: the cause stays on the answer");
        assert_eq!(judged.decision.results[0].ran.said.as_ref().map_err(|failed| failed.kind), Err(Failure::Exited));
        assert_eq!(judged.decision.degraded, judged.decision.verdict == Verdict::None);
        judged.decision.verdict
    };
    for event in ["PreToolUse", "PermissionRequest", "UserPromptSubmit", "SomethingNew"] {
        assert_eq!(verdict(event, Managed, None).await, Verdict::Block, "{event}");
        assert_eq!(verdict(event, Local, None).await, Verdict::None, "{event}");
        assert_eq!(verdict(event, Managed, Some(OnError::Allow)).await, Verdict::None, "{event}");
        assert_eq!(verdict(event, Plugin, Some(OnError::Block)).await, Verdict::Block, "{event}");
    }
    for event in ["PostToolUse", "SessionStart", "PreCompact"] {
        assert_eq!(verdict(event, Managed, None).await, Verdict::None, "{event}");
        assert_eq!(verdict(event, Managed, Some(OnError::Block)).await, Verdict::Block, "{event}");
    }
    for event in ["Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"] {
        assert_eq!(verdict(event, Managed, Some(OnError::Block)).await, Verdict::None, "{event}");
    }
}

#[tokio::test]
async fn law_07_a_forgiven_failure_is_no_allow() {
    let rules = Rules::default().says(Local, "broken", Said::Fails(Failure::TimedOut));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::None, "", Some("broken")));
}

#[tokio::test]
async fn law_07_in_the_extra_pass_every_failure_blocks() {
    let rules = Rules::default()
        .rule(
            Managed,
            "flaky",
            |form| {
                if form.params.contains('1') { Said::Fails(Failure::TimedOut) } else { silent() }
            },
        )
        .with(|rule| rule.on_error = Some(OnError::Allow))
        .says(Shared, "rewriter", rewrites(r#"{"n":1}"#));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "hook `flaky` failed: scripted failure", Some("flaky")));
}

#[tokio::test]
async fn law_07_a_broken_redactor_shows_nothing() {
    let rules = Rules::default()
        .says(Managed, "redactor", Said::Fails(Failure::Killed))
        .with(|rule| rule.on_error = Some(OnError::Block))
        .says(Shared, "reader", silent());
    let judged = rules.decide(call_with_result("PostToolUse", "\"secret\"")).await;
    let notice = "\"[result withheld: hook `redactor` failed: scripted failure]\"";
    assert_eq!(judged.decision.modified_result.as_deref(), Some(notice));
    assert_eq!(judged.asked(), ["redactor: \"secret\"".to_owned(), format!("reader: {notice}")]);
    assert_eq!(judged.decision.verdict, Verdict::Block);
}

#[tokio::test(flavor = "current_thread")]
async fn law_08_a_slow_lower_rule_cannot_starve_the_extra_pass() {
    tokio::time::pause();
    let rules = Rules::default()
        .rule(Managed, "guard", |form| {
            let slow = if form.params.contains("rm -rf") { gives(Verdict::Block) } else { silent() };
            after(100, slow)
        })
        .says(Shared, "attacker", rewrites(r#"{"command":"rm -rf /"}"#))
        .says(Shared, "hangs", after(1_000_000, silent()))
        .says(Plugin, "hangs-too", after(1_000_000, silent()));
    let judged = rules.decide_within(call("PreToolUse", "{}"), Duration::from_secs(2)).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("guard")));
    let errors = judged.decision.results.iter().filter_map(|result| result.ran.said.as_ref().err());
    assert_eq!(
        errors.map(|failed| failed.message.as_str()).collect::<Vec<_>>(),
        ["Timed out after 899ms", "Timed out after 0ms"],
        "half of what the guard left is theirs, and N is what was granted"
    );
}

#[tokio::test(start_paused = true)]
async fn law_08_the_extra_pass_gives_lower_tiers_half_of_what_is_left_anew() {
    let rules = Rules::default()
        .rule(Local, "checks", |form| if &*form.params == "{}" { silent() } else { after(200, silent()) })
        .says(Shared, "rewrites", after(400, rewrites(r#"{"n":1}"#)));
    let judged = rules.decide_within(call("PreToolUse", "{}"), Duration::from_millis(1_100)).await;
    assert_eq!(judged.results(), ["checks none", "rewrites none", "checks none again"]);
}

#[tokio::test]
async fn law_08_what_a_caller_brings_is_not_worked_on_once_its_time_is_over() {
    tokio::time::pause();
    let brought = |rule: &mut hookd_rules::Rule| (rule.run_on, rule.when) = (RunOn::Agent, when("params.n == 0"));
    let rules = Rules::default()
        .says(Shared, "before", silent())
        .with(brought)
        .says(Shared, "hangs", after(1_000_000, silent()))
        .says(Shared, "after", silent())
        .with(brought)
        .says(Shared, "decides", silent())
        .with(|rule| (rule.run_on, rule.handler) = (RunOn::Agent, Handler::Decide(hookd_rules::Decide::default())))
        .says(Shared, "of-the-server", silent())
        .with(|rule| rule.when = when("params.n == 1"));
    let judged = rules.decide_within(call("PreToolUse", r#"{"n":0}"#), Duration::from_secs(2)).await;
    assert_eq!(judged.results(), ["before none", "hangs failed", "after failed", "decides failed"]);
    assert_eq!(judged.asked(), [r#"before: {"n":0}"#, r#"hangs: {"n":0}"#]);
}

#[tokio::test]
async fn law_12_silence_is_said() {
    let none = Rules::default().decide(call("PreToolUse", "{}")).await;
    assert_eq!((none.decision.considered, none.decision.matched), (0, 0));
    let rules = Rules::default()
        .says(Local, "a", silent())
        .says(Local, "b", silent())
        .with(|rule| rule.matcher = hookd_rules::Matcher::Pattern(Pattern::new("Edit").unwrap().into()));
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!((judged.decision.considered, judged.decision.matched), (2, 1));
}

#[tokio::test]
async fn law_12_case_098_and_101_a_default_is_its_tiers_last_outcome() {
    let cause = |judged: &Judged| judged.decision.decided_by.as_ref().map(|by| (by.cause, by.tier));
    let judged = Rules::default().with_default(Managed, Verdict::Ask).decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::Ask, "by default", Some("")));
    assert_eq!(cause(&judged), Some((Cause::Default, Some(Managed))));

    let spoken = Rules::default().with_default(Team, Verdict::Block).says(Managed, "a", gives(Verdict::Allow));
    assert_eq!(spoken.decide(call("PreToolUse", "{}")).await.decision.verdict, Verdict::Allow);

    let from_below = Rules::default().with_default(Managed, Verdict::Ask).says(Local, "a", gives(Verdict::Allow));
    assert_eq!(from_below.decide(call("PreToolUse", "{}")).await.decision.verdict, Verdict::Ask);

    let block = Rules::default().with_default(Managed, Verdict::Block).says(Local, "a", gives(Verdict::Allow));
    let judged = block.decide(call("PreToolUse", "{}")).await;
    assert_eq!((judged.decision.verdict, judged.asked()), (Verdict::Block, vec![]), "law 2");
}

#[tokio::test]
async fn law_12_an_allow_of_another_form_than_the_final_one_keeps_no_default_from_counting() {
    let allows_ls = |form: &crate::model::Form| {
        if form.params.contains("\"ls\"") { gives(Verdict::Allow) } else { silent() }
    };
    let ls = || call("PreToolUse", r#"{"command":"ls"}"#);
    let rm = r#"{"command":"rm"}"#;
    for (default, verdict) in [(Verdict::Block, Verdict::Block), (Verdict::Ask, Verdict::Ask)] {
        for author in [Managed, Team, Local, Plugin] {
            let rules = || Rules::default().with_default(Managed, default).rule(Managed, "list", allows_ls);
            let judged = rules().says(author, "rewriter", rewrites(rm)).decide(ls()).await;
            assert_eq!(judged.verdict(), (verdict, "by default", Some("")), "{author}");
            assert_eq!(judged.params(), Some(rm).filter(|_| verdict == Verdict::Ask), "{author}");
        }
    }
    let of_team = Rules::default().with_default(Team, Verdict::Block).rule(Team, "list", allows_ls);
    let judged = of_team.says(Shared, "rewriter", rewrites(rm)).decide(ls()).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "by default", Some("")));

    let there_and_back = Rules::default()
        .with_default(Managed, Verdict::Block)
        .rule(Managed, "list", allows_ls)
        .says(Shared, "there", rewrites(rm))
        .says(Shared, "and-back", rewrites(r#"{"command":"ls"}"#));
    assert_eq!(there_and_back.decide(ls()).await.verdict(), (Verdict::Allow, "says allow", Some("list")));

    let of_another = Rules::default().with_default(Managed, Verdict::Allow).says(Shared, "rewriter", rewrites(rm));
    assert_eq!(of_another.decide(ls()).await.verdict().0, Verdict::None, "an ALLOW of a default is of one form too");
}

#[tokio::test]
async fn law_12_a_default_in_shadow_mode_does_not_count() {
    let mut rules = Rules::default().with_default(Managed, Verdict::Block).with_default(Managed, Verdict::Ask);
    rules.defaults[0].mode = Mode::Shadow;
    assert_eq!(rules.decide(call("PreToolUse", "{}")).await.decision.verdict, Verdict::Ask, "the next one does");
}

#[tokio::test]
async fn law_12_an_allow_that_may_not_count_is_no_verdict_for_a_default() {
    let mut rules = Rules::default().with_default(Managed, Verdict::Ask).says(Managed, "a", gives(Verdict::Allow));
    rules.may_allow = Some(PerTier::from_fn(|_| false));
    assert_eq!(rules.decide(call("PreToolUse", "{}")).await.decision.verdict, Verdict::Ask);
}

#[tokio::test]
async fn law_13_halt_blocks_where_block_prevents_and_stops_elsewhere() {
    let rules = || Rules::default().says(Shared, "a", halts("enough")).says(Plugin, "b", silent());
    let judged = rules().decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::Block, "enough", Some("a")));
    assert_eq!((judged.results(), judged.decision.halt), (vec!["a block".to_owned()], Some("enough".to_owned())));
    for event in ["PostToolUse", "Stop", "SessionStart"] {
        let judged = rules().decide(call(event, "{}")).await;
        assert_eq!(judged.verdict(), (Verdict::None, "", Some("a")), "{event}");
        assert_eq!(judged.decision.halt.as_deref(), Some("enough"), "{event}");
        assert_eq!(judged.results(), ["a none", "b none"], "{event}");
    }
}

#[tokio::test]
async fn law_13_on_stop_a_halt_wins_over_a_block_from_its_tier_or_below() {
    let rules = Rules::default().says(Managed, "halts", halts("enough")).says(Local, "goes-on", gives(Verdict::Block));
    let judged = rules.decide(call("Stop", "{}")).await;
    assert_eq!(judged.verdict(), (Verdict::None, "", Some("halts")));
    assert_eq!(judged.decision.halt.as_deref(), Some("enough"));
    let dropped = judged.decision.results.iter().map(|result| result.ran.dropped.as_str()).collect::<Vec<_>>();
    assert_eq!(dropped, ["", "block dropped: a rule of its tier or a higher one halts the agent"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_neighbours_run_side_by_side_and_the_first_block_in_order_decides() {
    let rules = || {
        Rules::default()
            .says(Managed, "a", after(20, silent()))
            .with(|rule| rule.concurrent = true)
            .says(Managed, "b", after(30, gives(Verdict::Block)))
            .with(|rule| rule.concurrent = true)
            .says(Managed, "c", after(10, gives(Verdict::Block)))
            .with(|rule| rule.concurrent = true)
            .says(Managed, "d", after(60_000, silent()))
            .with(|rule| rule.concurrent = true)
    };
    let started = tokio::time::Instant::now();
    let judged = rules().decide(call("PreToolUse", "{}")).await;
    assert!(started.elapsed() < Duration::from_millis(40), "one after another they take longer");
    assert_eq!(judged.results(), ["a none", "b block"]);
    assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("b")));

    let started = tokio::time::Instant::now();
    let judged = rules().decide(call("Notification", "{}")).await;
    assert_eq!(
        judged.results(),
        ["a none", "b block", "c block", "d failed"],
        "a block that prevents nothing cancels nobody"
    );
    assert!(started.elapsed() < Duration::from_secs(11), "the limit of the last one");
}

#[tokio::test(start_paused = true)]
async fn concurrent_rules_of_two_tiers_or_with_another_between_them_are_no_neighbours() {
    let rules = Rules::default()
        .says(Managed, "a", after(20, silent()))
        .with(|rule| rule.concurrent = true)
        .says(Managed, "b", after(20, silent()))
        .says(Managed, "c", after(20, silent()))
        .with(|rule| rule.concurrent = true)
        .says(Team, "d", after(20, silent()))
        .with(|rule| rule.concurrent = true);
    let started = tokio::time::Instant::now();
    let judged = rules.decide(call("PreToolUse", "{}")).await;
    assert_eq!(judged.results(), ["a none", "b none", "c none", "d none"]);
    assert!(started.elapsed() >= Duration::from_millis(80));
}

fn when(text: &str) -> Option<Condition> {
    Some(Condition::compile(text).unwrap())
}

#[tokio::test]
async fn law_05_a_condition_sees_the_form_at_its_rules_turn() {
    let rules = Rules::default()
        .says(Managed, "no-rm", gives(Verdict::Block))
        .with(|rule| rule.when = when("params.command.startsWith('rm')"))
        .says(Shared, "rewriter", rewrites(r#"{"command":"rm -rf /"}"#))
        .with(|rule| rule.when = when("params.command == 'ls'"));
    let judged = rules.decide(call("PreToolUse", r#"{"command":"ls"}"#)).await;
    assert_eq!(judged.results(), ["rewriter none", "no-rm block again"]);
    assert_eq!(judged.verdict(), (Verdict::Block, "says block", Some("no-rm")));
    assert_eq!((judged.decision.considered, judged.decision.matched), (2, 1));
}

#[tokio::test]
async fn law_07_a_condition_without_a_value_is_a_failure_and_never_false() {
    for (tier, verdict) in [(Managed, Verdict::Block), (Local, Verdict::None)] {
        let rules = Rules::default()
            .says(tier, "guard", gives(Verdict::Block))
            .with(|rule| rule.when = when("params.missing == 'x'"));
        let judged = rules.decide(call("PreToolUse", "{}")).await;
        assert_eq!(judged.decision.verdict, verdict);
        assert_eq!(judged.results(), ["guard failed"]);
        let failed = judged.decision.results[0].ran.said.as_ref().map_err(|failed| failed.kind);
        assert_eq!(failed, Err(Failure::Expression));
        assert_eq!(judged.asked(), Vec::<String>::new(), "its handler is not run");
        let beside = Rules::default()
            .says(tier, "guard", gives(Verdict::Block))
            .with(|rule| (rule.concurrent, rule.when) = (true, when("params.missing == 'x'")))
            .says(tier, "neighbour", silent())
            .with(|rule| rule.concurrent = true);
        let judged = beside.decide(call("PreToolUse", "{}")).await;
        let results = if tier == Managed { &["guard failed"][..] } else { &["guard failed", "neighbour none"] };
        assert_eq!(
            (judged.decision.verdict, judged.results()),
            (verdict, results.iter().map(|r| r.to_string()).collect())
        );
    }
}

#[tokio::test]
async fn conditions_hold_for_rules_that_do_not_decide_too() {
    let rules = Rules::default()
        .says(Managed, "async", silent())
        .with(|rule| (rule.timing, rule.when) = (Timing::Async, when("tool == 'Read'")))
        .says(Managed, "shadow", silent())
        .with(|rule| (rule.mode, rule.when) = (Mode::Shadow, when("params.n")))
        .says(Managed, "after", silent())
        .with(|rule| (rule.timing, rule.when) = (Timing::AfterVerdict(vec![Verdict::None]), when("tool == 'Bash'")))
        .says(Managed, "never", silent())
        .with(|rule| (rule.timing, rule.when) = (Timing::AfterVerdict(vec![Verdict::Block]), when("tool == 'Read'")))
        .says(Managed, "after-fails", silent())
        .with(|rule| (rule.timing, rule.when) = (Timing::AfterVerdict(vec![Verdict::None]), when("params.n")))
        .says(Managed, "beside-1", silent())
        .with(|rule| (rule.concurrent, rule.when) = (true, when("toolKind == 'read'")))
        .says(Managed, "beside-2", silent())
        .with(|rule| (rule.concurrent, rule.when) = (true, when("toolKind == 'shell'")));
    let judged = rules.decide(call("PreToolUse", r#"{"n":1}"#)).await;
    assert_eq!(judged.results(), ["shadow failed", "beside-2 none", "after queued", "after-fails failed"]);
    assert_eq!(judged.verdict(), (Verdict::None, "", None));
    assert_eq!((judged.decision.considered, judged.decision.matched, judged.decision.degraded), (7, 5, false));
}

#[tokio::test]
async fn a_decide_rule_can_compute_a_rewrite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.json");
    let rules = r#"{"hooks":[
        {"event":"PreToolUse","handler":{"type":"decide","modifiedParams":{"command":{"expr":"params.command + ' --dry-run'"},"id":{"expr":"params.id"},"n":[1,2.0]}}},
        {"event":"PostToolUse","handler":{"type":"decide","modifiedResult":{"expr":"redact(result, 'secret-[0-9]+', '***')"}}}
    ]}"#;
    std::fs::write(&path, rules).unwrap();
    let mut settings = hookd_rules::LoadSettings::default();
    settings.tiers.managed.sources = vec![hookd_rules::SourceSettings { path, optional: false, selector: None }];
    let catalog = hookd_rules::load(&settings, &mut hookd_rules::Memory::default()).catalog.unwrap();
    let policy = hookd_rules::Policy::of(std::sync::Arc::new(catalog), &[]).unwrap();
    let judge = async |trigger| {
        let budget = crate::evaluate::Budget::new(tokio::time::Instant::now(), Duration::from_secs(30)).unwrap();
        crate::evaluate::evaluate(&Scripted::default(), &policy, &std::sync::Arc::new(trigger), budget).await
    };
    let decision = judge(call("PreToolUse", r#"{"command":"apply","id":9007199254740993}"#)).await;
    let expected = r#"{"command":"apply --dry-run","id":9007199254740993,"n":[1,2.0]}"#;
    assert_eq!(decision.modified_params.as_deref(), Some(expected));
    let decision = judge(call("PreToolUse", r#"{"command":1,"id":1}"#)).await;
    let failed = decision.results[0].ran.said.as_ref().map_err(|failed| failed.kind);
    assert_eq!((failed, decision.verdict), (Err(Failure::Expression), Verdict::Block));
    let decision = judge(call_with_result("PostToolUse", r#"{"a":["x secret-123 y"],"n":1.50}"#)).await;
    assert_eq!(decision.modified_result.as_deref(), Some(r#"{"a":["x *** y"],"n":1.50}"#));
}

#[tokio::test]
async fn a_rewrite_that_the_event_cannot_carry_is_a_failure() {
    let rewrite = Answer { modified_params: Some(hookd_json::parse("{}").unwrap()), ..Answer::default() };
    let rules =
        Rules::default().says(Managed, "a", silent()).with(|rule| rule.handler = Handler::Decide(rewrite.into()));
    let judged = rules.decide(call_with_result("PostToolUse", "1")).await;
    assert_eq!(judged.results(), ["a failed"]);
    assert!(judged.decision.degraded);
}

#[tokio::test]
async fn what_two_rules_say_alike_is_of_both_and_what_one_says_twice_once() {
    let says = || Answer { system_message: Some("mind".to_owned()), ..Answer::default() };
    let judged = Rules::default()
        .says(Managed, "a", Said::Answer(says().into()))
        .says(Team, "b", Said::Answer(says().into()))
        .says(Shared, "rewrites", rewrites(r#"{"n":1}"#))
        .decide(call("PreToolUse", "{}"))
        .await;
    let notes = judged.decision.system_messages.iter().map(|note| (&*note.rule.id, note.text.as_str()));
    assert_eq!(notes.collect::<Vec<_>>(), [("a", "mind"), ("b", "mind")]);
}

#[tokio::test]
async fn what_a_caller_cannot_carry_out_falls_back_as_the_settings_say() {
    let only_block = Capabilities::NONE.with(Capability::Block);
    let decide = async |said| {
        let mut trigger = call("PreToolUse", r#"{"n":0}"#);
        trigger.capabilities = only_block;
        Rules::default().says(Managed, "a", said).decide(trigger).await
    };
    let judged = decide(gives(Verdict::Ask)).await;
    let reason = "this needs a person's consent and this agent cannot wait for it: says ask";
    assert_eq!(judged.verdict(), (Verdict::Block, reason, Some("a")));
    assert_eq!(judged.decision.decided_by.as_ref().map(|by| by.cause), Some(Cause::Capability));

    let judged = decide(rewrites(r#"{"n":1}"#)).await;
    let reason =
        "the call was rewritten and this agent cannot carry a rewrite out; the corrected parameters are {\"n\":1}";
    assert_eq!(judged.verdict(), (Verdict::Block, reason, Some("a")));
    assert_eq!(judged.params(), None);

    let mut hidden = call_with_result("PostToolUse", "1");
    hidden.capabilities = only_block.with(Capability::ModifyParams);
    let judged = Rules::default().says(Managed, "a", hides("2")).decide(hidden).await;
    let reason = "the call was rewritten and this agent cannot carry a rewrite out; the corrected result is 2";
    assert_eq!(judged.verdict(), (Verdict::Block, reason, Some("a")));
    assert_eq!(judged.decision.modified_result, None);

    let judged = decide(halts("enough")).await;
    let lacking = judged.decision.downgrades.iter().map(|downgrade| downgrade.missing).collect::<Vec<_>>();
    assert_eq!((judged.decision.halt.as_deref(), lacking), (Some("enough"), vec![Capability::Halt]));

    let context = Answer { additional_context: Some("c".to_owned()), ..Answer::default() };
    let judged = decide(Said::Answer(Box::new(context))).await;
    assert_eq!(judged.decision.verdict, Verdict::None);
    assert!(judged.decision.additional_context.is_empty());
    let dropped = judged.decision.results.iter().map(|result| result.ran.dropped.as_str()).collect::<Vec<_>>();
    assert_eq!(dropped, ["context held back: this agent has no place for it here"]);
}
