//! A slow webhook, a broken one or a noisy tenant takes nothing from the rules of others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hookd_tests::{
    Hookd, HttpStub, PatientChannel, Reply, decide, eventually, http, post_tool_use, pre_tool_use, rule, said, sh,
    v1::{self, hook_service_client::HookServiceClient},
    with, with_token,
};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tonic::Code;
use tonic_types::StatusExt as _;

/// Agents that need the broken webhook: each calls, and [`PAUSE`] later again, so all of them are in flight while it hangs.
const NOISE: usize = 500;
const PAUSE: Duration = Duration::from_secs(1);
/// Calls that need the guard alone, one after another.
const CALLS: usize = 100;

fn call(tool: &str) -> v1::TriggerRequest {
    pre_tool_use(tool, json!({ "command": "ls" }))
}

/// The time that the middle one of [`CALLS`] calls takes which the guard alone judges.
async fn median_of_guarded(hookd: &Hookd) -> Duration {
    let mut client = hookd.client().await;
    let mut times = Vec::new();
    for _ in 0..CALLS {
        let begun = Instant::now();
        let answer = client.trigger(call("Bash")).await.unwrap().into_inner();
        times.push(begun.elapsed());
        assert_eq!(
            said(&answer),
            json!({ "verdict": "block", "reason": "guarded", "decidedBy": "rule managed/guard",
                    "results": ["managed/guard block"], "considered": 2, "matched": 1 })
        );
    }
    times.sort();
    times[CALLS / 2]
}

