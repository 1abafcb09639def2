use hookd_tests::{
    Hookd, RawHttp1, pre_tool_use,
    v1::{ExplainRequest, GetStatusRequest, ListRulesRequest, ReloadRequest, TriggerStreamRequest},
    with_token,
};
use serde_json::json;
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};
use tonic_types::StatusExt as _;

use super::{closed, refusal};

const TOKENS: [&str; 4] = ["agent", "reader", "admin", "nobody"];

/// A token of this name, long enough.
fn token(name: &str) -> String {
    format!("token-of-{name}-0123456789")
}

fn with_tokens() -> hookd_tests::HookdBuilder {
    let entry = |name: &str| json!({ "name": name, "value": token(name), "labels": { "role": name } });
    let tokens = json!({ "tokens": TOKENS.map(entry) });
    let settings = json!({ "identity": { "tokens_file": "tokens.json" } });
    closed().settings(settings).file("tokens.json", &tokens.to_string())
}

/// What is missing, by the details of the status.
fn missing<T>(answer: Result<T, Status>) -> Option<String> {
    let status = answer.err()?;
    assert_eq!(refusal(&status), (Code::PermissionDenied, "NOT_PERMITTED".to_owned()), "{status:?}");
    let permission = status.get_details_error_info().unwrap().metadata["permission"].clone();
    assert!(status.message().contains(&format!("`{permission}`")), "{status:?}");
    Some(permission)
}

/// What is missing for each of: trigger, status, rules, explain, reload.
async fn all(hookd: &Hookd, name: &str) -> [Option<String>; 5] {
    let token = token(name);
    let mut admin = hookd.admin();
    let trigger = Some(pre_tool_use("Bash", json!({})));
    [
        missing(hookd.try_trigger(with_token(pre_tool_use("Bash", json!({})), &token)).await),
        missing(admin.get_status(with_token(GetStatusRequest {}, &token)).await),
        missing(admin.list_rules(with_token(ListRulesRequest::default(), &token)).await),
        missing(admin.explain(with_token(ExplainRequest { trigger, ..Default::default() }, &token)).await),
        missing(admin.reload(with_token(ReloadRequest {}, &token)).await),
    ]
}

#[tokio::test]
async fn whoever_is_let_in_may_trigger_and_no_more() {
    let hookd = with_tokens().start().await;
    let [read, reload] = ["read", "reload"].map(|name| Some(name.to_owned()));
    for name in TOKENS {
        assert_eq!(all(&hookd, name).await, [None, read.clone(), read.clone(), read.clone(), reload.clone()], "{name}");
    }
}

#[tokio::test]
async fn labels_grant_permissions_one_by_one() {
    let grants = json!([
        { "match_labels": { "role": "agent" }, "may": ["trigger"] },
        { "match_labels": { "role": "reader" }, "may": ["read"] },
        { "match_labels": { "role": "admin" }, "may": ["trigger", "read", "reload"] },
    ]);
    let hookd = with_tokens().settings(json!({ "permissions": grants })).start().await;
    let [trigger, read, reload] = ["trigger", "read", "reload"].map(|name| Some(name.to_owned()));
    let cases = [
        ("agent", [None, read.clone(), read.clone(), read.clone(), reload.clone()]),
        ("reader", [trigger.clone(), None, None, None, reload.clone()]),
        ("admin", [None, None, None, None, None]),
        ("nobody", [trigger, read.clone(), read.clone(), read, reload]),
    ];
    for (name, expected) in cases {
        assert_eq!(all(&hookd, name).await, expected, "{name}");
    }
}

#[tokio::test]
async fn who_may_not_trigger_may_not_in_plain_http_nor_in_a_stream() {
    let grants = json!([{ "match_labels": { "role": "agent" }, "may": ["trigger"] }]);
    let hookd = with_tokens().settings(json!({ "permissions": grants })).start().await;
    let hook = json!({ "session_id": "s", "transcript_path": "/t", "cwd": "/", "hook_event_name": "PreToolUse",
                       "tool_name": "Bash", "tool_input": {}, "tool_use_id": "t" })
    .to_string();
    let mut http = RawHttp1::connect(hookd.address()).await;
    for (name, status, not_judged) in [("agent", 200, None), ("reader", 403, Some("NOT_PERMITTED"))] {
        let header = format!("authorization: Bearer {}\r\n", token(name));
        let answer = http.ask("/v1/trigger", &header, r#"{"event":"Stop"}"#).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.json()["error"]["reason"].as_str(), not_judged);
        // Never let through, also not by a caller that goes on without hookd.
        for path in ["/v1/hooks/claude-code", "/v1/hooks/claude-code?on_unavailable=allow"] {
            let answer = http.ask(path, &header, &hook).await;
            assert_eq!((answer.status, answer.header("hookd-not-judged")), (200, not_judged), "{name} {path}");
            assert_eq!(answer.body.contains(r#""permissionDecision":"deny""#), not_judged.is_some(), "{}", answer.body);
        }
        let mut client = hookd.client().await;
        let opened = client.trigger_stream(with_token(tokio_stream::pending::<TriggerStreamRequest>(), &token(name)));
        assert_eq!(missing(opened.await).as_deref(), not_judged.map(|_| "trigger"), "{name}");
    }
}

#[tokio::test]
async fn health_is_for_everybody_and_reflection_for_those_who_may_trigger() {
    let hookd = with_tokens().start().await;
    let mut health = HealthClient::new(hookd.channel());
    health.check(HealthCheckRequest::default()).await.unwrap();
    health.check(with_token(HealthCheckRequest::default(), "not-a-token")).await.unwrap();
    let mut reflection = ServerReflectionClient::new(hookd.channel());
    let list = || {
        let message_request = Some(MessageRequest::ListServices(String::new()));
        tokio_stream::once(ServerReflectionRequest { host: String::new(), message_request })
    };
    let refused = reflection.server_reflection_info(list()).await.unwrap_err();
    assert_eq!(refusal(&refused), (Code::Unauthenticated, "NO_PROOF".to_owned()));
    reflection.server_reflection_info(with_token(list(), &token("agent"))).await.unwrap();
}

#[tokio::test]
async fn on_this_machine_no_proof_is_needed_and_a_wrong_one_refused_all_the_same() {
    let hookd = with_tokens().settings(json!({ "identity": { "anonymous": "loopback" } })).start().await;
    assert!(hookd.reload().await.ok);
    hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    let wrong = hookd.try_trigger(with_token(pre_tool_use("Bash", json!({})), "not-a-token")).await.unwrap_err();
    assert_eq!(refusal(&wrong), (Code::Unauthenticated, "UNKNOWN_TOKEN".to_owned()));
    let wrong = hookd.admin().reload(with_token(ReloadRequest {}, "not-a-token")).await.unwrap_err();
    assert_eq!(refusal(&wrong), (Code::Unauthenticated, "UNKNOWN_TOKEN".to_owned()));
}
