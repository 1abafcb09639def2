//! Known ways in which programs that hooks start go wrong (section A of the cases), through the whole service.

use std::{fs, time::Duration};

use futures_util::future::join_all;
use hookd_tests::{
    Hookd, Process, Signal, event, eventually, pre_tool_use, rule, said, sh,
    v1::{Failure, Outcome, TriggerResponse},
    with,
};
use serde_json::{Value, json};
use tokio::time::Instant;

const BLOCKS: &str = r#"echo '{"blocked":true}'"#;

/// Asks a hookd with one managed rule that runs `handler`.
async fn ask(handler: Value) -> (Hookd, TriggerResponse) {
    let hookd = Hookd::builder().managed(json!([rule("hook", "PreToolUse", handler)])).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
    (hookd, answer)
}

async fn nothing_is_left(hookd: &Hookd) {
    eventually("no process is left", async || hookd.children().is_empty().then_some(())).await;
}

fn timed_out(millis: u64) -> Value {
    let error = format!("Timed out after {millis}ms");
    json!({
        "verdict": "block", "reason": format!("hook `hook` failed: {error}"), "decidedBy": "failure_policy managed/hook",
        "results": [format!("managed/hook failed timed_out blocked: {error}")], "considered": 1, "matched": 1,
    })
}

fn blocked() -> Value {
    json!({
        "verdict": "block", "reason": "Blocked by hook", "decidedBy": "rule managed/hook",
        "results": ["managed/hook block"], "considered": 1, "matched": 1,
    })
}

fn elapsed(answer: &TriggerResponse) -> Duration {
    Duration::try_from(answer.results[0].elapsed.unwrap()).unwrap()
}

#[tokio::test]
async fn case_001_a_helper_that_inherited_stdout_does_not_hold_the_answer() {
    let (_hookd, answer) = ask(sh(&format!("sleep 50 & {BLOCKS}"))).await;
    assert_eq!(said(&answer), blocked());
    assert!(elapsed(&answer) < Duration::from_secs(25), "{:?}", elapsed(&answer));
}

#[tokio::test]
async fn case_002_a_timeout_ends_the_whole_pipeline() {
    let (hookd, answer) = ask(with(sh("sleep 600 | cat"), json!({ "timeout": 500 }))).await;
    assert_eq!(said(&answer), timed_out(500));
    nothing_is_left(&hookd).await;
}

#[tokio::test]
async fn case_002_a_timeout_ends_also_what_left_the_group() {
    let (hookd, answer) = ask(with(sh("setsid sleep 600 & wait"), json!({ "timeout": 500 }))).await;
    assert_eq!(said(&answer), timed_out(500));
    nothing_is_left(&hookd).await;
}

#[tokio::test]
async fn case_003_a_loop_in_the_background_ends_with_its_shell() {
    let handler = with(sh("(while :; do echo x; sleep 0.05; done) & wait"), json!({ "timeout": 500 }));
    let (hookd, answer) = ask(handler).await;
    assert_eq!(said(&answer), timed_out(500));
    nothing_is_left(&hookd).await;
}

#[tokio::test]
async fn case_006_a_helper_detached_on_purpose_lives_on_when_the_hook_succeeded() {
    let (hookd, answer) = ask(sh(&format!("(sleep 300 </dev/null >/dev/null 2>&1 &); {BLOCKS}"))).await;
    assert_eq!(said(&answer), blocked());
    let living = hookd.children().into_iter().map(|process: Process| process.command).collect::<Vec<_>>();
    assert_eq!(living, ["sleep 300"]);
}

#[tokio::test]
async fn case_007_a_hook_that_reads_stdin_to_the_end_gets_its_end() {
    let (_hookd, answer) = ask(sh(&format!("payload=$(cat); test -n \"$payload\" && {BLOCKS}"))).await;
    assert_eq!(said(&answer), blocked());
}

#[tokio::test]
async fn case_009_a_hook_that_ignores_a_large_stdin_has_not_failed() {
    let hookd = Hookd::builder().managed(json!([rule("hook", "PreToolUse", sh("true"))])).start().await;
    let answer = hookd.trigger(pre_tool_use("write", json!({ "text": "x".repeat(200 * 1024) }))).await;
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "results": ["managed/hook none"], "considered": 1, "matched": 1 })
    );
}

#[tokio::test]
async fn case_015_a_limit_that_was_too_short_is_said_with_the_time_taken() {
    let hook = rule("hook", "PreToolUse", with(sh("sleep 60"), json!({ "timeout": 1000 })));
    let hookd = Hookd::builder().managed(json!([hook])).start().await;
    let begun = Instant::now();
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(said(&answer), timed_out(1000));
    // Its own time is from its start, which is a little after that of its limit.
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let taken = elapsed(&answer);
    assert!(taken > Duration::ZERO && taken < begun.elapsed(), "{taken:?}");
}

