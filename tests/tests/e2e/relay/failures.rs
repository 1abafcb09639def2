//! Everything that can go wrong between an agent and hookd: never a wrong allow, never a mixed answer.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use futures_util::{StreamExt as _, stream};
use hookd_tests::{Hookd, Signal, v1, within};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, time::Instant};
use tonic::Status;

use super::{
    Ran, Relay,
    agents::{AGENTS, STOPPING, Taken, shell_call, stop_call, stops, taken},
    servers::{Peer, answering, cuts, garbage, hung, nobody, page},
};
use crate::gate;

/// How many relays run at a time.
const AT_ONCE: usize = 8;

/// What can be where hookd should be, and whether `--on-unavailable` is about that.
struct Peers {
    all: Vec<(&'static str, SocketAddr, bool)>,
    _alive: Vec<Peer>,
}

impl Peers {
    async fn new() -> Self {
        let response = |verdict| Ok(v1::TriggerResponse { verdict, ..Default::default() });
        let broken = v1::TriggerResponse {
            verdict: v1::Verdict::Allow.into(),
            modified_params_json: Some("{\"command\":".to_owned()),
            ..Default::default()
        };
        let peers = [
            ("hung", hung().await, true),
            ("garbage", garbage().await, true),
            ("page", page().await, true),
            ("cuts", cuts().await, true),
            ("unavailable", answering(Err(Status::unavailable("not now"))).await, true),
            ("no verdict", answering(response(0)).await, false),
            ("unknown verdict", answering(response(77)).await, false),
            ("broken parameters", answering(Ok(broken)).await, false),
            ("refused", answering(Err(Status::invalid_argument("no"))).await, false),
        ];
        let mut all = vec![("nobody", nobody(), true)];
        all.extend(peers.iter().map(|(name, peer, unavailable)| (*name, peer.address, *unavailable)));
        Self { all, _alive: peers.into_iter().map(|(_, peer, _)| peer).collect() }
    }
}

async fn shell(agent: &str, address: SocketAddr, more: &[&str]) -> Ran {
    let (input, arguments) = shell_call(agent);
    Relay::of(agent).with(arguments).with(more).at(address).run(&input).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wrong_allow_in_a_thousand_tries() {
    let peers = Peers::new().await;
    let tries = (0..1040).map(|number| {
        let agent = AGENTS[number % AGENTS.len()];
        let (name, address, _) = peers.all[number / AGENTS.len() % peers.all.len()];
        async move { (agent, name, shell(agent, address, &["--deadline", "300ms"]).await) }
    });
    let ran = stream::iter(tries).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    assert_eq!(ran.len(), 1040);
    let wrong = ran.iter().filter(|(agent, _, ran)| !matches!(taken(agent, ran), Taken::Block(_)));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(&str, &str, Ran)>::new());
    // The reason says what happened, for whoever has to mend it.
    for (agent, name, ran) in ran {
        let Taken::Block(reason) = taken(agent, &ran) else { panic!("{ran:?}") };
        assert!(reason.contains("hookd"), "{agent} {name}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_is_set_so_agents_go_on_without_hookd_but_not_with_an_answer_that_is_not_understood() {
    let peers = Peers::new().await;
    let tries = AGENTS.iter().flat_map(|agent| peers.all.iter().map(move |peer| (*agent, *peer)));
    let tries = tries.map(async |(agent, (name, address, unavailable))| {
        // Only the one that hangs may meet the deadline.
        let deadline = if name == "hung" { "300ms" } else { "60s" };
        let ran = shell(agent, address, &["--deadline", deadline, "--on-unavailable", "allow"]).await;
        let blocks = matches!(taken(agent, &ran), Taken::Block(_));
        (agent, name, blocks != unavailable, ran)
    });
    let ran = stream::iter(tries).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    assert_eq!(ran.len(), AGENTS.len() * 10);
    let wrong = ran.into_iter().filter(|(_, _, right, _)| !right).collect::<Vec<_>>();
    assert_eq!(wrong, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hookd_that_is_not_there_keeps_no_agent_running() {
    let peers = Peers::new().await;
    let tries = STOPPING.iter().flat_map(|agent| peers.all.iter().map(move |peer| (*agent, *peer)));
    let tries = tries.map(async |(agent, (name, address, _))| {
        let (input, arguments) = stop_call(agent);
        let ran = Relay::of(agent).with(arguments).with(&["--deadline", "300ms"]).at(address).run(&input).await;
        (agent, name, stops(agent, &ran), ran)
    });
    let ran = stream::iter(tries).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let wrong = ran.into_iter().filter(|(_, _, stops, _)| !stops).collect::<Vec<_>>();
    assert_eq!(wrong, []);
}

#[tokio::test]
async fn case_106_a_hookd_that_is_killed_in_the_middle_of_a_call_allows_nothing() {
    let slow = json!([{ "id": "slow", "event": "PreToolUse", "handler": gate::gated_handler() }]);
    let hookd = Hookd::builder().managed(slow).start().await;
    let address = hookd.address();
    let asking = AGENTS.map(|agent| tokio::spawn(async move { (agent, shell(agent, address, &[]).await) }));
    gate::begun(&hookd, AGENTS.len()).await;
    hookd.signal(Signal::KILL);
    for asking in asking {
        let (agent, ran) = asking.await.unwrap();
        assert!(matches!(taken(agent, &ran), Taken::Block(_)), "{agent}: {ran:?}");
    }
}

#[tokio::test]
async fn the_answer_is_there_before_the_agent_gives_up() {
    let peer = hung().await;
    // Codex waits a second for this one, and for its answer there is no form but silence.
    let input = json!({ "session_id": "s1", "cwd": "/tmp", "hook_event_name": "SessionEnd", "reason": "other" });
    let started = Instant::now();
    let ran = Relay::of("codex").with(&["--event", "SessionEnd"]).at(peer.address).run(&input).await;
    assert_eq!(ran, Ran { exit: 0, out: String::new(), err: String::new() });
    assert!(started.elapsed() >= Duration::from_millis(700), "{:?}", started.elapsed());
    // A file cannot make it longer than the agent waits.
    let relay = Relay::of("codex").with(&["--event", "SessionEnd"]).at(peer.address);
    relay.config("deadline: 10m");
    let started = Instant::now();
    assert_eq!(relay.run(&input).await.exit, 0);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_input_that_is_no_input_blocks_whatever_is_set() {
    let hookd = Hookd::builder().start().await;
    for agent in AGENTS {
        let (input, arguments) = shell_call(agent);
        let relay = || Relay::of(agent).with(arguments).with(&["--on-unavailable", "allow"]).at(hookd.address());
        let mut padded = input.clone();
        padded["padding"] = Value::String("x".repeat(5 << 20));
        let half = input.to_string();
        let inputs = [
            ("empty", String::new()),
            ("not JSON", "ls".to_owned()),
            ("half", half[..half.len() / 2].to_owned()),
            ("two", format!("{input}{input}")),
            ("twice", half.replacen('{', "{\"cwd\":\"/x\",\"cwd\":\"/y\",", 1)),
            ("padded", padded.to_string()),
        ];
        for (what, input) in inputs {
            let (ran, all) = relay().run_and_see(&input).await;
            assert!(matches!(taken(agent, &ran), Taken::Block(_)), "{agent} {what}: {ran:?}");
            assert!(all, "an agent whose writing breaks may go on: {agent} {what}");
        }
    }
}

#[tokio::test]
async fn an_input_without_an_end_ends_with_the_deadline() {
    let hookd = Hookd::builder().start().await;
    let relay = Relay::of("claude-code").with(&["--deadline", "300ms"]).at(hookd.address());
    let mut child = relay.command().spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"hook_event_name\":").await.unwrap();
    let output = within("the end of a relay", child.wait_with_output()).await.unwrap();
    drop(stdin);
    let ran = Ran {
        exit: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    let Taken::Block(reason) = taken("claude-code", &ran) else { panic!("{ran:?}") };
    assert!(reason.contains("the hook's input did not end within 300ms"), "{reason}");
}

#[tokio::test]
async fn a_command_line_that_is_not_understood_blocks_and_lets_agents_stop() {
    let (input, _) = shell_call("claude-code");
    let input = input.to_string();
    let stop = stop_call("claude-code").0.to_string();
    for (arguments, why) in [
        (&["relay"][..], "the following required arguments were not provided: --agent <NAME>"),
        (&["relay", "--agent", "eliza"], "no such agent is known, expected one of claude-code, codex,"),
        (&["relay", "--agent", "claude-code", "--frob"], "unexpected argument '--frob' found"),
        (&["relay", "--agent", "claude-code", "--deadline", "soon"], "expected such as `30s` or `500ms`"),
        (&["relay", "--agent", "claude-code", "--on-unavailable", "perhaps"], "expected `block` or `allow`"),
        (&["relay", "--agent", "claude-code", "--address", "nowhere"], "`nowhere` is not an address"),
    ] {
        let ran = Relay::bare(arguments).run_text(&input).await;
        let Taken::Block(reason) = taken("claude-code", &ran) else { panic!("{ran:?}") };
        assert!(reason.contains(why), "{arguments:?}: {reason}");
        let ran = Relay::bare(arguments).run_text(&stop).await;
        assert!(stops("claude-code", &ran), "{arguments:?}: {ran:?}");
    }
    let ran = Relay::bare(&["--output", "json", "relay", "--agent", "claude-code"]).run_text(&input).await;
    assert!(matches!(taken("claude-code", &ran), Taken::Block(_)), "{ran:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_no_allow() {
    let rewrite = json!({ "type": "decide", "verdict": "allow", "modifiedParams": { "command": "true" } });
    let hookd =
        Hookd::builder().managed(json!([{ "id": "rewrite", "event": "PreToolUse", "handler": rewrite }])).start().await;
    let run = async |input: Value| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let relay = Relay::of("claude-code").at(hookd.address());
        let mut child = relay.command().stdout(Stdio::from(writer)).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.to_string().as_bytes()).await.unwrap();
        drop(stdin);
        let output = within("the end of a relay", child.wait_with_output()).await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (exit, err) = run(shell_call("claude-code").0).await;
    assert_eq!((exit, err.as_str()), (Some(2), "hookd's answer cannot be written: broken pipe"));
    let (exit, _) = run(stop_call("claude-code").0).await;
    assert_eq!(exit, Some(0));
}
