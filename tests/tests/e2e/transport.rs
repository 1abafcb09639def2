//! What happens on the way: sizes, compression, texts, ages of connections, other services, other listeners.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hookd_client::{Client, OnUnavailable};
use hookd_tests::{
    Frame, Hookd, RawHttp2, Signal, decide as decide_rule, event, eventually, pre_tool_use, rule, said, v1, within,
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::{Code, Request, Status, client::Grpc, codec::CompressionEncoding, codegen::http::uri::PathAndQuery};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};
use tonic_types::StatusExt as _;

use crate::gate;

const MIB: usize = 1 << 20;

fn decide(verdict: &str) -> Value {
    json!([{ "id": "rule", "event": ["PreToolUse", "PostToolUse"], "handler": { "type": "decide", "verdict": verdict } }])
}

/// A call whose tool gave a result of so many bytes, and a little more around it.
fn with_result(bytes: usize) -> v1::TriggerRequest {
    hookd_tests::post_tool_use("Bash", json!({}), "x".repeat(bytes).into())
}

fn check_too_large(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("hookd", "TOO_LARGE"));
    assert_eq!(info.metadata.get("limit_bytes").map(String::as_str), Some("4194304"));
    assert!(status.get_details_retry_info().is_none(), "another try would be as large");
    assert!(status.metadata().contains_key("hookd-decision-id"), "{status:?}");
}

#[tokio::test]
async fn case_090_a_message_over_the_limit_has_one_clear_status() {
    let hookd = Hookd::builder().managed(decide("block")).start().await;
    let mut client = hookd.client().await;
    let fits = within("an answer", client.trigger(with_result(4 * MIB - 1024))).await.unwrap().into_inner();
    assert_eq!(fits.verdict(), v1::Verdict::Block);
    check_too_large(&within("a status", client.trigger(with_result(5 * MIB))).await.unwrap_err());
    let fits = within("the connection lives", client.trigger(with_result(1))).await.unwrap().into_inner();
    assert_eq!(fits.verdict(), v1::Verdict::Block);
}

#[tokio::test]
async fn case_091_the_limit_counts_after_decompression() {
    let hookd = Hookd::builder().managed(decide("block")).start().await;
    let mut client = hookd.client().await.send_compressed(CompressionEncoding::Gzip);
    let fits = within("an answer", client.trigger(with_result(4 * MIB - 1024))).await.unwrap().into_inner();
    assert_eq!(fits.verdict(), v1::Verdict::Block);
    let before = hookd.memory();
    // Some 65 KiB on the wire.
    check_too_large(&within("a status", client.trigger(with_result(64 * MIB))).await.unwrap_err());
    let after = hookd.memory();
    assert!(after < before + (32 << 20), "{before} bytes before, {after} after");
}

#[tokio::test]
async fn a_method_that_there_is_not_is_no_answer() {
    let hookd = Hookd::builder().managed(decide("allow")).start().await;
    let call = async |path: &'static str| {
        let mut client = Grpc::new(hookd.channel());
        client.ready().await.unwrap();
        let codec = ProstCodec::<v1::TriggerRequest, v1::TriggerResponse>::default();
        let request = Request::new(pre_tool_use("Bash", json!({})));
        within("an answer", client.unary(request, PathAndQuery::from_static(path), codec)).await
    };
    let answer = call("/hookd.v1.HookService/Trigger").await.unwrap().into_inner();
    assert_eq!(answer.verdict(), v1::Verdict::Allow);
    for path in [
        "/hookd.v1.HookService/trigger",
        "/hookd.v1.HookService/Trigger/",
        "/hookd.v1.HookService/",
        "/hookd.v1.HookServiceX/Trigger",
        "/hookd.v1.AdminService/Nothing",
        "/hookd.v2.HookService/Trigger",
    ] {
        let status = call(path).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{path}: {status:?}");
        assert!(status.metadata().contains_key("hookd-decision-id"), "{path}: {status:?}");
    }
}

