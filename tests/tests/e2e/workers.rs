//! Programs that stay: `deploy/examples/workers` does what its page says, and what goes wrong with workers stays theirs.

use std::{collections::HashSet, fs, path::Path};

use futures_util::future::join_all;
use hookd_tests::{
    Hookd, HookdBuilder, Process, Signal, Tier, eventually, pre_tool_use, rule, said, sh,
    v1::{Failure, TriggerResponse},
    with, within,
};
use rustix::process::{Pid, kill_process};
use serde_json::{Value, json};

use crate::pages::{page, root, run_page};

/// The example in a folder of its own, on free ports.
fn example() -> HookdBuilder {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/workers");
    let mut builder = Hookd::builder();
    for file in ["managed/rules.yaml", "managed/guard.py", "managed/guard.sh"] {
        builder = builder.file(file, &fs::read_to_string(example.join(file)).unwrap());
    }
    let mut settings = fs::read_to_string(example.join("hookd.yaml")).unwrap();
    for port in ["127.0.0.1:50051", "127.0.0.1:8081"] {
        assert!(settings.contains(port), "{settings}");
        settings = settings.replace(port, "127.0.0.1:0");
    }
    let builder = builder.file("hookd.yaml", &settings);
    let path = builder.path("hookd.yaml");
    builder.settings_file(path)
}

async fn run(hookd: &Hookd, command: &str) -> TriggerResponse {
    hookd.trigger(pre_tool_use("Bash", json!({ "command": command }))).await
}

fn answered(rule: &str, block: Option<&str>) -> Value {
    match block {
        Some(reason) => json!({
            "verdict": "block", "reason": reason, "decidedBy": format!("rule managed/{rule}"),
            "results": [format!("managed/{rule} block")], "considered": 2, "matched": 1,
        }),
        None => {
            json!({ "verdict": "none", "results": [format!("managed/{rule} none")], "considered": 2, "matched": 1 })
        }
    }
}

