//! What goes to an OpenTelemetry collector (issue 6, item 7), and what a collector can do to hookd: nothing.

use std::{collections::HashSet, fs};

use hookd_tests::{
    Authority, Collector, Hookd, HookdBuilder, HttpStub, Place, Reply, Signal, decide, eventually, http, pre_tool_use,
    rule, sh,
    v1::{TriggerRequest, Verdict},
    with, within,
};
use opentelemetry_proto::tonic::{
    collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse},
    common::v1::{AnyValue, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    trace::v1::{Span, Status},
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
    let place = Place::free();
    let otlp =
        json!({ "endpoint": format!("http://{}", place.address()), "headers_file": "headers", "queue_bytes": "4KiB" });
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
    let collector = Collector::start_at(&place).await;
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
async fn a_collector_that_another_authority_certifies_is_told_nothing_until_it_is_trusted() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let collector = Collector::start_with_tls(&trusted.server()).await;
    let otlp = json!({ "endpoint": collector.url(), "ca": "ca.crt", "headers_file": "headers" });
    let hookd = guarded()
        .file("ca.crt", &other.certificate)
        .file("headers", &format!("Authorization: Bearer {SECRET}"))
        .settings(json!({ "audit": { "otlp": otlp } }))
        .start()
        .await;
    let line = "audit records cannot be exported: ";
    eventually(line, async || hookd.admin_get("/readyz").await.1.contains(line).then_some(())).await;
    assert_eq!(collector.requests(), []);
    // Files are read again where it does not work.
    hookd.replace_file("ca.crt", &trusted.certificate);
    collector.wait_for_log_records(1).await;
    assert!(collector.requests()[0].head.contains(&format!("Bearer {SECRET}")));
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
        assert_eq!(refused.code, Some(64));
    }
}