#[tokio::test]
async fn case_091_gzip_is_taken_and_given() {
    let hookd = Hookd::builder().managed(decide("block")).start().await;
    let mut client =
        hookd.client().await.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    let answer = within("an answer", client.trigger(pre_tool_use("Bash", json!({})))).await.unwrap();
    assert_eq!(answer.metadata().get("grpc-encoding").map(|value| value.as_bytes()), Some(&b"gzip"[..]));
    assert_eq!(answer.into_inner().verdict(), v1::Verdict::Block);
}

/// A rule whose command writes so many bytes.
fn writing(id: &str, letter: char, bytes: usize) -> Value {
    let command = format!("head -c {bytes} /dev/zero | tr '\\0' {letter}");
    json!([{ "id": id, "event": "Notification", "handler": { "type": "command", "command": command } }])
}

#[tokio::test]
async fn an_answer_over_the_limit_loses_outputs_of_the_lowest_tier_first_and_says_so() {
    let hookd = Hookd::builder()
        .managed(writing("m", 'm', 20_000))
        .local(writing("l", 'l', 20_000))
        .shared(writing("s", 's', 20_000))
        .settings(json!({ "limits": { "message_bytes": 50_000 } }))
        .start()
        .await;
    let answer = hookd.trigger(event("Notification")).await;
    let outputs =
        answer.results.iter().map(|result| (result.rule_id.as_str(), result.output.as_ref().map(String::len)));
    assert_eq!(outputs.collect::<Vec<_>>(), [("m", Some(20_000)), ("l", Some(20_000)), ("s", None)]);
    assert!(answer.results_truncated);
    assert!(answer.encoded_len() <= 50_000);
}

#[tokio::test]
async fn a_decision_whose_rewrite_or_reason_fits_into_no_answer_is_a_block_and_recorded_as_one() {
    let long = "x".repeat(60_000);
    let rules = json!([
        rule("params", "PreToolUse", decide_rule(json!({ "modifiedParams": { "text": long } }))),
        rule("result", "PostToolUse", decide_rule(json!({ "modifiedResult": long }))),
        rule("reason", "Stop", decide_rule(json!({ "verdict": "block", "reason": long }))),
        rule("halts", "UserPromptSubmit", decide_rule(json!({ "halt": true, "haltReason": long }))),
    ]);
    let hookd =
        Hookd::builder().managed(rules).settings(json!({ "limits": { "message_bytes": 50_000 } })).start().await;
    let over = "the answer is over the limit of 50000 bytes";
    for (asked, expected) in [
        (
            pre_tool_use("Bash", json!({})),
            json!({ "verdict": "block", "decidedBy": "failure_policy", "rewrites": ["managed/params params "] }),
        ),
        (
            hookd_tests::post_tool_use("Bash", json!({}), json!("secret")),
            json!({
                "verdict": "block", "decidedBy": "failure_policy", "rewrites": ["managed/result result "],
                "result": "[result withheld: over the limit]",
            }),
        ),
        (event("Stop"), json!({ "verdict": "none", "decidedBy": "rule managed/reason" })),
        (event("UserPromptSubmit"), json!({ "verdict": "block", "decidedBy": "rule managed/halts", "halt": "" })),
    ] {
        let answer = hookd.trigger(asked).await;
        assert!(answer.encoded_len() <= 50_000);
        let mut said = said(&answer);
        let said = said.as_object_mut().unwrap();
        assert_eq!(said.remove("reason"), Some(over.into()));
        assert_eq!(said.remove("truncated"), Some(true.into()));
        said.retain(|key, _| !matches!(key.as_str(), "results" | "considered" | "matched"));
        assert_eq!(Value::Object(said.clone()), expected);
        let logged = eventually("the line of the decision", async || {
            hookd.log_lines().into_iter().find(|line| line["decision_id"] == answer.decision_id.as_str())
        });
        assert_eq!(logged.await["verdict"], expected["verdict"]);
    }
}

