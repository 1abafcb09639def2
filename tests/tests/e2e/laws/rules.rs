//! Laws 10 to 12 and what callers can carry out: what is loaded, what is unknown, and what silence means.

use hookd_tests::{
    Hookd, HookdBuilder, TriggerRequestExt as _, decide, event, eventually, pre_tool_use, rule, said, sh,
    v1::{Capability, TriggerRequest},
    with,
};
use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt as _;

#[tokio::test]
async fn law_10_an_error_in_a_managed_file_keeps_it_from_starting_and_is_told_with_its_place() {
    let broken = "{\n  \"hooks\": [\n    { \"event\": \"PreToolUse\", \"matchr\": \"Bash\",\n      \"handler\": { \"type\": \"decide\" } }\n  ]\n}\n";
    let builder = Hookd::builder().file("managed/rules.json", broken);
    let file = builder.path("managed/rules.json");
    let refused = builder.start_refused().await;
    assert_eq!(refused.code, Some(64));
    let place = format!("{}:3:30: hooks[0].matchr: ", file.display());
    assert!(refused.stderr.contains(&place) && refused.stderr.contains("did you mean `matcher`"), "{}", refused.stderr);
}

#[tokio::test]
async fn law_10_a_source_that_is_named_and_not_there_keeps_it_from_starting_unless_it_is_optional() {
    let source = |optional: bool| {
        let sources = json!([{ "path": "rules-of-the-house", "optional": optional }]);
        Hookd::builder().settings(json!({ "tiers": { "local": { "sources": sources } } }))
    };
    let refused = source(false).start_refused().await;
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.contains("rules-of-the-house"), "{}", refused.stderr);
    let hookd = source(true).start().await;
    assert_eq!(said(&hookd.trigger(event("Stop")).await), json!({ "verdict": "none", "considered": 0, "matched": 0 }));
}

#[tokio::test]
async fn law_10_below_team_a_broken_rule_is_left_out_by_name_and_the_rest_works() {
    let good = rule("good", "PreToolUse", decide(json!({ "verdict": "ask", "reason": "sure?" })));
    let bad = with(rule("bad", "PreToolUse", sh("true")), json!({ "whenn": "true" }));
    let hookd = Hookd::builder().shared(json!([bad, good])).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "ask", "reason": "sure?", "decidedBy": "rule shared/good", "results": ["shared/good ask"],
            "considered": 1, "matched": 1,
        })
    );
    let (status, page) = hookd.admin_get("/readyz").await;
    assert_eq!(status, 200);
    assert!(page.contains("in part: shared") && page.contains("bad"), "{page}");
}

#[tokio::test]
async fn law_11_an_unknown_event_can_block_and_with_a_tool_call_modify() {
    let deploy = with(
        rule("deploy", "PreDeploy", sh(r#"echo '{"modifiedParams":{"to":"staging"}}'"#)),
        json!({ "customEvent": true, "matcher": "^ship$" }),
    );
    let night = with(
        rule("night", "Nightfall", sh(r#"echo '{"blocked":true,"blockReason":"too late"}'"#)),
        json!({ "customEvent": true }),
    );
    let hookd = Hookd::builder().managed(json!([deploy, night])).start().await;
    let answer = hookd.trigger(event("PreDeploy").with_tool("ship", json!({ "to": "live" }))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none", "params": { "to": "staging" }, "results": ["managed/deploy none"],
            "rewrites": [r#"managed/deploy params [{"op":"replace","path":"/to","value":"staging"}]"#],
            "considered": 1, "matched": 1,
        })
    );
    let answer = hookd.trigger(event("Nightfall")).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "too late", "decidedBy": "rule managed/night",
            "results": ["managed/night block"], "considered": 1, "matched": 1,
        })
    );
}

