//! Known ways in which answers of hooks are misread (sections B, D, F and H of the cases), through the whole service.

use std::time::Duration;

use hookd_tests::{
    Hookd, HookdBuilder, HttpStub, Place, Reply, Request, TriggerRequestExt as _, event, eventually, http,
    post_tool_use, pre_tool_use, rule, said, sh, with,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// One rule in shared that is asked for the tool `shared`, and the same in managed for the tool `managed`.
fn twice(handler: &Value, more: &Value) -> HookdBuilder {
    let on = |tool: &str| {
        let rule = with(rule("hook", "PreToolUse", handler.clone()), more.clone());
        with(rule, json!({ "matcher": format!("^{tool}$") }))
    };
    Hookd::builder().managed(json!([on("managed")])).shared(json!([on("shared")]))
}

/// What both give: verdict, the line of the result, and what was dropped or given as a reason.
async fn ask_both(builder: HookdBuilder) -> Value {
    let hookd = builder.start().await;
    let mut both = Vec::new();
    for tool in ["managed", "shared"] {
        let answer = hookd.trigger(pre_tool_use(tool, json!({}))).await;
        let value = said(&answer);
        let reason = &answer.results[0].reason;
        both.push(json!([value["verdict"], value["results"][0], reason]));
    }
    json!(both)
}

/// The failure of both with the same error: the managed one blocks, the shared one is forgiven.
fn failed(kind: &str, error: &str) -> Value {
    json!([
        ["block", format!("managed/hook failed {kind} blocked: {error}"), ""],
        ["none", format!("shared/hook failed {kind}: {error}"), ""],
    ])
}

fn silent() -> Value {
    json!([["none", "managed/hook none", ""], ["none", "shared/hook none", ""]])
}

#[track_caller]
fn check(script: &str, given: Value, expected: Value) {
    assert_eq!(given, expected, "{script}");
}

#[tokio::test]
async fn case_026_case_034_case_037_silence_is_no_opinion_and_an_allow_is_one() {
    for script in ["true", "echo '{}'", "echo hello", "guard() { echo '{\"blocked\":true}'; }"] {
        check(script, ask_both(twice(&sh(script), &json!({}))).await, silent());
    }
    let script = r#"echo '{"decision":"allow"}'"#;
    check(
        script,
        ask_both(twice(&sh(script), &json!({}))).await,
        json!([["allow", "managed/hook allow", ""], ["none", "shared/hook allow", ""]]),
    );
}

#[tokio::test]
async fn case_029_case_031_case_033_what_is_not_understood_is_a_failure_and_never_an_allow() {
    for (output, error) in [
        (r#"{"a":1}{"decision":"block"}"#, "output is not one JSON object: trailing characters at line 1 column 8"),
        (r#"{"systemMessage":"a"#, "output is not one JSON object: EOF while parsing a string at line 1 column 19"),
        (r#"{"decision":"Deny"}"#, "`decision` must be one of allow, ask, defer and block, not a string `\"Deny\"`"),
        (r#"{"decision":"maybe"}"#, "`decision` must be one of allow, ask, defer and block, not a string `\"maybe\"`"),
        (r#"{"decision":""}"#, "`decision` must be one of allow, ask, defer and block, not a string `\"\"`"),
    ] {
        let script = format!("printf %s '{output}'");
        check(&script, ask_both(twice(&sh(&script), &json!({}))).await, failed("bad_output", error));
    }
}

#[tokio::test]
async fn case_030_case_038_text_before_an_object_is_a_failure_of_a_guard_and_said_of_the_others() {
    let script = r#"echo ready; echo '{"decision":"block","reason":"r"}'"#;
    check(
        script,
        ask_both(twice(&sh(script), &json!({}))).await,
        json!([
            ["block", "managed/hook failed bad_output blocked: text before a JSON object", ""],
            ["none", "shared/hook none", "JSON after text"],
        ]),
    );
}

#[tokio::test]
async fn case_097_a_guard_that_must_decide_and_does_not_has_failed() {
    for script in ["echo '{}'", "true", "echo fine"] {
        check(
            script,
            ask_both(twice(&sh(script), &json!({ "mustDecide": true }))).await,
            failed("bad_output", "no decision: `mustDecide` wants `decision` or `blocked`"),
        );
    }
    let script = "echo '{\"blocked\":false}'";
    check(script, ask_both(twice(&sh(script), &json!({ "mustDecide": true }))).await, silent());
}

#[tokio::test]
async fn case_063_case_069_the_later_of_two_rewrites_wins_however_long_each_takes() {
    let to =
        |letter: &str, wait: &str| sh(&format!(r#"sleep {wait}; echo '{{"modifiedParams":{{"by":"{letter}"}}}}'"#));
    for (first, second) in [("0.3", "0"), ("0", "0.3")] {
        let hookd = Hookd::builder()
            .shared(json!([rule("a", "PreToolUse", to("a", first)), rule("b", "PreToolUse", to("b", second))]))
            .start()
            .await;
        let answer = hookd.trigger(pre_tool_use("Bash", json!({ "by": "agent" }))).await;
        let patch = |by: &str| format!(r#"[{{"op":"replace","path":"/by","value":"{by}"}}]"#);
        assert_eq!(
            said(&answer),
            json!({
                "verdict": "none", "params": { "by": "b" }, "results": ["shared/a none", "shared/b none"],
                "rewrites": [format!("shared/a params {}", patch("a")), format!("shared/b params {}", patch("b"))],
                "considered": 2, "matched": 2,
            })
        );
    }
}

#[tokio::test]
async fn case_065_case_066_an_ask_carries_the_rewrite_and_a_block_wins_over_both() {
    let allow = sh(r#"echo '{"decision":"allow","modifiedParams":{"safe":true}}'"#);
    let says = |decision: &str| sh(&format!(r#"echo '{{"decision":"{decision}","reason":"r"}}'"#));
    let on = |tool: &str, rule: Value| with(rule, json!({ "matcher": tool }));
    let hookd = Hookd::builder()
        .local(json!([
            rule("a", "PreToolUse", allow),
            on("ask", rule("b", "PreToolUse", says("ask"))),
            on("block", rule("c", "PreToolUse", says("block"))),
        ]))
        .start()
        .await;
    let rewrites = json!([r#"local/a params [{"op":"add","path":"/safe","value":true}]"#]);
    assert_eq!(
        said(&hookd.trigger(pre_tool_use("ask", json!({}))).await),
        json!({
            "verdict": "ask", "reason": "r", "decidedBy": "rule local/b", "params": { "safe": true },
            "results": ["local/a allow", "local/b ask"], "rewrites": rewrites, "considered": 3, "matched": 2,
        })
    );
    assert_eq!(
        said(&hookd.trigger(pre_tool_use("block", json!({}))).await),
        json!({
            "verdict": "block", "reason": "r", "decidedBy": "rule local/c",
            "results": ["local/a allow", "local/c block"], "rewrites": rewrites, "considered": 3, "matched": 2,
        })
    );
}

/// A managed guard that is asked over http, by the tool's name as the path.
async fn http_guards(stub: &HttpStub, tools: &[&str]) -> Hookd {
    let guard = |tool: &&str| {
        let handler = with(http(&stub.url(&format!("/{tool}"))), json!({ "timeout": 1000 }));
        with(rule(tool, "PreToolUse", handler), json!({ "matcher": format!("^{tool}$") }))
    };
    Hookd::builder().managed(tools.iter().map(guard).collect()).start().await
}

fn path(request: &Request) -> &str {
    request.head.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn case_081_case_085_no_answer_of_a_remote_guard_but_a_good_one_lets_a_call_pass() {
    let stub = HttpStub::start(|request| match path(request) {
        "/500" => Reply::status("500 Internal Server Error", "oops"),
        "/403" => Reply::status("403 Forbidden", ""),
        "/text" => Reply::ok("not json"),
        "/list" => Reply::ok("[]"),
        "/cut" => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"blocked\":").then_close(),
        "/hang" => Reply::raw("").then_hang(),
        "/block" => Reply::ok(r#"{"decision":"block","reason":"remote"}"#),
        "/204" => Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        _ => Reply::ok("{}"),
    })
    .await;
    let tools = ["500", "403", "text", "list", "cut", "hang", "block", "204", "empty"];
    let hookd = http_guards(&stub, &tools).await;
    let mut given = Vec::new();
    for tool in tools {
        let answer = hookd.trigger(pre_tool_use(tool, json!({}))).await;
        let value = said(&answer);
        given.push(json!([tool, value["verdict"], value["decidedBy"], value["results"][0]]));
    }
    // What the system says of a connection that broke is its own.
    let cut = given[4][3].as_str().unwrap().to_owned();
    assert!(cut.starts_with("managed/cut failed connection blocked: the connection broke"), "{cut}");
    let not_object = "the body is neither empty nor a JSON object";
    let policy = |tool: &str, result: String| {
        json!([tool, "block", format!("failure_policy managed/{tool}"), format!("managed/{tool} failed {result}")])
    };
    assert_eq!(
        json!(given),
        json!([
            policy("500", "http_status blocked: HTTP 500: oops".to_owned()),
            policy("403", "http_status blocked: HTTP 403".to_owned()),
            policy("text", format!("bad_output blocked: {not_object}")),
            policy("list", format!("bad_output blocked: {not_object}")),
            policy("cut", cut.replace("managed/cut failed ", "")),
            policy("hang", "timed_out blocked: Timed out after 1000ms".to_owned()),
            ["block", "block", "rule managed/block", "managed/block block"],
            ["204", "none", null, "managed/204 none"],
            ["empty", "none", null, "managed/empty none"],
        ])
    );
}

#[tokio::test]
async fn case_082_a_kept_connection_that_broke_before_the_answer_is_replaced_once() {
    let first_connection = |request: &Request| request.connection == 0 && request.body.contains("\"n\":2");
    let stub = HttpStub::start(move |request| match first_connection(request) {
        true => Reply::raw("").then_close(),
        false => Reply::ok(r#"{"decision":"allow"}"#),
    })
    .await;
    let hookd = http_guards(&stub, &["remote"]).await;
    let mut retried = Vec::new();
    for n in [1, 2, 3] {
        let answer = hookd.trigger(pre_tool_use("remote", json!({ "n": n }))).await;
        assert_eq!(said(&answer)["verdict"], "allow", "{answer:?}");
        retried.push(answer.results[0].retried);
    }
    assert_eq!(retried, [false, true, false]);
    let connections = stub.requests().iter().map(|request| request.connection).collect::<Vec<_>>();
    assert_eq!(connections[..3], [0, 0, 1], "the second call was sent again, once, on a fresh connection");
    // Closed while nobody asked: not even a retry is needed, or one is enough.
    stub.close_connections().await;
    let answer = hookd.trigger(pre_tool_use("remote", json!({ "n": 4 }))).await;
    assert_eq!(said(&answer)["verdict"], "allow", "{answer:?}");
}

#[tokio::test]
async fn case_083_http_handlers_fire_on_every_event() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let names = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];
    let hookd = Hookd::builder()
        .shared(json!([with(rule("tell", "", http(&stub.url("/"))), json!({ "event": names }))]))
        .start()
        .await;
    for request in [
        event("SessionStart").with_payload(json!({ "source": "startup" })),
        event("UserPromptSubmit").with_payload(json!({ "prompt": "hi" })),
        pre_tool_use("Bash", json!({})),
        post_tool_use("Bash", json!({}), json!("ok")),
        event("Stop"),
    ] {
        assert_eq!(said(&hookd.trigger(request).await)["results"], json!(["shared/tell none"]));
    }
    let body = |request: Request| serde_json::from_str::<Value>(&request.body).unwrap()["event"].clone();
    assert_eq!(stub.requests().into_iter().map(body).collect::<Vec<_>>(), names);
}

#[tokio::test]
async fn case_086_a_proxy_in_the_environment_does_not_see_calls_to_loopback() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let proxy = HttpStub::start(|_| Reply::status("502 Bad Gateway", "")).await;
    let hookd = Hookd::builder()
        .managed(json!([rule("remote", "PreToolUse", http(&stub.url("/")))]))
        .env("HTTP_PROXY", &proxy.url(""))
        .env("http_proxy", &proxy.url(""))
        .env("ALL_PROXY", &proxy.url(""))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(said(&answer)["results"], json!(["managed/remote none"]));
    assert_eq!((stub.requests().len(), proxy.requests().len()), (1, 0));
}

#[tokio::test]
async fn case_087_a_backend_that_was_replaced_is_found_by_the_next_call() {
    let place = Place::free();
    let first = HttpStub::start_at(&place, |_| Reply::ok(r#"{"decision":"ask","reason":"first"}"#)).await;
    let hookd = http_guards(&first, &["remote"]).await;
    assert_eq!(hookd.trigger(pre_tool_use("remote", json!({}))).await.reason, "first");
    first.stop().await;
    let second = HttpStub::start_at(&place, |_| Reply::ok(r#"{"decision":"ask","reason":"second"}"#)).await;
    assert_eq!(hookd.trigger(pre_tool_use("remote", json!({}))).await.reason, "second");
    assert_eq!(second.requests().len(), 1);
}

#[tokio::test]
async fn case_103_a_hook_finds_none_of_the_servers_secrets_in_its_environment() {
    let names =
        sh(r#"env | sed 's/=.*//' | grep -v '^\(PWD\|OLDPWD\|SHLVL\|_\)$' | sort | tr '\n' ' ' >"$TMPDIR/names""#);
    let rule = rule("env", "PreToolUse", with(names, json!({ "env": { "EXTRA": "1" } })));
    let hookd = Hookd::builder().managed(json!([rule])).env("API_TOKEN", "x").env("HOME", "/root").start().await;
    hookd.trigger(pre_tool_use("Bash", json!({})).in_cwd("/tmp")).await;
    let names = std::fs::read_to_string(hookd.path("tmp/names")).unwrap();
    assert_eq!(
        names.split(' ').filter(|name| !name.is_empty()).collect::<Vec<_>>(),
        [
            "EXTRA",
            "HOME",
            "HOOKD_CWD",
            "HOOKD_DECISION_ID",
            "HOOKD_EVENT",
            "HOOKD_RULE_ID",
            "HOOKD_SESSION_ID",
            "HOOKD_TOOL",
            "LANG",
            "PATH",
            "PYTHONUTF8",
            "TMPDIR",
        ]
    );
}

#[tokio::test]
async fn case_105_a_forgiven_failure_stays_visible_in_answer_log_and_metrics() {
    let fails = with(rule("checker", "PreToolUse", sh("exit 7")), json!({ "onError": "allow" }));
    let hookd = Hookd::builder().managed(json!([fails])).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none", "decidedBy": "failure_policy managed/checker",
            "results": ["managed/checker failed exited: Exit code 7"], "degraded": true, "considered": 1, "matched": 1,
        })
    );
    let line = eventually("the decision is logged", async || {
        hookd.log_lines().into_iter().find(|line| line["decision_id"] == answer.decision_id.as_str())
    })
    .await;
    assert_eq!(
        (&line["verdict"], &line["cause"], &line["degraded"], &line["forgiven"]),
        (&json!("none"), &json!("failure_policy"), &json!(true), &json!("managed/checker: exited"))
    );
    let (_, metrics) = hookd.admin_get("/metrics").await;
    let forgiven = metrics.lines().filter(|line| line.contains("forgiven_failures_total{")).collect::<Vec<_>>();
    assert_eq!(forgiven.len(), 1, "{metrics}");
    assert!(forgiven[0].ends_with(" 1") && forgiven[0].contains("exited"), "{forgiven:?}");
}

#[tokio::test]
async fn case_102_a_guard_that_waits_longer_than_its_limit_never_lets_the_call_pass() {
    let waits = with(sh("sleep 600"), json!({ "timeout": 500 }));
    let hookd = twice(&waits, &json!({ "onError": "block" })).start().await;
    for tool in ["managed", "shared"] {
        let begun = Instant::now();
        let answer = hookd.trigger(pre_tool_use(tool, json!({}))).await;
        assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
        assert_eq!(
            said(&answer),
            json!({
                "verdict": "block", "reason": "hook `hook` failed: Timed out after 500ms",
                "decidedBy": format!("failure_policy {tool}/hook"),
                "results": [format!("{tool}/hook failed timed_out blocked: Timed out after 500ms")],
                "considered": 2, "matched": 1,
            })
        );
    }
}
