//! What must not get out, and what must not get in.

use std::{collections::BTreeMap, fs};

use hookd_tests::{
    Hookd, HttpStub, Reply, TriggerRequestExt as _, event, eventually, pre_tool_use, program, said, v1, within,
};
use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt as _;

const API_TOKEN: &str = "tok-3f9c1e77aa";
const HEADER_TOKEN: &str = "hdr-5b0d4417cc";
const FILE_TOKEN: &str = "fil-92e6a0f1dd";

/// A rule that sends both tokens to `url`.
fn sending(id: &str, url: &str) -> Value {
    json!({ "id": id, "event": "PreToolUse", "onError": "allow", "handler": {
        "type": "http", "url": url,
        "headers": { "authorization": "Bearer ${env:HEADER_TOKEN}", "x-key": "${file:../secrets/key}" },
    } })
}

#[tokio::test]
async fn case_103_secrets_reach_the_header_they_are_for_and_nothing_else() {
    let stub = HttpStub::start(|_| Reply::ok("{}")).await;
    let broken = HttpStub::start(|request| Reply::status("503 Busy", &request.body)).await;
    let gone = HttpStub::start(|_| Reply::ok("{}")).await;
    let gone_url = gone.url("/gone");
    gone.stop().await;
    let builder = Hookd::builder()
        .managed(json!([
            { "id": "env", "event": "PreToolUse", "handler": { "type": "command", "command": "env; cat /proc/$$/environ" } },
            sending("sends", &stub.url("/hook")),
            sending("broken", &broken.url("/hook")),
            sending("gone", &gone_url),
            { "id": "given", "event": "PreToolUse", "async": true, "handler": {
                "type": "command",
                "command": r#"printf %s "$TOKEN $KEY" >"$TMPDIR/given"; echo "leaks $TOKEN" >&2; exit 1"#,
                "env": { "TOKEN": "${env:HEADER_TOKEN}", "KEY": "${x} ${file:../secrets/key}" },
            } },
        ]))
        .file("secrets/key", &format!("{FILE_TOKEN}\n"))
        .env("API_TOKEN", API_TOKEN)
        .env("HEADER_TOKEN", HEADER_TOKEN);
    let secrets = builder.path("secrets");
    let managed = builder.path("managed/rules.json");
    // `..` is refused in such paths, so the file is named absolutely.
    let rules = fs::read_to_string(&managed).unwrap();
    fs::write(&managed, rules.replace("../secrets", secrets.to_str().unwrap())).unwrap();
    let hookd = builder
        .settings(json!({
            "tiers": { "managed": { "allow_env": ["HEADER_TOKEN"], "allow_files": [secrets] } },
            "log": { "filter": "trace" },
        }))
        .start()
        .await;

    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    let outcomes = answer.results.iter().map(|result| (result.rule_id.as_str(), result.failure())).collect::<Vec<_>>();
    let expected = [
        ("env", v1::Failure::Unspecified),
        ("sends", v1::Failure::Unspecified),
        ("broken", v1::Failure::HttpStatus),
        ("gone", v1::Failure::Connection),
        ("given", v1::Failure::Unspecified),
    ];
    assert_eq!(outcomes, expected);
    let head = stub.wait_for(1).await[0].head.to_ascii_lowercase();
    assert!(head.contains(&format!("authorization: bearer {HEADER_TOKEN}")), "{head}");
    assert!(head.contains(&format!("x-key: {FILE_TOKEN}")), "{head}");

    // A command that repeats what it was given: not into the log.
    eventually("why the command failed is logged", async || hookd.log_text().contains("leaks [masked]").then_some(()))
        .await;
    assert_eq!(fs::read_to_string(hookd.path("tmp/given")).unwrap(), format!("{HEADER_TOKEN} ${{x}} {FILE_TOKEN}"));

    let trigger = Some(pre_tool_use("Bash", json!({})));
    let mut admin = hookd.admin();
    let status = admin.get_status(v1::GetStatusRequest {}).await.unwrap();
    let rules = admin.list_rules(v1::ListRulesRequest::default()).await.unwrap();
    let explained = admin.explain(v1::ExplainRequest { trigger, ..Default::default() }).await.unwrap();
    // A load that fails must not tell them either.
    hookd.replace_file("managed/rules.json", &fs::read_to_string(&managed).unwrap().replace("x-key", "bad header"));
    let refused = hookd.reload().await;
    assert!(!refused.ok);
    let mut texts = BTreeMap::from([
        ("the answer", format!("{answer:?}")),
        ("the status", format!("{status:?}")),
        ("the rules", format!("{rules:?}")),
        ("the explanation", format!("{explained:?}")),
        ("the reload", format!("{refused:?}")),
        ("the log", hookd.log_text()),
    ]);
    for page in ["/metrics", "/readyz", "/livez"] {
        texts.insert(page, hookd.admin_get(page).await.1);
    }
    for argument in ["--print-config", "--check"] {
        let mut command = tokio::process::Command::new(program("hookd"));
        command.arg("--config").arg(hookd.path("hookd.json")).arg(argument);
        command.env("API_TOKEN", API_TOKEN).env("HEADER_TOKEN", HEADER_TOKEN);
        let output = within("the end of hookd", command.output()).await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        texts.insert(argument, String::from_utf8(text).unwrap());
    }
    for (what, text) in texts {
        assert!(!text.is_empty(), "{what} says nothing");
        for secret in [API_TOKEN, HEADER_TOKEN, FILE_TOKEN] {
            assert!(!text.contains(secret), "{secret} in {what}:\n{text}");
        }
    }
}

