//! `hookd-load compare` with programs in hookd's place that are not what they should be.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const LOAD: &str = env!("CARGO_BIN_EXE_hookd-load");

fn compare_with(folder: &Path, script: &str) -> Output {
    let path: PathBuf = folder.join("hookd");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(LOAD);
    command.args(["compare", "--rounds", "1", "--duration", "100ms", "--warmup", "0s", "--hookd"]).arg(path);
    command.stdin(Stdio::null()).output().unwrap()
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
    let expected = "error: hookd is not what it should be: request 0 got None, not Allow\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let process = fs::read_to_string(process).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).try_exists().unwrap(), "{process} is still there");
}
