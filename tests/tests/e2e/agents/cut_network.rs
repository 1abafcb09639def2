//! The network between the relay and hookd breaks at any byte of a call. (What else can be wrong with a hookd is in
//! `relay/failures.rs`.)

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{StreamExt as _, stream};
use hookd_tests::{Hookd, decide, rule, sh, with};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};

use crate::relay::{
    Ran, Relay,
    agents::{AGENTS, Taken, shell_call, taken},
    offers::Place,
};

/// How many relays run at a time. Each tries again a few times, so that most of them wait.
const AT_ONCE: usize = 48;

/// A way to hookd that is reset after so many bytes of one direction, on every connection.
struct Cut {
    address: SocketAddr,
    /// The most bytes that passed on one connection: to hookd, and back.
    passed: Arc<[AtomicUsize; 2]>,
    serving: JoinHandle<()>,
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Cut {
    /// `limits`: bytes to hookd, and bytes back.
    async fn start(hookd: SocketAddr, limits: [usize; 2]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::<[AtomicUsize; 2]>::default();
        let counted = Arc::clone(&passed);
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(hookd).await.unwrap();
                // What is dropped then is no end of a stream but a reset.
                client.set_zero_linger().unwrap();
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    tokio::select! {
                        () = pass(from_client, to_server, limits[0], &counted[0]) => {}
                        () = pass(from_server, to_client, limits[1], &counted[1]) => {}
                    }
                });
            }
        });
        Self { address, passed, serving }
    }
}

/// Hands on what comes until `limit` bytes have passed or one end is closed.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, limit: usize, passed: &AtomicUsize) {
    let mut chunk = [0; 16 * 1024];
    let mut all = 0;
    while all < limit {
        let Ok(count @ 1..) = from.read(&mut chunk).await else { return };
        let count = count.min(limit - all);
        if to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
        all += count;
        passed.fetch_max(all, Ordering::SeqCst);
    }
}

/// hookd allows `ls` only as another command, so that anything but the whole answer or a block is a wrong allow.
async fn hookd() -> Hookd {
    let answer = json!({ "verdict": "block", "reason": "not here" });
    let only_rewritten = json!({ "verdict": "allow", "modifiedParams": { "command": "ls -l" } });
    let of = |agent: &str| json!({ "when": format!("caller.claimed.agent {agent} 'claude-code'") });
    let blocks = with(rule("blocks", "PreToolUse", decide(answer)), of("!="));
    let rewrites = with(rule("rewrites", "PreToolUse", decide(only_rewritten)), of("=="));
    Hookd::builder().managed(json!([blocks, rewrites])).start().await
}

/// Who asks: with rule files of its own, over a stream, or without, by one call.
struct Caller {
    hookd: Hookd,
    place: Option<Place>,
}

impl Caller {
    async fn ask(&self, agent: &str, address: SocketAddr) -> Ran {
        let (input, arguments) = shell_call(agent);
        let more = ["--deadline", "2s", "--on-unavailable", "block"];
        let Some(place) = &self.place else {
            return Relay::of(agent).with(arguments).with(&more).at(address).run(&input).await;
        };
        let project = serde_json::Value::from(place.path("project").to_str().unwrap()).to_string();
        let input = input.to_string().replace("\"/tmp\"", &project);
        place.relay(&self.hookd, agent).with(arguments).with(&more).at(address).run_text(&input).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_reset_at_any_byte_of_a_call_allows_nothing() {
    cut_everywhere(Caller { hookd: hookd().await, place: None }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_reset_at_any_byte_of_a_stream_allows_nothing() {
    let (hookd, place) = (hookd().await, Place::new());
    let theirs = rule("theirs", "PreToolUse", sh("touch ran"));
    place.write("project/.ling/hooks.json", json!({ "hooks": [theirs] }));
    place.trust(&hookd, &[]).await;
    let caller = Caller { hookd, place: Some(place) };
    caller.ask("claude-code", caller.hookd.address()).await;
    assert!(caller.place.as_ref().unwrap().path("project/ran").is_file(), "it is a stream");
    cut_everywhere(caller).await;
}

async fn cut_everywhere(caller: Caller) {
    let address = caller.hookd.address();
    let whole = Cut::start(address, [usize::MAX; 2]).await;
    let rewritten = caller.ask("claude-code", whole.address).await;
    assert_eq!(taken("claude-code", &rewritten), Taken::Allow);
    for agent in AGENTS {
        let ran = caller.ask(agent, whole.address).await;
        assert!(agent == "claude-code" || matches!(taken(agent, &ran), Taken::Block(_)), "{agent}: {ran:?}");
    }
    let [sent, answered] = [0, 1].map(|way| whole.passed[way].load(Ordering::SeqCst));
    assert!(sent > 300 && answered > 150, "{sent} and {answered} bytes");

    let cuts = (0..sent)
        .step_by(3)
        .map(|limit| [limit, usize::MAX])
        .chain((0..answered).step_by(3).map(|limit| [usize::MAX, limit]));
    // Each with one agent, and those of the answer also with the one that could take a part of it for an allow.
    let tries = cuts.enumerate().flat_map(|(index, limits)| {
        let also = (limits[0] == usize::MAX).then_some("claude-code");
        also.into_iter().chain([AGENTS[index % AGENTS.len()]]).map(move |agent| (agent, limits))
    });
    let (caller, rewritten) = (&caller, &rewritten.out);
    let ran = stream::iter(tries).map(async |(agent, limits)| {
        let cut = Cut::start(address, limits).await;
        let ran = caller.ask(agent, cut.address).await;
        let right = match taken(agent, &ran) {
            Taken::Block(_) => true,
            Taken::Allow => agent == "claude-code" && ran.out == *rewritten,
            Taken::Nothing => false,
        };
        (agent, limits, right, ran)
    });
    let ran = ran.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    let count = ran.len();
    let unanswered =
        ran.iter().filter(|(.., ran)| format!("{}{}", ran.out, ran.err).contains("hookd gave no decision")).count();
    let wrong = ran.into_iter().filter(|(_, _, right, _)| !right).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    assert!(unanswered * 2 > count, "{unanswered} of {count} had no answer");
}