/// The processes whose command line starts so.
fn programs(hookd: &Hookd, command: &str) -> Vec<i32> {
    let all = hookd.children().into_iter().filter(|process: &Process| process.command.starts_with(command));
    all.map(|process| process.pid).collect()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

async fn nothing_is_left(hookd: &Hookd) {
    eventually("no process is left", async || hookd.children().is_empty().then_some(())).await;
}

#[tokio::test]
async fn every_command_of_the_page_of_the_workers_does_what_it_says() {
    let hookd = example().start().await;
    run_page(&hookd, &root(), "deploy/examples/workers/README.md").await;
    let processes = hookd.metric("hookd_child_processes").await.to_string();
    assert!(page("deploy/examples/workers/README.md").contains(&format!("now says {processes}: both stay")));
}

#[tokio::test]
async fn the_python_guard_is_started_once_and_answers_call_after_call() {
    let hookd = example().start().await;
    assert_eq!(hookd.children(), []);
    for _round in 0..10 {
        assert_eq!(said(&run(&hookd, "cat .env").await), answered("no-secrets", Some(".env may hold secrets")));
        assert_eq!(said(&run(&hookd, "ls\n\"中\"").await), answered("no-secrets", None));
    }
    assert_eq!(programs(&hookd, "python3 ./guard.py").len(), 1);
    assert_eq!(hookd.metric("hookd_child_processes").await.to_string(), "1");
}

#[tokio::test]
async fn the_bash_guard_too_and_both_end_with_hookd() {
    let hookd = example().start().await;
    for (path, block) in [
        (json!("src/a.js"), None),
        (json!("node_modules/x/index.js"), Some("a tool makes this file")),
        (json!("web\n/Cargo.lock"), Some("a tool makes this file")),
        (json!(["src/a.js"]), Some("there is no path to look at")),
        (json!("src/dist.js"), None),
    ] {
        let answer = hookd.trigger(pre_tool_use("edit_file", json!({ "file_path": path }))).await;
        assert_eq!(said(&answer), answered("no-generated-files", block), "{path}");
    }
    run(&hookd, "ls").await;
    assert_eq!(
        (programs(&hookd, "bash ./guard.sh").len(), programs(&hookd, "jq ").len()),
        (2, 1),
        "a shell and its loop"
    );
    assert_eq!(hookd.metric("hookd_child_processes").await.to_string(), "2");
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(hookd.children(), []);
    assert!(!hookd.log_text().contains("could not be killed"), "{}", hookd.log_text());
}

#[tokio::test]
async fn fifty_calls_at_once_share_the_pool_of_two() {
    let hookd = example().start().await;
    let calls = (0..50).map(|number| {
        let (hookd, blocked) = (&hookd, number % 2 == 0);
        async move {
            let answer = run(hookd, if blocked { "cat ~/.netrc" } else { "ls" }).await;
            assert_eq!(said(&answer), answered("no-secrets", blocked.then_some(".netrc may hold secrets")));
        }
    });
    join_all(calls).await;
    assert!((1..=2).contains(&programs(&hookd, "python3").len()), "{:?}", hookd.children());
}

#[tokio::test]
async fn one_that_dies_is_reaped_and_replaced_and_a_reload_replaces_all() {
    let hookd = example().start().await;
    run(&hookd, "ls").await;
    let [first] = programs(&hookd, "python3")[..] else { panic!("{:?}", hookd.children()) };
    kill(first);
    nothing_is_left(&hookd).await;
    assert_eq!(said(&run(&hookd, "ls").await), answered("no-secrets", None));
    let [second] = programs(&hookd, "python3")[..] else { panic!("{:?}", hookd.children()) };
    let guard = fs::read_to_string(hookd.path("managed/guard.py")).unwrap();
    hookd.replace_file("managed/guard.py", &guard.replace("may hold secrets", "is not for you"));
    hookd.reload().await;
    eventually("the old one is gone", async || (!programs(&hookd, "").contains(&second)).then_some(())).await;
    assert_eq!(said(&run(&hookd, "cat .env").await), answered("no-secrets", Some(".env is not for you")));
}

#[tokio::test]
async fn a_guard_that_crashes_blocks_that_call_and_no_other() {
    let hookd = example().start().await;
    let guard = fs::read_to_string(hookd.path("managed/guard.py")).unwrap();
    hookd.replace_file("managed/guard.py", &guard.replace("found = ", "found = command if command == 'crash' else "));
    let answer = run(&hookd, "crash").await;
    let error = answer.results[0].error.clone().unwrap();
    assert_eq!(answer.results[0].failure(), Failure::Exited);
    assert!(error.ends_with("AttributeError: 'str' object has no attribute 'group'"), "{error}");
    assert_eq!(said(&run(&hookd, "ls").await), answered("no-secrets", None));
}

#[tokio::test]
async fn one_that_hangs_is_killed_with_all_that_it_started() {
    let script =
        r#"while read -r line; do case "$line" in *hang*) sleep 600 & wait;; esac; echo '{"blocked":false}'; done"#;
    let handler = with(sh(script), json!({ "timeout": 500, "worker": { "pool": 1 } }));
    let hookd = Hookd::builder().managed(json!([rule("guard", "PreToolUse", handler)])).start().await;
    let none = json!({ "verdict": "none", "results": ["managed/guard none"], "considered": 1, "matched": 1 });
    assert_eq!(said(&run(&hookd, "ls").await), none);
    let before = programs(&hookd, "").into_iter().collect::<HashSet<_>>();
    let error = "Timed out after 500ms";
    assert_eq!(
        said(&run(&hookd, "hang").await),
        json!({
            "verdict": "block", "reason": format!("hook `guard` failed: {error}"), "decidedBy": "failure_policy managed/guard",
            "results": [format!("managed/guard failed timed_out blocked: {error}")], "considered": 1, "matched": 1,
        })
    );
    assert_eq!(said(&run(&hookd, "ls").await), none);
    eventually("only a new one is left", async || {
        let now = programs(&hookd, "");
        (now.len() == 1 && !before.contains(&now[0])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_worker_along() {
    let handler = with(sh("read -r line; sleep 600"), json!({ "worker": {} }));
    let hookd = Hookd::builder().managed(json!([rule("guard", "PreToolUse", handler)])).start().await;
    let mut client = hookd.client().await;
    let call = tokio::spawn(async move { client.trigger(pre_tool_use("Bash", json!({}))).await });
    eventually("it is asked", async || (programs(&hookd, "sleep 600").len() == 1).then_some(())).await;
    call.abort();
    nothing_is_left(&hookd).await;
}

#[tokio::test]
async fn workers_of_a_rule_that_left_end_after_their_last_call() {
    let script =
        r#"while read -r line; do while [ ! -e "$TMPDIR/go" ]; do sleep 0.01; done; echo '{"decision":"ask"}'; done"#;
    let handler = with(sh(script), json!({ "worker": {} }));
    let hookd = Hookd::builder().managed(json!([rule("guard", "PreToolUse", handler)])).start().await;
    let answer = {
        let call = run(&hookd, "ls");
        let reloaded = async {
            eventually("it is asked", async || (!hookd.children().is_empty()).then_some(())).await;
            hookd.rewrite_rules(Tier::Managed, json!([]));
            hookd.reload().await;
            fs::write(hookd.path("tmp/go"), "").unwrap();
        };
        within("the answer", async { tokio::join!(call, reloaded).0 }).await
    };
    assert_eq!(
        said(&answer),
        json!({ "verdict": "ask", "decidedBy": "rule managed/guard", "results": ["managed/guard ask"], "considered": 1, "matched": 1 })
    );
    nothing_is_left(&hookd).await;
}
