//! What goes to an OpenTelemetry collector (issue 6, item 7), and what a collector can do to hookd: nothing.

use std::{fs, net::TcpListener};

use hookd_tests::{
    Collector, Hookd, HookdBuilder, Reply, Signal, decide, eventually, pre_tool_use, rule,
    v1::{TriggerRequest, Verdict},
    with, within,
};
use opentelemetry_proto::tonic::{
    collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse},
    common::v1::{AnyValue, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
};
use prost::Message as _;
use serde_json::{Value, json};

const SECRET: &str = "s3cret-of-the-collector";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn guarded() -> HookdBuilder {
    let guard = rule("guard", "PreToolUse", decide(json!({ "verdict": "block", "reason": "no" })));
    Hookd::builder().managed(json!([with(guard, json!({ "matcher": "^Bash$" }))]))
}

fn traced(request: TriggerRequest, flags: &str) -> tonic::Request<TriggerRequest> {
    let mut request = tonic::Request::new(request);
    let traceparent = format!("00-{TRACE}-{PARENT}-{flags}");
    request.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
    request
}

fn text(value: &str) -> Option<AnyValue> {
    Some(AnyValue { value: Some(Any::StringValue(value.to_owned())) })
}

fn texts(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    let pair =
        |(key, value): &(&str, &str)| KeyValue { key: (*key).to_owned(), value: text(value), ..KeyValue::default() };
    pairs.iter().map(pair).collect()
}

fn body(record: &LogRecord) -> String {
    match record.body.clone().and_then(|body| body.value) {
        Some(Any::StringValue(body)) => body,
        body => panic!("{body:?}"),
    }
}

/// The digits of an id without its dashes, as bytes.
fn bytes(digits: &str) -> Vec<u8> {
    let digits = digits.replace('-', "");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

async fn metric(hookd: &Hookd, name: &str, signal: &str) -> f64 {
    hookd.metric(&format!("hookd_otlp_{name}{{signal=\"{signal}\"}}")).await
}

#[tokio::test]
async fn each_line_of_the_audit_trail_is_a_log_record() {
    let collector = Collector::start().await;
    let hookd = guarded().file("headers", &format!("Authorization: Bearer {SECRET}\nX-Scope: a: b\n"));
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let otlp = json!({ "endpoint": collector.url(), "headers_file": "headers" });
    let hookd = hookd.settings(json!({ "audit": { "file": { "path": trail }, "otlp": otlp } })).start().await;
    let answer = hookd.trigger(traced(pre_tool_use("Bash", json!({})), "01")).await;
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));

    // The same lines, the beginning and the end of the chain included.
    let records = collector.log_records();
    let lines = fs::read_to_string(&trail).unwrap();
    assert_eq!(records.iter().map(body).collect::<Vec<_>>(), lines.lines().collect::<Vec<_>>());
    assert_eq!(
        records.iter().map(|record| &*record.event_name).collect::<Vec<_>>(),
        ["hookd.audit.start", "hookd.audit.decision", "hookd.audit.end"]
    );
    let line: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    let decision = records[1].clone();
    assert!(decision.time_unix_nano > 0 && decision.time_unix_nano <= decision.observed_time_unix_nano);
    let expected = LogRecord {
        time_unix_nano: decision.time_unix_nano,
        observed_time_unix_nano: decision.observed_time_unix_nano,
        severity_number: 9,
        severity_text: "INFO".to_owned(),
        body: text(&line.to_string()),
        attributes: texts(&[
            ("hookd.decision_id", &answer.decision_id),
            ("hookd.event", "PreToolUse"),
            ("hookd.revision", &answer.policy_revision),
            ("hookd.verdict", "block"),
        ]),
        trace_id: bytes(TRACE),
        span_id: bytes(&answer.decision_id)[8..].to_vec(),
        event_name: "hookd.audit.decision".to_owned(),
        ..LogRecord::default()
    };
    assert_eq!(decision, expected);

    let logs = collector.logs();
    let version = env!("CARGO_PKG_VERSION");
    let resource = logs[0].resource.clone().unwrap();
    assert_eq!(resource.attributes, texts(&[("service.name", "hookd"), ("service.version", version)]));
    let scope = logs[0].scope_logs[0].scope.clone().unwrap();
    assert_eq!((&*scope.name, &*scope.version), ("hookd", version));
    for request in collector.requests() {
        let head = request.head.to_lowercase();
        for line in [
            "post /v1/logs http/1.1",
            "content-type: application/x-protobuf",
            &format!("authorization: bearer {SECRET}"),
            "x-scope: a: b",
        ] {
            assert!(head.contains(&format!("{line}\r\n")), "{head}");
        }
    }
    assert!(!hookd.log_text().contains(SECRET));
}

