//! Sources with a selector (issue 6): who is judged by which rules, on every way in.

use hookd_tests::{
    Hookd, HookdBuilder, HttpAnswer, RawHttp1, Tier, TriggerRequestExt as _, event,
    v1::{Caller as Claimed, ExplainRequest, TriggerRequest, trigger_stream_response::Message as Came},
    with_token,
};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::stream::caller::Caller;

const CLAUDE: &str = "/v1/hooks/claude-code";
const TRIGGER: &str = "/v1/trigger";

/// Rules for everyone, for tenant `a` and for tenant `b`, each of which names itself as context.
fn tenants(missing_label: &str) -> HookdBuilder {
    let notes =
        |id: &str| json!({ "id": id, "event": "PreToolUse", "handler": { "type": "decide", "additionalContext": id } });
    let of = |tenant: &str| {
        json!({ "path": format!("of/{tenant}"), "selector": { "matchLabels": { "tenant": tenant } },
                "missing_label": missing_label })
    };
    let file = |rule: Value| json!({ "hooks": [rule] }).to_string();
    Hookd::builder()
        .managed(json!([notes("everyone")]))
        .file("of/a/rules.json", &file(notes("only-a")))
        .file("of/b/rules.json", &file(notes("only-b")))
        .settings(json!({ "tiers": { "team": { "sources": [of("a"), of("b")] } } }))
}

/// A call that says in every place that holds text that its caller is of tenant `b`.
fn pretends() -> TriggerRequest {
    let b = || "b".to_owned();
    TriggerRequest {
        session_id: b(),
        request_id: b(),
        payload_json: r#"{"tenant":"b","labels":{"tenant":"b"},"identity":{"labels":{"tenant":"b"}}}"#.to_owned(),
        caller: Some(Claimed {
            agent: b(),
            project: b(),
            user: b(),
            labels: [("tenant".to_owned(), b())].into(),
            ..Claimed::default()
        }),
        ..event("PreToolUse").with_tool("Bash", json!({ "tenant": "b", "labels": { "tenant": "b" } }))
    }
}

/// What Claude Code sends, with more in it that says the same.
fn pretends_as_claude() -> String {
    json!({
        "session_id": "b", "transcript_path": "/t.jsonl", "cwd": "/", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "tenant": "b" }, "tool_use_id": "t1",
        "tenant": "b", "labels": { "tenant": "b" }, "identity": { "labels": { "tenant": "b" } },
    })
    .to_string()
}

fn pretends_as_context() -> String {
    json!({ "event": "PreToolUse", "toolCall": { "tool": "Bash", "params": { "tenant": "b" } },
            "caller": { "labels": { "tenant": "b" } } })
    .to_string()
}

fn missing(status: &Status) -> (Code, String, String) {
    assert!(status.metadata().contains_key("hookd-decision-id"), "{status:?}");
    let info = status.get_details_error_info().unwrap();
    (status.code(), info.reason, info.metadata["label"].clone())
}

fn denied(answer: &HttpAnswer) {
    let output = &answer.json()["hookSpecificOutput"];
    assert_eq!(output["permissionDecision"], "deny", "{answer:?}");
    let reason = output["permissionDecisionReason"].as_str().unwrap();
    assert!(reason.contains("the caller lacks the label `tenant`") && reason.contains("of/a"), "{reason}");
    assert_eq!(answer.header("hookd-not-judged"), Some("MISSING_LABEL"));
}

#[tokio::test]
async fn a_caller_without_a_label_that_a_source_needs_is_not_judged_on_any_way_in() {
    let hookd = tenants("deny").start().await;
    let lacks = (Code::PermissionDenied, "MISSING_LABEL".to_owned(), "tenant".to_owned());
    let status = hookd.try_trigger(pretends()).await.unwrap_err();
    assert_eq!(missing(&status), lacks);
    let source = hookd.path("of/a").display().to_string();
    assert!(status.message().contains(&source), "{status:?}");
    let status = Caller::start(&hookd, pretends(), &[]).await.try_next().await.unwrap_err();
    assert_eq!(missing(&status), lacks);

    let mut connection = RawHttp1::connect(hookd.address()).await;
    denied(&connection.ask(CLAUDE, "", &pretends_as_claude()).await);
    denied(&hookd.post_http2(CLAUDE, &pretends_as_claude()).await);
    // Who is let through where hookd cannot be asked is not let through here: it was asked.
    denied(&connection.ask(&format!("{CLAUDE}?on_unavailable=allow"), "", &pretends_as_claude()).await);
    let answer = connection.ask(TRIGGER, "x-tenant: b\r\n", &pretends_as_context()).await;
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["reason"], &error["label"]), (403, &json!("MISSING_LABEL"), &json!("tenant")));

    // An event for which there is no rule at all is no way around it.
    assert_eq!(missing(&hookd.try_trigger(event("Stop")).await.unwrap_err()), lacks);
}

