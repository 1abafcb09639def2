//! Three replicas of the real hookd behind one name, under a client that makes calls that must be blocked: they are replaced,
//! killed and paused, and no call is let through or left without an answer.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use hookd_client::{Address, Client, Gate, OnUnavailable, Resolve, Resolved};
use hookd_tests::{Hookd, eventually, within};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;

const DENIED: &str = r#"hookd_calls_total{event="PreToolUse",verdict="block",tier="managed",status="ok"}"#;

/// A name service of the test's own: where the replicas are now.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<SocketAddr>>>);

/// Callers that go on until they are told to stop.
struct Callers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<usize>,
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> Resolved<'a> {
        let places = self.0.lock().unwrap().clone();
        Box::pin(async move { if host == "hookd.test" { Ok(places) } else { Err(io::Error::other("unknown")) } })
    }
}

impl Names {
    fn say(&self, replicas: &[Hookd]) {
        *self.0.lock().unwrap() = replicas.iter().map(Hookd::address).collect();
    }

    /// A client that lets everything go where hookd cannot be asked: an answer that is lost is an allow.
    fn client(&self) -> Client {
        let builder = Client::builder(Address::parse_list("hookd.test:50051").unwrap(), OnUnavailable::Allow);
        // What a paused replica costs, not what is usual.
        let builder = builder.keep_alive(Duration::from_secs(1), Duration::from_secs(2));
        builder.deadline(Duration::from_secs(50)).resolver(self.clone()).build().unwrap()
    }
}

impl Callers {
    fn start(client: &Client, count: usize) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            tasks.spawn(async move {
                let session = client.session("s");
                let mut answered = 0;
                while !stop.load(Ordering::SeqCst) {
                    denied(session.pre_tool_use("Bash", r#"{"command":"rm -rf /"}"#).await);
                    answered += 1;
                }
                answered
            });
        }
        Self { stop, tasks }
    }

    /// How many calls there were, all of them answered with a block.
    async fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        let mut answered = 0;
        while let Some(caller) = within("the end of a caller", self.tasks.join_next()).await {
            answered += caller.unwrap();
        }
        answered
    }
}

#[track_caller]
fn denied(gate: Gate) {
    assert!(matches!(gate, Gate::Refuse { .. }), "let through: {gate:?}");
    assert_eq!(gate.decision().error(), None, "not answered");
}

async fn replica() -> Hookd {
    let deny = json!([{ "id": "guard", "event": "PreToolUse",
                        "handler": { "type": "decide", "verdict": "block", "reason": "no" } }]);
    Hookd::builder().managed(deny).start().await
}

async fn replicas(count: usize) -> Vec<Hookd> {
    join_all((0..count).map(|_| replica())).await
}

async fn calls(replicas: &[Hookd]) -> Vec<f64> {
    join_all(replicas.iter().map(|replica| replica.metric(DENIED))).await
}

/// Waits until each of these has answered so many calls more.
async fn answer(replicas: &[Hookd], more: f64) {
    let before = calls(replicas).await;
    eventually("each replica has its share", async || {
        let now = calls(replicas).await;
        now.iter().zip(&before).all(|(now, before)| now - before >= more).then_some(())
    })
    .await;
}

/// So many calls from here are shared by these within a tenth.
async fn assert_even(client: &Client, replicas: &[Hookd], times: usize) {
    let before = calls(replicas).await;
    let session = client.session("s");
    for _ in 0..times {
        denied(session.pre_tool_use("Bash", "{}").await);
    }
    let now = calls(replicas).await;
    let shares = now.iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>();
    let mean = times as f64 / replicas.len() as f64;
    assert!(shares.iter().all(|share| (share - mean).abs() <= mean / 10.0), "{shares:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_replaced_one_after_another_under_500_calls_and_none_is_lost_or_let_through() {
    let mut replicas = replicas(3).await;
    let names = Names::default();
    names.say(&replicas);
    let client = names.client();
    let callers = Callers::start(&client, 500);
    answer(&replicas, 100.0).await;
    for _ in 0..3 {
        let new = replica().await;
        let old = std::mem::replace(replicas.first_mut().unwrap(), new);
        names.say(&replicas);
        old.signal(Signal::TERM);
        old.wait_exit().await;
        replicas.rotate_left(1);
        // The one that is new has its share too before the next goes.
        answer(&replicas, 100.0).await;
    }
    assert!(callers.stop().await > 1000);
    assert_even(&client, &replicas, 600).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_killed_under_calls_and_none_is_lost_or_let_through() {
    let mut replicas = replicas(3).await;
    let names = Names::default();
    names.say(&replicas);
    let client = names.client();
    let callers = Callers::start(&client, 64);
    answer(&replicas, 50.0).await;
    for _ in 0..3 {
        let killed = replicas.remove(0);
        killed.signal(Signal::KILL);
        killed.wait_exit().await;
        answer(&replicas, 50.0).await;
        replicas.push(replica().await);
        names.say(&replicas);
        // It is found by the one that is not there any more.
        answer(&replicas, 50.0).await;
    }
    assert!(callers.stop().await > 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_share_of_a_paused_replica_moves_to_the_others_and_comes_back() {
    let mut replicas = replicas(3).await;
    let names = Names::default();
    names.say(&replicas);
    let client = names.client();
    let callers = Callers::start(&client, 48);
    answer(&replicas, 50.0).await;
    let paused = replicas.remove(0);
    paused.signal(Signal::STOP);
    // Those that wait for it find out, and all go on at the others.
    answer(&replicas, 200.0).await;
    assert!(callers.stop().await > 300);
    assert_even(&client, &replicas, 600).await;
    // Whoever comes anew is not held up by it.
    let newcomer = names.client();
    for _ in 0..9 {
        denied(newcomer.session("s").pre_tool_use("Bash", "{}").await);
    }
    paused.signal(Signal::CONT);
    replicas.push(paused);
    let session = client.session("s");
    let back = replicas.last().unwrap();
    let before = back.metric(DENIED).await;
    eventually("it is asked again", async || {
        denied(session.pre_tool_use("Bash", "{}").await);
        (back.metric(DENIED).await > before).then_some(())
    })
    .await;
    assert_even(&client, &replicas, 600).await;
}
