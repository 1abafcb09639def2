//! Peers and files that mean harm: they cost themselves, and nobody else. What rules and offered files may do to conditions
//! and patterns is held by `hookd-condition` and `hookd-rules`.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{lchown, symlink},
    time::Duration,
};

use hookd_tests::{
    Frame, Hookd, PREFACE, RST_STREAM, RawHttp1, RawHttp2, eventually, pre_tool_use, said, v1, with_deadline, within,
};
use prost::Message as _;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

const TRIGGER: &str = "/hookd.v1.HookService/Trigger";

/// How much more memory hookd may hold after an attack than before it, in bytes.
const MEMORY_SLACK: u64 = 32 << 20;

fn guarded() -> hookd_tests::HookdBuilder {
    Hookd::builder().managed(json!([
        { "id": "guard", "event": "PreToolUse", "handler": { "type": "decide", "verdict": "block", "reason": "no" } },
    ]))
}

/// Others are served, whatever one peer does.
async fn serves(hookd: &Hookd) {
    let mut client = hookd.client().await;
    let call = with_deadline(pre_tool_use("Bash", json!({})), Duration::from_secs(30));
    let answer = within("an answer", client.trigger(call)).await.unwrap().into_inner();
    assert_eq!((answer.verdict(), answer.reason.as_str()), (v1::Verdict::Block, "no"));
}

async fn gauge(hookd: &Hookd, name: &str, value: f64) {
    eventually(name, async || (hookd.metric(name).await == value).then_some(())).await;
}

#[tokio::test]
async fn calls_that_are_sent_by_halves_take_nobodys_place() {
    let hookd = guarded().settings(json!({ "limits": { "in_flight": 2 } })).start().await;
    let mut half = RawHttp2::idle(hookd.address()).await;
    half.begin_call(1, TRIGGER).await;
    half.send_half_a_message(1, &[0; 100]).await;
    // A stream whose first message does not come.
    half.begin_call(3, "/hookd.v1.HookService/TriggerStream").await;
    gauge(&hookd, "hookd_arriving_calls", 2.0).await;
    for _ in 0..4 {
        serves(&hookd).await;
    }
    // More than there is room for: the oldest gives way.
    for stream in [5, 7] {
        half.begin_call(stream, TRIGGER).await;
    }
    let told = half.until(|frame| *frame == Frame::Headers { stream: 1, end: true }).await;
    assert!(told.is_some());
    assert!(hookd.metric("hookd_shed_calls_total").await >= 1.0);
    serves(&hookd).await;
    drop(half);
    gauge(&hookd, "hookd_arriving_calls", 0.0).await;
    assert_eq!(hookd.metric("hookd_in_flight_calls").await, 0.0);
}

#[tokio::test]
async fn answers_that_nobody_reads_take_bounded_memory_and_nobodys_place() {
    let note = "n".repeat(600_000);
    let rule =
        json!({ "id": "note", "event": "PreToolUse", "handler": { "type": "decide", "additionalContext": note } });
    let hookd = Hookd::builder().managed(json!([rule])).settings(json!({ "limits": { "in_flight": 4 } })).start().await;
    let before = hookd.memory();
    let trigger = Some(pre_tool_use("Bash", json!({})));
    let one = trigger.clone().unwrap().encode_to_vec();
    let start = v1::StreamStart { trigger, offered: Vec::new() };
    let message = Some(v1::trigger_stream_request::Message::Start(start));
    let stream = v1::TriggerStreamRequest { message }.encode_to_vec();
    for (path, message) in [(TRIGGER, one), ("/hookd.v1.HookService/TriggerStream", stream)] {
        let mut unread = RawHttp2::without_room(hookd.address()).await;
        let streams = (1..400).step_by(2).collect::<Vec<u32>>();
        for stream in &streams {
            unread.begin_call(*stream, path).await;
            unread.send_message(*stream, &message).await;
            let begun = Frame::Headers { stream: *stream, end: false };
            assert_eq!(unread.until(|frame| matches!(frame, Frame::Headers { .. })).await, Some(begun));
        }
        gauge(&hookd, "hookd_leaving_answers", 4.0).await;
        gauge(&hookd, "hookd_in_flight_calls", 0.0).await;
        let after = hookd.memory();
        assert!(after < before + MEMORY_SLACK, "{before} bytes before, {after} after");
        // Whoever reads has its answer.
        let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
        assert_eq!(answer.additional_context[0].text, note);
        // One that was given up ends so, and one that was not is whole.
        unread.room_for(streams[0], 1 << 20).await;
        assert!(unread.until(|frame| *frame == Frame::Other(RST_STREAM)).await.is_some());
        let last = *streams.last().unwrap();
        unread.room_for(last, 1 << 20).await;
        let mut read = 0;
        let end = unread
            .until(|frame| {
                if let Frame::Data { stream, bytes } = frame
                    && *stream == last
                {
                    read += bytes.len();
                }
                matches!(frame, Frame::Headers { .. })
            })
            .await;
        assert_eq!(end, Some(Frame::Headers { stream: last, end: true }));
        assert!(read > note.len() - 1, "{read}");
        drop(unread);
        gauge(&hookd, "hookd_leaving_answers", 0.0).await;
    }
}

