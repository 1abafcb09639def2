//! The audit trail of the real binary (issue 6): kept over `kill -9`, full files and full queues.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::Output,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hookd_tests::{
    Hookd, HookdBuilder, decide, event, eventually, pre_tool_use, program, rule, sh,
    v1::{ReloadRequest, TriggerRequest, Verdict},
    with, with_deadline, with_token, within,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::{Value, json};
use tokio::process::Command;
use tonic::Code;

/// The trail is beside the folder of hookd, since it outlives one.
fn audited(trail: &Path, audit: Value) -> HookdBuilder {
    let guard = rule("guard", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no" })));
    let guard = with(guard, json!({ "matcher": "^Bash$" }));
    Hookd::builder()
        .managed(json!([guard]))
        .settings(json!({ "audit": { "file": { "path": trail } } }))
        .settings(json!({ "audit": audit }))
}

async fn verify(trail: &Path, more: &[&str]) -> (Value, Output) {
    let folder = trail.parent().unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut command = Command::new(program("hookctl"));
    command.args(["--output", "json", "audit", "verify"]).args(files).args(more);
    let output = within("verification", command.output()).await.unwrap();
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), output)
}

/// The records of a file that can be read.
fn records(trail: &Path) -> Vec<Value> {
    fs::read_to_string(trail).unwrap().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn ids(records: &[Value]) -> HashSet<String> {
    records.iter().filter_map(|record| record["decision_id"].as_str().map(str::to_owned)).collect()
}

/// Lets the files of a process grow to so many bytes; `None`: as they like.
fn limit_files(pid: Pid, bytes: Option<u64>) {
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// Waits until `/readyz` is so.
async fn ready_line(hookd: &Hookd, holds: impl Fn(&str) -> bool) {
    eventually("a line of /readyz", async || holds(&hookd.admin_get("/readyz").await.1).then_some(())).await;
}

const LATE: &str = "the audit record of a decision could not be written in time";
const TROUBLE: &str = "audit records cannot be written: File too large";

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_kill_9_and_verification_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let mut acknowledged = HashSet::new();
    for acknowledge in ["written", "synced", "written"] {
        let hookd = audited(&trail, json!({ "on_full": "block", "acknowledge": acknowledge, "parameters": "full" }))
            .start()
            .await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = Vec::new();
        for caller in 0..8 {
            let (mut client, stop) = (hookd.client().await, Arc::clone(&stop));
            callers.push(tokio::spawn(async move {
                let mut answered = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let tool = if caller % 2 == 0 { "Bash" } else { "Read" };
                    let call = pre_tool_use(tool, json!({ "text": "x".repeat(2000) }));
                    match client.trigger(call).await {
                        Ok(answer) => answered.push(answer.into_inner().decision_id),
                        // Killed in the middle of it: there was no answer.
                        Err(_) => break,
                    }
                }
                answered
            }));
        }
        // In the middle of it: records are being written all the time.
        let enough = records(&trail).len() + 300;
        eventually("records", async || (records(&trail).len() > enough).then_some(())).await;
        hookd.signal(Signal::KILL);
        hookd.wait_exit().await;
        stop.store(true, Ordering::Relaxed);
        for caller in callers {
            acknowledged.extend(within("a caller", caller).await.unwrap());
        }
        let known = ids(&records(&trail));
        assert!(acknowledged.len() > 100, "{}", acknowledged.len());
        assert!(acknowledged.is_subset(&known), "records are missing that were acknowledged");
        let (report, output) = verify(&trail, &[]).await;
        assert_eq!((output.status.code(), &report["problems"]), (Some(0), &json!([])));
    }
    let hookd = audited(&trail, json!({})).start().await;
    hookd.trigger(pre_tool_use("Read", json!({}))).await;
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    let (report, output) = verify(&trail, &[]).await;
    assert_eq!((output.status.code(), &report["problems"]), (Some(0), &json!([])));
    let ended = report["runs"].as_array().unwrap().iter().map(|run| run["ended"].clone()).collect::<Vec<_>>();
    assert_eq!(ended, [false, false, false, true]);
}

