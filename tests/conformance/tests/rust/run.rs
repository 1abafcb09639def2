//! How each kind of row is run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use hookd_client::Client;
use hookd_conformance::{Server, wire};
use hookd_tests::{Hookd, Signal, eventually};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    row::{Call, Kind, Row, ServerOf, expectation},
    seen::{differences, seen},
};

/// What came of a row.
pub(crate) enum Ran {
    /// It was run; what was not as it has to be.
    As(Vec<String>),
    /// There is no such thing in Rust, and why.
    Without(String),
}

/// How many callers there are under which a server goes away.
const CALLERS: usize = 4;
/// How many answers there are before it does.
const ENOUGH: usize = 20;

enum Running {
    Hookd(Box<Hookd>),
    Scripted(Server),
    Dead,
}

pub(crate) async fn run(row: Row) -> Ran {
    if let Some(why) = row.without.get("rust") {
        return Ran::Without(why.clone());
    }
    if matches!(row.kind, Kind::EachStatus) {
        return Ran::As(each_status(&row).await);
    }
    let (mut servers, mut addresses) = (Vec::new(), Vec::new());
    for server in &row.servers {
        let (server, address) = start(server, None).await;
        servers.push(server);
        addresses.push(address);
    }
    let client = || row.client.of(&addresses, None);
    let mut problems = match row.kind {
        Kind::Calls => {
            let mut problems = Vec::new();
            for _ in 0..row.clients.unwrap_or(1) {
                problems.extend(calls(&client(), &row.calls, &addresses).await);
            }
            problems
        }
        Kind::AtOnce => at_once(&client(), &row, &addresses).await,
        Kind::KilledInCall => killed_in_call(client(), &row, hookd(&servers[0]), &addresses).await,
        Kind::WhileBusy => while_busy(client(), &row, hookd(&servers[0]), &addresses).await,
        Kind::UnderCalls => under_calls(client(), &row, servers.remove(0), &addresses).await,
        Kind::EachStatus | Kind::Fork => panic!("no such thing in Rust"),
    };
    if let Some(asked) = row.asked {
        let Running::Scripted(server) = &servers[0] else { panic!("not scripted") };
        if server.asked() != asked {
            problems.push(format!("asked {} times, not {asked}", server.asked()));
        }
    }
    Ran::As(problems)
}

async fn start(server: &ServerOf, listen: Option<&str>) -> (Running, String) {
    match server {
        ServerOf::Dead => (Running::Dead, Server::dead().to_string()),
        ServerOf::Scripted(answers) => {
            let server = Server::scripted(answers).await;
            let address = server.address().to_string();
            (Running::Scripted(server), address)
        }
        ServerOf::Hookd { rules, settings } => {
            let mut builder = Hookd::builder().managed(rules.clone()).settings(settings.clone());
            if let Some(address) = listen {
                builder = builder.settings(json!({ "listen": address }));
            }
            let hookd = builder.start().await;
            let address = hookd.address().to_string();
            (Running::Hookd(Box::new(hookd)), address)
        }
    }
}

fn hookd(server: &Running) -> &Hookd {
    let Running::Hookd(hookd) = server else { panic!("not the real hookd") };
    hookd
}

async fn calls(client: &Client, calls: &[Call], addresses: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let seen = seen(&client.trigger(call.request()).await);
        let of_call = differences(&call.expected(), &seen, addresses);
        problems.extend(of_call.into_iter().map(|problem| format!("call {}: {problem}", at + 1)));
    }
    problems
}

async fn each_status(row: &Row) -> Vec<String> {
    let mut problems = Vec::new();
    for of in &row.statuses {
        let server = Server::scripted(&json!([{ "status": of.status }])).await;
        let addresses = [server.address().to_string()];
        let lines = of.gates.split(' ').collect::<Vec<_>>();
        assert_eq!(lines.len(), row.settings.len());
        for (setting, line) in row.settings.iter().zip(lines) {
            let client = row.client.of(&addresses, Some(setting));
            assert_eq!(line.len(), row.requests.len());
            for (request, cell) in row.requests.iter().zip(line.chars()) {
                let gate = match cell {
                    'R' => json!({ "kind": "run", "approved": false }),
                    'X' => json!({ "kind": "refuse", "reason": of.reason }),
                    other => panic!("no gate {other}"),
                };
                let seen = seen(&client.trigger(wire::request(request)).await);
                let of_cell = differences(&expectation(&gate, Some(&of.error)), &seen, &addresses);
                problems.extend(of_cell.into_iter().map(|p| format!("{} {setting} {request}: {p}", of.status)));
            }
        }
    }
    problems
}

