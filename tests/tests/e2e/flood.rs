//! More than there is room for: nothing is left behind, and nobody is left without an answer.
//!
//! `HOOKD_TEST_FLOOD_CALLS` is how many calls are cancelled; the suite has 300, which is enough to see a leak.

use std::{collections::BTreeMap, env, sync::Arc, time::Duration};

use hookd_tests::{Hookd, eventually, pre_tool_use, said, v1, within};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_types::StatusExt as _;

use crate::gate;

/// How much more memory hookd may hold after a flood than before it, in bytes.
const MEMORY_SLACK: u64 = 32 << 20;

fn bash() -> v1::TriggerRequest {
    pre_tool_use("Bash", json!({ "command": "ls" }))
}

/// A rule on every tool call that runs this.
fn running(command: &str, timeout: u64) -> Value {
    json!([{ "id": "slow", "event": "PreToolUse",
             "handler": { "type": "command", "command": command, "timeout": timeout } }])
}

/// Makes `calls` calls over eight connections, at most 64 at a time, and gives each of them up after 50 ms. Gives how
/// many came to an end before.
async fn cancel_calls(hookd: &Hookd, calls: usize) -> usize {
    let places = Arc::new(Semaphore::new(64));
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(hookd.client().await);
    }
    let mut tasks = JoinSet::new();
    for call in 0..calls {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let mut client = clients[call % clients.len()].clone();
        tasks.spawn(async move {
            let answer = timeout(Duration::from_millis(50), client.trigger(bash())).await;
            drop(place);
            usize::from(answer.is_ok())
        });
    }
    tasks.join_all().await.into_iter().sum()
}

async fn nothing_is_left(hookd: &Hookd) {
    eventually("no child and no zombie is left", async || hookd.children().is_empty().then_some(())).await;
    for gauge in ["hookd_child_processes", "hookd_child_queue_length", "hookd_in_flight_calls"] {
        eventually(gauge, async || (hookd.metric(gauge).await == 0.0).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_010_cancelled_calls_leave_no_child_no_zombie_and_no_memory() {
    let calls = env::var("HOOKD_TEST_FLOOD_CALLS").map_or(300, |calls| calls.parse().unwrap());
    let command = r#"echo begun >> "$TMPDIR/../begun"; sleep 30"#;
    let hookd = Hookd::builder().managed(running(command, 60_000)).start().await;

    // One whose handler certainly runs when its caller goes away.
    let mut client = hookd.client().await;
    let call = tokio::spawn(async move { client.trigger(bash()).await.map(drop) });
    gate::begun(&hookd, 1).await;
    call.abort();
    nothing_is_left(&hookd).await;

    assert_eq!(cancel_calls(&hookd, 100).await, 0);
    nothing_is_left(&hookd).await;
    let before = hookd.memory();
    assert_eq!(cancel_calls(&hookd, calls).await, 0);
    nothing_is_left(&hookd).await;
    let after = hookd.memory();
    println!("{calls} cancelled calls: {} KiB before, {} KiB after", before >> 10, after >> 10);
    assert!(after < before + MEMORY_SLACK, "{before} bytes before, {after} after {calls} calls");

    let cancelled = hookd.metric(r#"hookd_calls_total{event="",verdict="",tier="",status="cancelled"}"#).await;
    assert!((1.0..=(calls + 101) as f64).contains(&cancelled), "each counts once: {cancelled}");
    let quick = hookd.trigger(hookd_tests::event("Stop")).await;
    assert_eq!(said(&quick), json!({ "verdict": "none", "considered": 0, "matched": 0 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_013_three_hundred_events_with_handlers_that_never_end_are_all_answered() {
    let hookd = Hookd::builder()
        .managed(running("sleep 1000", 2_000))
        // All of them are asked, however many did not answer.
        .settings(json!({ "bulkheads": { "breaker_failure_percent": "off" } }))
        .start()
        .await;
    let mut calls = JoinSet::new();
    for _ in 0..300 {
        let mut client = hookd.client().await;
        calls.spawn(async move { within("an answer", client.trigger(bash())).await.unwrap().into_inner() });
    }
    let mut most = 0.0_f64;
    let mut answers = BTreeMap::new();
    while !calls.is_empty() {
        tokio::select! {
            Some(answer) = calls.join_next() => *answers.entry(said(&answer.unwrap()).to_string()).or_insert(0) += 1,
            alive = hookd.metric("hookd_child_processes") => most = most.max(alive),
        }
    }
    let reason = "hook `slow` failed: Timed out after 2000ms";
    let answer = json!({
        "verdict": "block", "reason": reason, "decidedBy": "failure_policy managed/slow",
        "results": ["managed/slow failed timed_out blocked: Timed out after 2000ms"], "considered": 1, "matched": 1,
    });
    assert_eq!(answers, BTreeMap::from([(answer.to_string(), 300)]));
    assert!(most <= 64.0, "{most} children at a time");
    nothing_is_left(&hookd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_place_is_shed_at_once_and_the_rest_is_answered() {
    let hookd = Hookd::builder()
        .managed(json!([gate::gated("gated")]))
        .settings(json!({ "limits": { "in_flight": 1 } }))
        .start()
        .await;
    let client = hookd.client().await;
    let mut calls = JoinSet::new();
    let call = |calls: &mut JoinSet<_>| {
        let mut client = client.clone();
        calls.spawn(
            async move { client.trigger(pre_tool_use("Gated", json!({}))).await.map(tonic::Response::into_inner) },
        );
    };
    call(&mut calls);
    gate::begun(&hookd, 1).await;
    (0..46).for_each(|_| call(&mut calls));
    for _ in 0..46 {
        let shed = within("a shed call", calls.join_next()).await.unwrap().unwrap().unwrap_err();
        check_shed(&shed);
    }

    let mut health = HealthClient::new(hookd.channel());
    let healthy = within("health", health.check(HealthCheckRequest::default())).await.unwrap().into_inner();
    assert_eq!(healthy.status(), ServingStatus::Serving);
    let status = within("status", hookd.admin().get_status(v1::GetStatusRequest {})).await.unwrap().into_inner();
    assert_eq!((status.rules, status.waiting_for.len()), (1, 0));
    assert_eq!(hookd.admin_get("/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(hookd.admin_get("/readyz").await.0, 200);
    let shed = r#"hookd_calls_total{event="",verdict="",tier="",status="resource_exhausted"}"#;
    for (series, value) in [("hookd_in_flight_calls", 1.0), ("hookd_shed_calls_total", 46.0), (shed, 46.0)] {
        assert_eq!(hookd.metric(series).await, value, "{series}");
    }

    gate::open(&hookd);
    while let Some(answer) = within("an answer", calls.join_next()).await {
        let expected = json!({ "verdict": "none", "results": ["managed/gated none"], "considered": 1, "matched": 1 });
        assert_eq!(said(&answer.unwrap().unwrap()), expected);
    }
    nothing_is_left(&hookd).await;
}

/// A status that says: not judged, try again.
fn check_shed(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.get_details_retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("hookd", "OVERLOADED"));
    let id = status.metadata().get("hookd-decision-id").unwrap().to_str().unwrap();
    assert_eq!(id.len(), 36, "{id} is not a UUID");
}