#[tokio::test]
async fn a_worker_that_dies_tells_its_secret_to_no_log() {
    let builder = Hookd::builder();
    let now = builder.path("now");
    assert!(std::process::Command::new("mkfifo").arg(&now).status().unwrap().success());
    // Something else holds its stdout, so that its end is not seen by that first.
    let command =
        format!("sleep 2 & read -r line; echo; read -r go <'{}'; echo leaks $TOKEN >&2; exit 3", now.display());
    let hookd = builder
        .managed(json!([{ "id": "stays", "event": "PreToolUse", "handler": {
            "type": "command", "command": command, "worker": {}, "env": { "TOKEN": "${env:HEADER_TOKEN}" },
        } }]))
        .env("HEADER_TOKEN", HEADER_TOKEN)
        .settings(json!({ "tiers": { "managed": { "allow_env": ["HEADER_TOKEN"] } }, "log": { "filter": "trace" } }))
        .start()
        .await;
    hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    fs::write(&now, "go\n").unwrap();
    let last = eventually("its last words", async || {
        hookd.log_lines().into_iter().find(|line| line["message"] == "what it said last")
    })
    .await;
    assert_eq!((&last["rule"], &last["stderr"]), (&json!("stays"), &json!("leaks [masked]")));
    let is_end = |line: &Value| line["message"] == "an idle worker ended" && line["rule"] == "stays";
    hookd.logged(is_end).await;
    assert!(!hookd.log_text().contains(HEADER_TOKEN), "{}", hookd.log_text());
}

/// What is said of an output is its first 4096 bytes, be a secret where it ends.
#[tokio::test]
async fn a_secret_that_is_cut_off_is_in_no_log() {
    let hookd = Hookd::builder()
        .managed(json!([{ "id": "leaks", "event": "SessionEnd", "async": true, "handler": {
            "type": "command", "command": "printf '%04086d' 0 >&2; echo \" $TOKEN\" >&2; exit 3",
            "env": { "TOKEN": "${env:HEADER_TOKEN}" },
        } }]))
        .env("HEADER_TOKEN", HEADER_TOKEN)
        .settings(json!({ "tiers": { "managed": { "allow_env": ["HEADER_TOKEN"] } }, "log": { "filter": "trace" } }))
        .start()
        .await;
    hookd.trigger(event("SessionEnd")).await;
    let why = eventually("why it failed", async || {
        hookd.log_lines().into_iter().find(|line| line["message"] == "why it failed")
    })
    .await;
    assert_eq!(why["why"], format!("{:04086} [masked]…", 0));
    assert!(!hookd.log_text().contains(&HEADER_TOKEN[..6]), "{}", hookd.log_text());
}

/// A rule file below managed with a command and an answer in process.
fn two_rules() -> Value {
    json!([
        { "id": "runs", "event": "PreToolUse", "handler": { "type": "command", "command": "echo ran" } },
        { "id": "says", "event": "PreToolUse", "handler": { "type": "decide", "verdict": "ask", "reason": "sure?" } },
    ])
}

#[tokio::test]
async fn a_listener_wider_than_loopback_refuses_commands_of_lower_tiers_by_name() {
    let hookd = Hookd::builder()
        .managed(
            json!([{ "id": "central", "event": "PreToolUse", "handler": { "type": "command", "command": "true" } }]),
        )
        .shared(two_rules())
        .local(two_rules())
        .settings(
            json!({ "listen": ["127.0.0.1:0", "0.0.0.0:0"], "plaintext": "allow", "tiers": { "local": { "server_commands": "allow" } } }),
        )
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    let expected = json!({
        "verdict": "ask", "reason": "sure?", "decidedBy": "rule local/says",
        "results": ["managed/central none", "local/runs none", "local/says ask", "shared/says ask"],
        "considered": 4, "matched": 4,
    });
    assert_eq!(said(&answer), expected);
    let is_refusal = |line: &Value| line["message"] == "rules refused or left out";
    let refused = eventually("a refusal in the log", async || {
        let lines = hookd.log_lines().into_iter().filter(is_refusal).collect::<Vec<_>>();
        (!lines.is_empty()).then_some(lines)
    })
    .await;
    assert_eq!(
        refused.iter().map(|line| (&line["tier"], &line["rule"])).collect::<Vec<_>>(),
        [(&json!("shared"), &json!("runs"))]
    );
    let problem = refused[0]["problem"].as_str().unwrap();
    assert!(problem.contains("`tiers.shared.server_commands`"), "{problem}");
}