#[tokio::test]
async fn case_089_texts_with_line_breaks_and_other_letters_arrive_as_they_are() {
    let command = r"printf 'línea1\nlínea2' >&2; exit 3";
    let rule = json!({ "id": "rule", "event": "PreToolUse", "handler": { "type": "command", "command": command } });
    let hookd = Hookd::builder().managed(json!([rule])).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.results[0].error.as_deref(), Some("línea1\nlínea2"));
    assert_eq!(answer.reason, "hook `rule` failed: línea1\nlínea2");

    let mut twice = pre_tool_use("Bash", json!({}));
    twice.tool_call.as_mut().unwrap().params_json = r#"{"línea1\nlínea2":1,"línea1\nlínea2":2}"#.to_owned();
    let status = hookd.try_trigger(twice).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("duplicate key `línea1\nlínea2`"), "{:?}", status.message());
}

#[tokio::test]
async fn case_095_a_connection_of_the_maximum_age_is_told_to_go_and_its_calls_finish() {
    let hookd = Hookd::builder()
        .managed(json!([gate::gated("gated")]))
        .settings(json!({ "http2": { "max_connection_age": "1s" } }))
        .start()
        .await;
    let mut connection = RawHttp2::idle(hookd.address()).await;
    connection.begin_call(1, "/hookd.v1.HookService/Trigger").await;
    connection.send_message(1, &pre_tool_use("Gated", json!({})).encode_to_vec()).await;
    gate::begun(&hookd, 1).await;
    let told = connection.until(|frame| matches!(frame, Frame::GoAway | Frame::Headers { .. })).await;
    assert_eq!(told, Some(Frame::GoAway), "before the call has ended");
    gate::open(&hookd);
    let Some(Frame::Data { bytes, .. }) = connection.until(|frame| matches!(frame, Frame::Data { .. })).await else {
        panic!("no answer")
    };
    let answer = v1::TriggerResponse::decode(&bytes[5..]).unwrap();
    let expected = json!({ "verdict": "none", "results": ["managed/gated none"], "considered": 1, "matched": 1 });
    assert_eq!(said(&answer), expected);
    let end = Frame::Headers { stream: 1, end: true };
    assert_eq!(connection.until(|frame| *frame == end).await, Some(end));
    assert_eq!(connection.until(|_| false).await, None, "then it is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_095_a_client_loses_nothing_over_many_connections() {
    let hookd = Hookd::builder()
        .managed(decide("block"))
        .settings(json!({ "http2": { "max_connection_age": "100ms" }, "log": { "filter": "debug" } }))
        .start()
        .await;
    let stop = Arc::new(AtomicBool::new(false));
    let client = Client::connect_lazy(&hookd.address().to_string(), OnUnavailable::Allow).unwrap();
    let mut callers = Vec::new();
    for _ in 0..4 {
        let (client, stop) = (client.clone(), Arc::clone(&stop));
        callers.push(tokio::spawn(async move {
            let mut calls = 0_usize;
            while !stop.load(Ordering::SeqCst) {
                let answer = client.call(&pre_tool_use("Bash", json!({}))).await.expect("every call is answered");
                assert_eq!(answer.verdict(), v1::Verdict::Block);
                calls += 1;
            }
            calls
        }));
    }
    // Meanwhile, so that connections grow old: as many as it takes for twenty of ours.
    for _ in 0..20 {
        let mut connection = RawHttp2::idle(hookd.address()).await;
        assert_eq!(connection.until(|frame| *frame == Frame::GoAway).await, Some(Frame::GoAway));
    }
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
}

#[tokio::test]
async fn reflection_lists_every_service() {
    let hookd = Hookd::builder().start().await;
    let mut client = ServerReflectionClient::new(hookd.channel());
    let request = ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..ServerReflectionRequest::default()
    };
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = within("an answer", answers.into_inner().message()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("no list") };
    let mut names = list.service.into_iter().map(|service| service.name).collect::<Vec<_>>();
    names.sort();
    assert_eq!(
        names,
        [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "hookd.v1.AdminService",
            "hookd.v1.HookService"
        ]
    );
}

