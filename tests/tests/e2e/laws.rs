//! The laws of the design, each with real processes: those of the chain and the verdict here, then rewrites, failures,
//! and what is said of rules.

mod failures;
mod rewrites;
mod rules;

use std::fs;

use hookd_tests::{
    Hookd, Tier, TriggerRequestExt as _, decide, event, eventually, post_tool_use, pre_tool_use, rule, said, sh, with,
};
use serde_json::{Value, json};

/// A handler that notes its turn and has no opinion.
fn noted() -> Value {
    sh("echo \"$HOOKD_RULE_ID\" >>$TMPDIR/turns")
}

fn turns(hookd: &Hookd) -> String {
    fs::read_to_string(hookd.path("tmp/turns")).unwrap_or_default()
}

#[tokio::test]
async fn law_01_tiers_then_files_then_positions_each_with_the_form_that_the_one_before_left() {
    let append = |letter: &str| {
        sh(&format!(
            "echo \"$HOOKD_RULE_ID\" >>$TMPDIR/turns
             sed 's/.*\"params\":{{\"text\":\"\\([^\"]*\\)\"}}.*/{{\"modifiedParams\":{{\"text\":\"\\1{letter}\"}}}}/'"
        ))
    };
    let file = |rules: Value| json!({ "hooks": rules }).to_string();
    let hookd = Hookd::builder()
        .plugin(json!([rule("g", "PreToolUse", append("g"))]))
        .shared(json!([rule("f", "PreToolUse", append("f"))]))
        .local(json!([rule("e", "PreToolUse", append("e"))]))
        .team(json!([rule("d", "PreToolUse", append("d"))]))
        .file("managed/2.json", &file(json!([rule("c", "PreToolUse", append("c"))])))
        .file("managed/10.yaml", &file(json!([rule("a", "PreToolUse", append("a")), rule("b", "PreToolUse", noted())])))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("write", json!({ "text": "" }))).await;
    // The tiers above the last author see what became of the call: plugin's `g` is theirs to pass, from below upwards.
    assert_eq!(turns(&hookd).lines().collect::<String>(), "abcdefgfedabc");
    assert_eq!(answer.modified_params_json.as_deref(), Some(r#"{"text":"acdefgfedac"}"#));
    let order = answer.results.iter().map(|result| (result.tier(), result.rule_id.as_str(), result.recheck));
    let (managed, team, local, shared) = (Tier::Managed, Tier::Team, Tier::Local, Tier::Shared);
    assert_eq!(
        order.collect::<Vec<_>>(),
        [
            (managed, "a", false),
            (managed, "b", false),
            (managed, "c", false),
            (team, "d", false),
            (local, "e", false),
            (shared, "f", false),
            (Tier::Plugin, "g", false),
            (shared, "f", true),
            (local, "e", true),
            (team, "d", true),
            (managed, "a", true),
            (managed, "b", true),
            (managed, "c", true),
        ]
    );
}

#[tokio::test]
async fn law_02_the_first_block_ends_the_chain_where_it_prevents_and_is_feedback_elsewhere() {
    let both = json!(["PreToolUse", "PostToolUse"]);
    let blocks = |reason: &str| {
        sh(&format!(
            "echo \"$HOOKD_RULE_ID\" >>$TMPDIR/turns; echo '{{\"decision\":\"block\",\"reason\":\"{reason}\"}}'"
        ))
    };
    let events = |rule: Value| with(rule, json!({ "event": both }));
    let hookd = Hookd::builder()
        .managed(json!([events(rule("m", "", noted()))]))
        .team(json!([events(rule("t", "", blocks("first")))]))
        .shared(json!([events(rule("s", "", blocks("second")))]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("write", json!({}))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "first", "decidedBy": "rule team/t",
            "results": ["managed/m none", "team/t block"], "considered": 3, "matched": 3,
        })
    );
    assert_eq!(turns(&hookd), "m\nt\n");
    let answer = hookd.trigger(post_tool_use("write", json!({}), json!("ok"))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "first\nsecond", "decidedBy": "rule team/t",
            "results": ["managed/m none", "team/t block", "shared/s block"], "considered": 3, "matched": 3,
        })
    );
    assert_eq!(turns(&hookd), "m\nt\nm\nt\ns\n");
}

