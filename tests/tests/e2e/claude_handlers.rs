//! Handlers that speak Claude Code's protocol, against real processes: sections B, E and F of the cases as far as they
//! are about what a hook reads and what its exit code and output mean.

use std::{fs, time::Duration};

use hookd_tests::{
    Hookd, HookdBuilder, HttpStub, Reply, Request, TriggerRequestExt as _, event, eventually, http, post_tool_use,
    pre_tool_use, rule, said, sh,
    v1::{Caller, ToolCall, TriggerRequest},
    with,
};
use serde_json::{Value, json};

/// A rule that speaks Claude Code's protocol.
fn hook(id: &str, event: &str, handler: Value) -> Value {
    with(rule(id, event, handler), json!({ "protocol": "claude-code" }))
}

/// A `PreToolUse` hook that is asked for the tool of its own name.
fn guard(id: &str, script: &str) -> Value {
    with(hook(id, "PreToolUse", sh(script)), json!({ "matcher": format!("^{id}$") }))
}

/// Each script as a managed hook and as a shared one.
fn guards(scripts: &[(&str, &str)]) -> HookdBuilder {
    let of = |tier: &str| scripts.iter().map(|(id, script)| guard(&format!("{tier}-{id}"), script)).collect();
    Hookd::builder().managed(of("m")).shared(of("s"))
}

/// Verdict, the line of the result, and what was said or dropped, of the guard `id`.
async fn ask(hookd: &Hookd, id: &str) -> Value {
    let answer = hookd.trigger(pre_tool_use(id, json!({ "command": "ls" }))).await;
    let value = said(&answer);
    let line = value["results"][0].as_str().unwrap().split_once(' ').unwrap().1.to_owned();
    json!([value["verdict"], line, answer.results[0].reason])
}

fn print(json: &str) -> String {
    format!("printf %s '{json}'")
}

fn pre_tool_use_output(members: &str) -> String {
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse",{members}}}}}"#)
}

