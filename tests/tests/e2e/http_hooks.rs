//! Plain HTTP on the port of gRPC: `POST /v1/hooks/{agent}` and `POST /v1/trigger`.

use std::time::Duration;

use hookd_tests::{
    Hookd, HttpAnswer, HttpStub, RawHttp1, Reply, Signal, eventually, pre_tool_use, said, v1, with_deadline, within,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::gate;

const CLAUDE: &str = "/v1/hooks/claude-code";
const TRIGGER: &str = "/v1/trigger";
const MIB: usize = 1 << 20;

/// A guard in process, and a handler that ends when the test says so.
fn rules() -> Value {
    json!([
        { "id": "guard", "event": ["PreToolUse", "Stop"], "matcher": "^Bash$",
          "handler": { "type": "decide", "verdict": "block", "reason": "not now" } },
        gate::gated("gated"),
    ])
}

/// What Claude Code sends before it runs a tool.
fn before(tool: &str, input: Value) -> String {
    json!({
        "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/", "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "tool_use_id": "t1",
    })
    .to_string()
}

/// What Claude Code sends when it wants to stop.
fn stop() -> String {
    json!({ "session_id": "s1", "transcript_path": "/t.jsonl", "cwd": "/", "hook_event_name": "Stop",
            "stop_hook_active": false })
    .to_string()
}

fn context(tool: &str) -> String {
    json!({ "event": "PreToolUse", "sessionId": "s1", "toolCall": { "tool": tool, "params": {} } }).to_string()
}

/// Why Claude Code is told not to run a tool; the answer has to be whole and in the agent's form.
fn denied(answer: &HttpAnswer) -> String {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    let json = answer.json();
    let reason = json["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap_or_default().to_owned();
    let expected = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    }});
    assert_eq!(json, expected);
    reason
}

/// The reason why a call was not judged; the answer has to be a block in the agent's form with the id of the call.
fn not_judged(answer: &HttpAnswer) -> &str {
    let id = answer.header("hookd-decision-id").unwrap();
    let reason = denied(answer);
    assert!(reason.starts_with("hookd gave no decision: ") && reason.contains(id), "{reason}");
    answer.header("hookd-not-judged").unwrap()
}

