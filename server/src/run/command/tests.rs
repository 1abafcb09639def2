use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use hookd_rules::{OnError, Program, Shell, ValuePart};

use super::*;
use crate::{
    model::{Tier, Verdict},
    run::testing::{self, LONG, PATH, ask, failed, gave, gist, shell, trigger},
};

#[track_caller]
fn exited(code: i32, ran: Ran) -> Ran {
    Ran { exit_code: Some(code), ..ran }
}

async fn run(rule: Rule) -> Ran {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    gist(ask(&pool, rule, trigger("PreToolUse", r#"{"command":"ls"}"#), LONG).await)
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn argv(tier: Tier, words: &[&str]) -> Rule {
    testing::command(tier, Program::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

#[tokio::test]
async fn case_034_an_answer_is_read_from_stdout_and_kept_trimmed() {
    let line = r#"echo '{"decision":"block","reason":"r"}'; echo noise >&2"#;
    assert_eq!(
        run(shell(Tier::Shared, line)).await,
        exited(0, gave(Verdict::Block, "r", r#"{"decision":"block","reason":"r"}"#))
    );
    assert_eq!(run(shell(Tier::Shared, "echo ' plain '")).await, exited(0, gave(Verdict::None, "", "plain")));
    assert_eq!(run(shell(Tier::Shared, "true")).await, exited(0, gave(Verdict::None, "", "")));
}

#[tokio::test]
async fn case_017_another_exit_code_is_a_failure_with_its_stderr() {
    assert_eq!(run(shell(Tier::Managed, "echo ' no '>&2; exit 1")).await, exited(1, failed(Failure::Exited, "no")));
    assert_eq!(run(shell(Tier::Managed, "exit 2")).await, exited(2, failed(Failure::Exited, "Exit code 2")));
    let long = run(shell(Tier::Managed, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")).await;
    assert_eq!(long, exited(1, failed(Failure::Exited, &format!("{}…", "x".repeat(MESSAGE_BYTES)))));
}

#[tokio::test]
async fn case_059_case_061_a_program_that_is_not_there_did_not_start() {
    let ran = run(shell(Tier::Managed, "no-such-program-of-ours")).await;
    assert_eq!(ran.exit_code, Some(127));
    assert!(ran.launch_suspect());
    assert!(ran.said.unwrap_err().message.contains("no-such-program-of-ours"));

    let ran = run(argv(Tier::Managed, &["no-such-program-of-ours"])).await;
    assert!(ran.launch_suspect());
    assert!(ran.said.unwrap_err().message.contains("no-such-program-of-ours"));

    let ran = run(shell(Tier::Managed, "exit 126")).await;
    let expected = exited(126, failed(Failure::DidNotStart, "Exit code 126"));
    assert_eq!(ran, Ran { looks_unlaunched: true, ..expected });

    let mut rule = shell(Tier::Shared, "true");
    if let hookd_rules::Handler::Command(command) = &mut rule.handler {
        command.cwd = Some("/no/such/directory".into());
    }
    assert!(run(rule).await.said.unwrap_err().message.contains("/no/such/directory"));
}

#[tokio::test]
async fn case_022_whether_a_rule_is_closed_is_what_its_failures_come_to() {
    let line = r#"echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'; exit 1"#;
    for (tier, on_error, tier_on_error, is_closed) in [
        (Tier::Managed, None, OnError::Block, true),
        (Tier::Managed, None, OnError::Allow, false),
        (Tier::Shared, None, OnError::Block, true),
        (Tier::Shared, None, OnError::Allow, false),
        (Tier::Shared, Some(OnError::Block), OnError::Allow, true),
        (Tier::Managed, Some(OnError::Allow), OnError::Block, false),
    ] {
        let claude = Rule { protocol: Protocol::ClaudeCode, on_error, tier_on_error, ..shell(tier, line) };
        let said = run(claude).await.said.map(|answer| answer.verdict).map_err(|failed| failed.kind);
        let expected = if is_closed { Err(Failure::Exited) } else { Ok(Verdict::Allow) };
        assert_eq!(said, expected, "{tier} {on_error:?} {tier_on_error:?}");
    }
}

#[tokio::test]
async fn what_the_caller_keeps_from_running_is_told_from_what_cannot_run() {
    let kept = async |rule: Rule, cwd: &str| {
        let (pool, _ends) = testing::pool(PATH, &[], 8);
        let mut event = trigger("PreToolUse", "{}");
        event.cwd = cwd.to_owned();
        let ran = ask(&pool, rule, event, LONG).await;
        assert_eq!(ran.said.map_err(|failed| failed.kind), Err(Failure::DidNotStart));
        ran.kept_by_caller
    };
    let of_claude = |mut rule: Rule| {
        rule.protocol = Protocol::ClaudeCode;
        rule
    };
    assert!(kept(shell(Tier::Shared, "true"), "/no/such/directory").await);
    assert!(kept(shell(Tier::Shared, "./no-such-program-of-ours"), "/").await);
    assert!(kept(of_claude(argv(Tier::Managed, &["echo", "${CLAUDE_PROJECT_DIR}"])), "").await);
    assert!(!kept(shell(Tier::Managed, "./no-such-program-of-ours"), "/no/such/directory").await);
    let mut elsewhere = shell(Tier::Shared, "true");
    if let hookd_rules::Handler::Command(command) = &mut elsewhere.handler {
        command.cwd = Some("/no/such/directory".into());
    }
    assert!(!kept(elsewhere, "/").await);
}

#[tokio::test]
async fn case_059_programs_are_looked_up_in_the_path_of_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    write_script(&directory.path().join("only-here"), "#!/bin/sh\necho found\n");
    let (pool, _ends) = testing::pool(&format!(".::{}:/bin:/usr/bin", directory.path().display()), &[], 8);
    for rule in [argv(Tier::Managed, &["only-here"]), shell(Tier::Managed, "only-here")] {
        let ran = ask(&pool, rule, trigger("PreToolUse", "{}"), LONG).await;
        assert_eq!(gist(ran), exited(0, gave(Verdict::None, "", "found")));
    }
    // Not where this process would find it, nor in the directory that it runs in.
    let (pool, _ends) = testing::pool(&format!(".::{}", directory.path().display()), &[], 8);
    let ran = ask(&pool, argv(Tier::Shared, &["sh", "-c", "true"]), trigger("PreToolUse", "{}"), LONG).await;
    assert!(ran.launch_suspect(), "{ran:?}");
}

#[tokio::test]
async fn case_102_time_over_and_a_signal_are_told_apart() {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    let granted = Duration::from_millis(300);
    let ran = ask(&pool, shell(Tier::Managed, "sleep 600"), trigger("PreToolUse", "{}"), granted).await;
    // From its start, which is a little after the time began to run.
    assert!(ran.elapsed.unwrap() > Duration::ZERO);
    assert_eq!(gist(ran), failed(Failure::TimedOut, "Timed out after 300ms"));
    let killed = run(shell(Tier::Managed, "kill -9 $$")).await;
    assert_eq!(killed, Ran { signal: Some(9), ..failed(Failure::Killed, "killed by signal 9") });
}

#[tokio::test]
async fn case_077_output_over_the_limit_is_cut_and_is_a_failure() {
    let ran = run(shell(Tier::Managed, "head -c 3000000 /dev/zero | tr '\\0' x")).await;
    let expected = exited(0, failed(Failure::TooLarge, "output of more than 1048576 bytes"));
    assert_eq!(ran, Ran { truncated: true, ..expected });
    let ran = run(shell(Tier::Managed, "head -c 3000000 /dev/zero >&2; echo '{\"decision\":\"allow\"}'")).await;
    let allowed = gave(Verdict::Allow, "", r#"{"decision":"allow"}"#);
    assert_eq!(ran, Ran { truncated: true, ..exited(0, allowed) }, "stderr is no part of the answer");
}

#[tokio::test]
async fn case_030_json_after_a_banner_is_no_answer_and_is_told() {
    let line = r#"echo ready; echo '{"decision":"block","reason":"r"}'"#;
    let plain = exited(0, gave(Verdict::None, "", "ready\n{\"decision\":\"block\",\"reason\":\"r\"}"));
    assert_eq!(run(shell(Tier::Shared, line)).await, Ran { dropped: "JSON after text".to_owned(), ..plain });
    let failed = failed(Failure::BadOutput, "text before a JSON object");
    assert_eq!(run(shell(Tier::Managed, line)).await, exited(0, failed));
}

#[tokio::test]
async fn case_031_case_037_broken_json_is_a_failure_and_silence_is_none() {
    let ran = run(shell(Tier::Shared, r#"printf '{"systemMessage":"a'"#)).await;
    let message = "output is not one JSON object: EOF while parsing a string at line 1 column 19";
    assert_eq!(ran, exited(0, failed(Failure::BadOutput, message)));
}

#[tokio::test]
async fn case_041_case_071_case_074_case_075_the_input_reaches_the_program_unchanged() {
    let mut event = trigger("PreToolUse", r#"{"id":9007199254740993,"n":1,"text":"中"}"#);
    event.payload = format!(r#"{{"stop_hook_active":true,"big":"{}"}}"#, "x".repeat(300 * 1024));
    let expected = {
        let rule = shell(Tier::Shared, "cat");
        let asked = crate::run::input::Asked { rule: &rule, form: &event.form, recheck: false, decision: None };
        String::from_utf8(crate::run::input::line(&event, &asked).unwrap()).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let (pool, _ends) = testing::pool(PATH, &[("LANG", "C")], 8);
    let rule = shell(Tier::Shared, &format!("cat > '{}'", seen.display()));
    let ran = ask(&pool, rule, event, LONG).await;
    assert_eq!(gist(ran), exited(0, gave(Verdict::None, "", "")));
    assert_eq!(fs::read_to_string(seen).unwrap(), expected);
    assert!(expected.contains(r#""id":9007199254740993,"n":1,"text":"中""#));
    assert!(expected.contains(r#""stop_hook_active":true"#));
}

#[tokio::test]
async fn case_103_the_environment_holds_what_is_listed_and_nothing_else() {
    let server = [("API_TOKEN", "x"), ("HOME", "/h"), ("TMPDIR", "/t"), ("PATH", "/evil"), ("HOOKD__LISTEN", "y")];
    let (pool, _ends) = testing::pool(PATH, &server, 8);
    let mut rule = argv(Tier::Managed, &["env"]);
    if let hookd_rules::Handler::Command(command) = &mut rule.handler {
        command.env = vec![
            ("MINE".to_owned(), vec![ValuePart::Text("1".to_owned())]),
            ("HOME".to_owned(), vec![ValuePart::Text("/mine".to_owned())]),
        ];
    }
    let mut event = trigger("PreToolUse", "{}");
    event.cwd = "/somewhere".to_owned();
    let output = ask(&pool, rule, event, LONG).await.output.unwrap();
    let mut seen = output.lines().collect::<Vec<_>>();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            "HOME=/mine",
            "HOOKD_CWD=/somewhere",
            "HOOKD_DECISION_ID=d1",
            "HOOKD_EVENT=PreToolUse",
            "HOOKD_RULE_ID=r1",
            "HOOKD_SESSION_ID=s1",
            "HOOKD_TOOL=Bash",
            "LANG=C.UTF-8",
            "MINE=1",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "PYTHONUTF8=1",
            "TMPDIR=/t",
        ]
    );
}

#[tokio::test]
async fn case_075_a_long_identifier_does_not_keep_a_guard_from_starting() {
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    let mut event = trigger("Stop", "{}");
    event.session_id = "x".repeat(300 * 1024);
    let rule = shell(Tier::Managed, "echo \"${HOOKD_SESSION_ID-absent} ${HOOKD_TOOL-absent}\"");
    let ran = ask(&pool, rule, event, LONG).await;
    assert_eq!(gist(ran), exited(0, gave(Verdict::None, "", "absent absent")));
}

#[tokio::test]
async fn a_file_planted_where_the_caller_works_is_never_run_as_a_managed_guard() {
    let rules = tempfile::tempdir().unwrap();
    let caller = tempfile::tempdir().unwrap();
    write_script(&rules.path().join("guard.sh"), "#!/bin/sh\necho '{\"decision\":\"block\",\"reason\":\"guard\"}'\n");
    for name in ["guard.sh", "sh", "guard"] {
        write_script(&caller.path().join(name), "#!/bin/sh\necho '{\"decision\":\"allow\"}'\n");
    }
    let (pool, _ends) = testing::pool(&format!(".::{PATH}"), &[], 8);
    for tier in Tier::ALL {
        for mut rule in [shell(tier, "./guard.sh"), argv(tier, &["./guard.sh"]), argv(tier, &["sh", "./guard.sh"])] {
            rule.file = Arc::from(rules.path().join("rules.yaml"));
            let mut event = trigger("PreToolUse", "{}");
            event.cwd = caller.path().to_str().unwrap().to_owned();
            let verdict = ask(&pool, rule, event, LONG).await.said.unwrap().verdict;
            let expected = if tier.is_central() { Verdict::Block } else { Verdict::Allow };
            assert_eq!(verdict, expected, "{tier}");
        }
    }
    let mut event = trigger("PreToolUse", "{}");
    event.cwd = caller.path().to_str().unwrap().to_owned();
    let ran = ask(&pool, argv(Tier::Shared, &["guard"]), event, LONG).await;
    assert!(ran.launch_suspect(), "names are looked up in PATH only: {ran:?}");
}

#[tokio::test]
async fn directories_are_the_rules_own_or_the_callers_or_the_servers() {
    let own = tempfile::tempdir().unwrap();
    let server = std::env::current_dir().unwrap();
    let (pool, _ends) = testing::pool(PATH, &[], 8);
    for (tier, cwd, of_caller, expected) in [
        (Tier::Managed, None, "/usr", Path::new("/")),
        (Tier::Managed, Some(own.path()), "/usr", own.path()),
        (Tier::Shared, Some(own.path()), "/usr", own.path()),
        (Tier::Shared, None, "/usr", Path::new("/usr")),
        (Tier::Shared, None, "usr", &server),
        (Tier::Local, None, "", &server),
    ] {
        let mut rule = argv(tier, &["pwd", "-P"]);
        if let hookd_rules::Handler::Command(command) = &mut rule.handler {
            command.cwd = cwd.map(Path::to_owned);
        }
        let mut event = trigger("PreToolUse", "{}");
        event.cwd = of_caller.to_owned();
        let output = ask(&pool, rule, event, LONG).await.output.unwrap();
        assert_eq!(output, fs::canonicalize(expected).unwrap().to_str().unwrap());
    }
}

#[tokio::test]
async fn case_058_a_space_in_the_path_breaks_only_an_unquoted_line_and_leaves_a_trace() {
    let directory = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
    let script = directory.path().join("h.sh");
    write_script(&script, "#!/bin/sh\necho \"$1\"\n");
    let script = script.to_str().unwrap();
    let ran = run(argv(Tier::Shared, &[script, "two words"])).await;
    assert_eq!(ran, exited(0, gave(Verdict::None, "", "two words")));
    let ran = run(shell(Tier::Shared, script)).await;
    assert_eq!((ran.exit_code, ran.launch_suspect()), (Some(127), true));
}

#[tokio::test]
async fn the_shell_is_the_one_that_the_rule_names() {
    let bash = Program::Shell(Shell::Bash, "echo \"${BASH_VERSION:+bash}\"".to_owned());
    assert_eq!(run(testing::command(Tier::Shared, bash)).await, exited(0, gave(Verdict::None, "", "bash")));
}
