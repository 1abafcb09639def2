//! The real `hookctl` against a real server, and against none.
#![expect(clippy::unwrap_used, reason = "a test stops where something is not as it must be")]

mod asking;
mod auditing;
mod checking;
mod credentials;
mod importing;
mod installing;
mod pages;
mod server;
mod trust;
mod usage;

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// What one run of `hookctl` gave.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    exit: i32,
    out: String,
    err: String,
}

/// Runs `hookctl` in `directory` with nothing in its environment but `variables`, and `input` on standard input.
fn hookctl(directory: &Path, variables: &[(&str, &str)], args: &[&str], input: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hookctl"))
        .args(args)
        .current_dir(directory)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It need not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { exit: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