fn error(answer: &HttpAnswer) -> (u16, String) {
    let json = answer.json();
    assert_eq!(json["error"]["decisionId"].as_str(), answer.header("hookd-decision-id"), "{answer:?}");
    (answer.status, json["error"]["reason"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_agent_is_answered_in_its_own_words_in_both_versions_of_http() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let input = before("Bash", json!({ "command": "ls" }));
    for answer in [connection.ask(CLAUDE, "", &input).await, hookd.post_http2(CLAUDE, &input).await] {
        let id = answer.header("hookd-decision-id").unwrap();
        assert_eq!(denied(&answer), format!("not now (guard, {id})"));
        assert_eq!((answer.header("hookd-not-judged"), answer.header("hookd-exit-code")), (None, None));
    }
    let silent = connection.ask(CLAUDE, "", &before("Read", json!({}))).await;
    assert_eq!((silent.status, silent.body.as_str()), (200, ""));

    let answer = connection.ask(TRIGGER, "", &context("Bash")).await;
    let json = answer.json();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let decided_by = json!({ "cause": "rule", "ruleId": "guard", "tier": "managed",
                             "source": hookd.path("managed/rules.json").to_str().unwrap() });
    assert_eq!(
        (&json["verdict"], &json["reason"], &json["decidedBy"], &json["rulesMatched"], &json["modifiedParams"]),
        (&json!("block"), &json!("not now"), &decided_by, &json!(1), &Value::Null)
    );
    assert_eq!(json["decisionId"].as_str(), answer.header("hookd-decision-id"));

    // Counted and logged as calls of gRPC are.
    let blocked = r#"hookd_calls_total{event="PreToolUse",verdict="block",tier="managed",status="ok"}"#;
    assert_eq!(hookd.metric(blocked).await, 3.0);
    let decided = || hookd.log_lines().into_iter().filter(|line| line["message"] == "decided").collect::<Vec<_>>();
    let decided = eventually("the log", async || Some(decided()).filter(|lines| lines.len() == 4)).await;
    assert_eq!(decided[3]["decision_id"], json["decisionId"]);
}

#[tokio::test]
async fn agents_without_http_hooks_get_what_their_command_would_write_and_its_exit_code() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let codex = connection.ask("/v1/hooks/codex", "", &before("Bash", json!({ "command": "ls" }))).await;
    denied(&codex);
    assert_eq!(codex.header("hookd-exit-code"), Some("0"));
    let input = json!({ "hook_event_name": "preToolUse", "cwd": "/", "session_id": "s1",
                        "tool_name": "Bash", "tool_input": {} })
    .to_string();
    let amazon_q = connection.ask("/v1/hooks/amazon-q", "", &input).await;
    let id = amazon_q.header("hookd-decision-id").unwrap();
    assert_eq!(amazon_q.body.trim_end(), format!("not now (guard, {id})"), "standard error, since the code is not 0");
    assert_eq!((amazon_q.status, amazon_q.header("hookd-exit-code")), (200, Some("2")));
    // What cannot be judged has its status, and a block all the same.
    let broken = connection.ask("/v1/hooks/amazon-q?event=preToolUse", "", "{").await;
    assert_eq!((broken.status, broken.header("hookd-exit-code")), (400, Some("2")));
    assert_eq!(broken.header("hookd-not-judged"), Some("INVALID_REQUEST"));
}

#[tokio::test]
async fn numbers_keep_their_digits() {
    let stub = HttpStub::start(|_| Reply::ok("{}")).await;
    let rewrite = r#"{"id":9007199254740993,"n":1.0,"e":1e400}"#;
    let rules = format!(
        r#"{{"hooks":[
            {{"id":"sees","event":"PreToolUse","handler":{{"type":"http","url":"{}"}}}},
            {{"id":"rewrites","event":"PreToolUse","handler":{{"type":"decide","modifiedParams":{rewrite}}}}}]}}"#,
        stub.url("/")
    );
    let hookd = Hookd::builder().file("managed/rules.json", &rules).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let params = r#"{"id":12345678901234567890,"n":2.50,"e":-1E-400}"#;
    let native = before("Edit", json!("PARAMS")).replace("\"PARAMS\"", params);
    let answer = connection.ask(CLAUDE, "", &native).await;
    assert!(answer.body.contains(&format!(r#""updatedInput":{rewrite}"#)), "{}", answer.body);
    let context = format!(r#"{{"event":"PreToolUse","toolCall":{{"tool":"Edit","params":{params}}}}}"#);
    let answer = connection.ask(TRIGGER, "", &context).await;
    assert!(answer.body.contains(&format!(r#""modifiedParams":{rewrite}"#)), "{}", answer.body);
    for request in stub.wait_for(2).await.iter().take(2) {
        assert!(request.body.contains(&format!(r#""params":{params}"#)), "{}", request.body);
    }
}

#[tokio::test]
async fn requests_are_read_as_they_come() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let input = before("Bash", json!({ "command": "ls" }));

    // Three at once, and the beginning of a fourth.
    let quick = RawHttp1::post(CLAUDE, "", &before("Read", json!({})));
    let one = RawHttp1::post(CLAUDE, "", &input);
    let other = RawHttp1::post(TRIGGER, "", &context("Bash"));
    connection.send(&[one.as_slice(), &quick, &other, &one[..10]].concat()).await;
    denied(&connection.answer().await.unwrap());
    assert_eq!(connection.answer().await.unwrap().body, "");
    assert_eq!(connection.answer().await.unwrap().json()["verdict"], "block");
    connection.send(&one[10..]).await;
    denied(&connection.answer().await.unwrap());

    // Byte by byte.
    for byte in &one {
        connection.send(&[*byte]).await;
    }
    denied(&connection.answer().await.unwrap());

    // In chunks.
    let head = format!(
        "POST {CLAUDE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let (first, second) = input.split_at(20);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    connection.send(format!("{head}{}", chunk(first)).as_bytes()).await;
    connection.send(format!("{}0\r\n\r\n", chunk(second)).as_bytes()).await;
    denied(&connection.answer().await.unwrap());

    // Only when it is asked for.
    let expecting = RawHttp1::post(CLAUDE, "Expect: 100-continue\r\n", &input);
    let (head, body) = expecting.split_at(expecting.len() - input.len());
    connection.send(head).await;
    assert_eq!(connection.answer().await.unwrap().status, 100);
    connection.send(body).await;
    denied(&connection.answer().await.unwrap());

    // A body that breaks off in its form is no body.
    let head = format!(
        "POST {TRIGGER} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    connection.send(format!("{head}nonsense\r\n").as_bytes()).await;
    assert_eq!(error(&connection.answer().await.unwrap()), (400, "INVALID_REQUEST".to_owned()));
    let _what_is_left = connection.closed().await;

    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(answer.verdict(), v1::Verdict::Block, "gRPC is served beside it");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_does_not_buy_an_allow() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let padded = before("Read", json!({ "padding": "x".repeat(5 * MIB) }));
    let before_it = hookd.memory();
    for path in [format!("{CLAUDE}?event=PreToolUse"), format!("{CLAUDE}?on_unavailable=allow&event=PreToolUse")] {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        assert_eq!(not_judged(&connection.ask(&path, "", &padded).await), "TOO_LARGE");
        denied(&connection.ask(CLAUDE, "", &before("Bash", json!({}))).await);
        assert_eq!(not_judged(&hookd.post_http2(&path, &padded).await), "TOO_LARGE");
    }
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let answer = connection.ask(TRIGGER, "", &padded).await;
    assert_eq!(error(&answer), (413, "TOO_LARGE".to_owned()));
    assert_eq!(answer.json()["error"]["limitBytes"], "4194304");
    let after = hookd.memory();
    assert!(after < before_it + (64 << 20), "{before_it} bytes before, {after} after");

    let fits = before("Bash", json!({ "padding": "x".repeat(4 * MIB - 1024) }));
    denied(&connection.ask(CLAUDE, "", &fits).await);

    // Whoever waits to be told is told without sending.
    let expecting = RawHttp1::post(&format!("{CLAUDE}?event=PreToolUse"), "Expect: 100-continue\r\n", &padded);
    connection.send(&expecting[..expecting.len() - padded.len()]).await;
    assert_eq!(not_judged(&connection.answer().await.unwrap()), "TOO_LARGE");
}

#[tokio::test]
async fn what_web_pages_can_send_is_refused_before_anything_is_evaluated() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let request = |line: &str, headers: &str| {
        let body = before("Bash", json!({}));
        format!("{line} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let json = "Content-Type: application/json\r\n";
    let local = format!("Host: localhost\r\n{json}");
    let cases = [
        (request("POST /v1/trigger", "Host: localhost\r\nContent-Type: text/plain\r\n"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (request("POST /v1/trigger", "Host: localhost\r\n"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (
            request(
                &format!("POST {CLAUDE}"),
                "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            ),
            415,
            "UNSUPPORTED_MEDIA_TYPE",
        ),
        (request("POST /v1/trigger", &format!("{local}Origin: http://evil.example\r\n")), 403, "FOREIGN_ORIGIN"),
        (request(&format!("POST {CLAUDE}"), &format!("{local}Origin: null\r\n")), 403, "FOREIGN_ORIGIN"),
        (request("POST /v1/trigger", &format!("Host: evil.example\r\n{json}")), 403, "FOREIGN_HOST"),
        (
            request(&format!("POST {CLAUDE}"), &format!("Host: evil.example\r\n{json}Origin: http://evil.example\r\n")),
            403,
            "FOREIGN_HOST",
        ),
        (request("POST http://evil.example/v1/trigger", &local), 403, "FOREIGN_HOST"),
        (request("POST /v1/trigger", json), 400, "INVALID_REQUEST"),
        (request("POST /v1/trigger", &format!("Host: localhost\r\n{local}")), 400, "INVALID_REQUEST"),
        (request("POST /", &local), 404, "NOT_FOUND"),
        (request("POST /v1/hooks/nobody", &local), 404, "NOT_FOUND"),
        (request("GET /v1/trigger", &local), 405, "METHOD_NOT_ALLOWED"),
        (
            request("OPTIONS /v1/trigger", &format!("{local}Access-Control-Request-Method: POST\r\n")),
            405,
            "METHOD_NOT_ALLOWED",
        ),
        (
            request("POST /hookd.v1.HookService/Trigger", "Host: localhost\r\nContent-Type: application/grpc\r\n"),
            505,
            "HTTP_VERSION",
        ),
    ];
    for (request, status, reason) in cases {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        connection.send(request.as_bytes()).await;
        let answer = connection.answer().await.unwrap();
        assert_eq!(error(&answer), (status, reason.to_owned()), "{request}");
        assert!(!answer.headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{answer:?}");
        assert_eq!(answer.header("allow").is_some(), status == 405);
    }
    let lines = hookd.log_lines();
    assert!(lines.iter().all(|line| line["message"] != "decided"), "nothing is evaluated");
    for (status, count) in [("permission_denied", 5.0), ("invalid_argument", 5.0)] {
        let series = format!(r#"hookd_calls_total{{event="",verdict="",tier="",status="{status}"}}"#);
        assert_eq!(hookd.metric(&series).await, count, "{series}");
    }
}

#[tokio::test]
async fn a_hookd_for_other_machines_answers_to_addresses_and_to_the_names_in_its_settings() {
    let hookd = Hookd::builder()
        .managed(rules())
        .settings(json!({ "listen": "0.0.0.0:0", "hosts": ["hookd.example.com"] }))
        .start()
        .await;
    for (host, status) in [
        ("hookd.example.com", 200),
        ("HOOKD.example.com:443", 200),
        ("192.0.2.7:50051", 200),
        ("localhost", 200),
        ("example.com", 403),
    ] {
        let mut connection = RawHttp1::connect(([127, 0, 0, 1], hookd.address().port()).into()).await;
        let request = String::from_utf8(RawHttp1::post(CLAUDE, "", &before("Bash", json!({})))).unwrap();
        connection.send(request.replace("localhost", host).as_bytes()).await;
        assert_eq!(connection.answer().await.unwrap().status, status, "{host}");
    }
    let told = |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("foreign host"));
    let lines = eventually("the log", async || {
        let lines = hookd.log_lines().into_iter().filter(told).collect::<Vec<_>>();
        (!lines.is_empty()).then_some(lines)
    })
    .await;
    assert_eq!(lines.iter().map(|line| line["host"].as_str()).collect::<Vec<_>>(), [Some("example.com")]);
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_a_block_in_the_form_of_its_event() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let twice = before("Read", json!({})).replace("\"tool_input\"", "\"tool_name\":\"Bash\",\"tool_input\"");
    let good = before("Read", json!({}));
    let cases = [
        ("", "", twice.as_str()),
        ("?event=PreToolUse", "", ""),
        ("?event=PreToolUse", "", "[]"),
        ("?event=PreToolUse", "", "\u{0}"),
        ("?on_unavailable=alow", "", &good),
        ("?unavailable=allow", "", &good),
        ("", "hookd-timeout-ms: soon\r\n", &good),
        ("?on_unavailable=allow&event=PreToolUse", "", "{"),
    ];
    for (query, headers, body) in cases {
        let answer = connection.ask(&format!("{CLAUDE}{query}"), headers, body).await;
        assert_eq!(not_judged(&answer), "INVALID_REQUEST", "{query} {headers} {body}");
    }
    let answer = connection.ask(TRIGGER, "", r#"{"event":"PreToolUse","toolCall":{"tool":""}}"#).await;
    assert_eq!(error(&answer), (400, "INVALID_REQUEST".to_owned()));
    let violations = json!([{ "field": "toolCall.tool", "description": "is empty, the name of the tool is needed" }]);
    assert_eq!(answer.json()["error"]["violations"], violations);
    let other = r#"{"event":"Stop","expectedPolicyRevision":"other"}"#;
    assert_eq!(error(&connection.ask(TRIGGER, "", other).await), (412, "REVISION_MISMATCH".to_owned()));
    let late = connection.ask(TRIGGER, "hookd-timeout-ms: 1\r\n", &context("Read")).await;
    assert_eq!(error(&late), (504, "DEADLINE_TOO_SHORT".to_owned()));
    assert_eq!(not_judged(&connection.ask(CLAUDE, "hookd-timeout-ms: 1\r\n", &good).await), "DEADLINE_TOO_SHORT");
    let allowed = connection.ask(&format!("{CLAUDE}?on_unavailable=allow"), "hookd-timeout-ms: 1\r\n", &good).await;
    assert_eq!((allowed.status, allowed.body.as_str()), (200, ""), "as the caller asked for");
    assert_eq!(allowed.header("hookd-not-judged"), Some("DEADLINE_TOO_SHORT"));
}

#[tokio::test]
async fn the_answer_comes_before_the_agent_gives_up() {
    let slow = json!([{ "id": "slow", "event": ["PreToolUse", "SessionEnd"],
                        "handler": { "type": "command", "command": "sleep 1000", "timeout": 60_000 } }]);
    let hookd = Hookd::builder().managed(slow).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let granted = |text: &str| {
        let rest = text.split("Timed out after ").nth(1).unwrap_or_else(|| panic!("no time in {text}"));
        rest.split("ms").next().unwrap().parse::<u64>().unwrap()
    };
    let answer = connection.ask(CLAUDE, "hookd-timeout-ms: 2000\r\n", &before("Bash", json!({}))).await;
    let reason = denied(&answer);
    assert!((1..=1900).contains(&granted(&reason)), "{reason}");
    // Claude Code gives all hooks of this event one and a half seconds.
    let end = json!({ "session_id": "s1", "cwd": "/", "hook_event_name": "SessionEnd", "reason": "clear" }).to_string();
    let answer = connection.ask(CLAUDE, "", &end).await;
    assert_eq!(answer.status, 200);
    let ended = || hookd.log_lines().into_iter().filter(|line| line["event"] == "SessionEnd").collect::<Vec<_>>();
    let ended = eventually("the log", async || Some(ended()).filter(|lines| lines.len() == 1)).await;
    let taken = ended[0]["ms"].as_f64().unwrap();
    assert!((900.0..60_000.0).contains(&taken), "it took its time and no more: {taken} ms");
}

#[tokio::test]
async fn a_request_that_does_not_arrive_gives_its_place_back_and_is_answered() {
    let hookd = Hookd::builder()
        .managed(rules())
        .settings(json!({ "limits": { "in_flight": 1, "default_deadline": "1s" } }))
        .start()
        .await;
    for (path, reason) in [(format!("{CLAUDE}?event=PreToolUse"), "block"), (TRIGGER.to_owned(), "status")] {
        let mut stuck = RawHttp1::connect(hookd.address()).await;
        let request = RawHttp1::post(&path, "", &before("Bash", json!({})));
        stuck.send(&request[..request.len() - 10]).await;
        eventually("it has the place", async || (hookd.metric("hookd_in_flight_calls").await == 1.0).then_some(()))
            .await;
        let answer = stuck.answer().await.unwrap();
        match reason {
            "block" => assert_eq!(not_judged(&answer), "REQUEST_TOO_SLOW"),
            _ => assert_eq!(error(&answer), (408, "REQUEST_TOO_SLOW".to_owned())),
        }
        assert_eq!(hookd.metric("hookd_in_flight_calls").await, 0.0);
    }
    let mut connection = RawHttp1::connect(hookd.address()).await;
    denied(&connection.ask(CLAUDE, "", &before("Bash", json!({}))).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_place_is_a_block_in_the_form_of_its_event() {
    let hookd = Hookd::builder().managed(rules()).settings(json!({ "limits": { "in_flight": 4 } })).start().await;
    let address = hookd.address();
    let ask =
        |path: &'static str, body: String| async move { RawHttp1::connect(address).await.ask(path, "", &body).await };
    let mut running = JoinSet::new();
    for _ in 0..4 {
        running.spawn(ask(CLAUDE, before("Gated", json!({}))));
    }
    gate::begun(&hookd, 4).await;

    let mut shed = JoinSet::new();
    for _ in 0..100 {
        shed.spawn(ask(CLAUDE, before("Read", json!({}))));
    }
    while let Some(answer) = within("an answer", shed.join_next()).await {
        let answer = answer.unwrap();
        assert_eq!(not_judged(&answer), "OVERLOADED");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    let stopping = ask(CLAUDE, stop()).await;
    assert_eq!(stopping.header("hookd-not-judged"), Some("OVERLOADED"));
    assert!(!stopping.body.contains("block"), "an agent may always stop: {}", stopping.body);
    let allowed = ask("/v1/hooks/claude-code?on_unavailable=allow", before("Read", json!({}))).await;
    assert_eq!((allowed.status, allowed.body.as_str()), (200, ""));
    let answer = ask(TRIGGER, context("Read")).await;
    assert_eq!((error(&answer), answer.header("retry-after")), ((429, "OVERLOADED".to_owned()), Some("1")));
    assert_eq!(not_judged(&hookd.post_http2(CLAUDE, &before("Read", json!({}))).await), "OVERLOADED");

    // The body of such a call has its time too.
    let mut slow = RawHttp1::connect(address).await;
    let request = RawHttp1::post("/v1/hooks/claude-code?event=PreToolUse", "", &before("Read", json!({})));
    slow.send(&request[..request.len() - 10]).await;
    assert_eq!(not_judged(&slow.answer().await.unwrap()), "OVERLOADED");

    let shed = r#"hookd_calls_total{event="",verdict="",tier="",status="resource_exhausted"}"#;
    assert_eq!((hookd.metric(shed).await, hookd.metric("hookd_shed_calls_total").await), (105.0, 105.0));
    gate::open(&hookd);
    while let Some(answer) = within("an answer", running.join_next()).await {
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.body.as_str(), answer.header("hookd-not-judged")), (200, "", None));
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_handlers_along() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    connection.send(&RawHttp1::post(CLAUDE, "", &before("Gated", json!({})))).await;
    gate::begun(&hookd, 1).await;
    drop(connection);
    eventually("no handler is left", async || hookd.children().is_empty().then_some(())).await;
    let cancelled = r#"hookd_calls_total{event="",verdict="",tier="",status="cancelled"}"#;
    eventually("it is counted", async || (hookd.metric(cancelled).await == 1.0).then_some(())).await;
    assert_eq!(hookd.metric("hookd_in_flight_calls").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_leaves_when_its_calls_have_their_answers_and_half_sent_ones_do_not_hold_it() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let address = hookd.address();
    let _silent = RawHttp1::connect(address).await;
    let mut half_head = RawHttp1::connect(address).await;
    half_head.send(b"POST /v1/trigger HTTP/1.1\r\nHost: loc").await;
    let mut idle = RawHttp1::connect(address).await;
    denied(&idle.ask(CLAUDE, "", &before("Bash", json!({}))).await);
    let mut running = RawHttp1::connect(address).await;
    running.send(&RawHttp1::post(CLAUDE, "", &before("Gated", json!({})))).await;
    gate::begun(&hookd, 1).await;

    hookd.signal(Signal::TERM);
    assert_eq!(idle.closed().await, "");
    gate::open(&hookd);
    let answer = running.answer().await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(running.closed().await, "");
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(hookd.children(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_cut_at_the_drain_limit_are_blocks() {
    let hookd = Hookd::builder()
        .managed(rules())
        .settings(json!({ "limits": { "default_deadline": "1s" }, "drain": { "limit": "1s" } }))
        .start()
        .await;
    let address = hookd.address();
    let mut agent = RawHttp1::connect(address).await;
    agent.send(&RawHttp1::post(CLAUDE, "hookd-timeout-ms: 40000\r\n", &before("Gated", json!({})))).await;
    let mut caller = RawHttp1::connect(address).await;
    caller.send(&RawHttp1::post(TRIGGER, "hookd-timeout-ms: 40000\r\n", &context("Gated"))).await;
    gate::begun(&hookd, 2).await;
    hookd.signal(Signal::TERM);
    assert_eq!(not_judged(&agent.answer().await.unwrap()), "STOPPING");
    assert_eq!(error(&caller.answer().await.unwrap()), (503, "STOPPING".to_owned()));
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(hookd.children(), []);
}

#[tokio::test]
async fn bytes_that_are_no_request_hurt_only_their_own_connection() {
    let hookd = Hookd::builder().managed(rules()).start().await;
    let garbage = (0..=255).cycle().take(70_000).collect::<Vec<u8>>();
    let head = "POST /v1/trigger HTTP/1.1\r\nHost: localhost\r\n";
    let many = (0..200).map(|number| format!("x-{number}: y\r\n")).collect::<String>();
    let cases: [(Vec<u8>, &str); 7] = [
        (garbage, "HTTP/1.1 400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), "HTTP/1.1 400 Bad Request"),
        (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(), "HTTP/1.1 400 Bad Request"),
        (b"POST /v1/trigger HTTP/3.0\r\n\r\n".to_vec(), "HTTP/1.1 400 Bad Request"),
        (format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\n").into_bytes(), "HTTP/1.1 400 Bad Request"),
        (format!("{head}{many}\r\n").into_bytes(), "HTTP/1.1 431 Request Header Fields Too Large"),
        (
            format!("{head}x: {}\r\n\r\n", "y".repeat(100_000)).into_bytes(),
            "HTTP/1.1 431 Request Header Fields Too Large",
        ),
    ];
    for (bytes, expected) in cases {
        let mut connection = RawHttp1::connect(hookd.address()).await;
        connection.try_send(&bytes).await;
        let answer = connection.closed().await;
        // A connection that is closed while bytes are still coming may lose the answer.
        assert!(answer.is_empty() || answer.starts_with(expected), "{answer} to {:?}", bytes.get(..40));
    }
    let mut connection = RawHttp1::connect(hookd.address()).await;
    denied(&connection.ask(CLAUDE, "", &before("Bash", json!({}))).await);
    let deadline = Duration::from_secs(30);
    let answer = hookd.trigger(with_deadline(pre_tool_use("Bash", json!({})), deadline)).await;
    assert_eq!(said(&answer)["verdict"], "block");
}