#[tokio::test]
async fn a_record_that_was_torn_by_kill_9_is_recognised_and_the_next_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let hookd = audited(&trail, json!({ "on_full": "block", "acknowledge": "written" })).start().await;
    let first = hookd.trigger(pre_tool_use("Read", json!({}))).await.decision_id;
    // The next record finds room for its beginning alone: its write is in its middle, and stays there.
    limit_files(hookd.pid(), Some(fs::metadata(&trail).unwrap().len() + 100));
    let mut client = hookd.client().await;
    let second = tokio::spawn(async move { client.trigger(pre_tool_use("Read", json!({}))).await });
    ready_line(&hookd, |page| page.contains(TROUBLE)).await;
    hookd.signal(Signal::KILL);
    hookd.wait_exit().await;
    assert!(within("the second call", second).await.unwrap().is_err(), "it was not acknowledged");
    let text = fs::read_to_string(&trail).unwrap();
    let torn = text.lines().last().unwrap();
    assert_eq!((torn.len(), text.ends_with('\n')), (100, false));
    let (report, output) = verify(&trail, &[]).await;
    assert_eq!((output.status.code(), &report["torn"], &report["problems"]), (Some(0), &json!(1), &json!([])));

    let hookd = audited(&trail, json!({})).start().await;
    let third = hookd.trigger(pre_tool_use("Read", json!({}))).await.decision_id;
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    let records = records(&trail);
    assert_eq!(ids(&records), HashSet::from([first, third]));
    let start = records.iter().filter(|record| record["kind"] == "start").nth(1).unwrap();
    assert_eq!(start["torn"][0]["bytes"], 100);
    let last = records.last().unwrap()["hash"].as_str().unwrap();
    let (report, output) = verify(&trail, &["--expect-last", last]).await;
    assert_eq!((output.status.code(), &report["torn"], &report["problems"]), (Some(0), &json!(1), &json!([])));
}

#[tokio::test]
async fn where_nothing_is_let_through_without_a_record_a_full_disk_blocks_and_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let hookd = audited(&trail, json!({ "on_full": "block", "acknowledge": "written" })).start().await;
    hookd.trigger(pre_tool_use("Read", json!({}))).await;
    limit_files(hookd.pid(), Some(fs::metadata(&trail).unwrap().len()));
    let mut client = hookd.patient_client().await;
    let mut ask = async |request, millis| {
        let answer = client.trigger(with_deadline(request, Duration::from_millis(millis)));
        within("an answer", answer).await.unwrap().into_inner()
    };
    let answer = ask(pre_tool_use("Read", json!({})), 1000).await;
    assert_eq!(
        (answer.verdict(), answer.reason.as_str()),
        (Verdict::Block, "the audit record of this decision could not be written in time")
    );
    // What restricts needs no record, and what BLOCK cannot prevent waits and goes on.
    let blocked = ask(pre_tool_use("Bash", json!({})), 300).await;
    assert_eq!((blocked.verdict(), blocked.reason.as_str()), (Verdict::Block, "no"));
    assert_eq!(ask(event("Stop"), 300).await.verdict(), Verdict::None);
    ready_line(&hookd, |page| page.contains(TROUBLE)).await;
    assert!(hookd.metric("hookd_audit_errors_total").await > 0.0);

    // There is room again: everything that waited is written, and what was answered otherwise is said.
    limit_files(hookd.pid(), None);
    ready_line(&hookd, |page| !page.contains(TROUBLE)).await;
    assert_eq!(hookd.trigger(pre_tool_use("Read", json!({}))).await.verdict(), Verdict::None);
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    let (report, output) = verify(&trail, &[]).await;
    assert_eq!((output.status.code(), &report["dropped"], &report["problems"]), (Some(0), &json!(0), &json!([])));
    let records = records(&trail);
    let late = records.iter().filter(|record| record["kind"] == "unacknowledged").collect::<Vec<_>>();
    assert_eq!(late.len(), 1);
    assert_eq!((&late[0]["decision_id"], &late[0]["answered"]), (&json!(answer.decision_id), &json!("block")));
    let said = records
        .iter()
        .find(|record| record["kind"] == "decision" && record["decision_id"] == json!(answer.decision_id));
    assert_eq!(said.unwrap()["verdict"], "none");
    let said = hookd.log_lines().into_iter().filter(|line| line["message"] == LATE).collect::<Vec<_>>();
    assert_eq!(said.len(), 1);
    assert_eq!((&said[0]["decision_id"], &said[0]["answered"]), (&json!(answer.decision_id), &json!("block")));
}