#[tokio::test]
async fn law_03_the_most_restrictive_wins_and_an_allow_counts_only_from_a_tier_that_may() {
    let says = |decision: &str| sh(&format!("echo '{{\"decision\":\"{decision}\",\"reason\":\"{decision}\"}}'"));
    let on = |tool: &str, rule: Value| with(rule, json!({ "matcher": format!("^{tool}$") }));
    let hookd = Hookd::builder()
        .managed(json!([on("ask", rule("m", "PreToolUse", says("allow")))]))
        .local(json!([on("defer", rule("l", "PreToolUse", says("defer")))]))
        .shared(json!([
            on("ask|defer", rule("s-ask", "PreToolUse", says("ask"))),
            on("allow", rule("s-allow", "PreToolUse", says("allow"))),
        ]))
        .start()
        .await;
    let mut verdicts = Vec::new();
    for tool in ["ask", "defer", "allow"] {
        let answer = said(&hookd.trigger(pre_tool_use(tool, json!({}))).await);
        verdicts.push(json!([answer["verdict"], answer["reason"], answer["decidedBy"], answer["results"]]));
    }
    assert_eq!(
        json!(verdicts),
        json!([
            ["ask", "ask", "rule shared/s-ask", ["managed/m allow", "shared/s-ask ask"]],
            ["defer", "defer", "rule local/l", ["local/l defer", "shared/s-ask ask"]],
            ["none", null, null, ["shared/s-allow allow"]],
        ])
    );
}

#[tokio::test]
async fn law_04_final_keeps_lower_tiers_from_being_asked_and_not_its_own() {
    let hookd = Hookd::builder()
        .team(json!([
            with(rule("done", "PreToolUse", sh("echo '{\"decision\":\"allow\"}'")), json!({ "final": true })),
            rule("after", "PreToolUse", noted()),
        ]))
        .shared(json!([rule("below", "PreToolUse", noted())]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("write", json!({}))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "allow", "decidedBy": "rule team/done",
            "results": ["team/done allow", "team/after none"], "considered": 3, "matched": 3,
        })
    );
    assert_eq!(turns(&hookd), "after\n");
}

#[tokio::test]
async fn law_06_async_is_queued_at_once_and_after_the_verdict_where_it_asks_for_it() {
    let on_verdict = |verdict: &str, file: &str| {
        let rule = rule(file, "PreToolUse", sh(&format!("cat >$TMPDIR/new && mv $TMPDIR/new $TMPDIR/{file}")));
        with(rule, json!({ "async": true, "onVerdict": [verdict] }))
    };
    let hookd = Hookd::builder()
        .managed(json!([
            with(
                rule("waits", "PreToolUse", sh("read line <$TMPDIR/pipe; echo $line >$TMPDIR/waited")),
                json!({ "async": true })
            ),
            rule("no", "PreToolUse", sh("echo '{\"decision\":\"block\",\"reason\":\"not today\"}'")),
        ]))
        .local(json!([on_verdict("block", "blocked"), on_verdict("allow", "allowed")]))
        .start()
        .await;
    let pipe = hookd.path("tmp/pipe");
    assert!(tokio::process::Command::new("mkfifo").arg(&pipe).status().await.unwrap().success());

    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "not today", "decidedBy": "rule managed/no",
            "results": ["managed/waits queued", "managed/no block", "local/blocked queued"],
            "considered": 4, "matched": 4,
        })
    );
    assert_eq!(answer.results[0].output.as_deref(), Some("(async, no wait)"));
    assert!(answer.results[0].ok && answer.results[2].ok);
    // The answer is here, and the first one still waits for this line.
    tokio::fs::write(&pipe, "line\n").await.unwrap();
    let read = async |path: &str| fs::read_to_string(hookd.path(path)).ok().filter(|text| !text.is_empty());
    assert_eq!(eventually("the async rule has ended", async || read("tmp/waited").await).await, "line\n");
    let input = eventually("the rule after the verdict has its input", async || read("tmp/blocked").await).await;
    let mut input: Value = serde_json::from_str(&input).unwrap();
    assert!(input["timestamp"].take().is_u64());
    assert_eq!(
        input,
        json!({
            "event": "PreToolUse", "sessionId": "s1", "timestamp": null,
            "toolCall": { "tool": "Bash", "params": { "command": "ls" } },
            "requestId": "", "decisionId": answer.decision_id, "ruleId": "blocked",
            "decision": { "verdict": "block", "reason": "not today", "ruleId": "no", "tier": "managed" },
        })
    );
    assert!(!hookd.path("tmp/allowed").try_exists().unwrap());
}