#[tokio::test]
async fn a_collector_that_is_away_costs_a_counter_and_no_answer() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let otlp = json!({ "endpoint": format!("http://{address}"), "headers_file": "headers", "queue_bytes": "4KiB" });
    let hookd = guarded()
        .file("headers", &format!("Authorization: Bearer {SECRET}\n"))
        .settings(json!({ "audit": { "stdout": true, "on_full": "block", "acknowledge": "written", "otlp": otlp } }))
        .start()
        .await;
    for _ in 0..50 {
        let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
        assert_eq!((answer.verdict(), &*answer.reason), (Verdict::Block, "no"));
    }
    let trouble = "audit records cannot be exported: ";
    eventually("trouble", async || {
        let (status, page) = hookd.admin_get("/readyz").await;
        assert_eq!(status, 200);
        assert!(!page.contains(SECRET) && !page.contains("http://"), "{page}");
        page.contains(trouble).then_some(())
    })
    .await;
    assert_eq!(hookd.metric("hookd_audit_records_total").await, 51.0);
    assert_eq!(hookd.metric("hookd_audit_dropped_records_total").await, 0.0);
    assert!(metric(&hookd, "errors_total", "logs").await >= 1.0);
    assert_eq!(metric(&hookd, "exported_total", "logs").await, 0.0);
    let dropped = metric(&hookd, "dropped_total", "logs").await;
    assert!((1.0..51.0).contains(&dropped), "{dropped}");
    let waiting = metric(&hookd, "queue_bytes", "logs").await;
    assert!((1.0..=4096.0).contains(&waiting), "{waiting}");

    // It comes back: what still waited arrives, from the beginning.
    let collector = Collector::start_at(address).await;
    let kept = 51 - dropped as usize;
    let records = collector.wait_for_log_records(kept).await;
    assert_eq!((records.len(), &*records[0].event_name), (kept, "hookd.audit.start"));
    eventually("no trouble", async || (!hookd.admin_get("/readyz").await.1.contains(trouble)).then_some(())).await;
    assert_eq!(metric(&hookd, "exported_total", "logs").await, kept as f64);
    assert_eq!(metric(&hookd, "queue_bytes", "logs").await, 0.0);
    assert!(!hookd.log_text().contains(SECRET));
}

#[tokio::test]
async fn a_collector_that_hangs_holds_no_answer_and_the_end_only_so_long() {
    let collector = Collector::start().await;
    collector.answers(Reply::raw("").then_hang());
    let otlp = json!({ "endpoint": collector.url(), "timeout": "10m" });
    let hookd = guarded().settings(json!({ "audit": { "otlp": otlp } })).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.verdict(), Verdict::Block);
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    let lost = "what waited for the OTLP collector is lost: it did not take it in time";
    assert!(hookd.log_lines().iter().any(|line| line["message"] == lost), "{}", hookd.log_text());
    assert_eq!(collector.requests().len(), 1);
}

#[tokio::test]
async fn what_a_collector_refuses_is_dropped_and_what_it_cannot_take_now_is_tried_again() {
    let collector = Collector::start().await;
    // Not all of the record of the start, which is one.
    let partial = ExportLogsPartialSuccess { rejected_log_records: 1, error_message: "no".to_owned() };
    let partial = ExportLogsServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    collector.answers(Reply::ok(partial));
    let otlp = json!({ "endpoint": format!("{}/v1/logs", collector.url()) });
    let hookd = guarded().settings(json!({ "audit": { "otlp": otlp } })).start().await;
    let counts = async |exported: f64, dropped: f64| {
        eventually("counts", async || {
            let is = [metric(&hookd, "exported_total", "logs").await, metric(&hookd, "dropped_total", "logs").await];
            (is == [exported, dropped]).then_some(())
        })
        .await;
    };
    counts(0.0, 1.0).await;
    let trouble = async |what: &str| {
        let line = format!("audit records cannot be exported: {what}");
        eventually(&line, async || hookd.admin_get("/readyz").await.1.contains(&line).then_some(())).await;
    };
    trouble("the collector does not take some of them").await;

    collector.answers(Reply::status("400 Bad Request", SECRET));
    hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    counts(0.0, 2.0).await;
    trouble("the answer is 400 Bad Request").await;

    collector.answers(Reply::status("503 Service Unavailable", SECRET));
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    trouble("the answer is 503 Service Unavailable").await;
    collector.answers(Reply::ok(""));
    counts(1.0, 2.0).await;
    let id = &texts(&[("hookd.decision_id", &answer.decision_id)])[0];
    assert!(collector.log_records().last().unwrap().attributes.contains(id));
    assert!(!hookd.log_text().contains(SECRET));
}

#[tokio::test]
async fn files_for_a_collector_that_cannot_be_used_are_refused_at_start_without_what_is_in_them() {
    for (name, content, why) in [
        ("headers_file", SECRET, "cannot use the headers of the collector: line 1 is not `Name: value`"),
        ("headers_file", "a: b\n\nc: \u{7}", "cannot use the headers of the collector: line 3 is not `Name: value`"),
        ("ca", SECRET, "cannot use the certificates of authorities: no certificates in PEM"),
    ] {
        let otlp = json!({ "endpoint": "https://localhost:1", name: "file" });
        let refused = guarded().file("file", content).settings(json!({ "audit": { "otlp": otlp } }));
        let refused = within("the refusal", refused.start_refused()).await;
        let line = refused.stderr.trim_end().lines().last().unwrap_or_default().to_owned();
        assert!(line.ends_with(&format!("/file: {why}")) && !refused.stderr.contains(SECRET), "{}", refused.stderr);
        assert_eq!(refused.code, Some(1));
    }
}