#[tokio::test]
async fn a_file_that_is_taken_away_to_make_room_is_gone_on_without() {
    for is_removed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let trail = folder.path().join("audit.jsonl");
        let audit = json!({ "on_full": "block", "acknowledge": "synced", "stdout": true });
        let hookd = audited(&trail, audit).start().await;
        hookd.trigger(pre_tool_use("Read", json!({}))).await;
        // As on a full disk, the next record finds room for its beginning alone.
        limit_files(hookd.pid(), Some(fs::metadata(&trail).unwrap().len() + 100));
        let mut client = hookd.client().await;
        let waiting = tokio::spawn(async move { client.trigger(pre_tool_use("Read", json!({}))).await });
        let trouble = format!("{}: {TROUBLE}", trail.display());
        ready_line(&hookd, |page| page.contains(&trouble)).await;
        let before = records(&trail);
        if is_removed {
            fs::remove_file(&trail).unwrap();
        } else {
            fs::rename(&trail, folder.path().join("aside.jsonl")).unwrap();
        }
        let answer = within("the answer that waits", waiting).await.unwrap().unwrap().into_inner();
        assert_eq!(answer.verdict(), Verdict::None);
        ready_line(&hookd, |page| !page.contains(TROUBLE)).await;
        limit_files(hookd.pid(), None);
        hookd.signal(Signal::TERM);
        hookd.wait_exit().await;
        let after = records(&trail);
        let kinds = after.iter().map(|record| record["kind"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!((kinds, &after[0]["decision_id"]), (vec!["decision", "rotated", "end"], &json!(answer.decision_id)));
        let (report, output) = verify(&trail, &[]).await;
        let problems =
            report["problems"].as_array().unwrap().iter().map(|problem| problem["message"].as_str().unwrap());
        // What was removed is missed, and nothing else.
        let missing = "the first record that is there, 3, begins no file: those before it are missing";
        let expected = if is_removed { (Some(1), vec![missing]) } else { (Some(0), vec![]) };
        assert_eq!((output.status.code(), problems.collect::<Vec<_>>()), expected);
        assert_eq!(report["torn"], 0);
        let shown = hookd.stdout_lines().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        assert_eq!(shown.collect::<Vec<_>>(), [before, after].concat(), "standard output has the same chain");
    }
}

#[tokio::test]
async fn a_full_queue_drops_records_counts_them_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let hookd = audited(&trail, json!({ "queue_bytes": 8192 })).start().await;
    limit_files(hookd.pid(), Some(0));
    // The first of them finds the writer busy with the file.
    hookd.trigger(pre_tool_use("Read", json!({}))).await;
    ready_line(&hookd, |page| page.contains(TROUBLE)).await;
    for _ in 0..40 {
        assert_eq!(hookd.trigger(pre_tool_use("Read", json!({}))).await.verdict(), Verdict::None);
    }
    let dropped = hookd.metric("hookd_audit_dropped_records_total").await;
    assert!(dropped > 20.0, "{dropped}");
    assert!(hookd.metric("hookd_audit_queue_bytes").await > 4096.0);
    limit_files(hookd.pid(), None);
    hookd.signal(Signal::TERM);
    assert!(hookd.wait_exit().await.success());
    let (report, output) = verify(&trail, &[]).await;
    assert_eq!((output.status.code(), &report["problems"]), (Some(0), &json!([])));
    assert_eq!(report["dropped"], json!(dropped as u64));
}