fn attributes(pairs: &[(&str, Value)]) -> Vec<KeyValue> {
    let pair = |(key, value): &(&str, Value)| {
        let value = match value {
            Value::String(text) => Any::StringValue(text.clone()),
            Value::Bool(flag) => Any::BoolValue(*flag),
            value => Any::IntValue(value.as_i64().unwrap()),
        };
        KeyValue { key: (*key).to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    };
    pairs.iter().map(pair).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The `traceparent` of each request.
fn traceparents(stub: &HttpStub) -> Vec<String> {
    let header = |line: &str| line.strip_prefix("traceparent: ").map(str::to_owned);
    stub.requests().iter().filter_map(|request| request.head.lines().find_map(header)).collect()
}

const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const INTERNAL: i32 = 1;

#[tokio::test]
async fn a_call_has_a_span_and_so_has_each_handler_that_ran() {
    let (collector, stub) = (Collector::start().await, HttpStub::start(|_| Reply::ok("{}")).await);
    let broken = with(rule("broken", "PreToolUse", sh("exit 1")), json!({ "onError": "allow" }));
    let watch = with(rule("watch", "PreToolUse", decide(json!({ "verdict": "block" }))), json!({ "mode": "shadow" }));
    let hookd = Hookd::builder()
        .managed(json!([rule("scan", "PreToolUse", http(&stub.url("/scan")))]))
        .local(json!([rule("rewrites", "PreToolUse", decide(json!({ "modifiedParams": { "command": "ls -l" } })))]))
        .shared(json!([broken, watch]))
        .settings(json!({ "traces": { "otlp": { "endpoint": collector.url() } } }))
        .start()
        .await;
    let answer = hookd.trigger(traced(pre_tool_use("Bash", json!({ "command": "ls" })), "01")).await;
    let results = answer.results.iter().map(|result| &*result.rule_id).collect::<Vec<_>>();
    assert_eq!(results, ["scan", "rewrites", "broken", "watch", "scan"]);
    let spans = collector.wait_for_spans(6).await;
    let whole = spans[0].clone();
    assert!(whole.start_time_unix_nano < whole.end_time_unix_nano);
    let expected = Span {
        trace_id: bytes(TRACE),
        span_id: bytes(&answer.decision_id)[8..].to_vec(),
        parent_span_id: bytes(PARENT),
        // Sampled; it is known where the parent is: elsewhere.
        flags: 0x301,
        name: "evaluate PreToolUse".to_owned(),
        kind: SERVER,
        start_time_unix_nano: whole.start_time_unix_nano,
        end_time_unix_nano: whole.end_time_unix_nano,
        attributes: attributes(&[
            ("hookd.decision_id", json!(answer.decision_id)),
            ("hookd.revision", json!(answer.policy_revision)),
            ("hookd.event", json!("PreToolUse")),
            ("hookd.tool", json!("Bash")),
            ("hookd.session", json!(session(&whole))),
            ("hookd.verdict", json!("none")),
            ("hookd.rule", json!("broken")),
            ("hookd.tier", json!("shared")),
            ("hookd.cause", json!("failure_policy")),
            ("hookd.considered", json!(4)),
            ("hookd.matched", json!(4)),
            ("hookd.degraded", json!(true)),
        ]),
        ..Span::default()
    };
    assert_eq!(whole, expected);

    let handler = |rule: &str, tier: &str, kind: &str, outcome: &str| {
        vec![
            ("hookd.rule", json!(rule)),
            ("hookd.tier", json!(tier)),
            ("hookd.handler", json!(kind)),
            ("hookd.outcome", json!(outcome)),
        ]
    };
    let and = |mut pairs: Vec<(&'static str, Value)>, more: &[(&'static str, Value)]| {
        pairs.extend(more.iter().cloned());
        pairs
    };
    let failed = [("hookd.failure", json!("exited")), ("hookd.forgiven", json!(true))];
    let handlers = [
        ("http scan", CLIENT, "", handler("scan", "managed", "http", "none")),
        ("decide rewrites", INTERNAL, "", handler("rewrites", "local", "decide", "none")),
        ("command broken", INTERNAL, "exited", and(handler("broken", "shared", "command", "failed"), &failed)),
        (
            "decide watch",
            INTERNAL,
            "",
            and(handler("watch", "shared", "decide", "block"), &[("hookd.shadow", json!(true))]),
        ),
        ("http scan", CLIENT, "", and(handler("scan", "managed", "http", "none"), &[("hookd.recheck", json!(true))])),
    ];
    let mut reached = whole.start_time_unix_nano;
    for (span, (name, kind, failure, expected)) in spans[1..].iter().zip(&handlers) {
        assert!(span.start_time_unix_nano >= reached && span.end_time_unix_nano >= span.start_time_unix_nano, "{name}");
        assert_eq!(span.end_time_unix_nano > span.start_time_unix_nano, !name.starts_with("decide"), "{name}");
        reached = span.end_time_unix_nano;
        let expected = Span {
            trace_id: bytes(TRACE),
            span_id: span.span_id.clone(),
            parent_span_id: whole.span_id.clone(),
            flags: 0x101,
            name: (*name).to_owned(),
            kind: *kind,
            start_time_unix_nano: span.start_time_unix_nano,
            end_time_unix_nano: span.end_time_unix_nano,
            attributes: attributes(expected),
            status: (!failure.is_empty()).then(|| Status { message: (*failure).to_owned(), code: 2 }),
            ..Span::default()
        };
        assert_eq!(*span, expected);
    }
    assert!(reached <= whole.end_time_unix_nano);
    let ids = spans.iter().map(|span| span.span_id.clone()).collect::<HashSet<_>>();
    assert_eq!((spans.len(), ids.len()), (6, 6));
    let passed_on = format!("00-{TRACE}-{}-01", hex(&whole.span_id));
    assert_eq!(traceparents(&stub), [passed_on.clone(), passed_on]);
    eventually("counts", async || (metric(&hookd, "exported_total", "traces").await == 6.0).then_some(())).await;
}

#[tokio::test]
async fn a_handler_in_the_background_has_a_span_below_its_calls() {
    let (collector, gate) =
        (Collector::start().await, HttpStub::start(|_| Reply::status("503 Service Unavailable", "")).await);
    let later = |id: &str, handler: Value| with(rule(id, "Stop", handler), json!({ "async": true }));
    let shadow = with(rule("shadow", "Stop", sh("echo '{\"blocked\":true}'")), json!({ "mode": "shadow" }));
    let hookd = Hookd::builder()
        .managed(json!([later("notify", http(&gate.url("/"))), later("logs", sh("true")), shadow]))
        .settings(json!({ "traces": { "otlp": { "endpoint": collector.url() } } }))
        .start()
        .await;
    let answer = hookd.trigger(traced(hookd_tests::event("Stop"), "01")).await;
    let mut spans = collector.wait_for_spans(4).await;
    let call = spans.remove(spans.iter().position(|span| span.kind == SERVER).unwrap());
    assert_eq!(call.span_id, bytes(&answer.decision_id)[8..]);
    spans.sort_by(|one, other| one.name.cmp(&other.name));
    let background = |rule: &str, kind: &str, outcome: &str, more: &[(&'static str, Value)]| {
        let mut pairs = vec![
            ("hookd.rule", json!(rule)),
            ("hookd.tier", json!("managed")),
            ("hookd.handler", json!(kind)),
            ("hookd.outcome", json!(outcome)),
        ];
        pairs.extend(more.iter().cloned());
        pairs.extend([("hookd.background", json!(true)), ("hookd.decision_id", json!(answer.decision_id))]);
        pairs
    };
    let expected = [
        ("command logs", INTERNAL, "", background("logs", "command", "none", &[])),
        ("command shadow", INTERNAL, "", background("shadow", "command", "block", &[("hookd.shadow", json!(true))])),
        (
            "http notify",
            CLIENT,
            "http_status",
            background("notify", "http", "failed", &[("hookd.failure", json!("http_status"))]),
        ),
    ];
    for (span, (name, kind, failure, pairs)) in spans.iter().zip(&expected) {
        assert!(span.start_time_unix_nano >= call.start_time_unix_nano, "{name}");
        assert!(span.end_time_unix_nano > span.start_time_unix_nano, "{name}");
        let expected = Span {
            trace_id: bytes(TRACE),
            span_id: span.span_id.clone(),
            parent_span_id: call.span_id.clone(),
            flags: 0x101,
            name: (*name).to_owned(),
            kind: *kind,
            start_time_unix_nano: span.start_time_unix_nano,
            end_time_unix_nano: span.end_time_unix_nano,
            attributes: attributes(pairs),
            status: (!failure.is_empty()).then(|| Status { message: (*failure).to_owned(), code: 2 }),
            ..Span::default()
        };
        assert_eq!(*span, expected);
    }
    assert_eq!(spans.len(), 3);

    // Its failure is a warning, and counted.
    let ended = "handler in the background ended";
    let levels = async || {
        let logged = hookd.log_lines().into_iter().filter(|line| line["message"] == ended);
        let mut levels = logged.map(|line| format!("{} {}", line["rule"], line["level"])).collect::<Vec<_>>();
        levels.sort();
        (levels == [r#""logs" "INFO""#, r#""notify" "WARN""#, r#""shadow" "INFO""#]).then_some(())
    };
    eventually("the ends of three", levels).await;
    let runs =
        r#"hookd_handler_runs_total{kind="http",tier="managed",mode="async",outcome="failed",failure="http_status"}"#;
    assert_eq!(hookd.metric(runs).await, 1.0);
    // Nobody samples the call: neither is what goes on beside it.
    hookd.trigger(traced(hookd_tests::event("Stop"), "00")).await;
    eventually("they have run", async || (hookd.metric(runs).await == 2.0).then_some(())).await;
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(collector.wait_for_spans(4).await.len(), 4);
}

fn session(span: &Span) -> String {
    let value = span.attributes.iter().find(|attribute| attribute.key == "hookd.session").unwrap();
    match value.value.clone().unwrap().value {
        Some(Any::StringValue(text)) => text,
        value => panic!("{value:?}"),
    }
}

#[tokio::test]
async fn who_calls_says_whether_there_are_spans_and_else_the_ratio_does() {
    for (ratio, of_its_own) in [(0.0, false), (1.0, true)] {
        let (collector, stub) = (Collector::start().await, HttpStub::start(|_| Reply::ok("{}")).await);
        let hookd = Hookd::builder()
            .managed(json!([rule("scan", "PreToolUse", http(&stub.url("/scan")))]))
            .settings(json!({ "traces": { "otlp": { "endpoint": collector.url() }, "sample_ratio": ratio } }))
            .start()
            .await;
        let call = || pre_tool_use("Bash", json!({}));
        let begun = hookd.trigger(call()).await.decision_id.replace('-', "");
        let unsampled = hookd.trigger(traced(call(), "00")).await.decision_id.replace('-', "");
        let sampled = hookd.trigger(traced(call(), "01")).await.decision_id.replace('-', "");
        hookd.signal(Signal::TERM);
        assert_eq!(hookd.wait_exit().await.code(), Some(0));

        let mut expected = vec![(TRACE.to_owned(), PARENT.to_owned(), sampled[16..].to_owned())];
        if of_its_own {
            expected.insert(0, (begun.clone(), String::new(), begun[16..].to_owned()));
        }
        let spans = collector.wait_for_spans(2 * expected.len()).await;
        let evaluations = spans.iter().filter(|span| span.kind == SERVER);
        let ids = |span: &Span| (hex(&span.trace_id), hex(&span.parent_span_id), hex(&span.span_id));
        assert_eq!(evaluations.map(ids).collect::<Vec<_>>(), expected, "{ratio}");
        let flags = if of_its_own { "01" } else { "00" };
        assert_eq!(
            traceparents(&stub),
            [
                format!("00-{begun}-{}-{flags}", &begun[16..]),
                format!("00-{TRACE}-{}-00", &unsampled[16..]),
                format!("00-{TRACE}-{}-01", &sampled[16..]),
            ],
            "{ratio}"
        );
    }
}

#[tokio::test]
async fn spans_are_dropped_while_their_collector_hangs_and_no_call_waits() {
    let collector = Collector::start().await;
    collector.answers(Reply::raw("").then_hang());
    let otlp = json!({ "endpoint": collector.url(), "timeout": "10m", "queue_bytes": "4KiB" });
    let hookd = guarded().settings(json!({ "traces": { "otlp": otlp } })).start().await;
    for _ in 0..20 {
        assert_eq!(hookd.trigger(pre_tool_use("Bash", json!({}))).await.verdict(), Verdict::Block);
    }
    // Two spans a call, of which the queue holds so many.
    let dropped = metric(&hookd, "dropped_total", "traces").await;
    assert!((1.0..40.0).contains(&dropped), "{dropped}");
    assert!(metric(&hookd, "queue_bytes", "traces").await <= 4096.0);
}