#[tokio::test]
async fn health_is_checked_and_watched_by_name() {
    let hookd = Hookd::builder().settings(json!({ "drain": { "min_delay": "1s" } })).start().await;
    let mut health = HealthClient::new(hookd.channel());
    let of = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for service in ["", "hookd.v1.HookService"] {
        assert_eq!(health.check(of(service)).await.unwrap().into_inner().status(), ServingStatus::Serving);
    }
    assert_eq!(health.check(of("nobody")).await.unwrap_err().code(), Code::NotFound);
    let mut watch = health.watch(of("hookd.v1.HookService")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    hookd.signal(Signal::TERM);
    assert_eq!(within("health", watch.message()).await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(hookd.wait_exit().await.code(), Some(0), "a watch does not hold it");
}

#[tokio::test]
async fn a_unix_socket_serves_agents_and_administrators_and_goes_with_the_server() {
    let builder = Hookd::builder().managed(decide("block"));
    let socket = builder.path("h.sock");
    let hookd = builder.settings(json!({ "listen": format!("unix:{}", socket.display()) })).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.verdict(), v1::Verdict::Block);
    assert!(hookd.reload().await.ok);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert!(!socket.try_exists().unwrap());
}

#[tokio::test]
async fn a_unix_socket_on_which_another_server_answers_is_left_alone() {
    let builder = Hookd::builder().managed(decide("block"));
    let socket = builder.path("h.sock");
    let listen = json!({ "listen": format!("unix:{}", socket.display()) });
    let first = builder.settings(listen.clone()).start().await;
    let refused = Hookd::builder().settings(listen).start_refused().await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("another process answers there"), "{}", refused.stderr);
    assert_eq!(first.trigger(pre_tool_use("Bash", json!({}))).await.verdict(), v1::Verdict::Block);
}

