//! Known ways in which text, numbers and sizes are mangled (section E of the cases), through the whole service.

use hookd_tests::{Hookd, HttpStub, Reply, http, pre_tool_use, rule, said, sh, with};
use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt as _;

/// What a rule that keeps its input was given, of a call with these parameters.
async fn input_of(params: &str, environment: (&str, &str)) -> String {
    let hookd = Hookd::builder()
        .managed(json!([rule("keeps", "PreToolUse", sh("cat >$TMPDIR/input"))]))
        .env(environment.0, environment.1)
        .start()
        .await;
    let mut request = pre_tool_use("write", json!({}));
    params.clone_into(&mut request.tool_call.as_mut().unwrap().params_json);
    let answer = hookd.trigger(request).await;
    assert_eq!(said(&answer)["results"], json!(["managed/keeps none"]));
    std::fs::read_to_string(hookd.path("tmp/input")).unwrap()
}

#[tokio::test]
async fn case_070_a_long_reason_in_odd_chunks_arrives_character_by_character() {
    let reason = "é".repeat(50_000);
    let hookd = Hookd::builder()
        .managed(json!([rule("long", "PreToolUse", sh("dd if=answer.txt bs=777 status=none"))]))
        .file("managed/answer.txt", &json!({ "decision": "block", "reason": reason }).to_string())
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(said(&answer)["decidedBy"], "rule managed/long");
    assert!(answer.reason == reason, "{} bytes", answer.reason.len());
}

#[tokio::test]
async fn case_071_input_is_utf_8_whatever_the_locale() {
    let input = input_of(r#"{"text":"中 é 🦀 \u0000"}"#, ("LANG", "C")).await;
    assert!(input.contains(r#""params":{"text":"中 é 🦀 \u0000"}"#), "{input}");
    assert!(input.ends_with("}\n") && input.lines().count() == 1, "{input}");
}

#[tokio::test]
async fn an_answer_that_is_no_utf_8_is_a_failure_and_never_runs_as_something_else() {
    // An é in Latin-1.
    let native = r#"printf '{"modifiedParams":{"path":"caf\351"}}\n'"#;
    let claude =
        r#"printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"path":"caf\351"}}}\n'"#;
    let worker = with(sh(&format!("while read -r line; do {native}; done")), json!({ "worker": {} }));
    let stub = HttpStub::start(move |_| Reply::ok(b"{\"modifiedParams\":{\"path\":\"caf\xe9\"}}")).await;
    let rules = [
        rule("native", "PreToolUse", sh(native)),
        with(rule("claude", "PreToolUse", sh(claude)), json!({ "protocol": "claude-code" })),
        rule("worker", "PreToolUse", worker),
        rule("http", "PreToolUse", http(&stub.url("/"))),
        // Nothing of it is a rewrite.
        rule("text", "PreToolUse", sh(r"printf 'caf\351'")),
    ];
    let why = |at: usize| format!("output is not UTF-8 at byte {at}");
    let failed = |id: &str, at| format!("{id} failed bad_output: {}", why(at));
    let hookd = Hookd::builder().shared(json!(rules)).start().await;
    let answer = hookd.trigger(pre_tool_use("write", json!({ "path": "a" }))).await;
    let results = ["shared/native", "shared/claude", "shared/worker", "shared/http"].into_iter().zip([30, 79, 30, 30]);
    let mut results = results.map(|(id, at)| failed(id, at)).collect::<Vec<_>>();
    results.push("shared/text none".to_owned());
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "decidedBy": "failure_policy shared/native", "results": results, "degraded": true,
                "considered": 5, "matched": 5 })
    );
    for rule in rules.into_iter().take(4) {
        let id = rule["id"].as_str().unwrap().to_owned();
        let hookd = Hookd::builder().managed(json!([rule])).start().await;
        let value = said(&hookd.trigger(pre_tool_use("write", json!({ "path": "a" }))).await);
        assert_eq!(value["decidedBy"], json!(format!("failure_policy managed/{id}")));
    }
}

#[tokio::test]
async fn case_073_a_lone_surrogate_is_an_error_and_no_panic() {
    let hookd = Hookd::builder()
        .managed(json!([rule("bad", "PreToolUse", sh(r#"printf '%s' '{"decision":"allow","reason":"\ud800"}'"#))]))
        .start()
        .await;
    let mut request = pre_tool_use("write", json!({}));
    r#"{"text":"\ud800"}"#.clone_into(&mut request.tool_call.as_mut().unwrap().params_json);
    let status = hookd.try_trigger(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), ["tool_call.params_json"]);
    let answer = hookd.trigger(pre_tool_use("write", json!({}))).await;
    let value = said(&answer);
    assert_eq!((&value["verdict"], &value["decidedBy"]), (&json!("block"), &json!("failure_policy managed/bad")));
    assert!(answer.reason.contains("surrogate") || answer.reason.contains("not one JSON object"), "{}", answer.reason);
}

#[tokio::test]
async fn case_074_numbers_keep_their_digits_to_the_hook_and_back() {
    let numbers = r#"{"id":9007199254740993,"n":1,"one":1.0,"tiny":1e-400,"big":123456789012345678901234567890}"#;
    let input = input_of(numbers, ("LANG", "C")).await;
    assert!(input.contains(&format!(r#""params":{numbers}"#)), "{input}");

    let stub = HttpStub::start(move |_| Reply::ok(format!(r#"{{"modifiedParams":{numbers}}}"#))).await;
    let hookd = Hookd::builder().managed(json!([rule("back", "PreToolUse", http(&stub.url("/")))])).start().await;
    let answer = hookd.trigger(pre_tool_use("write", json!({}))).await;
    assert_eq!(answer.modified_params_json.as_deref(), Some(numbers));
}

#[tokio::test]
async fn case_074_a_number_that_is_equal_digit_by_digit_is_no_rewrite() {
    let same = sh(r#"echo '{"modifiedParams":{"b":1,"a":9007199254740993}}'"#);
    let hookd = Hookd::builder().shared(json!([rule("same", "PreToolUse", same)])).start().await;
    let answer = hookd.trigger(pre_tool_use("write", json!({ "a": 9_007_199_254_740_993_u64, "b": 1 }))).await;
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "results": ["shared/same none"], "considered": 1, "matched": 1 })
    );
    let answer = hookd.trigger(pre_tool_use("write", json!({ "a": 9_007_199_254_740_992_u64, "b": 1 }))).await;
    assert_eq!(answer.rewrites.len(), 1);
}

#[tokio::test]
async fn case_075_a_large_payload_goes_through_stdin_and_not_the_environment() {
    let text = "x".repeat(300 * 1024);
    let input = input_of(&json!({ "text": text }).to_string(), ("LANG", "C")).await;
    let input: Value = serde_json::from_str(&input).unwrap();
    assert!(input["toolCall"]["params"]["text"] == text);
}

#[tokio::test]
async fn case_078_long_context_arrives_whole() {
    let context = "w".repeat(10_001);
    let hookd = Hookd::builder()
        .local(json!([rule("tells", "PreToolUse", sh("cat $TMPDIR/context"))]))
        .file("tmp/context", &json!({ "additionalContext": context }).to_string())
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    let texts = answer.additional_context.iter().map(|note| note.text.as_str()).collect::<Vec<_>>();
    assert!(texts == [context], "{} texts", texts.len());
    assert!(!answer.results_truncated && !answer.results[0].truncated);
}