#[tokio::test]
async fn every_decision_and_refusal_has_a_record_and_secrets_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let audit = json!({
        "stdout": true, "parameters": "masked", "mask_pointers": ["/params/token"], "mask_patterns": ["(?i)bearer [a-z0-9]+"],
    });
    let hookd = audited(&trail, audit).start().await;
    hookd.trigger(pre_tool_use("Bash", json!({ "token": "hunter22", "command": "curl -H 'Bearer ab12'" }))).await;
    let refused = hookd.try_trigger(TriggerRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    let written = records(&trail);
    let kinds = written.iter().map(|record| record["kind"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(kinds, ["start", "decision", "refusal", "end"]);
    let decision = &written[1];
    assert_eq!(decision["params"], json!({ "token": "[masked]", "command": "curl -H '[masked]'" }));
    assert_eq!((&decision["verdict"], &decision["decided_by"]["rule"]), (&json!("block"), &json!("guard")));
    assert_eq!(
        (&written[2]["status"], &written[2]["reason"], &written[2]["decision_id"]),
        (
            &json!("invalid_argument"),
            &json!("INVALID_REQUEST"),
            &json!(refused.metadata().get("hookd-decision-id").unwrap().to_str().unwrap())
        )
    );
    assert!(!fs::read_to_string(&trail).unwrap().contains("hunter22"));
    let shown = hookd.stdout_lines().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    assert_eq!(shown.collect::<Vec<_>>(), written, "standard output has the same chain");
}

#[tokio::test]
async fn a_refused_call_is_recorded_with_who_made_it() {
    const TOKEN: &str = "token-of-agent-0123456789";
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let tokens = json!({ "tokens": [{ "name": "agent", "value": TOKEN, "labels": { "tenant": "a" } }] });
    let begun = folder.path().join("begun");
    let slow = rule("slow", "SessionStart", sh(&format!("touch {}; sleep 60", begun.display())));
    let hookd = audited(&trail, json!({}))
        .team(json!([slow]))
        .file("tokens.json", &tokens.to_string())
        .settings(json!({ "identity": { "anonymous": "deny", "tokens_file": "tokens.json" } }))
        .start()
        .await;
    let mut admin = hookd.admin();
    let denied = admin.reload(with_token(ReloadRequest {}, TOKEN)).await.unwrap_err();
    let invalid = hookd.try_trigger(with_token(TriggerRequest::default(), TOKEN)).await.unwrap_err();
    let unknown =
        hookd.try_trigger(with_token(TriggerRequest::default(), "token-of-nobody-0123456789")).await.unwrap_err();
    let codes = [denied.code(), invalid.code(), unknown.code()];
    assert_eq!(codes, [Code::PermissionDenied, Code::InvalidArgument, Code::Unauthenticated]);
    // And one whose caller goes away.
    tokio::select! {
        answer = hookd.try_trigger(with_token(event("SessionStart"), TOKEN)) => panic!("{answer:?}"),
        () = eventually("the command runs", async || begun.try_exists().unwrap().then_some(())) => {}
    }
    eventually("its end", async || (records(&trail).len() == 5).then_some(())).await;
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    let written = records(&trail).into_iter().filter(|record| record["kind"] == "refusal");
    let refusals = written.map(|record| (record["status"].clone(), record["caller"].clone())).collect::<Vec<_>>();
    let agent = json!({ "labels": { "tenant": "a" }, "name": "token/agent" });
    let nobody = json!({ "labels": {} });
    let expected = [
        ("permission_denied", &agent),
        ("invalid_argument", &agent),
        ("unauthenticated", &nobody),
        ("cancelled", &agent),
    ];
    assert_eq!(refusals, expected.map(|(status, caller)| (json!(status), caller.clone())));
}

#[tokio::test]
async fn silence_is_sampled_and_counted_and_files_are_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let audit = json!({ "keep": 0, "file": { "rotate_bytes": 4096, "keep": 2 } });
    let hookd = audited(&trail, audit).start().await;
    for _ in 0..10 {
        hookd.trigger(pre_tool_use("Read", json!({}))).await;
    }
    for _ in 0..40 {
        hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    }
    assert_eq!(hookd.metric("hookd_audit_sampled_out_total").await, 10.0);
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    let (report, output) = verify(&trail, &[]).await;
    assert_eq!((output.status.code(), &report["problems"]), (Some(0), &json!([])));
    assert!(report["begins_after"].is_string(), "the oldest files are gone");
}

#[tokio::test]
async fn standard_output_that_nobody_reads_holds_up_nothing_beside_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let audit = json!({ "stdout": true, "on_full": "block", "acknowledge": "written", "parameters": "full" });
    let hookd = audited(&trail, audit).start().await;
    hookd.read_stdout(false);
    let call = || pre_tool_use("Read", json!({ "text": "x".repeat(1 << 20) }));
    let mut answered = HashSet::new();
    // What a pipe takes, and then all that may wait for it.
    for _ in 0..7 {
        let answer = hookd.trigger(call()).await;
        assert_eq!((answer.verdict(), answer.reason.as_str()), (Verdict::None, ""));
        answered.insert(answer.decision_id);
    }
    let trouble = "audit records cannot be copied to standard output: nobody reads it fast enough";
    ready_line(&hookd, |page| page.contains(trouble)).await;
    assert_eq!(ids(&records(&trail)), answered);
    assert_eq!(hookd.metric("hookd_audit_dropped_records_total").await, 0.0);
    hookd.read_stdout(true);
    ready_line(&hookd, |page| !page.contains("audit records")).await;
    hookd.signal(Signal::TERM);
    hookd.wait_exit().await;
    let (report, output) = verify(&trail, &[]).await;
    assert_eq!((output.status.code(), &report["problems"]), (Some(0), &json!([])));
    // The copy says that it is none.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("stdout"), hookd.stdout_lines().join("\n")).unwrap();
    let (report, output) = verify(&copy.join("stdout"), &[]).await;
    assert_eq!(output.status.code(), Some(1), "{report}");
}

