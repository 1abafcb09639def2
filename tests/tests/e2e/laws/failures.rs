//! Laws 7, 8 and 9: what a failure counts as, whose time it is, and by which rules a call was judged.

use std::time::Duration;

use hookd_tests::{
    Hookd, HttpStub, Reply, Tier, event, http, post_tool_use, pre_tool_use, rule, said, sh,
    v1::{Failure, GetStatusRequest, TriggerResponse},
    with, with_deadline,
};
use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt as _;

/// For every kind of failure: its name, a handler that fails so, and what the person reads, where that is ours.
fn kinds(answers_503: &str, nobody: &str) -> Vec<(&'static str, Value, Option<&'static str>)> {
    vec![
        ("did_not_start", json!({ "type": "command", "argv": ["/nope/guard"] }), None),
        ("did_not_start", sh("/nope/guard"), None),
        ("timed_out", with(sh("sleep 60"), json!({ "timeout": 200 })), Some("Timed out after 200ms")),
        ("killed", sh("kill -9 $$"), Some("killed by signal 9")),
        ("exited", sh("echo ' no luck ' >&2; exit 3"), Some("no luck")),
        ("exited", sh("exit 4"), Some("Exit code 4")),
        ("bad_output", sh("echo '{\"blocked\":0}'"), Some("`blocked` must be a boolean, not a number `0`")),
        ("too_large", sh("head -c 70000 /dev/zero"), Some("output of more than 65536 bytes")),
        ("http_status", http(answers_503), Some("HTTP 503: busy")),
        ("connection", http(nobody), None),
    ]
}

/// What went wrong, held against what it must say: what the system says of a file or a connection names it.
#[track_caller]
fn error_of(answer: &TriggerResponse, expected: Option<&str>) -> String {
    let error = answer.results[0].error.clone().unwrap();
    match expected {
        Some(expected) => assert_eq!(error, expected),
        None => assert!(error.contains("/nope/guard") || error.contains("127.0.0.1"), "{error}"),
    }
    error
}

#[tokio::test]
async fn law_07_case_017_case_061_case_102_each_kind_of_failure_is_told_apart_and_forgiven_or_blocks_as_the_rule_says()
{
    let stub = HttpStub::start(|_| Reply::status("503 Service Unavailable", "busy\n")).await;
    let gone = HttpStub::start(|_| Reply::ok("")).await;
    let nobody = gone.url("/");
    gone.stop().await;
    let kinds = kinds(&stub.url("/"), &nobody);
    let rules = |on_error: &str| -> Value {
        let on = |number: usize, handler: &Value| {
            let rule = rule(&format!("r{number}"), "PreToolUse", handler.clone());
            with(rule, json!({ "onError": on_error, "matcher": format!("^{on_error}{number}$") }))
        };
        kinds.iter().enumerate().map(|(number, (_, handler, _))| on(number, handler)).collect()
    };
    let hookd = Hookd::builder()
        .managed(rules("allow"))
        .shared(rules("block"))
        .settings(json!({ "limits": { "output_bytes": "64KiB" } }))
        .start()
        .await;
    for (number, (kind, _, message)) in kinds.iter().enumerate() {
        let answer = hookd.trigger(pre_tool_use(&format!("allow{number}"), json!({}))).await;
        let error = error_of(&answer, *message);
        assert_eq!(
            said(&answer),
            json!({
                "verdict": "none", "decidedBy": format!("failure_policy managed/r{number}"),
                "results": [format!("managed/r{number} failed {kind}: {error}")],
                "degraded": true, "considered": 20, "matched": 1,
            })
        );
        let answer = hookd.trigger(pre_tool_use(&format!("block{number}"), json!({}))).await;
        let error = error_of(&answer, *message);
        assert_eq!(
            said(&answer),
            json!({
                "verdict": "block", "reason": format!("hook `r{number}` failed: {error}"),
                "decidedBy": format!("failure_policy shared/r{number}"),
                "results": [format!("shared/r{number} failed {kind} blocked: {error}")],
                "considered": 20, "matched": 1,
            })
        );
    }
}

#[tokio::test]
async fn law_07_what_a_failure_counts_as_where_the_rule_does_not_say() {
    let events = json!(["PreToolUse", "UserPromptSubmit", "PostToolUse", "SessionStart", "Stop"]);
    let fails = with(rule("fails", "", sh("exit 1")), json!({ "event": events }));
    let stop = with(rule("stop", "Stop", sh("exit 1")), json!({ "onError": "block" }));
    let hookd = Hookd::builder().managed(json!([fails, stop])).start().await;
    let requests = [
        (pre_tool_use("Bash", json!({})), "block"),
        (event("UserPromptSubmit"), "block"),
        (post_tool_use("Bash", json!({}), json!("secret")), "none"),
        (event("SessionStart"), "none"),
        // A broken hook never keeps an agent running, whatever its author wrote.
        (event("Stop"), "none"),
    ];
    for (request, verdict) in requests {
        let name = request.event.clone();
        let answer = hookd.trigger(request).await;
        let forgiven = verdict == "none";
        let value = said(&answer);
        assert_eq!((&value["verdict"], answer.degraded), (&json!(verdict), forgiven), "{name}");
        assert_eq!(value["decidedBy"], "failure_policy managed/fails", "{name}");
        assert_eq!(value.get("result"), None, "{name}");
    }
}

