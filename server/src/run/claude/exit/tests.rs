use super::*;
use crate::{
    model::{Event, Protocol},
    run::testing::{failed, gave},
};

fn expect(event: &str) -> Expect {
    let event_name = event.into();
    let event = Event::known(event).unwrap();
    Expect {
        protocol: Protocol::ClaudeCode,
        event,
        event_name,
        has_tool: event.needs_tool(),
        central: false,
        must_decide: false,
        concurrent: false,
        http: false,
        fails_closed: false,
        not_utf8_at: None,
    }
}

fn run(code: i32, stdout: &str, stderr: &str, expect: &Expect) -> Ran {
    let printed = Printed { stdout, cut: None, stderr: stderr.as_bytes() };
    exited(Ran::said(Ok(Arc::default())), code, &printed, expect)
}

fn answer(answer: Answer, output: &str) -> Ran {
    let output = (!output.is_empty()).then(|| output.to_owned());
    Ran { output, ..Ran::said(Ok(Arc::new(answer))) }
}

fn block(reason: &str) -> Answer {
    Answer { verdict: Verdict::Block, reason: reason.to_owned(), ..Answer::default() }
}

const DENY: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"r"}}"#;
const ALLOW: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#;

#[test]
fn case_038_exit_2_blocks_with_stderr_or_a_default_whatever_was_printed() {
    let event = expect("PreToolUse");
    for (stdout, stderr, reason) in [
        ("", " stop \n", "stop"),
        ("", "", "Blocked by hook"),
        ("bin\netc\n{\"decision\":\"block\",\"reason\":\"r\"}", "", "Blocked by hook"),
        (ALLOW, "stop", "stop"),
        ("{}", "stop", "stop"),
        (r#"{"decision":"block"}"#, "stop", "stop"),
        (DENY, "stop", "r"),
    ] {
        assert_eq!(run(2, stdout, stderr, &event), gave(Verdict::Block, reason, stdout), "{stdout} {stderr}");
    }
}

#[test]
fn case_019_exit_2_blocks_also_beside_what_cannot_be_read() {
    for (stdout, why) in [
        (
            r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":7}}"#,
            "`permissionDecision` must be one of allow, deny, ask and defer, not a number `7`",
        ),
        ("{", "output is not one JSON object: EOF while parsing an object at line 1 column 1"),
    ] {
        let ran = run(2, stdout, "stop", &Expect { must_decide: true, ..expect("PreToolUse") });
        let dropped = format!("the output does not count: {why}");
        assert_eq!(ran, Ran { dropped, ..gave(Verdict::Block, "stop", stdout) });
    }
}

#[test]
fn case_021_what_was_printed_beside_exit_2_stays_as_far_as_it_does_not_say_yes() {
    let stdout = r#"{"systemMessage":"s","continue":false,"stopReason":"h","hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"x"}}"#;
    let expected = Answer {
        additional_context: Some("x".to_owned()),
        system_message: Some("s".to_owned()),
        halt: Some("h".to_owned()),
        ..block("stop")
    };
    let must_decide = Expect { must_decide: true, ..expect("PreToolUse") };
    assert_eq!(run(2, stdout, "stop", &must_decide), answer(expected, stdout));

    let stdout = r#"{"terminalSequence":"x","hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{}}}"#;
    let mut expected = block("stop");
    expected.event_output.insert("terminalSequence".to_owned(), "x".into());
    assert_eq!(run(2, stdout, "stop", &expect("Elicitation")), answer(expected, stdout));
}

#[test]
fn case_039_exit_2_is_feedback_or_recorded_where_nothing_can_be_prevented() {
    for event in ["PostToolUse", "PostToolUseFailure", "PermissionRequest", "Stop", "TaskCompleted", "Notification"] {
        assert_eq!(run(2, "", "fix", &expect(event)), gave(Verdict::Block, "fix", ""), "{event}");
    }
    // There stderr is for the person.
    for event in STDERR_FOR_THE_PERSON {
        let told = Answer { system_message: Some("fix".to_owned()), ..block("fix") };
        assert_eq!(run(2, "", "fix", &expect(event)), answer(told, ""), "{event}");
        assert_eq!(run(2, "", " ", &expect(event)), gave(Verdict::Block, "Blocked by hook", ""), "{event}");
    }
}

#[test]
fn case_017_case_059_another_code_is_a_failure() {
    let event = expect("PreToolUse");
    for (code, stdout, stderr, kind, message) in [
        (1, "", "no\nmore", Failure::Exited, "no\nmore"),
        (1, "text", "", Failure::Exited, "Exit code 1"),
        (3, "{", "", Failure::Exited, "Exit code 3"),
        (1, r#"{"decision":"Deny"}"#, "no", Failure::Exited, "no"),
        (127, "", "sh: 1: nope: not found", Failure::DidNotStart, "sh: 1: nope: not found"),
        (126, "", "", Failure::DidNotStart, "Exit code 126"),
    ] {
        assert_eq!(run(code, stdout, stderr, &event), failed(kind, message), "{code} {stdout}");
    }
    for code in [1, 2, 127] {
        assert_eq!(run(code, "", "no", &expect("WorktreeCreate")), gave(Verdict::Block, "no", ""), "{code}");
    }
}

#[test]
fn case_022_outside_of_2_an_object_decides_and_a_closed_rule_takes_only_what_restricts() {
    let open = expect("PreToolUse");
    let closed = Expect { fails_closed: true, ..expect("PreToolUse") };
    let ask = ALLOW.replace("allow", "ask");
    let halt = r#"{"continue":false}"#;
    for event in [&open, &closed] {
        assert_eq!(run(1, DENY, "x", event), gave(Verdict::Block, "r", DENY));
        assert_eq!(run(127, &ask, "x", event), gave(Verdict::Ask, "", &ask));
        assert_eq!(run(1, halt, "x", event), answer(Answer { halt: Some(String::new()), ..Answer::default() }, halt));
    }
    assert_eq!(run(1, ALLOW, "x", &open), gave(Verdict::Allow, "", ALLOW));
    assert_eq!(run(1, "{}", "x", &open), gave(Verdict::None, "", "{}"));
    for stdout in [ALLOW, "{}"] {
        assert_eq!(run(1, stdout, "x", &closed), failed(Failure::Exited, "x"));
    }
}

#[test]
fn case_079_cut_outputs_and_long_reasons() {
    let event = expect("PreToolUse");
    let cut = |code| {
        let printed = Printed { stdout: r#"{"decision":"approve"}"#, cut: Some(22), stderr: b"stop" };
        exited(Ran::said(Ok(Arc::default())), code, &printed, &event)
    };
    assert_eq!(cut(0), failed(Failure::TooLarge, "output of more than 22 bytes"));
    assert_eq!(cut(2), gave(Verdict::Block, "stop", r#"{"decision":"approve"}"#));
    assert_eq!(cut(1), failed(Failure::Exited, "stop"));
    let long = "x".repeat(5_000_000);
    let reason = format!("{}…", "x".repeat(4096));
    assert_eq!(run(2, "", &long, &event), gave(Verdict::Block, &reason, ""));
}
