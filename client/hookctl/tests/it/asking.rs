//! `trigger`, `explain`, `rules`, `status` and `reload` against a server.

use hookd_client::proto::{Caller, ToolCall, TriggerRequest, TriggerResponse, Verdict};
use tonic::Status;

use crate::{Ran, hookctl, server::TestServer};

fn answer(verdict: i32) -> TriggerResponse {
    TriggerResponse {
        verdict,
        reason: "because".into(),
        decision_id: "d1".into(),
        policy_revision: "r1".into(),
        ..TriggerResponse::default()
    }
}

fn ask(server: &TestServer, args: &[&str], input: &str) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    hookctl(directory.path(), &[("HOOKD_ADDRESS", &server.address.to_string())], args, input)
}

#[test]
fn the_exit_code_is_the_verdict() {
    let exits = |event: &str, answer: TriggerResponse| {
        let server = TestServer::answering(Ok(answer));
        let ran = ask(&server, &["trigger", event, "--tool", "bash"], "");
        assert_eq!(ran.err, "");
        ran.exit
    };
    assert_eq!([1, 2, 3, 4, 5].map(|verdict| exits("PreToolUse", answer(verdict))), [0, 0, 3, 3, 2]);
    assert_eq!(exits("PreToolUse", TriggerResponse { halt: true, ..answer(1) }), 2);
    assert_eq!(exits("Stop", answer(5)), 2);
    // Law 11: what is not known takes the safe side.
    assert_eq!([exits("PreToolUse", answer(42)), exits("Stop", answer(42))], [2, 0]);
}

#[test]
fn the_picture_is_for_a_person_and_has_colours_only_when_asked() {
    let server = TestServer::answering(Ok(answer(Verdict::Block.into())));
    let plain = "BLOCK  PreToolUse bash\n  because\n  no rule is for this event\n\ndecision d1  revision r1\n";
    let ran = ask(&server, &["trigger", "PreToolUse", "--tool", "bash"], "");
    assert_eq!(ran, Ran { exit: 2, out: plain.into(), err: String::new() });
    let ran = ask(&server, &["trigger", "PreToolUse", "--tool", "bash", "--color", "always"], "");
    assert!(ran.out.starts_with("\u{1b}[1;31mBLOCK\u{1b}[0m  PreToolUse bash\n"), "{}", ran.out);
}

#[test]
fn the_json_is_one_object_with_the_digits_of_the_answer() {
    let modified = TriggerResponse {
        modified_params_json: Some(r#"{"id":9007199254740993,"n":1.0}"#.into()),
        ..answer(Verdict::Allow.into())
    };
    let server = TestServer::answering(Ok(modified));
    let ran = ask(&server, &["--output", "json", "trigger", "PreToolUse", "--tool", "bash"], "");
    assert_eq!((ran.exit, ran.err.as_str()), (0, ""));
    let start = r#"{"verdict":"allow","reason":"because","modified_params_json":{"id":9007199254740993,"n":1.0},"#;
    assert!(ran.out.starts_with(start), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 1);
    hookd_json::parse(ran.out.trim_end()).unwrap();
}

#[test]
fn flags_become_the_request() {
    let server = TestServer::answering(Ok(answer(1)));
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "PostToolUse",
        "--tool",
        "edit_file",
        "--params",
        r#"{"id": 9007199254740993}"#,
        "--result",
        "1.0",
        "--tool-use-id",
        "t1",
        "--session",
        "s1",
        "--payload",
        r#"{"a":1}"#,
        "--request-id",
        "q1",
        "--agent",
        "ag",
        "--agent-type",
        "reviewer",
        "--project",
        "p",
        "--user",
        "u",
        "--label",
        "team=x=y",
        "--label",
        "k=",
        "--expect-revision",
        "r7",
    ];
    let expected = TriggerRequest {
        event: "PostToolUse".into(),
        session_id: "s1".into(),
        tool_call: Some(ToolCall {
            tool: "edit_file".into(),
            params_json: r#"{"id": 9007199254740993}"#.into(),
            result_json: Some("1.0".into()),
            tool_use_id: "t1".into(),
            ..ToolCall::default()
        }),
        payload_json: r#"{"a":1}"#.into(),
        caller: Some(Caller {
            agent: "ag".into(),
            agent_type: "reviewer".into(),
            project: "p".into(),
            user: "u".into(),
            labels: [("team".to_owned(), "x=y".to_owned()), ("k".to_owned(), String::new())].into(),
            ..Caller::default()
        }),
        request_id: "q1".into(),
        cwd: directory.path().canonicalize().unwrap().to_str().unwrap().into(),
        expected_policy_revision: "r7".into(),
        ..TriggerRequest::default()
    };
    let address = server.address.to_string();
    for subcommand in ["trigger", "explain"] {
        let args = [&[subcommand, "--address", &address], flags.as_slice()].concat();
        assert_eq!(hookctl(directory.path(), &[], &args, "").exit, 0);
        let mut asked = server.asked();
        assert!(asked.timestamp.take().is_some());
        assert_eq!(asked, expected);
    }
}

