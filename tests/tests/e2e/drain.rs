//! How hookd leaves: nothing that it accepted is lost, and nothing holds it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hookd_client::{CallErrorKind, Client, Gate, OnUnavailable};
use hookd_tests::{
    Frame, Hookd, PREFACE, Place, RawHttp2, Signal, eventually, pre_tool_use, said, v1, with_deadline, within,
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::gate;

const TRIGGER: &str = "/hookd.v1.HookService/Trigger";
const DECISION_ID: &str = "hookd-decision-id";

fn gated_call() -> tonic::Request<v1::TriggerRequest> {
    with_deadline(pre_tool_use("Gated", json!({})), Duration::from_secs(40))
}

fn logged(hookd: &Hookd, message: &str) -> Vec<Value> {
    hookd.log_lines().into_iter().filter(|line| line["message"] == message).collect()
}

/// Makes quick calls on one connection until they fail. Gives the ids of those that were answered; of the others, each
/// must be a status of hookd's that says why, or one of the transport's.
async fn ask_until_it_goes(
    mut client: v1::hook_service_client::HookServiceClient<tonic::transport::Channel>,
) -> BTreeSet<String> {
    let mut answered = BTreeSet::new();
    loop {
        match client.trigger(pre_tool_use("Quick", json!({}))).await {
            Ok(answer) => assert!(answered.insert(answer.into_inner().decision_id)),
            Err(status) => {
                if status.metadata().contains_key(DECISION_ID) {
                    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                }
                return answered;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_093_connections_that_never_end_do_not_hold_it_and_no_accepted_call_is_lost() {
    let hookd = Hookd::builder()
        .managed(json!([gate::gated("gated")]))
        .settings(json!({ "limits": { "default_deadline": "3s" }, "drain": { "min_delay": "0s", "limit": "20s" } }))
        .start()
        .await;
    let address = hookd.address();
    let _silent = RawHttp2::silent(address).await;
    let mut half = RawHttp2::silent(address).await;
    half.send(&PREFACE[..10]).await;
    let _never_answers = RawHttp2::idle(address).await;
    let mut polite = RawHttp2::idle(address).await;
    let mut stuck = RawHttp2::idle(address).await;
    stuck.begin_call(1, TRIGGER).await;
    stuck.send_half_a_message(1, &[0; 100]).await;

    let mut slow = JoinSet::new();
    for _ in 0..8 {
        let mut client = hookd.client().await;
        slow.spawn(async move { client.trigger(gated_call()).await });
    }
    let mut quick = JoinSet::new();
    for _ in 0..4 {
        quick.spawn(ask_until_it_goes(hookd.client().await));
    }
    gate::begun(&hookd, 8).await;

    let begun = Instant::now();
    hookd.signal(Signal::TERM);
    assert_eq!(polite.until(|frame| *frame == Frame::GoAway).await, Some(Frame::GoAway));
    gate::open(&hookd);
    let mut answered = BTreeSet::new();
    while let Some(answer) = within("an answer", slow.join_next()).await {
        let answer = answer.unwrap().unwrap().into_inner();
        let expected = json!({ "verdict": "none", "results": ["managed/gated none"], "considered": 1, "matched": 1 });
        assert_eq!(said(&answer), expected);
        answered.insert(answer.decision_id);
    }
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(100), "{:?}", begun.elapsed());
    while let Some(quick) = within("the end of calls", quick.join_next()).await {
        answered.extend(quick.unwrap());
    }
    let decided: BTreeSet<_> =
        logged(&hookd, "decided").iter().map(|line| line["decision_id"].as_str().unwrap().to_owned()).collect();
    assert!(decided.len() >= 8, "{decided:?}");
    let lost = decided.difference(&answered).collect::<Vec<_>>();
    assert!(lost.is_empty(), "decided and not answered: {lost:?}");
    assert_eq!(hookd.children(), []);
    stuck.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_goes_first_and_it_still_serves_for_a_while() {
    let hookd = Hookd::builder().settings(json!({ "drain": { "min_delay": "5s" } })).start().await;
    let mut health = HealthClient::new(hookd.channel());
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(hookd.admin_get("/readyz").await.0, 200);

    hookd.signal(Signal::TERM);
    let next = within("health", watch.message()).await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    let (status, page) = hookd.admin_get("/readyz").await;
    assert_eq!(status, 503);
    assert!(page.contains("waiting for: shutdown"), "{page}");
    assert_eq!(hookd.admin_get("/livez").await.0, 200);
    let answer = hookd.client().await.trigger(pre_tool_use("Bash", json!({}))).await.unwrap().into_inner();
    assert_eq!(answer.verdict(), v1::Verdict::None);

    assert_eq!(hookd.wait_exit().await.code(), Some(0));
}

/// A status of hookd's own that says that it leaves.
fn check_cut(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.metadata().contains_key(DECISION_ID), "{status:?}");
    assert_eq!(status.get_details_error_info().map(|info| info.reason), Some("STOPPING".to_owned()));
    assert!(status.get_details_retry_info().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_still_runs_at_the_drain_limit_is_cut_by_name_and_killed() {
    let background = json!({ "id": "background", "event": "PreToolUse", "async": true,
                             "handler": { "type": "command", "command": "sleep 1000", "timeout": 60_000 } });
    let hookd = Hookd::builder()
        .managed(json!([background, gate::gated("gated")]))
        .settings(json!({ "limits": { "default_deadline": "1s" }, "drain": { "limit": "1s" } }))
        .start()
        .await;
    let mut calls = JoinSet::new();
    for _ in 0..4 {
        let mut client = hookd.client().await;
        calls.spawn(async move { client.trigger(gated_call()).await });
    }
    gate::begun(&hookd, 4).await;
    hookd.signal(Signal::TERM);
    while let Some(answer) = within("an answer", calls.join_next()).await {
        check_cut(&answer.unwrap().unwrap_err());
    }
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(hookd.children(), []);
    let ended = logged(&hookd, "handler in the background ended");
    let ended = ended.iter().map(|line| (&line["rule"], &line["outcome"], &line["failure"])).collect::<Vec<_>>();
    assert_eq!(ended, vec![(&json!("background"), &json!("failed"), &json!("cancelled")); 4]);
}

#[tokio::test]
async fn case_014_handlers_in_the_background_may_finish_within_the_drain_limit() {
    let rule = json!({ "id": "background", "event": "SessionEnd", "async": true, "handler": gate::gated_handler() });
    let hookd = Hookd::builder().managed(json!([rule])).start().await;
    let answer = hookd.trigger(hookd_tests::event("SessionEnd")).await;
    assert_eq!(answer.results[0].output.as_deref(), Some("(async, no wait)"));
    gate::begun(&hookd, 1).await;
    let mut connection = RawHttp2::idle(hookd.address()).await;
    hookd.signal(Signal::TERM);
    assert_eq!(connection.until(|frame| *frame == Frame::GoAway).await, Some(Frame::GoAway));
    gate::open(&hookd);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    let ended = logged(&hookd, "handler in the background ended");
    let ended = ended.iter().map(|line| (&line["rule"], &line["outcome"], &line["exit_code"])).collect::<Vec<_>>();
    assert_eq!(ended, [(&json!("background"), &json!("none"), &json!(0))]);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let hookd = Hookd::builder()
            .managed(json!([gate::gated("gated")]))
            .settings(json!({ "drain": { "min_delay": "10m", "limit": "10m" } }))
            .start()
            .await;
        let mut client = hookd.client().await;
        let call = tokio::spawn(async move { client.trigger(gated_call()).await });
        gate::begun(&hookd, 1).await;
        hookd.signal(Signal::TERM);
        eventually("it leaves", async || (hookd.admin_get("/readyz").await.0 == 503).then_some(())).await;
        hookd.signal(second);
        assert_eq!(hookd.wait_exit().await.code(), Some(130));
        assert_eq!(hookd.children(), []);
        within("the end of the call", call).await.unwrap().unwrap_err();
    }
}

/// Makes calls that the rules deny until told to stop: how many were answered, how many were refused unanswered.
async fn denied_calls(client: Client, stop: Arc<AtomicBool>) -> (usize, usize) {
    let session = client.session("s");
    let (mut answered, mut unanswered) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let gate = session.pre_tool_use("Bash", r#"{"command":"rm -rf /"}"#).await;
        assert!(matches!(gate, Gate::Refuse { .. }), "let through: {gate:?}");
        match gate.decision().error() {
            None => answered += 1,
            Some(error) => {
                assert_eq!(error.kind, CallErrorKind::Unavailable, "{error}");
                unanswered += 1;
            }
        }
    }
    (answered, unanswered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_106_no_denied_call_passes_while_hookd_is_restarted() {
    let place = Place::free();
    let address = place.address();
    let start = || {
        Hookd::builder()
            .managed(json!([{ "id": "guard", "event": "PreToolUse",
                              "handler": { "type": "decide", "verdict": "block", "reason": "no" } }]))
            .settings(json!({ "listen": address.to_string() }))
            .start()
    };
    let mut hookd = start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let client = Client::connect_lazy(&address.to_string(), OnUnavailable::Block).unwrap();
    let callers = (0..4).map(|_| tokio::spawn(denied_calls(client.clone(), Arc::clone(&stop)))).collect::<Vec<_>>();
    let denied = r#"hookd_calls_total{event="PreToolUse",verdict="block",tier="managed",status="ok"}"#;
    for round in 0..6 {
        eventually("calls are denied", async || (hookd.metric(denied).await >= 20.0).then_some(())).await;
        hookd.signal(if round % 2 == 0 { Signal::TERM } else { Signal::KILL });
        hookd.wait_exit().await;
        hookd = start().await;
    }
    eventually("calls are denied", async || (hookd.metric(denied).await >= 20.0).then_some(())).await;
    stop.store(true, Ordering::SeqCst);
    let mut answered = 0;
    for caller in callers {
        answered += caller.await.unwrap().0;
    }
    assert!(answered >= 7 * 20, "{answered}");
}