#[tokio::test]
async fn plain_http_that_is_sent_by_halves_takes_nobodys_place() {
    let hookd = guarded().settings(json!({ "limits": { "in_flight": 2 } })).start().await;
    let request = RawHttp1::post("/v1/trigger", "", r#"{"event":"PreToolUse","toolCall":{"tool":"Bash"}}"#);
    let mut halves = Vec::new();
    for count in [1.0, 2.0] {
        let mut half = RawHttp1::connect(hookd.address()).await;
        half.send(&request[..request.len() - 1]).await;
        halves.push(half);
        // One after the other: the oldest gives way.
        gauge(&hookd, "hookd_arriving_calls", count).await;
    }
    serves(&hookd).await;
    // The last of them is still there.
    let mut last = halves.pop().unwrap();
    last.send(b"}").await;
    assert_eq!(last.answer().await.unwrap().json()["verdict"], "block");
    drop(halves);
    gauge(&hookd, "hookd_arriving_calls", 0.0).await;
}

#[tokio::test]
async fn calls_that_are_begun_and_given_up_again_and_again_leave_nothing() {
    let hookd = guarded().start().await;
    let before = hookd.memory();
    let mut streams = (1_u32..).step_by(2);
    for _ in 0..4 {
        let mut connection = RawHttp2::idle(hookd.address()).await;
        for _ in 0..20 {
            // More at once than may be open.
            let bytes = RawHttp2::begun_and_given_up(streams.by_ref().take(500), TRIGGER);
            if !connection.try_send(&bytes).await {
                break;
            }
        }
        serves(&hookd).await;
    }
    for name in ["hookd_arriving_calls", "hookd_in_flight_calls"] {
        gauge(&hookd, name, 0.0).await;
    }
    let after = hookd.memory();
    assert!(after < before + MEMORY_SLACK, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn health_that_is_open_to_everybody_is_no_way_to_fill_the_memory() {
    let hookd = guarded().settings(json!({ "identity": { "anonymous": "deny" } })).start().await;
    let watch = "/grpc.health.v1.Health/Watch";
    let mut one = RawHttp2::idle(hookd.address()).await;
    let mut ended = Vec::new();
    for stream in (1..=41).step_by(2) {
        one.begin_call(stream, watch).await;
        one.send_message(stream, &[]).await;
        let headers = one.until(|frame| matches!(frame, Frame::Headers { .. })).await;
        if let Some(Frame::Headers { end: true, .. }) = headers {
            ended.push(stream);
        }
    }
    assert_eq!(ended, [33, 35, 37, 39, 41], "16 at a time");
    // Others are asked as ever, also on the same connection, once one has ended.
    HealthClient::new(hookd.channel()).check(HealthCheckRequest::default()).await.unwrap();
    one.give_up(1).await;
    eventually("one more", async || {
        let stream = ended.last().unwrap() + 2;
        ended.push(stream);
        one.begin_call(stream, "/grpc.health.v1.Health/Check").await;
        one.send_message(stream, &[]).await;
        let of_it = |frame: &Frame| matches!(frame, Frame::Headers { stream: of, .. } if *of == stream);
        (one.until(of_it).await == Some(Frame::Headers { stream, end: false })).then_some(())
    })
    .await;
}

#[tokio::test]
async fn settings_and_pings_without_end_fill_no_memory() {
    let hookd = guarded().start().await;
    let before = hookd.memory();
    let mut flood = RawHttp2::idle(hookd.address()).await;
    let (flooded, is_flooded) = tokio::sync::oneshot::channel();
    // Nothing of what hookd answers is read, so at some time it reads no more either.
    let flooding = tokio::spawn(async move {
        let bytes = RawHttp2::settings_and_pings(1000);
        let mut flooded = Some(flooded);
        for round in 0.. {
            if round == 4 {
                let _ = flooded.take().unwrap().send(());
            }
            if !flood.try_send(&bytes).await {
                break;
            }
        }
    });
    within("a flood", is_flooded).await.unwrap();
    serves(&hookd).await;
    let after = hookd.memory();
    assert!(after < before + MEMORY_SLACK, "{before} bytes before, {after} after");
    flooding.abort();
}

#[tokio::test]
async fn headers_are_bounded() {
    let hookd = guarded().start().await;
    let before = hookd.memory();
    // Most of what is permitted, for one token, say.
    let mut connection = RawHttp2::idle(hookd.address()).await;
    connection.send(&RawHttp2::call_with_long_header(1, TRIGGER, 30 << 10, true)).await;
    connection.send_message(1, &[]).await;
    let end = Frame::Headers { stream: 1, end: true };
    assert_eq!(connection.until(|frame| *frame == end || *frame == Frame::GoAway).await, Some(end));
    // It came through: its message is what was refused.
    let read = r#"hookd_calls_total{event="",verdict="",tier="",status="invalid_argument"}"#;
    assert_eq!(hookd.metric(read).await, 1.0);
    // More than that: this call is refused, or the connection ends.
    connection.send(&RawHttp2::call_with_long_header(3, TRIGGER, 40 << 10, true)).await;
    let refused = connection.until(|frame| matches!(frame, Frame::Headers { stream: 3, .. } | Frame::GoAway)).await;
    assert!(matches!(refused, None | Some(Frame::Headers { end: true, .. } | Frame::GoAway)), "{refused:?}");
    assert_eq!(hookd.metric(read).await, 1.0);
    // Headers without end.
    let mut endless = RawHttp2::idle(hookd.address()).await;
    while endless.try_send(&RawHttp2::call_with_long_header(1, TRIGGER, 4 << 20, false)).await {}
    serves(&hookd).await;
    let after = hookd.memory();
    assert!(after < before + MEMORY_SLACK, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_at_once() {
    let hookd = guarded().settings(json!({ "limits": { "connections": 4 } })).start().await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(RawHttp2::idle(hookd.address()).await);
    }
    let mut refused = RawHttp2::silent(hookd.address()).await;
    refused.try_send(PREFACE).await;
    refused.closed().await;
    assert_eq!(hookd.metric(r#"hookd_refused_connections_total{limit="all"}"#).await, 1.0);
    assert_eq!(hookd.metric("hookd_connections").await, 4.0);
    drop(held);
    gauge(&hookd, "hookd_connections", 0.0).await;
    serves(&hookd).await;
}

#[tokio::test]
async fn connections_of_one_address_keep_nobody_else_out() {
    let limits = json!({ "limits": { "connections": 8, "connections_of_one_address": 2 } });
    let hookd = guarded().settings(limits).settings(json!({ "listen": "0.0.0.0:0", "plaintext": "allow" }));
    let hookd = hookd.start().await;
    let Some(elsewhere) = hookd.address_as_from_elsewhere().await else { return };
    let (held, _held_on) = (RawHttp2::idle(elsewhere).await, RawHttp2::idle(elsewhere).await);
    for refused in 1..4 {
        let mut one_more = RawHttp2::silent(elsewhere).await;
        one_more.try_send(PREFACE).await;
        one_more.closed().await;
        let counted = r#"hookd_refused_connections_total{limit="address"}"#;
        assert_eq!(hookd.metric(counted).await, f64::from(refused));
    }
    // Those of this machine have no bound but that of all.
    let loopback = (Ipv4Addr::LOCALHOST, elsewhere.port()).into();
    let mut local = Vec::new();
    for _ in 0..4 {
        local.push(RawHttp2::idle(loopback).await);
    }
    // One that goes makes room for another.
    drop(held);
    gauge(&hookd, "hookd_connections", 5.0).await;
    let _again = RawHttp2::idle(elsewhere).await;
    assert_eq!(hookd.metric(r#"hookd_refused_connections_total{limit="all"}"#).await, 0.0);
}

#[tokio::test]
async fn json_that_is_deep_or_broken_is_refused_with_a_place() {
    let hookd = guarded().start().await;
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let cases = [
        (format!("{{\"a\":{}}}", deep(100_000)), "nested more than 128 deep"),
        (r#"{"a":"\ud800"}"#.to_owned(), "hex escape"),
        (r#"{"a":1,"\u0061":2}"#.to_owned(), "duplicate key `a`"),
        (r#"{"a":"b"#.to_owned(), "line 1 column"),
        ("[".repeat(1_000_000), "nested more than 128 deep"),
    ];
    for (params, expected) in cases {
        let mut request = pre_tool_use("Bash", json!({}));
        params.clone_into(&mut request.tool_call.as_mut().unwrap().params_json);
        let status = hookd.try_trigger(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{expected}");
        assert!(status.message().starts_with("tool_call.params_json: "), "{}", status.message());
        assert!(status.message().contains(expected), "{}", status.message());
        assert!(status.message().len() < 400 && status.get_error_details().bad_request().is_some());
    }
    // Invalid UTF-8 in a text of a message, and in plain HTTP.
    let mut raw = RawHttp2::idle(hookd.address()).await;
    raw.begin_call(1, TRIGGER).await;
    raw.send_message(1, &[0x0a, 0x02, 0xff, 0xfe]).await;
    let end = Frame::Headers { stream: 1, end: true };
    assert_eq!(raw.until(|frame| *frame == end).await, Some(end));
    let invalid = r#"hookd_calls_total{event="",verdict="",tier="",status="invalid_argument"}"#;
    gauge(&hookd, invalid, 6.0).await;
    let mut plain = RawHttp1::connect(hookd.address()).await;
    let mut request = RawHttp1::post("/v1/trigger", "", r#"{"event":"PreToolUse","toolCall":{"tool":"??"}}"#);
    let at = request.windows(2).position(|two| two == b"??").unwrap();
    request[at] = 0xff;
    plain.send(&request).await;
    assert_eq!(plain.answer().await.unwrap().status, 400);
}

#[tokio::test]
async fn what_stands_in_the_place_of_rule_files_is_named_in_one_line_and_waited_for_by_nobody() {
    let builder = guarded().shared(json!([
        { "id": "mine", "event": "PreToolUse", "handler": { "type": "decide", "verdict": "ask", "reason": "sure?" } },
    ]));
    let shared = builder.path("shared");
    let pipe = shared.join("a-pipe.json");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    symlink("/dev/zero", shared.join("device.json")).unwrap();
    symlink("/etc/shadow", shared.join("shadow.yaml")).unwrap();
    if rustix::process::getuid().is_root() {
        lchown(shared.join("shadow.yaml"), Some(65_534), None).unwrap();
    }
    symlink("loop.json", shared.join("loop.json")).unwrap();
    symlink("../../../../nowhere", shared.join("up.json")).unwrap();
    fs::create_dir(shared.join("folder.json")).unwrap();
    fs::write(shared.join("huge.json"), vec![b' '; 2 << 20]).unwrap();
    fs::write(shared.join("line\nready\u{1b}[2J.json"), r#"{"hooks":[]}"#).unwrap();
    let laughs = (1..12).fold("a0: &a0 [lol]\n".to_owned(), |text, level| {
        let before = level - 1;
        text + &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{before}"); 9].join(", "))
    });
    fs::write(shared.join("laughs.yaml"), laughs).unwrap();
    let hookd = builder.start().await;

    let before = hookd.memory();
    let reloaded = hookd.reload().await;
    let problems = reloaded.sources.iter().flat_map(|source| &source.errors).map(String::as_str);
    let mut problems = problems.map(|problem| problem.rsplit_once("shared/").unwrap().1).collect::<Vec<_>>();
    problems.sort_unstable();
    let expected = [
        "a-pipe.json: is not a regular file",
        "device.json: is not a regular file",
        "huge.json: is larger than 1048576 bytes",
        "laughs.yaml:6:9: not valid YAML: more than 200000 values",
        "line\\nready\\u{1b}[2J.json: has a control character in its name, rename it",
        "loop.json: cannot be read: Too many levels of symbolic links (os error 40)",
        "shadow.yaml: is a link to a file of somebody else than its owner",
        "up.json: cannot be read: No such file or directory (os error 2)",
    ];
    assert_eq!(problems, expected);
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(said(&answer)["considered"], json!(2));
    let after = hookd.memory();
    assert!(after < before + MEMORY_SLACK, "{before} bytes before, {after} after");

    let (status, page) = hookd.admin_get("/readyz").await;
    assert_eq!(status, 200);
    assert!(!page.lines().skip(1).any(|line| line.starts_with("ready")), "{page}");
    assert!(!page.contains('\u{1b}') && !hookd.admin_get("/metrics").await.1.contains('\u{1b}'));
    let is_whole = |line: &Value| line.get("text").is_none();
    assert!(hookd.log_lines().iter().all(is_whole), "{}", hookd.log_text());
}

#[test]
fn every_test_that_the_threat_model_names_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("THREATS.md")).unwrap();
    let named = page.split('`').filter_map(|text| text.split_once('#').filter(|(file, _)| file.ends_with(".rs")));
    let named = named.collect::<Vec<_>>();
    let missing = named.iter().filter(|(file, test)| {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        !text.contains(&format!("fn {test}("))
    });
    assert_eq!(missing.collect::<Vec<_>>(), [] as [&(&str, &str); 0]);
    assert!(named.len() > 50, "{}", named.len());
}