#[tokio::test]
async fn a_source_can_be_for_those_with_the_label_alone_and_the_settings_say_so_while_hookd_serves() {
    let hookd = tenants("skip").start().await;
    let notes = async |request: TriggerRequest| {
        let answer = hookd.trigger(request).await;
        (answer.additional_context.iter().map(|note| note.text.clone()).collect::<Vec<_>>(), answer.rules_considered)
    };
    let everyone = (vec!["everyone".to_owned()], 1);
    assert_eq!(notes(pretends()).await, everyone);
    let mut caller = Caller::start(&hookd, pretends(), &[]).await;
    let Some(Came::Response(answer)) = caller.try_next().await.unwrap() else { panic!("no answer") };
    assert_eq!(answer.rules_considered, 1);
    let answer = RawHttp1::connect(hookd.address()).await.ask(TRIGGER, "", &pretends_as_context()).await;
    assert_eq!((answer.status, &answer.json()["rulesConsidered"]), (200, &json!(1)));

    let explained = async |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let request = ExplainRequest { trigger: Some(pretends()), labels };
        let rules = hookd.admin().explain(request).await.unwrap().into_inner().rules;
        let would_run = rules.into_iter().filter(|rule| rule.would_run).filter_map(|rule| rule.rule);
        would_run.map(|rule| format!("{} {}", rule.rule_id, rule.selector)).collect::<Vec<_>>()
    };
    assert_eq!(explained(&[]).await, ["everyone "]);
    assert_eq!(explained(&[("tenant", "a")]).await, ["everyone ", "only-a tenant=a"]);
    assert_eq!(explained(&[("tenant", "c")]).await, ["everyone "]);

    hookd.rewrite_rules(Tier::Managed, json!([]));
    hookd.reload().await;
    assert_eq!(notes(pretends()).await, (Vec::new(), 0), "rules for others are not considered");
}

const OF_A: &str = "token-of-a-0123456789";

#[tokio::test]
async fn a_caller_of_tenant_a_is_never_judged_by_the_rules_of_tenant_b_whatever_it_writes_in_the_body() {
    let tokens = json!({ "tokens": [{ "name": "agent", "value": OF_A, "labels": { "tenant": "a" } }] });
    let hookd = tenants("deny")
        .settings(json!({ "identity": { "anonymous": "deny", "tokens_file": "tokens.json" } }))
        .file("tokens.json", &tokens.to_string())
        .start()
        .await;
    let own = ["everyone", "only-a"];
    let answer = hookd.trigger(with_token(pretends(), OF_A)).await;
    let notes = answer.additional_context.iter().map(|note| note.text.as_str()).collect::<Vec<_>>();
    assert_eq!((notes, answer.rules_considered), (own.to_vec(), 2));

    let authorization = || format!("Bearer {OF_A}").parse().unwrap();
    let mut caller = Caller::open_with(&hookd, |request| {
        request.metadata_mut().insert("authorization", authorization());
    })
    .await;
    caller.say(crate::stream::caller::start(pretends(), &[]));
    let Some(Came::Response(answer)) = caller.try_next().await.unwrap() else { panic!("no answer") };
    assert_eq!(answer.rules_considered, 2);

    let mut connection = RawHttp1::connect(hookd.address()).await;
    let header = format!("authorization: Bearer {OF_A}\r\nx-tenant: b\r\n");
    let answer = connection.ask(TRIGGER, &header, &pretends_as_context()).await;
    assert_eq!((answer.status, &answer.json()["rulesConsidered"]), (200, &json!(2)));
    let answer = connection.ask(CLAUDE, &header, &pretends_as_claude()).await;
    assert!(answer.body.contains("only-a") && !answer.body.contains("only-b"), "{answer:?}");
}
