//! `hookd-load compare` and `goals` with programs in hookd's place that are not what they should be.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const LOAD: &str = env!("CARGO_BIN_EXE_hookd-load");

fn compare_with(folder: &Path, script: &str) -> Output {
    load_with("compare", &[], folder, script)
}

fn load_with(subcommand: &str, arguments: &[&str], folder: &Path, script: &str) -> Output {
    let path: PathBuf = folder.join("hookd");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(LOAD);
    command.args([subcommand, "--rounds", "1", "--duration", "100ms", "--warmup", "0s"]).args(arguments);
    command.arg("--hookd").arg(path).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let output = compare_with(folder.path(), "echo \"cannot read $2\" >&2; exit 64");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    let (start, rest) = text.split_once("cannot read /").unwrap();
    assert_eq!(start, "error: hookd did not start; its log ends with:\n");
    assert!(rest.ends_with("/hookd.json: it ended without saying that it is ready\n"), "{text}");
}

#[test]
fn a_server_with_other_verdicts_is_not_measured_and_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let process = folder.path().join("process");
    let script = format!("echo $$ >'{}'; exec '{LOAD}' echo-server", process.display());
    let output = compare_with(folder.path(), &script);
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: request 0: hookd said none, not allow\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let process = fs::read_to_string(process).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).try_exists().unwrap(), "{process} is still there");
}

#[test]
fn a_policy_without_candidates_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let policy = ["--policy", folder.path().to_str().unwrap()];
    let output = load_with("compare", &policy, folder.path(), "exit 64");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("error: {}/candidates.json: No such file or directory (os error 2)\n", policy[1]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[test]
fn a_peer_with_other_decisions_is_named_with_the_request() {
    let folder = tempfile::tempdir().unwrap();
    // The echo server stands in hookd's place and in the peer's: its verdict is `none`, which counts as a denial.
    let peer = serde_json::json!({
        "name": "other 1.2.3", "program": LOAD, "arguments": ["echo-server", "--listen", "127.0.0.1:{port}"],
        "method": "/hookd.v1.HookService/Trigger", "answers": "verdict", "bodies": ["event.json"],
    });
    let left_out = serde_json::json!({
        "name": "third", "skipped": "skipped: no compiler", "arguments": [], "method": "/a.B/C", "answers": "envoy",
        "bodies": [],
    });
    let candidates = serde_json::json!({
        "rules": 1, "expected": ["deny"], "hookd": { "settings": "hookd.json", "bodies": ["event.json"] },
        "peers": [left_out, peer],
    });
    fs::write(folder.path().join("event.json"), r#"{"event":"Stop"}"#).unwrap();
    fs::write(folder.path().join("candidates.json"), candidates.to_string()).unwrap();
    let policy = ["--policy", folder.path().to_str().unwrap()];
    let output = load_with("compare", &policy, folder.path(), &format!("exec '{LOAD}' echo-server"));
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: request 0: other 1.2.3 said none, not deny\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[test]
fn goals_that_cannot_be_measured_are_said_and_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let script = "[ \"$1\" = --version ] && echo 'hookd 9.9.9' && exit; echo 'cannot run' >&2; exit 64";
    let output = load_with("goals", &["--only", "worker,command", "--output", "json"], folder.path(), script);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["hookd"], "hookd 9.9.9");
    let why =
        "not measured: hookd did not start; its log ends with: cannot run: it ended without saying that it is ready";
    let expected = serde_json::json!([
        {
            "measure": "one command rule (`argv: [\"true\"]`) against a bare spawn-and-wait, p50, 1 in flight",
            "goal": "at most 1.15", "measured": why,
        },
        {
            "measure": "one Python guard as a worker against spawn per call, calls/s, 8 in flight",
            "goal": "at least 20", "measured": why,
        },
    ]);
    assert_eq!(outcome["rows"], expected);
}