#[tokio::test]
async fn without_a_file_nothing_passes_that_standard_output_did_not_take() {
    let audit = json!({ "stdout": true, "on_full": "block", "acknowledge": "written" });
    let guard = rule("guard", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no" })));
    let guard = with(guard, json!({ "matcher": "^Bash$" }));
    let hookd = Hookd::builder().managed(json!([guard])).settings(json!({ "audit": audit })).start().await;
    assert_eq!(hookd.trigger(pre_tool_use("Read", json!({}))).await.verdict(), Verdict::None);
    hookd.close_stdout().await;
    let mut client = hookd.patient_client().await;
    let call = with_deadline(pre_tool_use("Read", json!({})), Duration::from_millis(500));
    let answer = within("an answer", client.trigger(call)).await.unwrap().into_inner();
    assert_eq!(
        (answer.verdict(), answer.reason.as_str()),
        (Verdict::Block, "the audit record of this decision could not be written in time")
    );
    ready_line(&hookd, |page| page.contains("audit records cannot be written: Broken pipe")).await;
}

#[tokio::test]
async fn a_trail_that_cannot_be_written_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("none/audit.jsonl");
    let refused = audited(&trail, json!({})).start_refused().await;
    let expected =
        format!("{}: cannot write the audit file: No such file or directory (os error 2)\n", trail.display());
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.ends_with(&expected), "{}", refused.stderr);
}
