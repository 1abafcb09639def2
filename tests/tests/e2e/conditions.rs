//! Conditions and computed rewrites against the real binary.

use hookd_tests::{
    Hookd, decide, post_tool_use, pre_tool_use, rule, said, sh,
    v1::{ExplainRequest, TriggerRequest},
    with,
};
use serde_json::{Value, json};

fn block_when(id: &str, when: &str) -> Value {
    with(rule(id, "PreToolUse", decide(json!({ "verdict": "block", "reason": id }))), json!({ "when": when }))
}

#[tokio::test]
async fn one_rule_says_no_shell_command_that_removes_recursively_whatever_the_agent_calls_its_shell() {
    let when = "toolKind == 'shell' && shellCommands(params.command).exists(c, c[0] == 'rm' && c.exists(w, w.matches('^-[a-zA-Z]*[rR]')))";
    let hookd = Hookd::builder().managed(json!([block_when("no-rm", when)])).start().await;
    let verdict = async |tool: &str, command: &str| {
        said(&hookd.trigger(pre_tool_use(tool, json!({ "command": command }))).await)["verdict"].clone()
    };
    for tool in ["Bash", "run_shell_command", "exec_command"] {
        assert_eq!(verdict(tool, "ls -la | wc -l").await, "none", "{tool}");
        assert_eq!(verdict(tool, "rm notes.txt").await, "none", "{tool}");
        assert_eq!(verdict(tool, "cd /tmp && rm -rf x").await, "block", "{tool}");
        assert_eq!(verdict(tool, "echo $(rm -r /)").await, "block", "{tool}");
    }
    assert_eq!(verdict("Read", "rm -rf /").await, "none");
    assert_eq!(
        verdict("Bash", "echo 'unclosed").await,
        "block",
        "what cannot be parsed is a failure of a managed rule"
    );
}

#[tokio::test]
async fn a_path_is_worked_out_before_it_is_compared() {
    let when = "!under(params.file_path, cwd + '/src')";
    let hookd = Hookd::builder().managed(json!([block_when("only-src", when)])).start().await;
    let ask = async |path: &str| {
        let request = pre_tool_use("Edit", json!({ "file_path": path }));
        said(&hookd.trigger(TriggerRequest { cwd: "/home/ann/app".to_owned(), ..request }).await)["verdict"].clone()
    };
    assert_eq!(ask("/home/ann/app/src/a.rs").await, "none");
    assert_eq!(ask("src/a.rs").await, "none");
    assert_eq!(ask("src/../../etc/passwd").await, "block");
    assert_eq!(ask("/home/ann/app/src-old/a.rs").await, "block");
}

#[tokio::test]
async fn a_result_is_redacted_in_process_and_a_lower_tier_cannot_bring_it_back() {
    let redact = json!({ "type": "decide", "modifiedResult": { "expr": "redact(result, 'key-[0-9a-f]+', '[key]')" } });
    let leak = sh(r#"echo '{"modifiedResult":{"text":"again key-beef"}}'"#);
    let hookd = Hookd::builder()
        .managed(json!([with(
            rule("redact", "PostToolUse", redact),
            json!({ "when": "anyMatch(result, 'key-[0-9a-f]+')" })
        )]))
        .shared(json!([rule("leak", "PostToolUse", leak)]))
        .start()
        .await;
    let answer = hookd.trigger(post_tool_use("Read", json!({}), json!({ "text": "the key-cafe", "id": 1 }))).await;
    assert_eq!(answer.modified_result_json.as_deref(), Some(r#"{"text":"again [key]"}"#));
}

#[tokio::test]
async fn a_condition_without_a_value_is_a_failure_that_is_named() {
    let hookd = Hookd::builder()
        .managed(json!([with(block_when("forgiven", "params.a > 1"), json!({ "onError": "allow" }))]))
        .local(json!([with(block_when("strict", "params.b"), json!({ "onError": "block" }))]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "b": "text" }))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "hook `strict` failed: `when` failed: a condition takes a boolean, this is a string",
            "decidedBy": "failure_policy local/strict", "degraded": true, "considered": 2, "matched": 2,
            "results": [
                "managed/forgiven failed expression: `when` failed: no such key: `a`",
                "local/strict failed expression blocked: `when` failed: a condition takes a boolean, this is a string",
            ],
        })
    );
}

#[tokio::test]
async fn explain_says_which_part_said_no() {
    let rules = json!([
        block_when("yes", "params.n == 9007199254740993"),
        block_when("no", "params.n == 9007199254740992"),
        block_when("fails", "params.missing == 1"),
    ]);
    let hookd = Hookd::builder().managed(rules).start().await;
    let trigger = Some(pre_tool_use("Bash", json!({ "n": 9_007_199_254_740_993_u64 })));
    let explained = hookd.admin().explain(ExplainRequest { trigger, ..Default::default() }).await.unwrap().into_inner();
    let rules = explained.rules.iter().map(|rule| (rule.would_run, rule.because.as_str())).collect::<Vec<_>>();
    assert_eq!(
        rules,
        [
            (true, "no matcher: it matches everything; its condition holds"),
            (false, "condition `params.n == 9007199254740992` does not hold"),
            (false, "condition `params.missing == 1` fails, which is a failure of the rule: no such key: `missing`"),
        ]
    );
}