async fn at_once(client: &Client, row: &Row, addresses: &[String]) -> Vec<String> {
    let times = row.times.unwrap();
    let gates = join_all((0..times).map(|at| client.trigger(row.calls[at % row.calls.len()].request()))).await;
    let mut problems = Vec::new();
    for (at, gate) in gates.iter().enumerate() {
        problems.extend(differences(&row.calls[at % row.calls.len()].expected(), &seen(gate), addresses));
    }
    let mut ids = gates.iter().map(|gate| gate.decision().id()).collect::<Vec<_>>();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != times {
        problems.push(format!("{} answers, not {times}", ids.len()));
    }
    problems
}

/// Waits until the handler of a call has begun: it makes that file.
async fn begun(hookd: &Hookd) {
    let file = hookd.path("tmp/begun");
    eventually("the handler begins", async || file.try_exists().unwrap().then_some(())).await;
}

async fn killed_in_call(client: Client, row: &Row, hookd: &Hookd, addresses: &[String]) -> Vec<String> {
    let call = row.calls[0].clone();
    let asking = tokio::spawn(async move { client.trigger(call.request()).await });
    begun(hookd).await;
    hookd.signal(Signal::KILL);
    hookd.wait_exit().await;
    differences(&row.calls[0].expected(), &seen(&asking.await.unwrap()), addresses)
}

async fn while_busy(client: Client, row: &Row, hookd: &Hookd, addresses: &[String]) -> Vec<String> {
    let (busy, request) = (client.clone(), wire::request(row.busy.as_ref().unwrap()));
    let asking = tokio::spawn(async move { busy.trigger(request).await });
    begun(hookd).await;
    let problems = calls(&client, &row.calls, addresses).await;
    asking.abort();
    problems
}

/// Several callers, while the first server goes away (and comes back) or for a time.
async fn under_calls(client: Client, row: &Row, mut first: Running, addresses: &[String]) -> Vec<String> {
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let expected = row.calls.iter().map(Call::expected).collect::<Vec<_>>();
    let callers = (0..CALLERS).map(|_| {
        let (client, stop, answered) = (client.clone(), Arc::clone(&stop), Arc::clone(&answered));
        let (request, expected, addresses) = (row.calls[0].request(), expected.clone(), addresses.to_vec());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let seen = seen(&client.trigger(request.clone()).await);
                if !expected.iter().any(|one| differences(one, &seen, &addresses).is_empty()) {
                    return Some(format!("{seen} came"));
                }
                if seen.get("error").is_none() {
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            }
            None
        })
    });
    let callers = callers.collect::<Vec<_>>();
    let more = async || {
        let enough = answered.load(Ordering::SeqCst) + ENOUGH;
        let is_over = || callers.iter().all(tokio::task::JoinHandle::is_finished);
        let has_more = async || (answered.load(Ordering::SeqCst) >= enough || is_over()).then_some(());
        eventually("more answers", has_more).await;
    };
    if let Some(ms) = row.for_ms {
        sleep(Duration::from_millis(ms)).await;
    }
    for _ in 0..row.times.unwrap_or(0) {
        more().await;
        hookd(&first).signal(match row.signal.as_deref() {
            Some("SIGTERM") => Signal::TERM,
            Some("SIGKILL") => Signal::KILL,
            other => panic!("no signal {other:?}"),
        });
        hookd(&first).wait_exit().await;
        if row.restart {
            first = start(&row.servers[0], Some(&addresses[0])).await.0;
        }
    }
    more().await;
    stop.store(true, Ordering::SeqCst);
    let ended = join_all(callers).await;
    ended.into_iter().filter_map(|problem: Result<Option<String>, _>| problem.unwrap()).collect()
}