#[tokio::test]
async fn law_11_what_cannot_be_meant_is_invalid_and_named() {
    let hookd = Hookd::builder().start().await;
    let with_params = |text: &str| {
        let mut request = pre_tool_use("Bash", json!({}));
        if let Some(call) = &mut request.tool_call {
            text.clone_into(&mut call.params_json);
        }
        request
    };
    let cases: [(TriggerRequest, &str); 8] = [
        (event("pre_tool_use").with_tool("Bash", json!({})), "event"),
        (event("STOP"), "event"),
        (event("Sto\u{1}p"), "event"),
        (event(""), "event"),
        (event("PreToolUse"), "tool_call"),
        (pre_tool_use("", json!({})), "tool_call.tool"),
        (with_params(r#"{"a":1,"a":2}"#), "tool_call.params_json"),
        (with_params("[]"), "tool_call.params_json"),
    ];
    for (request, field) in cases {
        let shown = format!("{request:?}");
        let status = hookd.try_trigger(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{shown}");
        assert!(status.metadata().contains_key("hookd-decision-id"), "{shown}");
        let fields = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!(fields.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), [field], "{shown}");
    }
}

#[tokio::test]
async fn law_11_a_rule_on_an_unknown_event_must_say_that_it_means_it() {
    let builder = Hookd::builder().managed(json!([rule("typo", "PreToolUze", decide(json!({ "verdict": "block" })))]));
    let refused = builder.start_refused().await;
    assert_eq!(refused.code, Some(64));
    assert!(refused.stderr.contains("did you mean `PreToolUse`"), "{}", refused.stderr);
}

#[tokio::test]
async fn law_12_case_099_with_no_rules_a_warning_says_that_everything_passes() {
    let hookd = Hookd::builder().start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
    assert_eq!(said(&answer), json!({ "verdict": "none", "considered": 0, "matched": 0 }));
    eventually("the warning", async || {
        let warns = |line: &Value| line["level"] == "WARN" && line.to_string().contains("everything passes");
        hookd.log_lines().iter().any(warns).then_some(())
    })
    .await;
    assert_eq!(hookd.stdout_lines().len(), 1, "stdout has the ready line alone");
}

#[tokio::test]
async fn law_12_case_098_case_101_defaults_are_per_event_and_matcher_and_count_where_no_rule_spoke() {
    let hookd = Hookd::builder()
        .managed(json!({
            "hooks": [with(rule("known", "PreToolUse", sh(r#"echo '{"decision":"allow"}'"#)), json!({ "matcher": "^known$" }))],
            "defaults": [
                { "event": "PreToolUse", "matcher": "^note$", "verdict": "allow" },
                { "event": "PreToolUse", "verdict": "block", "reason": "not on the list" },
            ],
        }))
        .local(json!([with(rule("mine", "PreToolUse", sh(r#"echo '{"decision":"allow"}'"#)), json!({ "matcher": "^other$" }))]))
        .start()
        .await;
    let expected = [
        (
            "known",
            json!({
                "verdict": "allow", "decidedBy": "rule managed/known", "results": ["managed/known allow"],
                "considered": 2, "matched": 1,
            }),
        ),
        ("note", json!({ "verdict": "allow", "decidedBy": "default managed", "considered": 2, "matched": 0 })),
        // A default that blocks ends the chain at its tier's end: an allow from below is not even asked for.
        (
            "other",
            json!({
                "verdict": "block", "reason": "not on the list", "decidedBy": "default managed",
                "considered": 2, "matched": 1,
            }),
        ),
    ];
    for (tool, expected) in expected {
        assert_eq!(said(&hookd.trigger(pre_tool_use(tool, json!({}))).await), expected, "{tool}");
    }
    let answer = hookd.trigger(event("UserPromptSubmit")).await;
    assert_eq!(said(&answer), json!({ "verdict": "none", "considered": 0, "matched": 0 }));
}

#[tokio::test]
async fn law_12_a_rewrite_from_below_leaves_no_default_behind() {
    let list = with(
        rule("list", "PreToolUse", decide(json!({ "verdict": "allow" }))),
        json!({ "when": "params.command == 'ls'" }),
    );
    let rewrite = rule("rewrites", "PreToolUse", decide(json!({ "modifiedParams": { "command": "rm -rf /" } })));
    let hookd = Hookd::builder()
        .managed(json!({
            "hooks": [list],
            "defaults": [{ "event": "PreToolUse", "verdict": "block", "reason": "not on the list" }],
        }))
        .shared(json!([rewrite]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "not on the list", "decidedBy": "default managed",
            "results": ["managed/list allow", "shared/rewrites none"],
            "rewrites": [r#"shared/rewrites params [{"op":"replace","path":"/command","value":"rm -rf /"}]"#],
            "considered": 2, "matched": 2,
        })
    );
}

fn opinions() -> HookdBuilder {
    let on = |tool: &str, answer: Value| {
        with(rule(tool, "PreToolUse", sh(&format!("echo '{answer}'"))), json!({ "matcher": format!("^{tool}$") }))
    };
    Hookd::builder().managed(json!([
        on("ask", json!({ "decision": "ask", "reason": "sure?" })),
        on("defer", json!({ "decision": "defer", "reason": "later" })),
        on("modify", json!({ "decision": "allow", "modifiedParams": { "a": 1 } })),
        on("block", json!({ "decision": "block", "reason": "no" })),
        on("context", json!({ "additionalContext": "by the way" })),
    ]))
}

#[tokio::test]
async fn what_a_caller_cannot_carry_out_falls_back_as_the_settings_say_and_is_listed() {
    let hookd = opinions().settings(json!({ "fallbacks": { "defer": "ask" } })).start().await;
    let ask = async |tool: &str, supported: &[Capability]| {
        let answer = said(&hookd.trigger(pre_tool_use(tool, json!({})).that_can(supported)).await);
        json!([answer["verdict"], answer["decidedBy"], answer["params"], answer["context"], answer["downgrades"]])
    };
    use Capability::{Ask, Block};
    assert_eq!(
        ask("ask", &[Block]).await,
        json!(["block", "capability managed/ask", null, null, ["ask: ask -> block"]])
    );
    assert_eq!(
        ask("defer", &[Block, Ask]).await,
        json!(["ask", "capability managed/defer", null, null, ["defer: defer -> ask"]])
    );
    assert_eq!(
        ask("defer", &[Block]).await,
        json!(["block", "capability managed/defer", null, null, ["defer: defer -> ask", "ask: ask -> block"]])
    );
    assert_eq!(
        ask("modify", &[Block, Ask]).await,
        json!(["block", "capability managed/modify", null, null, ["modify_params: allow -> block"]])
    );
    assert_eq!(ask("block", &[]).await, json!(["block", "rule managed/block", null, null, ["block: block -> block"]]));
    assert_eq!(ask("context", &[Block]).await, json!(["none", null, null, null, ["additional_context: none -> none"]]));
    let answer = said(&hookd.trigger(pre_tool_use("modify", json!({}))).await);
    assert_eq!(
        (&answer["verdict"], &answer["params"], answer.get("downgrades")),
        (&json!("allow"), &json!({ "a": 1 }), None)
    );
}