#[test]
fn a_whole_context_comes_from_standard_input_or_a_file() {
    let server = TestServer::answering(Ok(answer(1)));
    let context = r#"{"event":"PreToolUse","sessionId":"s1","timestamp":1700000000123,
        "toolCall":{"tool":"bash","params":{"n":1e2}},"cwd":"/p"}"#;
    let expected = TriggerRequest {
        event: "PreToolUse".into(),
        session_id: "s1".into(),
        timestamp: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 123_000_000 }),
        tool_call: Some(ToolCall { tool: "bash".into(), params_json: r#"{"n":1e2}"#.into(), ..ToolCall::default() }),
        cwd: "/p".into(),
        ..TriggerRequest::default()
    };
    assert_eq!(ask(&server, &["trigger", "--input", "-"], context).exit, 0);
    assert_eq!(server.asked(), expected);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("context.json");
    std::fs::write(&file, context).unwrap();
    let ran = ask(&server, &["explain", "--input", file.to_str().unwrap(), "--cwd", "/q"], "");
    assert_eq!(ran.exit, 0);
    assert_eq!(server.asked(), TriggerRequest { cwd: "/q".into(), ..expected });
}

#[test]
fn a_status_of_hookd_is_one_line_and_exit_1() {
    let mut status = Status::invalid_argument("event `pretooluse` is not known, did you mean `PreToolUse`");
    status.metadata_mut().insert("hookd-decision-id", "d9".parse().unwrap());
    let server = TestServer::answering(Err(status));
    let ran = ask(&server, &["trigger", "pretooluse"], "");
    let err = format!(
        "hookctl: hookd at {} refused the call: event `pretooluse` is not known, did you mean `PreToolUse` \
         (INVALID_ARGUMENT)\n",
        server.address
    );
    assert_eq!(ran, Ran { exit: 1, out: String::new(), err });
}

#[test]
fn what_is_loaded_can_be_looked_at_and_reloaded() {
    let server = TestServer::reloading(true);
    let ran = ask(&server, &["status"], "");
    assert_eq!(ran.out, "READY  hookd 9.9.9\n  1 rule in force\n\nrevision \n");
    assert_eq!(ran.exit, 0);
    let ran = ask(&server, &["rules", "--event", "PreToolUse"], "");
    let table = "  TIER     RULE   EVENTS\n  managed  guard  PreToolUse\n\n1 rule for PreToolUse\nrevision r1\n";
    assert_eq!((ran.exit, ran.out.as_str()), (0, table));
    let ran = ask(&server, &["explain", "PreDeploy"], "");
    let picture = "0 of 0 rules would run  PreDeploy\n  a block means: it does not happen\n\nrevision \n";
    assert_eq!((ran.exit, ran.out.as_str()), (0, picture));
    let ran = ask(&server, &["reload"], "");
    assert_eq!((ran.exit, ran.out.as_str()), (0, "RELOADED  the rules in force are the same\n\nrevision r2\n"));
    for subcommand in ["status", "rules", "reload"] {
        let ran = ask(&server, &[subcommand, "--output", "json"], "");
        assert!(matches!(hookd_json::check(ran.out.trim_end()), Ok(hookd_json::Kind::Object)), "{}", ran.out);
    }
}

#[test]
fn a_reload_that_is_refused_exits_1() {
    let ran = ask(&TestServer::reloading(false), &["reload"], "");
    let text = "NOT IN ORDER  the rules in force are the same\n\nrevision r2\n";
    assert_eq!(ran, Ran { exit: 1, out: text.into(), err: String::new() });
}