#[tokio::test]
async fn case_014_an_async_hook_finishes_within_the_drain_limit() {
    let handler = sh("touch $TMPDIR/begun; read go <$TMPDIR/pipe; touch $TMPDIR/done");
    let hookd =
        Hookd::builder().local(json!([with(rule("slow", "Stop", handler), json!({ "async": true }))])).start().await;
    let pipe = hookd.path("tmp/pipe");
    assert!(tokio::process::Command::new("mkfifo").arg(&pipe).status().await.unwrap().success());
    assert_eq!(said(&hookd.trigger(event("Stop")).await)["results"], json!(["local/slow queued"]));
    eventually("it has begun", async || hookd.path("tmp/begun").is_file().then_some(())).await;
    hookd.signal(Signal::TERM);
    eventually("hookd leaves", async || hookd.log_text().to_lowercase().contains("leaving").then_some(())).await;
    tokio::fs::write(&pipe, "go\n").await.unwrap();
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert!(hookd.path("tmp/done").is_file());
}

#[tokio::test]
async fn case_014_an_async_hook_that_does_not_finish_is_killed_and_logged_as_cancelled() {
    let hookd = Hookd::builder()
        .local(json!([with(rule("slow", "Stop", sh("touch $TMPDIR/begun; sleep 600")), json!({ "async": true }))]))
        .settings(json!({ "limits": { "default_deadline": "1s" }, "drain": { "limit": "1s" } }))
        .start()
        .await;
    hookd.trigger(event("Stop")).await;
    eventually("it has begun", async || hookd.path("tmp/begun").is_file().then_some(())).await;
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    nothing_is_left(&hookd).await;
    let cancelled = |line: &&Value| line["rule"] == "slow" && line.to_string().contains("cancelled");
    assert_eq!(hookd.log_lines().iter().filter(cancelled).count(), 1, "{}", hookd.log_text());
}

#[tokio::test]
async fn case_067_each_of_many_calls_at_once_is_answered_by_its_own_hook() {
    let echoes = r#"sleep 0.2; sed 's/.*"params":{"n":\([0-9]*\)}.*/{"decision":"block","reason":"\1"}/'"#;
    let hookd = Hookd::builder()
        .shared(json!([rule("hook", "PreToolUse", sh(echoes))]))
        .settings(json!({ "limits": { "children": 4 } }))
        .start()
        .await;
    let calls = (0..20).map(|n| hookd.trigger(pre_tool_use("Bash", json!({ "n": n }))));
    let answers = join_all(calls).await;
    let reasons = answers.iter().map(|answer| answer.reason.clone()).collect::<Vec<_>>();
    assert_eq!(reasons, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    // Waiting for a free child is not the hook's own time.
    let longest = answers.iter().map(elapsed).max().unwrap();
    assert!(longest >= Duration::from_millis(200), "{longest:?}");
}

#[tokio::test]
async fn case_067_more_than_the_queue_holds_is_a_failure_of_its_own() {
    let waits = sh("while ! test -e $TMPDIR/go; do sleep 0.05; done");
    // Each has two of the calls: one handler alone gets no more than half of the places.
    let hook = |n: usize| {
        let more = json!({ "matcher": format!("^T{n}$"), "onError": "block" });
        with(rule(&format!("hook{n}"), "PreToolUse", waits.clone()), more)
    };
    let hookd = Hookd::builder()
        .shared((0..10).map(hook).collect())
        .settings(json!({ "limits": { "children": 4, "child_queue": 2 } }))
        .start()
        .await;
    let go = hookd.path("tmp/go");
    let release = async {
        let overloaded = r#"failure="overloaded""#;
        eventually("fifteen calls are turned away", async || {
            let (_, metrics) = hookd.admin_get("/metrics").await;
            let runs = metrics.lines().filter(|line| line.contains("handler_runs_total{") && line.contains(overloaded));
            runs.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).any(|count| count >= 15).then_some(())
        })
        .await;
        fs::write(&go, "").unwrap();
    };
    let calls = (0..20).map(|n| hookd.trigger(pre_tool_use(&format!("T{}", n % 10), json!({}))));
    let (answers, ()) = tokio::join!(join_all(calls), release);
    // Of four places one is kept for managed and team; two wait.
    let turned_away = answers.iter().filter(|answer| answer.results[0].failure() == Failure::Overloaded);
    assert_eq!(turned_away.count(), 15);
    assert_eq!(answers.iter().filter(|answer| answer.results[0].outcome() == Outcome::None).count(), 5);
    assert!(answers.iter().all(|answer| answer.results[0].blocked == (answer.results[0].failure != 0)));
}

#[tokio::test]
async fn case_077_floods_are_cut_and_memory_stays_flat() {
    let hookd = Hookd::builder()
        .shared(json!([rule("floods", "PreToolUse", with(sh("yes"), json!({ "timeout": 1000 })))]))
        // Little enough for each to be over it in its second, however busy the machine is.
        .settings(json!({ "limits": { "output_bytes": "64KiB" } }))
        .start()
        .await;
    let before = hookd.memory();
    let answers = join_all((0..10).map(|n| hookd.trigger(pre_tool_use("Bash", json!({ "n": n }))))).await;
    for answer in &answers {
        assert_eq!(
            said(answer),
            json!({
                "verdict": "none", "decidedBy": "failure_policy shared/floods",
                "results": ["shared/floods failed timed_out: Timed out after 1000ms"], "degraded": true,
                "considered": 1, "matched": 1,
            })
        );
        assert!(answer.results[0].truncated);
    }
    let grown = hookd.memory().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more than before");
    nothing_is_left(&hookd).await;
}
