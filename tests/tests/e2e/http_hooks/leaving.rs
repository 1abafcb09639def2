//! Calls that find no place, callers that go, and a server that goes.

use hookd_tests::{Hookd, RawHttp1, Signal, eventually, within};
use serde_json::json;
use tokio::task::JoinSet;

use super::{CLAUDE, TRIGGER, before, context, denied, error, not_judged, rules, stop};
use crate::gate;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_place_is_a_block_in_the_form_of_its_event() {
    let hookd = Hookd::builder().managed(rules()).settings(json!({ "limits": { "in_flight": 1 } })).start().await;
    let address = hookd.address();
    let ask =
        |path: &'static str, body: String| async move { RawHttp1::connect(address).await.ask(path, "", &body).await };
    let mut running = JoinSet::new();
    running.spawn(ask(CLAUDE, before("Gated", json!({}))));
    gate::begun(&hookd, 1).await;

    let mut shed = JoinSet::new();
    for _ in 0..100 {
        shed.spawn(ask(CLAUDE, before("Read", json!({}))));
    }
    while let Some(answer) = within("an answer", shed.join_next()).await {
        let answer = answer.unwrap();
        assert_eq!(not_judged(&answer), "OVERLOADED");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let stopping = ask(CLAUDE, stop()).await;
    assert_eq!(stopping.header("hookd-not-judged"), Some("OVERLOADED"));
    assert!(!stopping.body.contains("block"), "an agent may always stop: {}", stopping.body);
    let allowed = ask("/v1/hooks/claude-code?on_unavailable=allow", before("Read", json!({}))).await;
    assert_eq!((allowed.status, allowed.body.as_str()), (200, ""));
    let answer = ask(TRIGGER, context("Read")).await;
    assert_eq!((error(&answer), answer.header("retry-after")), ((429, "OVERLOADED".to_owned()), Some("1")));
    assert_eq!(not_judged(&hookd.post_http2(CLAUDE, &before("Read", json!({}))).await), "OVERLOADED");

    let shed = r#"hookd_calls_total{event="",verdict="",tier="",status="resource_exhausted"}"#;
    assert_eq!((hookd.metric(shed).await, hookd.metric("hookd_shed_calls_total").await), (104.0, 104.0));
    gate::open(&hookd);
    while let Some(answer) = within("an answer", running.join_next()).await {
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.body.as_str(), answer.header("hookd-not-judged")), (200, "", None));
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_handlers_along() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    connection.send(&RawHttp1::post(CLAUDE, "", &before("Gated", json!({})))).await;
    gate::begun(&hookd, 1).await;
    drop(connection);
    eventually("no handler is left", async || hookd.children().is_empty().then_some(())).await;
    let cancelled = r#"hookd_calls_total{event="",verdict="",tier="",status="cancelled"}"#;
    eventually("it is counted", async || (hookd.metric(cancelled).await == 1.0).then_some(())).await;
    assert_eq!(hookd.metric("hookd_in_flight_calls").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_leaves_when_its_calls_have_their_answers_and_half_sent_ones_do_not_hold_it() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let address = hookd.address();
    let _silent = RawHttp1::connect(address).await;
    let mut half_head = RawHttp1::connect(address).await;
    half_head.send(b"POST /v1/trigger HTTP/1.1\r\nHost: loc").await;
    let mut idle = RawHttp1::connect(address).await;
    denied(&idle.ask(CLAUDE, "", &before("Bash", json!({}))).await);
    let mut running = RawHttp1::connect(address).await;
    running.send(&RawHttp1::post(CLAUDE, "", &before("Gated", json!({})))).await;
    gate::begun(&hookd, 1).await;

    hookd.signal(Signal::TERM);
    assert_eq!(idle.closed().await, "");
    gate::open(&hookd);
    let answer = running.answer().await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(running.closed().await, "");
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(hookd.children(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_cut_at_the_drain_limit_are_blocks() {
    let hookd = Hookd::builder()
        .managed(rules())
        .settings(json!({ "limits": { "default_deadline": "1s" }, "drain": { "limit": "1s" } }))
        .start()
        .await;
    let address = hookd.address();
    let mut agent = RawHttp1::connect(address).await;
    agent.send(&RawHttp1::post(CLAUDE, "hookd-timeout-ms: 40000\r\n", &before("Gated", json!({})))).await;
    let mut caller = RawHttp1::connect(address).await;
    caller.send(&RawHttp1::post(TRIGGER, "hookd-timeout-ms: 40000\r\n", &context("Gated"))).await;
    gate::begun(&hookd, 2).await;
    hookd.signal(Signal::TERM);
    assert_eq!(not_judged(&agent.answer().await.unwrap()), "STOPPING");
    assert_eq!(error(&caller.answer().await.unwrap()), (503, "STOPPING".to_owned()));
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(hookd.children(), []);
}
