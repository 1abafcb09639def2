use std::fs;

use hookd_rules::{LoadSettings, SourceSettings, Tier};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::*;
use crate::{
    catalog::Live,
    door::{
        arrived::Arrived,
        calls::Calls,
        connection::{ConnectionLimit, Connections},
        identity::Authenticator,
        layers::Layers,
        listener::Listener,
    },
    model::{Failed, Ran},
    rpc::trigger::Bounds,
    run::{self, Job, Slots},
    settings::{Http2Settings, IdentitySettings, Listen},
    telemetry::DecisionLog,
};

/// Handlers with a fault in them.
struct Faulty;

impl Handlers for Faulty {
    async fn run(&self, _: run::Call<'_>) -> Ran {
        panic!("as asked")
    }

    fn queue(&self, _: Job) -> Result<(), Failed> {
        Ok(())
    }
}

/// A server whose handlers are faulty, with a command for `Bash`: where it listens, and what it counts.
async fn serve() -> (String, Arc<Recorder>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    let rule = json!({ "event": "PreToolUse", "matcher": "^Bash$", "handler": { "type": "command", "command": "x" } });
    fs::write(&path, json!({ "hooks": [rule] }).to_string()).unwrap();
    let mut settings = LoadSettings::default();
    settings.tiers.get_mut(Tier::Managed).sources = vec![SourceSettings { path, optional: false, selector: None }];
    let live = Live::start(move || Ok(settings.clone())).await.unwrap();

    let (drain, open, recorder) =
        (Drain::new(), TaskTracker::new(), Arc::new(Recorder::new(DecisionLog::silent(), None)));
    let second = Duration::from_secs(1);
    let bounds = Bounds {
        default_deadline: second.saturating_mul(30),
        max_deadline: second.saturating_mul(60),
        message_bytes: 4096,
        output_bytes: 4096,
    };
    let places = Arc::new(Places::new(4, None, Arc::clone(&recorder)));
    let layers = Layers {
        places: Arc::clone(&places),
        message_bytes: 4096,
        arrival_limit: second.saturating_mul(30),
        drain: drain.clone(),
        recorder: Arc::clone(&recorder),
    };
    let slots = Arc::new(Slots::new(4, 4));
    let http = Arc::new(PlainHttp {
        triggers: Arc::new(TriggerService::new(live, Arc::new(Faulty), Arc::clone(&recorder), bounds, slots)),
        places,
        shed: Semaphore::new(1),
        message_bytes: 4096,
        default_deadline: second.saturating_mul(30),
        drain: drain.clone(),
        recorder: Arc::clone(&recorder),
    });
    let listener = Listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
    let address = listener.address().to_string();
    let hosts = Arc::new(Hosts::of(listener.address(), &[]));
    let connections = Connections {
        http2: Http2Settings {
            keepalive_interval: second.saturating_mul(60),
            keepalive_timeout: second.saturating_mul(60),
            max_connection_age: second.saturating_mul(600),
            max_concurrent_streams: 100,
        },
        tls: None,
        longest_call: second.saturating_mul(600),
        drain,
        open,
        limit: Arc::new(ConnectionLimit::new(64, 64, Arc::clone(&recorder))),
    };
    let authenticator = Authenticator::start(&IdentitySettings::default(), &[], Arc::clone(&recorder)).await.unwrap();
    let service = move |arrived: Arrived| {
        let visitor = Arc::new(authenticator.visitor(&arrived));
        let plain = Plain::new(Arc::clone(&http), Arc::clone(&hosts), Arc::clone(&visitor));
        Calls::new(layers.around(Routes::default(), visitor), plain)
    };
    tokio::spawn(connections.accept(listener, service));
    (address, recorder)
}

/// The answer to one call on a connection of its own, from its first line to its end.
async fn ask(address: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn counted(recorder: &Recorder, status: &str) -> bool {
    let sample = format!("hookd_calls_total{{event=\"\",verdict=\"\",tier=\"\",status=\"{status}\"}} 1\n");
    recorder.exposition().contains(&sample)
}

#[tokio::test]
async fn case_094_a_panic_is_a_block_in_the_agents_form_and_only_of_its_call() {
    let (address, recorder) = serve().await;
    let input = |tool: &str| {
        json!({ "session_id": "s", "transcript_path": "/t", "cwd": "/", "hook_event_name": "PreToolUse",
                "tool_name": tool, "tool_input": {}, "tool_use_id": "t" })
        .to_string()
    };
    let answer = ask(&address, "/v1/hooks/claude-code", &input("Bash")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("hookd-not-judged: INTERNAL\r\n"), "{answer}");
    assert!(answer.contains(r#""permissionDecision":"deny""#), "{answer}");
    assert!(counted(&recorder, "internal"));
    let answer = ask(&address, "/v1/hooks/claude-code?on_unavailable=allow", &input("Bash")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    let answer = ask(&address, "/v1/trigger", r#"{"event":"PreToolUse","toolCall":{"tool":"Bash"}}"#).await;
    assert!(answer.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{answer}");
    let answer = ask(&address, "/v1/trigger", r#"{"event":"PreToolUse","toolCall":{"tool":"Read"}}"#).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