#[tokio::test]
async fn a_server_whose_unix_socket_was_taken_away_is_not_ready() {
    let builder = Hookd::builder().managed(decide("block"));
    let (socket, aside) = (builder.path("h.sock"), builder.path("aside.sock"));
    let address = format!("unix:{}", socket.display());
    let hookd = builder.settings(json!({ "listen": address })).start().await;
    let ready = async || hookd.admin_get("/readyz").await;
    let lost = format!("not ready\nwaiting for: {address}, whose file was removed or replaced\n");
    assert_eq!(ready().await.0, 200);

    fs::rename(&socket, &aside).unwrap();
    eventually("not ready", async || ready().await.1.starts_with(&lost).then_some(())).await;
    fs::rename(&aside, &socket).unwrap();
    eventually("ready again", async || (ready().await.0 == 200).then_some(())).await;
    assert_eq!(hookd.trigger(pre_tool_use("Bash", json!({}))).await.verdict(), v1::Verdict::Block);

    // Another one in its place is nothing that leads here, and is not taken away at the end.
    fs::remove_file(&socket).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    eventually("not ready", async || ready().await.1.starts_with(&lost).then_some(())).await;
    let is_warning = |line: &str| line.contains("was removed or replaced") && line.contains(&address);
    let warned = async || hookd.log_text().lines().filter(|line| is_warning(line)).count() == 2;
    eventually("two warnings", async || warned().await.then_some(())).await;
    hookd.signal(Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert!(socket.try_exists().unwrap());
}

#[tokio::test]
async fn administration_is_for_this_machine_only() {
    let hookd = Hookd::builder()
        .managed(decide("block"))
        .settings(json!({ "listen": "0.0.0.0:0", "plaintext": "allow", "identity": { "anonymous": "allow" } }))
        .start()
        .await;
    let rules = hookd.admin().list_rules(v1::ListRulesRequest::default()).await.unwrap().into_inner();
    assert_eq!(rules.rules.len(), 1);
    let Some(elsewhere) = hookd.address_as_from_elsewhere().await else { return };
    let channel = tonic::transport::Channel::from_shared(format!("http://{elsewhere}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut admin = v1::admin_service_client::AdminServiceClient::new(channel.clone());
    let status = admin.list_rules(v1::ListRulesRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.metadata().contains_key("hookd-decision-id"), "{status:?}");
    assert_eq!(admin.reload(v1::ReloadRequest {}).await.unwrap_err().code(), Code::PermissionDenied);
    let mut hooks = v1::hook_service_client::HookServiceClient::new(channel);
    let answer = hooks.trigger(pre_tool_use("Bash", json!({}))).await.unwrap().into_inner();
    assert_eq!(answer.verdict(), v1::Verdict::Block);
}

#[tokio::test]
async fn bytes_that_are_not_http2_hurt_only_their_own_connection() {
    let hookd = Hookd::builder().managed(decide("block")).start().await;
    let garbage = (0..=255).cycle().take(70_000).collect::<Vec<u8>>();
    let requests: [&[u8]; 4] = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &garbage, &[0; 9], b"\x16\x03\x01\x02\x00\x01"];
    for address in [hookd.address(), hookd.admin_address()] {
        for bytes in requests {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            // The server may close before it has read all of it.
            let _closed = stream.write_all(bytes).await;
            let _closed = stream.shutdown().await;
            let mut answer = Vec::new();
            let _reset = within("the end of the connection", stream.read_to_end(&mut answer)).await;
        }
    }
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.verdict(), v1::Verdict::Block);
    assert_eq!(hookd.admin_get("/livez").await.0, 200);
}

#[tokio::test]
async fn a_caller_may_give_up_every_call_that_it_has_open_and_keeps_its_connection() {
    let hookd = Hookd::builder().managed(decide("block")).start().await;
    let mut connection = RawHttp2::idle(hookd.address()).await;
    let path = "/hookd.v1.HookService/Trigger";
    connection.begin_and_give_up((0..256).map(|call| 2 * call + 1), path).await;
    connection.begin_call(1001, path).await;
    connection.send_message(1001, &pre_tool_use("Bash", json!({})).encode_to_vec()).await;
    let end = Frame::Headers { stream: 1001, end: true };
    let told = connection.until(|frame| *frame == end || *frame == Frame::GoAway).await;
    assert_eq!(told, Some(end));
}

#[tokio::test]
async fn a_request_that_does_not_arrive_takes_no_place() {
    let hookd = Hookd::builder()
        .managed(decide("block"))
        .settings(json!({ "limits": { "in_flight": 2, "default_deadline": "1s" } }))
        .start()
        .await;
    let mut stuck = RawHttp2::idle(hookd.address()).await;
    stuck.begin_call(1, "/hookd.v1.HookService/Trigger").await;
    stuck.send_half_a_message(1, &[0; 100]).await;
    eventually("it is on its way", async || (hookd.metric("hookd_arriving_calls").await == 1.0).then_some(())).await;
    let deadline = Duration::from_secs(30);
    let answer = hookd.trigger(hookd_tests::with_deadline(pre_tool_use("Bash", json!({})), deadline)).await;
    assert_eq!(answer.verdict(), v1::Verdict::Block);
    assert_eq!(hookd.metric("hookd_in_flight_calls").await, 0.0, "it has no place");
    let end = Frame::Headers { stream: 1, end: true };
    assert_eq!(stuck.until(|frame| *frame == end).await, Some(end));
    let timed_out = r#"hookd_calls_total{event="",verdict="",tier="",status="deadline_exceeded"}"#;
    assert_eq!(hookd.metric(timed_out).await, 1.0);
    assert_eq!(hookd.metric("hookd_arriving_calls").await, 0.0);
}