#[tokio::test]
async fn law_07_a_broken_redactor_shows_nothing() {
    let redactor = with(rule("redact", "PostToolUse", sh("exit 9")), json!({ "onError": "block" }));
    let hookd = Hookd::builder().managed(json!([redactor])).start().await;
    let answer = hookd.trigger(post_tool_use("Read", json!({}), json!({ "text": "password" }))).await;
    let notice = "[result withheld: hook `redact` failed: Exit code 9]";
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "hook `redact` failed: Exit code 9", "result": notice,
            "decidedBy": "failure_policy managed/redact",
            "results": ["managed/redact failed exited blocked: Exit code 9"],
            "rewrites": [format!(r#"managed/redact result [{{"op":"replace","path":"","value":"{notice}"}}]"#)],
            "considered": 1, "matched": 1,
        })
    );
}

#[tokio::test]
async fn law_08_less_than_the_margin_on_arrival_is_deadline_exceeded_and_nothing_runs() {
    let hookd = Hookd::builder().managed(json!([rule("runs", "PreToolUse", sh("touch $TMPDIR/ran"))])).start().await;
    let mut client = hookd.patient_client().await;
    let call = with_deadline(pre_tool_use("Bash", json!({})), Duration::from_micros(1));
    let status = client.trigger(call).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!(status.metadata().contains_key("hookd-decision-id"));
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("hookd", "DEADLINE_TOO_SHORT"));
    let (_, metrics) = hookd.admin_get("/metrics").await;
    assert!(!metrics.contains("handler_runs_total{"), "{metrics}");
    assert!(!hookd.path("tmp/ran").try_exists().unwrap());
}

#[tokio::test]
async fn law_08_what_is_left_is_shared_and_a_rule_that_finds_nothing_left_says_so() {
    let hookd = Hookd::builder()
        .team(json!([rule("slow", "SessionStart", sh("sleep 60")), rule("late", "SessionStart", sh("echo '{}'"))]))
        .start()
        .await;
    let mut client = hookd.patient_client().await;
    let call = with_deadline(event("SessionStart"), Duration::from_secs(1));
    let answer = client.trigger(call).await.unwrap().into_inner();
    let errors = answer.results.iter().map(|result| result.error.clone().unwrap()).collect::<Vec<_>>();
    let granted = errors[0].strip_prefix("Timed out after ").and_then(|text| text.strip_suffix("ms")).unwrap();
    // A second less the margin, and less the way to here.
    assert!((1..=900).contains(&granted.parse::<u64>().unwrap()), "{}", errors[0]);
    assert_eq!(
        (said(&answer)["verdict"].as_str(), &answer.results[1].failure(), errors[1].as_str()),
        (Some("none"), &Failure::TimedOut, "Timed out after 0ms")
    );
    assert!(answer.degraded);
}

#[tokio::test]
async fn law_09_the_answer_carries_the_revision_and_a_caller_can_insist_on_it() {
    let hookd = Hookd::builder().managed(json!([rule("a", "PreToolUse", sh("echo '{}'"))])).start().await;
    let status = hookd.admin().get_status(GetStatusRequest {}).await.unwrap().into_inner();
    let insist = |revision: &str| {
        let mut request = pre_tool_use("Bash", json!({}));
        revision.clone_into(&mut request.expected_policy_revision);
        request
    };
    let revision = status.policy_revision;
    let answer = hookd.trigger(insist(&revision)).await;
    assert_eq!((answer.policy_revision.as_str(), answer.results.len()), (revision.as_str(), 1));

    hookd.rewrite_rules(Tier::Managed, json!([rule("a", "PreToolUse", sh("touch $TMPDIR/ran"))]));
    let reloaded = hookd.reload().await;
    assert!(reloaded.ok && reloaded.policy_revision != revision, "{reloaded:?}");
    let status = hookd.try_trigger(insist(&revision)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.metadata().contains_key("hookd-decision-id"));
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("hookd", "REVISION_MISMATCH"));
    assert_eq!(info.metadata["policy_revision"], reloaded.policy_revision);
    assert!(!hookd.path("tmp/ran").try_exists().unwrap());

    // The meaning counts, not how it is written: the first rules again, in another order of keys.
    hookd.rewrite_rules(
        Tier::Managed,
        json!([{ "handler": { "command": "echo '{}'", "type": "command" }, "event": ["PreToolUse"], "id": "a" }]),
    );
    assert_eq!(hookd.reload().await.policy_revision, revision);
}
