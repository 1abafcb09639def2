//! Plain HTTP on the port of gRPC: `POST /v1/hooks/{agent}` and `POST /v1/trigger`.

mod leaving;
mod transport;

use hookd_tests::{Hookd, HttpAnswer, HttpStub, RawHttp1, Reply, eventually};
use serde_json::{Value, json};

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