#[tokio::test]
async fn a_managed_command_runs_beside_its_rule_file_and_never_what_lies_in_the_callers_directory() {
    let hookd = Hookd::builder()
        .managed(json!([{ "id": "guard", "event": "PreToolUse", "mustDecide": true,
                          "handler": { "type": "command", "command": "sh ./guard.sh; pwd >&2" } }]))
        .file("managed/guard.sh", r#"echo '{"decision":"block","reason":"the real guard"}'"#)
        .file("project/guard.sh", r#"touch "$TMPDIR/../planted"; echo '{"decision":"allow"}'"#)
        .file("project/sh", "#!/bin/sh\ntouch \"$TMPDIR/../planted\"\n")
        .file("project/bin/sh", "#!/bin/sh\ntouch \"$TMPDIR/../planted\"\n")
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({})).in_cwd(hookd.path("project"))).await;
    let expected = json!({
        "verdict": "block", "reason": "the real guard", "decidedBy": "rule managed/guard",
        "results": ["managed/guard block"], "considered": 1, "matched": 1,
    });
    assert_eq!(said(&answer), expected);
    // A guard that is not there is not looked for elsewhere: it fails, and that blocks.
    fs::remove_file(hookd.path("managed/guard.sh")).unwrap();
    let answer = hookd.trigger(pre_tool_use("Bash", json!({})).in_cwd(hookd.path("project"))).await;
    assert_eq!(answer.verdict(), v1::Verdict::Block);
    assert_eq!(answer.decided_by.unwrap().cause(), v1::Cause::FailurePolicy);
    assert!(!hookd.path("planted").try_exists().unwrap());
}

#[tokio::test]
async fn law_11_requests_that_two_readers_could_read_in_two_ways_are_refused_field_by_field() {
    let hookd = Hookd::builder().start().await;
    let with_params = |params: &str| {
        let mut request = pre_tool_use("Bash", json!({}));
        request.tool_call.as_mut().unwrap().params_json = params.to_owned();
        request
    };
    let mut control = event("Stop");
    control.session_id = "a\u{1b}[2Jb".to_owned();
    let mut caller = event("Stop");
    caller.caller = Some(v1::Caller { agent: "x\0".to_owned(), ..v1::Caller::default() });
    let mut payload = event("Stop");
    payload.payload_json = "[]".to_owned();
    let mut several = with_params("{");
    several.event = "pre_tool_use".to_owned();
    several.request_id = "\u{7f}".to_owned();
    let cases: [(v1::TriggerRequest, &[&str]); 11] = [
        (control, &["session_id"]),
        (caller, &["caller.agent"]),
        (payload, &["payload_json"]),
        (event(""), &["event"]),
        (event("Pre\nToolUse"), &["event"]),
        (event("pretooluse"), &["event"]),
        (event("PreToolUse"), &["tool_call"]),
        (pre_tool_use("", json!({})), &["tool_call.tool"]),
        (with_params(r#"{"command":"ls","command":"rm"}"#), &["tool_call.params_json"]),
        (with_params(r#"{"command":"ls"} {}"#), &["tool_call.params_json"]),
        (several, &["request_id", "event", "tool_call.params_json"]),
    ];
    let refused = cases.len();
    for (request, fields) in cases {
        let status = hookd.try_trigger(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        let violations = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!(violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), fields);
        assert!(violations.iter().all(|violation| !violation.description.is_empty()));
        assert!(status.metadata().contains_key("hookd-decision-id"), "{status:?}");
        assert!(status.details().len() < 4096);
    }
    let near = hookd.try_trigger(event("pretooluse")).await.unwrap_err();
    assert!(near.message().contains("did you mean `PreToolUse`"), "{}", near.message());
    let counted = r#"hookd_calls_total{event="",verdict="",tier="",status="invalid_argument"}"#;
    eventually("each is counted once", async || (hookd.metric(counted).await >= (refused + 1) as f64).then_some(()))
        .await;
    assert_eq!(hookd.metric(counted).await, (refused + 1) as f64);
}
