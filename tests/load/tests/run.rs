//! The load generator against its own echo server, as processes.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

const LOAD: &str = env!("CARGO_BIN_EXE_hookd-load");

/// A server that ends with the test.
struct Echo {
    child: Child,
    address: String,
}

impl Echo {
    fn start(response_bytes: &str) -> Self {
        Self::start_with(&["echo-server", "--listen", "127.0.0.1:0", "--response-bytes", response_bytes], "grpc")
    }

    fn start_with(arguments: &[&str], protocol: &str) -> Self {
        let mut command = Command::new(LOAD);
        command.args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = format!("hookd-load is ready: {protocol}=");
        let address = line.trim_end().strip_prefix(&ready).unwrap().to_owned();
        Self { child, address }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(&[&["run", "--target", &self.address, "--warmup", "0s"], arguments].concat())
    }

    fn report(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["--output", "json"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(LOAD).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_closed_loop_stops_at_its_count() {
    let echo = Echo::start("321");
    let report = echo.report(&["--count", "200", "--in-flight", "8", "--connections", "2", "--expect", "none"]);
    assert_eq!(report["codes"], serde_json::json!({ "OK": 200 }));
    assert_eq!((report["calls"].as_u64(), report["reply_bytes"].as_f64()), (Some(200), Some(321.0)));
    let latency = &report["latency_us"];
    let figures = ["p50", "p90", "p99", "p99.9", "max"].map(|key| latency[key].as_f64().unwrap());
    assert!(figures.is_sorted() && figures[0] > 0.0, "{latency}");
}

#[test]
fn responses_of_several_sizes_go_in_turns() {
    let sizes = ["echo-server", "--response-bytes", "100", "--response-bytes", "400"];
    let report = Echo::start_with(&sizes, "grpc").report(&["--count", "10"]);
    assert_eq!(report["reply_bytes"].as_f64(), Some(250.0));
}

#[test]
fn a_delay_server_answers_a_post_after_its_delay() {
    let server = Echo::start_with(&["delay-server", "--delay", "100ms"], "http");
    let begin = std::time::SystemTime::now();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: guard\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(begin.elapsed().unwrap().as_millis() >= 100);
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n{\"decision\":\"allow\"}"),
        "{answer}"
    );
}

#[test]
fn an_open_loop_sends_what_is_due() {
    let echo = Echo::start("64");
    let report = echo.report(&["--mode", "open", "--rate", "200", "--duration", "500ms"]);
    assert_eq!(
        (report["calls"].as_u64(), report["rate"].as_u64(), report["unsent"].as_u64()),
        (Some(100), Some(200), Some(0))
    );
    assert!(report["late_start_us"]["max"].as_f64().unwrap() <= report["latency_us"]["max"].as_f64().unwrap());
}

#[test]
fn any_unary_method_and_body_can_be_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (event, bytes) = (folder.path().join("event.json"), folder.path().join("event.bin"));
    std::fs::write(&event, r#"{"event":"Stop","sessionId":"s"}"#).unwrap();
    // Field 1, four bytes: the same event.
    std::fs::write(&bytes, b"\x0a\x04Stop").unwrap();
    let echo = Echo::start("64");
    let bodies = ["--body", event.to_str().unwrap(), "--body", bytes.to_str().unwrap(), "--count", "10"];
    assert_eq!(echo.report(&bodies)["codes"], serde_json::json!({ "OK": 10 }));

    let output = echo.run(&["--body", bytes.to_str().unwrap(), "--count", "3", "--method", "/no.Such/Method"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("codes          OK 0, UNIMPLEMENTED 3\n"), "{text}");
}

#[test]
fn other_verdicts_than_expected_are_errors() {
    let echo = Echo::start("64");
    let output = echo.run(&["--count", "5", "--expect", "block"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("  error          5 answers without the expected verdict\n"), "{text}");
}

#[test]
fn wrong_usage_and_other_machines_are_refused() {
    let usage = |arguments: &[&str], expected: &str| {
        let output = run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{text}");
        assert!(text.contains(expected), "{text}");
    };
    usage(&["run", "--target", "192.0.2.1:50051"], "only servers on this machine are loaded");
    usage(&["run", "--target", "127.0.0.1:1", "--duration", "11m"], "longer than 10 minutes");
    usage(&["run"], "--target");

    let output = run(&["run", "--target", "127.0.0.1:1", "--mode", "open"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error: `--mode open` needs `--rate`\n");
}

#[test]
fn tls_is_spoken_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["hookd.test".to_owned()]).unwrap();
    let path = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = (path("tls.crt", made.cert.pem()), path("tls.key", made.signing_key.serialize_pem()));
    let pair = ["--tls-certificate", &certificate, "--tls-key", &key];
    let echo = Echo::start_with(&[&["echo-server"], &pair[..]].concat(), "grpc");
    let ca = ["--count", "20", "--tls-ca", &certificate];
    for more in [&["--tls-name", "hookd.test"][..], &[&["--tls-name", "hookd.test"], &pair[..]].concat()] {
        assert_eq!(echo.report(&[&ca, more].concat())["codes"], serde_json::json!({ "OK": 20 }));
    }
    for (arguments, why) in [(&ca[..], "certificate not valid for name \"localhost\""), (&["--count", "1"], "")] {
        let output = echo.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains(why), "{text}");
    }
    let alone = run(&["run", "--target", "127.0.0.1:1", "--tls-key", &key]);
    assert_eq!(alone.status.code(), Some(64));
}
