//! No server, wrong usage, help.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use tokio::net::TcpSocket;

use crate::{Ran, hookctl};

fn run(args: &[&str], input: &str) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    hookctl(directory.path(), &[], args, input)
}

#[test]
fn without_a_server_it_says_where_it_looked_and_what_to_do() {
    // Held, and nobody listens.
    let nobody = TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    for args in [&["trigger", "Stop"][..], &["status"], &["rules"], &["reload"], &["explain", "Stop"]] {
        let ran = hookctl("/".as_ref(), &[("HOOKD_ADDRESS", &address)], args, "");
        assert_eq!((ran.exit, ran.out.as_str()), (1, ""), "{args:?}");
        let start = format!("hookctl: hookd cannot be reached at {address}: connection refused");
        assert!(ran.err.starts_with(&start), "{}", ran.err);
        let end = "; start `hookd`, or say where it listens with `--address` or HOOKD_ADDRESS\n";
        assert!(ran.err.ends_with(end), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1);
    }
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let ran = run(&["status", "--address", "unix:/nowhere/hookd.sock"], "");
    assert_eq!(ran.exit, 1);
    assert!(
        ran.err.starts_with("hookctl: hookd cannot be reached at unix:/nowhere/hookd.sock: no such file"),
        "{}",
        ran.err
    );
}

#[test]
fn a_peer_that_never_answers_ends_with_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ran = run(&["status", "--address", &address, "--timeout", "300ms"], "");
    let err = format!("hookctl: hookd at {address} gave no answer within 300ms\n");
    assert_eq!(ran, Ran { exit: 1, out: String::new(), err });
}

#[test]
fn wrong_usage_exits_64_and_writes_nothing_on_standard_output() {
    let cases: [(&[&str], &str); 18] = [
        (&[], ""),
        (&["frobnicate"], ""),
        (&["trigger"], ""),
        (&["trigger", "Stop", "--frob"], ""),
        (&["trigger", "Stop", "--input", "-"], "{}"),
        (&["trigger", "PreToolUse", "--params", "{}"], ""),
        (&["trigger", "PreToolUse", "--tool", "t", "--params", "[1]"], ""),
        (&["trigger", "PreToolUse", "--tool", "t", "--params", "{'a':1}"], ""),
        (&["trigger", "PreToolUse", "--tool", "t", "--params", "{\"a\":1,\"a\":2}"], ""),
        (&["trigger", "PreToolUse", "--tool", "t", "--result", "oops"], ""),
        (&["trigger", "Stop", "--payload", "1"], ""),
        (&["trigger", "Stop", "--label", "x"], ""),
        (&["trigger", "--input", "-"], "{\"event\":\"Stop\",\"toolcall\":{}}"),
        (&["trigger", "--input", "/nowhere/context.json"], ""),
        (&["status", "--timeout", "soon"], ""),
        (&["status", "--timeout", "0s"], ""),
        (&["status", "--address", "nowhere"], ""),
        (&["check", "--tier", "mine"], ""),
    ];
    for (args, input) in cases {
        let ran = run(args, input);
        assert_eq!((ran.exit, ran.out.as_str()), (64, ""), "{args:?}: {}", ran.err);
        assert!(!ran.err.is_empty(), "{args:?}");
    }
    let ran = run(&["trigger", "--input", "-"], "{\"event\":\"Stop\",\"toolcall\":{}}");
    let err = "hookctl: standard input: unknown key `toolcall` in the event, expected `event`, `sessionId`, `timestamp`, \
               `toolCall`, `cwd`, `payload`, `caller`, `requestId`, `turnId`, `transcriptPath`, `permissionMode`, `model`, \
               `capabilities`, `expectedPolicyRevision`, `workspaceRoots`\n";
    assert_eq!(ran.err, err);
    let ran = run(&["trigger", "PreToolUse", "--tool", "t", "--params", "[1]"], "");
    assert_eq!(ran.err, "hookctl: `--params` is an array, expected a JSON object\n");
}

#[test]
fn help_version_and_completions_exit_0() {
    for args in [&["--help"][..], &["trigger", "--help"], &["--version"], &["help", "check"]] {
        let ran = run(args, "");
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(!ran.out.is_empty(), "{args:?}");
    }
    assert_eq!(run(&["--version"], "").out, format!("hookctl {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run(&["completions", shell], "");
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{shell}");
        assert!(ran.out.contains("hookctl"), "{shell}");
    }
}

#[test]
fn whoever_answers_and_is_no_hookd_is_not_to_be_started() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0; 24]).unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        }
    });
    let ran = run(&["status", "--address", &address], "");
    let why = "what answers there does not speak HTTP/2, so it is not hookd";
    let err = format!("hookctl: hookd cannot be reached at {address}: {why}\n");
    assert_eq!(ran, Ran { exit: 1, out: String::new(), err });
}