/// `Edit` needs the guard and then a shared webhook that hangs, fails, resets and floods; `Bash` the guard alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_webhook_takes_nothing_from_a_managed_guard_and_allows_nothing_by_accident() {
    let guard = HttpStub::start(|request| {
        let is_bash = request.body.contains(r#""tool":"Bash""#);
        Reply::ok(if is_bash { r#"{"blocked":true,"blockReason":"guarded"}"# } else { r#"{"blocked":false}"# })
    })
    .await;
    let broken = HttpStub::start(|request| match request.connection % 4 {
        0 => Reply::raw("").then_hang(),
        1 => Reply::status("500 Internal Server Error", "no"),
        2 => Reply::raw("").then_close(),
        _ => {
            Reply::raw([b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".as_slice(), &[b'x'; 2 << 20]].concat())
        }
    })
    .await;
    let webhook = with(http(&broken.url("/")), json!({ "timeout": 500 }));
    let hookd = Hookd::builder()
        .managed(json!([rule("guard", "PreToolUse", http(&guard.url("/")))]))
        .shared(json!([with(
            rule("webhook", "PreToolUse", webhook),
            json!({ "matcher": "^Edit$", "mustDecide": true, "onError": "block" })
        )]))
        .start()
        .await;
    let before = median_of_guarded(&hookd).await;

    let stop = Arc::new(AtomicBool::new(false));
    let mut noise = JoinSet::new();
    for _ in 0..8 {
        let client = hookd.client().await;
        for _ in 0..NOISE / 8 {
            let (mut client, stop) = (client.clone(), Arc::clone(&stop));
            noise.spawn(async move {
                let mut kinds = BTreeMap::<String, usize>::new();
                let mut pace = interval(PAUSE);
                pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !stop.load(Ordering::Relaxed) {
                    pace.tick().await;
                    let answer = client.trigger(call("Edit")).await.unwrap().into_inner();
                    assert_eq!(answer.verdict(), v1::Verdict::Block, "{answer:?}");
                    let said = said(&answer);
                    assert_eq!(said["decidedBy"], "failure_policy shared/webhook");
                    assert_eq!(said["results"][0], "managed/guard none");
                    *kinds.entry(answer.results[1].failure().as_str_name().to_owned()).or_default() += 1;
                }
                kinds
            });
        }
    }
    eventually("the breaker of the webhook is open", async || {
        (hookd.metric("hookd_open_breakers").await == 1.0).then_some(())
    })
    .await;
    let during = median_of_guarded(&hookd).await;
    stop.store(true, Ordering::Relaxed);
    let mut kinds = BTreeMap::<String, usize>::new();
    while let Some(of_one) = noise.join_next().await {
        for (kind, count) in of_one.unwrap() {
            *kinds.entry(kind).or_default() += count;
        }
    }
    println!(
        "guarded calls: median {before:?} before, {during:?} beside {NOISE} calls to a broken webhook: {:.2} times; its failures: {kinds:?}",
        during.as_secs_f64() / before.as_secs_f64()
    );
    assert!(kinds.contains_key("FAILURE_OVERLOADED"), "{kinds:?}");
    assert_eq!(hookd.metric("hookd_shed_calls_total").await, 0.0);
    eventually("no slot is left taken", async || {
        (hookd.metric("hookd_handler_slots_in_use").await == 0.0).then_some(())
    })
    .await;
}

/// Two tenants with a token each.
fn two_tenants() -> Value {
    let token = |tenant: &str| json!({ "name": tenant, "value": token_of(tenant), "labels": { "tenant": tenant } });
    json!({ "tokens": [token("a"), token("b")] })
}

fn token_of(tenant: &str) -> String {
    format!("token-of-{tenant}-0123456789")
}

#[tokio::test]
async fn a_noisy_tenant_is_turned_away_and_others_are_not() {
    let slow = HttpStub::start(|_| Reply::raw("").then_hang()).await;
    let hookd = Hookd::builder()
        .managed(json!([
            rule("fast", "PreToolUse", decide(json!({ "verdict": "allow" }))),
            rule("slow", "PostToolUse", http(&slow.url("/"))),
        ]))
        .file("tokens.json", &two_tenants().to_string())
        .settings(json!({
            "identity": { "anonymous": "deny", "tokens_file": "tokens.json" },
            "limits": { "in_flight": 16 },
            "bulkheads": { "tenant_calls_per_second": 1, "tenant_burst": 5 },
        }))
        .start()
        .await;
    // Of eight slots a tenant gets two.
    let ask = |request: v1::TriggerRequest, tenant: &str| {
        let request = with_token(request, &token_of(tenant));
        async { hookd.patient_client().await.trigger(request).await.map(tonic::Response::into_inner) }
    };
    let after = || post_tool_use("Bash", json!({}), json!("x"));
    let turned_away = {
        let held = futures_util::future::join(ask(after(), "a"), ask(after(), "a"));
        let third = async {
            slow.wait_for(2).await;
            ask(after(), "a").await.unwrap()
        };
        tokio::select! {
            _ = held => panic!("they hang"),
            third = third => third,
        }
    };
    let message = "managed/slow failed overloaded: 2 calls of this tenant wait for handlers already";
    assert_eq!(said(&turned_away)["results"], json!([message]));

    // That were three calls of five, and one more in each second since.
    let mut refused = None;
    for _ in 0..50 {
        match ask(call("Bash"), "a").await {
            Ok(answer) => assert_eq!(answer.verdict(), v1::Verdict::Allow),
            Err(status) => {
                refused = Some(status);
                break;
            }
        }
    }
    let refused = refused.unwrap();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, "this tenant makes more than 1 calls a second")
    );
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.reason, "RATE_LIMITED");
    assert!(info.metadata["retry_after_ms"].parse::<u64>().unwrap() <= 1000);
    assert!(refused.get_details_retry_info().is_none(), "clients would take it for shed, and some fail open then");
    assert!(refused.metadata().contains_key("hookd-decision-id"));
    assert_eq!(hookd.metric("hookd_rate_limited_calls_total").await, 1.0);
    assert_eq!(ask(call("Bash"), "b").await.unwrap().verdict(), v1::Verdict::Allow);
}

/// A webhook that answers with a 5xx to what one tenant sends was not asked for the others either.
#[tokio::test]
async fn a_tenant_that_has_a_managed_guard_fail_takes_it_from_nobody_else() {
    let guard = HttpStub::start(|request| {
        let is_poison = request.body.contains("poison");
        if is_poison { Reply::status("500 Internal Server Error", "") } else { Reply::ok(r#"{"decision":"allow"}"#) }
    })
    .await;
    let hookd = Hookd::builder()
        .managed(json!([rule("guard", "PreToolUse", http(&guard.url("/")))]))
        .file("tokens.json", &two_tenants().to_string())
        .settings(json!({
            "identity": { "anonymous": "deny", "tokens_file": "tokens.json" },
            "bulkheads": { "breaker_runs": 8, "breaker_open_for": "10m" },
        }))
        .start()
        .await;
    let mut client = hookd.client().await;
    let mut ask = async |command: &str, tenant: &str| {
        let request = with_token(pre_tool_use("Bash", json!({ "command": command })), &token_of(tenant));
        said(client.trigger(request).await.unwrap().get_ref())["results"][0].clone()
    };
    for _ in 0..8 {
        assert_eq!(ask("poison", "a").await, "managed/guard failed http_status blocked: HTTP 500");
    }
    let let_be = "managed/guard failed overloaded blocked: it did not answer lately and is not asked for a while";
    assert_eq!(ask("poison", "a").await, let_be);
    for _ in 0..8 {
        assert_eq!(ask("ls", "b").await, "managed/guard allow");
    }
    assert_eq!(hookd.metric("hookd_open_breakers").await, 1.0);
}

/// Workers that one tenant's calls ended were started again after a pause, which was everybody's.
#[tokio::test]
async fn a_tenant_whose_calls_end_the_workers_of_a_guard_takes_it_from_nobody_else() {
    let worker = "while read -r line; do case $line in *poison*) exit 7;; esac; echo '{\"decision\":\"allow\"}'; done";
    let guard = with(sh(worker), json!({ "worker": { "pool": 1 }, "timeout": 2000 }));
    let hookd = Hookd::builder()
        .managed(json!([rule("guard", "PreToolUse", guard)]))
        .file("tokens.json", &two_tenants().to_string())
        .settings(json!({
            "identity": { "anonymous": "deny", "tokens_file": "tokens.json" },
            "bulkheads": { "breaker_runs": 8 },
        }))
        .start()
        .await;
    let mut client = hookd.client().await;
    let mut ask = async |command: &str, tenant: &str| {
        let request = with_token(pre_tool_use("Bash", json!({ "command": command })), &token_of(tenant));
        said(client.trigger(request).await.unwrap().get_ref())["results"][0].as_str().unwrap().to_owned()
    };
    let (mut paused, mut ended) = (0, 0);
    while paused < 10 {
        let said = ask("poison", "a").await;
        if said.starts_with("managed/guard failed did_not_start blocked: the worker ended ") {
            paused += 1;
        } else {
            assert_eq!(said, "managed/guard failed exited blocked: Exit code 7");
            ended += 1;
        }
    }
    assert!(ended > 3, "it is asked again and again, after pauses");
    assert_eq!(hookd.metric("hookd_open_breakers").await, 0.0, "its calls, not the handler, are why");
    assert_eq!(ask("ls", "b").await, "managed/guard allow");
}

/// The slow commands of one team were all children that there are, and everybody else's managed guard waited for one.
#[tokio::test]
async fn slow_commands_of_a_team_take_no_children_from_a_managed_guard_of_others() {
    let slow = |id: &str, tool: &str| {
        let rule = rule(id, "PreToolUse", with(sh("echo x >> ../out/slow; sleep 600"), json!({ "timeout": 60_000 })));
        with(rule, json!({ "matcher": tool }))
    };
    let guard = sh("if [ $HOOKD_TOOL = Guarded ]; then echo '{\"blocked\":true}'; fi");
    let hookd = Hookd::builder()
        .managed(json!([rule("guard", "PreToolUse", guard)]))
        .file("of-a/rules.json", &json!({ "hooks": [slow("one", "^One$"), slow("two", "^Two$")] }).to_string())
        .file("out/slow", "")
        .file("tokens.json", &two_tenants().to_string())
        .settings(json!({
            "identity": { "anonymous": "deny", "tokens_file": "tokens.json" },
            "tiers": { "team": { "sources": [{ "path": "of-a", "selector": { "matchLabels": { "tenant": "a" } } }] } },
            // A command has four of the children at most, a tenant two, and eight calls of it can wait.
            "limits": { "in_flight": 64, "children": 8 },
        }))
        .start()
        .await;
    let mut noise = JoinSet::new();
    for tool in ["One", "Two"].repeat(4) {
        let mut client = hookd.patient_client().await;
        noise.spawn(async move { drop(client.trigger(with_token(call(tool), &token_of("a"))).await) });
    }
    eventually("its slow commands run", async || {
        let running = std::fs::read_to_string(hookd.path("out/slow")).unwrap();
        (running.lines().count() >= 2).then_some(())
    })
    .await;
    // The rest of its calls have had their chance, too.
    eventually("all of its calls wait", async || {
        (hookd.metric("hookd_handler_slots_in_use").await == 8.0).then_some(())
    })
    .await;
    let mut client = hookd.patient_client().await;
    for tool in ["Guarded", "Free"].repeat(3) {
        let answer = client.trigger(with_token(call(tool), &token_of("b"))).await.unwrap().into_inner();
        let expected = if tool == "Free" { "managed/guard none" } else { "managed/guard block" };
        assert_eq!(said(&answer)["results"], json!([expected]));
    }
    assert_eq!(std::fs::read_to_string(hookd.path("out/slow")).unwrap(), "x\nx\n");
    noise.shutdown().await;
}

#[tokio::test]
async fn slots_keep_half_of_the_places_for_what_is_judged_in_process() {
    let slow = HttpStub::start(|_| Reply::raw("").then_hang()).await;
    let hookd = Hookd::builder()
        .managed(json!([
            rule("local", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no" }))),
            rule("slow", "PostToolUse", http(&slow.url("/"))),
        ]))
        .settings(json!({ "limits": { "in_flight": 4 } }))
        .start()
        .await;
    let mut client = hookd.client().await;
    let waiting = |mut client: HookServiceClient<PatientChannel>| {
        tokio::spawn(async move { drop(client.trigger(post_tool_use("Bash", json!({}), json!("x"))).await) })
    };
    let held = [waiting(hookd.patient_client().await), waiting(hookd.patient_client().await)];
    slow.wait_for(2).await;
    let refused = client.trigger(post_tool_use("Bash", json!({}), json!("x"))).await.unwrap().into_inner();
    assert_eq!(said(&refused)["results"], json!(["managed/slow failed overloaded: 2 calls wait for handlers already"]));
    let judged = client.trigger(call("Bash")).await.unwrap().into_inner();
    assert_eq!((judged.verdict(), judged.reason.as_str()), (v1::Verdict::Block, "no"));
    held.iter().for_each(tokio::task::JoinHandle::abort);
}