#[tokio::test]
async fn law_06_shadow_rules_never_decide_and_say_what_they_would_have_given() {
    let blocks = json!({ "decision": "block", "reason": "r", "modifiedParams": {}, "halt": true });
    let hookd = Hookd::builder()
        .managed(json!([
            with(
                rule("decides", "PreToolUse", decide(json!({ "verdict": "block", "reason": "r" }))),
                json!({ "mode": "shadow" })
            ),
            with(
                rule("runs", "PreToolUse", sh(&format!("echo '{blocks}'; touch $TMPDIR/ran"))),
                json!({ "mode": "shadow" })
            ),
        ]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none", "results": ["managed/decides block shadow", "managed/runs queued shadow"],
            "considered": 2, "matched": 2,
        })
    );
    let ended = eventually("the shadow command has run", async || {
        hookd.log_lines().into_iter().find(|line| line["message"] == "handler in the background ended")
    })
    .await;
    let said = ["rule", "tier", "event", "decision_id", "shadow", "outcome"].map(|key| &ended[key]);
    let decision_id = json!(answer.decision_id);
    let expected = [json!("runs"), json!("managed"), json!("PreToolUse"), decision_id, json!(true), json!("block")];
    assert_eq!(said, expected.each_ref());
    assert!(hookd.path("tmp/ran").is_file());
}

#[tokio::test]
async fn law_13_halt_blocks_where_block_prevents_and_outranks_go_on_from_its_tier_upwards() {
    let halts = sh("echo '{\"halt\":true,\"haltReason\":\"enough\"}'");
    let goes_on = sh("echo '{\"decision\":\"block\",\"reason\":\"go on\"}'");
    let hookd = Hookd::builder()
        .managed(json!([rule("halts", "Stop", halts.clone()), rule("goes-on", "SubagentStop", goes_on.clone())]))
        .shared(json!([
            rule("goes-on", "Stop", goes_on),
            rule("halts", "SubagentStop", halts.clone()),
            rule("halts-before", "PreToolUse", halts),
        ]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "enough", "halt": "enough", "decidedBy": "rule shared/halts-before",
            "results": ["shared/halts-before block"], "considered": 1, "matched": 1,
        })
    );
    let answer = hookd.trigger(event("Stop")).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none", "halt": "enough", "decidedBy": "rule managed/halts",
            "results": ["managed/halts none", "shared/goes-on block"], "considered": 2, "matched": 2,
        })
    );
    assert!(answer.results[1].reason.contains("block dropped"), "{:?}", answer.results[1]);
    let answer = hookd.trigger(event("SubagentStop").with_payload(json!({ "agent_type": "explorer" }))).await;
    assert_eq!(said(&answer)["verdict"], "block");
    assert!(!answer.halt);
    assert_eq!(answer.reason, "go on");
}