fn deny() -> String {
    pre_tool_use_output(r#""permissionDecision":"deny","permissionDecisionReason":"r""#)
}

fn allow() -> String {
    pre_tool_use_output(r#""permissionDecision":"allow""#)
}

#[tokio::test]
async fn case_017_case_018_case_061_a_launch_that_failed_is_told_from_a_deliberate_deny() {
    let scripts = [
        ("one", "echo no >&2; exit 1"),
        ("deny", "echo 'no pushing to main' >&2; exit 2"),
        ("silent", "exit 2"),
        ("missing", "no-such-program-of-ours"),
        ("syntax", "if then"),
        ("script", "sh ./no-such-script.sh"),
        ("perl", "perl ./no-such-script.pl"),
        ("python", "python3 ./no-such-script.py"),
        ("usage", "python3 -c 'import argparse; argparse.ArgumentParser().parse_args()' --no-such-option"),
    ];
    let hookd = guards(&scripts).start().await;
    let mut given = Vec::new();
    for (id, _) in scripts {
        for tier in ["m", "s"] {
            let answer = hookd.trigger(pre_tool_use(&format!("{tier}-{id}"), json!({}))).await;
            let (value, result) = (said(&answer), &answer.results[0]);
            let failure = value["results"][0].as_str().unwrap().split(' ').nth(2).unwrap_or_default().to_owned();
            let failure = failure.trim_end_matches(':').to_owned();
            given.push(json!([tier, id, value["verdict"], failure, result.launch_suspect]));
        }
    }
    assert_eq!(
        json!(given),
        json!([
            ["m", "one", "block", "exited", false],
            ["s", "one", "none", "exited", false],
            ["m", "deny", "block", "", false],
            ["s", "deny", "block", "", false],
            ["m", "silent", "block", "", false],
            ["s", "silent", "block", "", false],
            ["m", "missing", "block", "did_not_start", true],
            ["s", "missing", "none", "did_not_start", true],
            ["m", "syntax", "block", "", true],
            ["s", "syntax", "block", "", true],
            ["m", "script", "block", "", true],
            ["s", "script", "block", "", true],
            ["m", "perl", "block", "", true],
            ["s", "perl", "block", "", true],
            ["m", "python", "block", "", true],
            ["s", "python", "block", "", true],
            ["m", "usage", "block", "", true],
            ["s", "usage", "block", "", true],
        ])
    );
    // For hookd's own protocol the same exit is a failure, and as suspect.
    let native = rule("native", "PreToolUse", sh("perl ./no-such-script.pl"));
    let hookd = Hookd::builder().managed(json!([native])).start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!((answer.results[0].failure().as_str_name(), answer.results[0].launch_suspect), ("FAILURE_EXITED", true));
}

#[tokio::test]
async fn case_019_case_021_case_022_case_038_exit_2_blocks_and_beside_other_codes_an_object_decides() {
    let context = pre_tool_use_output(r#""additionalContext":"x""#);
    let number = pre_tool_use_output(r#""permissionDecision":7"#);
    let stops = |output: &str| format!("{}; echo stop >&2; exit 2", print(output));
    let scripts = [
        ("invalid", stops(&number)),
        ("context", stops(&context)),
        ("allow", stops(&allow())),
        ("listing", "echo bin; echo '{\"decision\":\"block\",\"reason\":\"r\"}'; exit 2".to_owned()),
        ("deny-1", format!("{}; exit 1", print(&deny()))),
        ("allow-1", format!("{}; echo odd >&2; exit 1", print(&allow()))),
    ];
    let scripts = scripts.iter().map(|(id, script)| (*id, script.as_str())).collect::<Vec<_>>();
    let hookd = guards(&scripts).start().await;
    let invalid = "stop (the output does not count: `permissionDecision` must be one of allow, deny, ask and defer, \
                   not a number `7`)";
    for (id, managed, shared) in [
        ("invalid", json!(["block", "block", invalid]), json!(["block", "block", invalid])),
        ("context", json!(["block", "block", "stop"]), json!(["block", "block", "stop"])),
        ("allow", json!(["block", "block", "stop"]), json!(["block", "block", "stop"])),
        ("listing", json!(["block", "block", "Blocked by hook"]), json!(["block", "block", "Blocked by hook"])),
        ("deny-1", json!(["block", "block", "r"]), json!(["block", "block", "r"])),
        // The contract lets the object decide; a rule whose failures block does not take a yes from such a run.
        ("allow-1", json!(["block", "failed exited blocked: odd", ""]), json!(["none", "allow", ""])),
    ] {
        assert_eq!(ask(&hookd, &format!("m-{id}")).await, managed, "{id}");
        assert_eq!(ask(&hookd, &format!("s-{id}")).await, shared, "{id}");
    }
    let answer = hookd.trigger(pre_tool_use("m-context", json!({}))).await;
    assert_eq!(said(&answer)["context"], json!(["managed/m-context: x"]));
}

#[tokio::test]
async fn case_023_case_025_case_029_case_031_case_033_what_is_not_understood_is_a_failure() {
    let decision = |word: &str| pre_tool_use_output(&format!(r#""permissionDecision":"{word}""#));
    let unknown = |word: &str| {
        format!("`permissionDecision` must be one of allow, deny, ask and defer, not a string `\"{word}\"`")
    };
    let cases = [
        (
            "misplaced",
            r#"{"permissionDecision":"deny","permissionDecisionReason":"r"}"#.to_owned(),
            "misplaced key `permissionDecision`: it belongs into `hookSpecificOutput`".to_owned(),
        ),
        (
            "unlabelled",
            r#"{"hookSpecificOutput":{"additionalContext":"hi"}}"#.to_owned(),
            "`hookSpecificOutput` needs `hookEventName`, which would be `PreToolUse`".to_owned(),
        ),
        (
            "two",
            r#"{"a":1}{"decision":"block"}"#.to_owned(),
            "output is not one JSON object: trailing characters at line 1 column 8".to_owned(),
        ),
        (
            "cut",
            r#"{"systemMessage":"a"#.to_owned(),
            "output is not one JSON object: EOF while parsing a string at line 1 column 19".to_owned(),
        ),
        ("capital", decision("Deny"), unknown("Deny")),
        ("maybe", decision("maybe"), unknown("maybe")),
        ("old", decision("block"), unknown("block")),
        ("empty", decision(""), unknown("")),
    ];
    let scripts = cases.iter().map(|(id, output, _)| (*id, print(output))).collect::<Vec<_>>();
    let hookd = guards(&scripts.iter().map(|(id, script)| (*id, script.as_str())).collect::<Vec<_>>()).start().await;
    for (id, _, error) in &cases {
        let managed = json!(["block", format!("failed bad_output blocked: {error}"), ""]);
        let shared = json!(["none", format!("failed bad_output: {error}"), ""]);
        assert_eq!(ask(&hookd, &format!("m-{id}")).await, managed, "{id}");
        assert_eq!(ask(&hookd, &format!("s-{id}")).await, shared, "{id}");
    }
}

#[tokio::test]
async fn case_026_case_030_case_034_case_037_silence_is_no_opinion_and_an_allow_is_one() {
    let allow = print(&allow());
    let scripts = [
        ("empty", "echo '{}'"),
        ("nothing", "true"),
        ("text", "echo hello"),
        ("function", "guard() { exit 2; }"),
        ("allow", &allow),
        ("banner", r#"echo ready; echo '{"decision":"block","reason":"r"}'"#),
    ];
    let hookd = guards(&scripts).start().await;
    for id in ["empty", "nothing", "text", "function"] {
        assert_eq!(ask(&hookd, &format!("m-{id}")).await, json!(["none", "none", ""]), "{id}");
        assert_eq!(ask(&hookd, &format!("s-{id}")).await, json!(["none", "none", ""]), "{id}");
    }
    assert_eq!(ask(&hookd, "m-allow").await, json!(["allow", "allow", ""]));
    assert_eq!(ask(&hookd, "s-allow").await, json!(["none", "allow", ""]), "a tier that may not allow");
    let hidden = json!(["block", "failed bad_output blocked: text before a JSON object", ""]);
    assert_eq!(ask(&hookd, "m-banner").await, hidden);
    assert_eq!(ask(&hookd, "s-banner").await, json!(["none", "none", "JSON after text"]));
}

#[tokio::test]
async fn case_027_output_for_another_event_gives_no_allow() {
    let script = print(&pre_tool_use_output(r#""permissionDecision":"allow""#));
    let hookd = Hookd::builder().managed(json!([hook("other", "PostToolUse", sh(&script))])).start().await;
    let answer = hookd.trigger(post_tool_use("Bash", json!({}), json!("ok"))).await;
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "results": ["managed/other none"], "considered": 1, "matched": 1 })
    );
    assert_eq!(answer.results[0].reason, "output for the event `PreToolUse`");
}

#[tokio::test]
async fn case_035_an_allow_does_not_outrank_a_denial_from_below() {
    let hookd = Hookd::builder()
        .managed(json!([hook("yes", "PreToolUse", sh(&print(&allow())))]))
        .shared(json!([hook("no", "PreToolUse", sh("echo no >&2; exit 2"))]))
        .start()
        .await;
    assert_eq!(
        said(&hookd.trigger(pre_tool_use("Bash", json!({}))).await),
        json!({
            "verdict": "block", "reason": "no", "decidedBy": "rule shared/no",
            "results": ["managed/yes allow", "shared/no block"], "considered": 2, "matched": 2,
        })
    );
}

#[tokio::test]
async fn case_039_feedback_after_a_tool_ran_reaches_the_model() {
    let hookd = Hookd::builder()
        .managed(json!([hook("lint", "PostToolUse", sh("echo fix >&2; exit 2"))]))
        .shared(json!([hook(
            "redacts",
            "PostToolUse",
            sh(&print(
                r#"{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":{"stdout":"[hidden]"}}}"#
            ))
        )]))
        .start()
        .await;
    let answer = hookd.trigger(post_tool_use("Bash", json!({}), json!({ "stdout": "secret" }))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block", "reason": "fix", "decidedBy": "rule managed/lint", "result": { "stdout": "[hidden]" },
            "results": ["managed/lint block", "shared/redacts none", "managed/lint block recheck"],
            "rewrites": [r#"shared/redacts result [{"op":"replace","path":"/stdout","value":"[hidden]"}]"#],
            "considered": 2, "matched": 2,
        })
    );
}

#[tokio::test]
async fn case_041_a_stop_hook_is_told_that_it_forced_the_agent_on_and_the_answer_stays_the_same() {
    let forces = hook("tests", "Stop", sh("cat >>$TMPDIR/inputs; echo again >&2; exit 2"));
    let hookd = Hookd::builder().shared(json!([forces])).start().await;
    for _ in 0..20 {
        let answer = hookd.trigger(event("Stop").with_payload(json!({ "stop_hook_active": true }))).await;
        assert_eq!(
            said(&answer),
            json!({
                "verdict": "block", "reason": "again", "decidedBy": "rule shared/tests",
                "results": ["shared/tests block"], "considered": 1, "matched": 1,
            })
        );
    }
    let inputs = fs::read_to_string(hookd.path("tmp/inputs")).unwrap();
    let line = r#"{"session_id":"s1","transcript_path":"","cwd":"","hook_event_name":"Stop","stop_hook_active":true}"#;
    assert_eq!(inputs, format!("{line}\n").repeat(20));
}

#[tokio::test]
async fn case_042_case_102_the_limit_is_the_outermost_process_s_and_a_timeout_is_no_decision() {
    let slow = with(sh("sh -c 'echo no >&2; sleep 600; exit 2'"), json!({ "timeout": 500 }));
    let hookd = Hookd::builder()
        .managed(json!([hook("slow", "PreToolUse", slow.clone())]))
        .shared(json!([with(hook("slow", "Notification", slow), json!({}))]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({}))).await;
    assert_eq!(said(&answer)["results"], json!(["managed/slow failed timed_out blocked: Timed out after 500ms"]));
    let answer = hookd.trigger(event("Notification")).await;
    assert_eq!(said(&answer)["results"], json!(["shared/slow failed timed_out: Timed out after 500ms"]));
    eventually("no process is left", async || hookd.children().is_empty().then_some(())).await;
}

/// A call as that agent makes it.
fn whole_call() -> TriggerRequest {
    TriggerRequest {
        event: "PostToolUse".to_owned(),
        session_id: "abc".to_owned(),
        transcript_path: "/home/me/t.jsonl".to_owned(),
        cwd: "/tmp".to_owned(),
        permission_mode: "acceptEdits".to_owned(),
        caller: Some(Caller {
            agent: "claude-code".to_owned(),
            agent_id: "a1".to_owned(),
            agent_type: "explorer".to_owned(),
            ..Caller::default()
        }),
        tool_call: Some(ToolCall {
            tool: "mcp__db__query".to_owned(),
            params_json: r#"{"id":9007199254740993,"n":1,"f":1.0,"t":"中 é 🦀"}"#.to_owned(),
            result_json: Some(r#"{"rows":[1.50]}"#.to_owned()),
            tool_use_id: "toolu_1".to_owned(),
            elapsed: Some(Duration::from_millis(12).try_into().unwrap()),
            ..ToolCall::default()
        }),
        payload_json:
            r#"{"mcp_server":{"name":"db","source":"user"},"effort":{"level":"high"},"tool_input":{"forged":1}}"#
                .to_owned(),
        workspace_roots: vec!["/w".to_owned()],
        ..TriggerRequest::default()
    }
}

const WHOLE_INPUT: &str = concat!(
    r#"{"session_id":"abc","transcript_path":"/home/me/t.jsonl","cwd":"/tmp","hook_event_name":"PostToolUse","#,
    r#""permission_mode":"acceptEdits","agent_id":"a1","agent_type":"explorer","tool_name":"mcp__db__query","#,
    r#""tool_input":{"id":9007199254740993,"n":1,"f":1.0,"t":"中 é 🦀"},"tool_response":{"rows":[1.50]},"#,
    r#""tool_use_id":"toolu_1","duration_ms":12,"mcp_server":{"name":"db","source":"user"},"effort":{"level":"high"}}"#,
    "\n"
);

#[tokio::test]
async fn case_071_case_074_a_hook_reads_that_agents_object_byte_by_byte_sync_async_and_over_http() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = Hookd::builder()
        .managed(json!([
            hook("sync", "PostToolUse", sh("cat >$TMPDIR/sync")),
            with(
                hook("async", "PostToolUse", sh("cat >$TMPDIR/part; mv $TMPDIR/part $TMPDIR/async")),
                json!({ "async": true })
            ),
            hook("http", "PostToolUse", http(&stub.url("/"))),
        ]))
        .env("LANG", "C")
        .start()
        .await;
    hookd.trigger(whole_call()).await;
    assert_eq!(fs::read_to_string(hookd.path("tmp/sync")).unwrap(), WHOLE_INPUT);
    assert_eq!(stub.wait_for(1).await[0].body, WHOLE_INPUT);
    let late =
        eventually("the async hook has read its input", async || fs::read_to_string(hookd.path("tmp/async")).ok());
    assert_eq!(late.await, WHOLE_INPUT);
}

#[tokio::test]
async fn a_hook_sees_the_form_at_its_turn() {
    let rewrite = pre_tool_use_output(r#""updatedInput":{"command":"ls -l","n":1.0}"#);
    let hookd = Hookd::builder()
        .shared(json!([hook("first", "PreToolUse", sh(&print(&rewrite)))]))
        .plugin(json!([hook("second", "PreToolUse", sh("cat >$TMPDIR/input"))]))
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none", "params": { "command": "ls -l", "n": 1.0 },
            "results": ["shared/first none", "plugin/second none"],
            "rewrites": [r#"shared/first params [{"op":"replace","path":"/command","value":"ls -l"},{"op":"add","path":"/n","value":1.0}]"#],
            "considered": 2, "matched": 2,
        })
    );
    let input = fs::read_to_string(hookd.path("tmp/input")).unwrap();
    assert!(input.contains(r#""tool_input":{"command":"ls -l","n":1.0}"#), "{input}");
}

#[tokio::test]
async fn case_075_case_103_the_environment_is_that_agents_and_holds_no_secrets() {
    let dump = |file: &str| sh(&format!("env | grep -v '^\\(PWD\\|OLDPWD\\|SHLVL\\|_\\)=' | sort >$TMPDIR/{file}"));
    let file = json!({ "hooks": { "PostToolUse": [{ "hooks": [dump("plugin")] }] } }).to_string();
    let hookd = Hookd::builder()
        .managed(json!([hook("env", "PostToolUse", dump("managed"))]))
        .file("plugin/hooks/hooks.json", &file)
        .settings(json!({ "tiers": { "plugin": { "sources": [{ "path": "plugin/hooks/hooks.json" }] } } }))
        .env("API_TOKEN", "x")
        .env("HOME", "/root")
        .start()
        .await;
    let mut call = whole_call();
    call.cwd = hookd.path("tmp").to_str().unwrap().to_owned();
    call.payload_json = json!({ "effort": { "level": "high" }, "big": "x".repeat(300 * 1024) }).to_string();
    let answer = hookd.trigger(call).await;
    assert_eq!(answer.verdict().as_str_name(), "VERDICT_NONE", "{answer:?}");
    let names = |text: &str| text.lines().map(|line| line.split('=').next().unwrap().to_owned()).collect::<Vec<_>>();
    let managed = fs::read_to_string(hookd.path("tmp/managed")).unwrap();
    let shared_names = [
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_EFFORT",
        "CLAUDE_PROJECT_DIR",
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
        "TRACEPARENT",
    ];
    assert_eq!(names(&managed), shared_names);
    for line in ["CLAUDE_PROJECT_DIR=/w", "CLAUDE_CODE_SESSION_ID=abc", "CLAUDE_EFFORT=high", "CLAUDECODE=1"] {
        assert!(managed.lines().any(|set| set == line), "{line} in {managed}");
    }
    let plugin = fs::read_to_string(hookd.path("tmp/plugin")).unwrap();
    let root = format!("CLAUDE_PLUGIN_ROOT={}", fs::canonicalize(hookd.path("plugin")).unwrap().display());
    assert!(plugin.lines().any(|set| set == root), "{root} in {plugin}");
    assert!(plugin.lines().all(|set| !set.starts_with("API_TOKEN")), "{plugin}");
}

#[tokio::test]
async fn case_058_a_space_in_a_path_is_a_failure_of_an_unquoted_command_and_none_with_args() {
    let argv = json!({ "type": "command", "argv": ["sh", "${CLAUDE_PROJECT_DIR}/h.sh"] });
    let of = |id: &str, handler: Value| with(hook(id, "PreToolUse", handler), json!({ "matcher": format!("^{id}$") }));
    let hookd = Hookd::builder()
        .shared(json!([
            of("unquoted", sh("$CLAUDE_PROJECT_DIR/h.sh")),
            of("quoted", sh("sh \"$CLAUDE_PROJECT_DIR\"/h.sh")),
            of("args", argv.clone()),
        ]))
        .managed(json!([of("managed", argv)]))
        .file("tmp/a b/h.sh", "echo no >&2; exit 2\n")
        .start()
        .await;
    let folder = hookd.path("tmp/a b");
    for (id, verdict, suspect) in
        [("unquoted", "none", true), ("quoted", "block", false), ("args", "block", false), ("managed", "block", false)]
    {
        let answer = hookd.trigger(pre_tool_use(id, json!({})).in_cwd(&folder)).await;
        assert_eq!((&said(&answer)["verdict"], answer.results[0].launch_suspect), (&json!(verdict), suspect), "{id}");
    }
    // Without a directory nothing is started with half a path.
    let answer = hookd.trigger(pre_tool_use("managed", json!({}))).await;
    let error = "`${CLAUDE_PROJECT_DIR}` in the arguments stands for nothing here";
    assert_eq!(said(&answer)["results"], json!([format!("managed/managed failed did_not_start blocked: {error}")]));
}

#[tokio::test]
async fn case_059_case_061_a_central_hook_runs_beside_its_file_and_a_projects_where_the_agent_works() {
    let here = sh("pwd >&2; exit 2");
    let of = |id: &str| with(hook(id, "PreToolUse", here.clone()), json!({ "matcher": format!("^{id}$") }));
    let hookd = Hookd::builder().managed(json!([of("central")])).shared(json!([of("project")])).start().await;
    let folder = fs::canonicalize(hookd.path("tmp")).unwrap();
    let central = hookd.trigger(pre_tool_use("central", json!({})).in_cwd(&folder)).await.reason;
    assert_eq!(fs::canonicalize(central).unwrap(), fs::canonicalize(hookd.path("managed")).unwrap());
    assert_eq!(
        hookd.trigger(pre_tool_use("project", json!({})).in_cwd(&folder)).await.reason,
        folder.to_str().unwrap()
    );
}

#[tokio::test]
async fn case_070_case_073_case_078_long_texts_arrive_whole_and_broken_ones_are_failures() {
    let long = "é".repeat(50_000);
    let denies = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": long } });
    let tells =
        json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "additionalContext": "w".repeat(10_001) } });
    let surrogate = r#"printf '%s' '{"decision":"approve","reason":"\ud800"}'"#;
    let hookd = Hookd::builder()
        .managed(json!([
            guard("denies", "dd if=denies.txt bs=777 status=none"),
            guard("tells", "cat tells.txt"),
            guard("surrogate", surrogate),
        ]))
        .file("managed/denies.txt", &denies.to_string())
        .file("managed/tells.txt", &tells.to_string())
        .start()
        .await;
    let answer = hookd.trigger(pre_tool_use("denies", json!({}))).await;
    assert!(answer.reason == long, "{} bytes", answer.reason.len());
    let answer = hookd.trigger(pre_tool_use("tells", json!({}))).await;
    assert_eq!(answer.additional_context[0].text.len(), 10_001);
    assert!(!answer.results_truncated && !answer.results[0].truncated);
    let surrogate = ask(&hookd, "surrogate").await;
    assert_eq!(surrogate[0], "block", "{surrogate}");
    assert!(surrogate[1].as_str().unwrap().starts_with("failed bad_output blocked: output is not one JSON object"));
}

#[tokio::test]
async fn case_077_case_079_floods_are_cut_and_a_denial_is_not_lost_in_them() {
    let flood = "head -c 5000000 /dev/zero | tr '\\0' x";
    let (stderr, stdout, both) =
        (format!("{flood} >&2; exit 2"), flood.to_owned(), format!("{flood}; echo stop >&2; exit 2"));
    let scripts = [("stderr", stderr.as_str()), ("stdout", &stdout), ("both", &both)];
    let hookd = guards(&scripts).start().await;
    let answer = hookd.trigger(pre_tool_use("s-stderr", json!({}))).await;
    assert_eq!((&said(&answer)["verdict"], answer.results[0].truncated), (&json!("block"), true));
    assert!((4096..5000).contains(&answer.reason.len()), "{}", answer.reason.len());
    let over = "output of more than 1048576 bytes";
    assert_eq!(ask(&hookd, "m-stdout").await, json!(["block", format!("failed too_large blocked: {over}"), ""]));
    assert_eq!(ask(&hookd, "s-stdout").await, json!(["none", format!("failed too_large: {over}"), ""]));
    assert_eq!(ask(&hookd, "s-both").await, json!(["block", "block", "stop"]));
}

fn path(request: &Request) -> &str {
    request.head.split(' ').nth(1).unwrap()
}

#[tokio::test]
async fn case_081_case_085_of_an_http_answer_only_an_object_or_nothing_counts_and_no_status_blocks() {
    let stub = HttpStub::start(|request| match path(request) {
        "/500" => Reply::status("500 Internal Server Error", "oops"),
        "/403" => Reply::status("403 Forbidden", ""),
        "/text" => Reply::ok("ok"),
        "/list" => Reply::ok("[]"),
        "/broken" => Reply::ok("{"),
        "/deny" => Reply::ok(deny()),
        "/204" => Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
        _ => Reply::ok(""),
    })
    .await;
    let ids = ["500", "403", "text", "list", "broken", "deny", "204", "empty"];
    let of = |tier: &str| {
        let rule = |id: &&str| {
            let id = format!("{tier}-{id}");
            let handler = http(&stub.url(&format!("/{}", id.split_once('-').unwrap().1)));
            with(hook(&id, "PreToolUse", handler), json!({ "matcher": format!("^{id}$") }))
        };
        ids.iter().map(rule).collect::<Value>()
    };
    let hookd = Hookd::builder().managed(of("m")).shared(of("s")).start().await;
    let not_object = "bad_output: the body is neither empty nor a JSON object";
    let broken = "bad_output: output is not one JSON object: EOF while parsing an object at line 1 column 1";
    for (id, failure) in [
        ("500", "http_status: HTTP 500: oops"),
        ("403", "http_status: HTTP 403"),
        ("text", not_object),
        ("list", not_object),
        ("broken", broken),
    ] {
        let blocked = failure.replacen(':', " blocked:", 1);
        assert_eq!(ask(&hookd, &format!("m-{id}")).await, json!(["block", format!("failed {blocked}"), ""]));
        assert_eq!(ask(&hookd, &format!("s-{id}")).await, json!(["none", format!("failed {failure}"), ""]));
    }
    for tier in ["m", "s"] {
        assert_eq!(ask(&hookd, &format!("{tier}-deny")).await, json!(["block", "block", "r"]));
        for id in ["204", "empty"] {
            assert_eq!(ask(&hookd, &format!("{tier}-{id}")).await, json!(["none", "none", ""]));
        }
    }
}

#[tokio::test]
async fn case_083_http_hooks_fire_on_every_event() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let names = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];
    let tells = with(hook("tell", "", http(&stub.url("/"))), json!({ "event": names }));
    let hookd = Hookd::builder().shared(json!([tells])).start().await;
    for request in [
        event("SessionStart").with_payload(json!({ "source": "startup" })),
        event("UserPromptSubmit").with_payload(json!({ "prompt": "hi" })),
        pre_tool_use("Bash", json!({})),
        post_tool_use("Bash", json!({}), json!("ok")),
        event("Stop"),
    ] {
        assert_eq!(said(&hookd.trigger(request).await)["results"], json!(["shared/tell none"]));
    }
    let body = |request: Request| serde_json::from_str::<Value>(&request.body).unwrap()["hook_event_name"].clone();
    assert_eq!(stub.requests().into_iter().map(body).collect::<Vec<_>>(), names);
}

#[tokio::test]
async fn each_event_has_its_own_outputs_and_the_highest_tier_wins_key_by_key() {
    let session = |members: &str| {
        sh(&print(&format!(r#"{{"hookSpecificOutput":{{"hookEventName":"SessionStart",{members}}}}}"#)))
    };
    let request = |members: &str| {
        sh(&print(&format!(
            r#"{{"hookSpecificOutput":{{"hookEventName":"PermissionRequest","decision":{{{members}}}}}}}"#
        )))
    };
    let grants = r#""behavior":"allow","updatedPermissions":[{"type":"setMode","mode":"acceptEdits"}]"#;
    let on = |tool: &str, rule: Value| with(rule, json!({ "matcher": format!("^{tool}$") }));
    let hookd = Hookd::builder()
        .managed(json!([hook("m", "SessionStart", session(r#""watchPaths":["/m"]"#))]))
        .local(json!([
            hook("l", "SessionStart", session(r#""watchPaths":["/l"],"sessionTitle":"l","additionalContext":"c""#)),
            on("trusted", hook("grants", "PermissionRequest", request(grants))),
        ]))
        .shared(json!([
            hook("s", "SessionStart", sh("echo plain text")),
            on("project", hook("grants", "PermissionRequest", request(grants))),
            on(
                "denied",
                hook("denies", "PermissionRequest", request(r#""behavior":"deny","message":"m","interrupt":true"#))
            ),
        ]))
        .start()
        .await;
    assert_eq!(
        said(&hookd.trigger(event("SessionStart").with_payload(json!({ "source": "startup" }))).await),
        json!({
            "verdict": "none", "eventOutput": { "watchPaths": ["/m"], "sessionTitle": "l" },
            "context": ["local/l: c", "shared/s: plain text"],
            "results": ["managed/m none", "local/l none", "shared/s none"], "considered": 3, "matched": 3,
        })
    );
    let ask = async |tool: &str| {
        let answer = said(&hookd.trigger(event("PermissionRequest").with_tool(tool, json!({}))).await);
        json!([answer["verdict"], answer["eventOutput"], answer["halt"], answer["reason"]])
    };
    let permissions = json!({ "updatedPermissions": [{ "type": "setMode", "mode": "acceptEdits" }] });
    assert_eq!(ask("trusted").await, json!(["allow", permissions, null, null]));
    assert_eq!(ask("project").await, json!(["none", null, null, null]), "who may not allow hands out nothing");
    assert_eq!(ask("denied").await, json!(["block", null, "m", "m"]));
}

#[tokio::test]
async fn halts_prompts_and_stops_are_answered_as_the_contract_says() {
    let prompt = |id: &str, script: &str| hook(id, "UserPromptSubmit", sh(script));
    let stop = print(r#"{"continue":false,"stopReason":"enough"}"#);
    let go_on = print(r#"{"hookSpecificOutput":{"hookEventName":"SubagentStop","additionalContext":"run the tests"}}"#);
    let hookd = Hookd::builder()
        .local(json!([
            hook("halts", "PreToolUse", sh(&stop)),
            prompt("context", "echo 'be brief'"),
            prompt(
                "title",
                &print(r#"{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","sessionTitle":"t"}}"#)
            ),
            hook("next", "SubagentStop", sh(&go_on)),
            hook("tree", "WorktreeCreate", sh("echo making; echo /w/tree; echo")),
            hook("fails", "TaskCreated", sh(&stop)),
        ]))
        .shared(json!([prompt("guard", r#"grep -q secret && { echo 'no secrets' >&2; exit 2; }; exit 0"#)]))
        .start()
        .await;
    let halted = said(&hookd.trigger(pre_tool_use("Bash", json!({}))).await);
    assert_eq!(
        halted,
        json!({
            "verdict": "block", "reason": "enough", "decidedBy": "rule local/halts", "halt": "enough",
            "results": ["local/halts block"], "considered": 1, "matched": 1,
        })
    );
    let submit = |prompt: &str| event("UserPromptSubmit").with_payload(json!({ "prompt": prompt }));
    assert_eq!(
        said(&hookd.trigger(submit("hello")).await),
        json!({
            "verdict": "none", "context": ["local/context: be brief"], "eventOutput": { "sessionTitle": "t" },
            "results": ["local/context none", "local/title none", "shared/guard none"], "considered": 3, "matched": 3,
        })
    );
    let refused = said(&hookd.trigger(submit("my secret")).await);
    assert_eq!((&refused["verdict"], &refused["reason"]), (&json!("block"), &json!("no secrets")));
    let forced = said(&hookd.trigger(event("SubagentStop")).await);
    assert_eq!((&forced["verdict"], &forced["reason"]), (&json!("block"), &json!("run the tests")));
    let tree = said(&hookd.trigger(event("WorktreeCreate").with_payload(json!({ "name": "x" }))).await);
    assert_eq!((&tree["verdict"], &tree["eventOutput"]), (&json!("none"), &json!({ "worktreePath": "/w/tree" })));
    let task = hookd.trigger(event("TaskCreated")).await;
    assert_eq!((task.halt, &*task.results[0].reason), (false, "`continue` has no effect on TaskCreated"));
}

#[tokio::test]
async fn an_answer_over_the_limit_loses_outputs_of_the_event_before_its_verdict() {
    let output =
        json!({ "hookSpecificOutput": { "hookEventName": "UserPromptSubmit", "sessionTitle": "t".repeat(60_000) } });
    let hookd = Hookd::builder()
        .managed(json!([hook("long", "UserPromptSubmit", sh("cat output.txt"))]))
        .shared(json!([hook("no", "UserPromptSubmit", sh("echo no >&2; exit 2"))]))
        .file("managed/output.txt", &output.to_string())
        .settings(json!({ "limits": { "message_bytes": 50_000 } }))
        .start()
        .await;
    let answer = hookd.trigger(event("UserPromptSubmit").with_payload(json!({ "prompt": "p" }))).await;
    let value = said(&answer);
    assert_eq!(
        (&value["verdict"], &value["reason"], &value["truncated"]),
        (&json!("block"), &json!("no"), &json!(true))
    );
    assert_eq!(answer.event_output_json, None);
}

/// A file as projects have it: a guard of bash and jq, one of python that asks, a formatter, context for each prompt, and
/// a stop hook that forces the tests to run, once.
const SETTINGS: &str = r#"{
  "permissions": { "allow": ["Bash(npm test:*)"] },
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [ { "type": "command", "timeout": 30,
          "command": "cmd=$(jq -r '.tool_input.command'); if [[ $cmd == *'rm -rf'* ]]; then echo \"refused: $cmd\" >&2; exit 2; fi" } ] },
      { "matcher": "Write|Edit", "hooks": [ { "type": "command",
          "command": "python3 \"$CLAUDE_PROJECT_DIR\"/.claude/hooks/secrets.py" } ] }
    ],
    "PostToolUse": [ { "matcher": "Write|Edit", "hooks": [ { "type": "command",
          "command": "jq -r '.tool_input.file_path' >>\"$CLAUDE_PROJECT_DIR\"/formatted" } ] } ],
    "UserPromptSubmit": [ { "hooks": [ { "type": "command", "command": "echo branch: main" } ] } ],
    "Stop": [ { "hooks": [ { "type": "command",
          "command": "jq -e .stop_hook_active >/dev/null && exit 0; echo '{\"decision\":\"block\",\"reason\":\"run the tests\"}'" } ] } ]
  }
}"#;

const SECRETS_PY: &str = r#"
import json, sys
call = json.load(sys.stdin)
if ".env" in call["tool_input"]["file_path"]:
    print(json.dumps({"hookSpecificOutput": {"hookEventName": call["hook_event_name"],
        "permissionDecision": "ask", "permissionDecisionReason": "é " + call["tool_input"]["file_path"]}}))
"#;

#[tokio::test]
async fn the_hooks_of_a_project_do_what_they_do_alone_and_a_managed_rule_stops_what_they_let_through() {
    let managed = with(
        rule("no-curl", "PreToolUse", hookd_tests::decide(json!({ "verdict": "block", "reason": "no downloads" }))),
        json!({ "when": "tool == 'Bash' && params.command.contains('curl')" }),
    );
    let builder = Hookd::builder()
        .managed(json!([managed]))
        .file("tmp/project/.claude/settings.json", SETTINGS)
        .file("tmp/project/.claude/hooks/secrets.py", SECRETS_PY);
    let file = builder.path("tmp/project/.claude/settings.json");
    let hookd = builder.settings(json!({ "tiers": { "shared": { "sources": [{ "path": file }] } } })).start().await;
    let project = hookd.path("tmp/project");
    let ask = async |request: TriggerRequest| {
        let answer = said(&hookd.trigger(request.in_cwd(&project)).await);
        json!([answer["verdict"], answer["reason"]])
    };
    let bash = |command: &str| pre_tool_use("Bash", json!({ "command": command }));
    assert_eq!(ask(bash("ls")).await, json!(["none", null]));
    assert_eq!(ask(bash("rm -rf /")).await, json!(["block", "refused: rm -rf /"]));
    assert_eq!(ask(bash("curl example.com")).await, json!(["block", "no downloads"]));
    let edit = |tool: &str, path: &str| pre_tool_use(tool, json!({ "file_path": path }));
    assert_eq!(ask(edit("Edit", "/w/a.rs")).await, json!(["none", null]));
    assert_eq!(ask(edit("Write", "/w/.env")).await, json!(["ask", "é /w/.env"]));
    assert_eq!(ask(edit("NotebookEdit", "/w/.env")).await, json!(["none", null]), "another tool");
    ask(post_tool_use("Edit", json!({ "file_path": "/w/a.rs" }), json!({}))).await;
    assert_eq!(fs::read_to_string(project.join("formatted")).unwrap(), "/w/a.rs\n");
    let stop = |active: bool| event("Stop").with_payload(json!({ "stop_hook_active": active }));
    assert_eq!(ask(stop(false)).await, json!(["block", "run the tests"]));
    assert_eq!(ask(stop(true)).await, json!(["none", null]));
    let prompt = event("UserPromptSubmit").with_payload(json!({ "prompt": "hi" })).in_cwd(&project);
    let answer = hookd.trigger(prompt).await;
    assert_eq!(answer.additional_context.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(), ["branch: main"]);
}
