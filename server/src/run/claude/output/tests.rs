use std::sync::Arc;

use hookd_json::Kind;
use proptest::prelude::*;

use super::*;
use crate::model::{Event, Failure, Protocol};

fn expect(event: &str) -> Expect {
    let event_name = Arc::from(event);
    let event = Event::known(event).unwrap_or(Event::unknown(true));
    Expect {
        protocol: Protocol::ClaudeCode,
        event,
        event_name,
        has_tool: event.needs_tool() || event.name.is_empty(),
        central: false,
        must_decide: false,
        concurrent: false,
        http: false,
        fails_closed: false,
        not_utf8_at: None,
    }
}

fn guard(event: &str) -> Expect {
    Expect { central: true, ..expect(event) }
}

#[track_caller]
fn check_answer(text: &str, expect: &Expect, answer: Answer) {
    check_dropped(text, expect, answer, "");
}

#[track_caller]
fn check_dropped(text: &str, expect: &Expect, answer: Answer, dropped: &str) {
    assert_eq!(parse(text, expect), Ok(Parsed { answer, dropped: dropped.to_owned() }), "{} {text}", expect.event_name);
}

#[track_caller]
fn check_bad(text: &str, expect: &Expect, message: &str) {
    assert_eq!(parse(text, expect), Err(Failed::new(Failure::BadOutput, message)), "{} {text}", expect.event_name);
}

fn gives(verdict: Verdict, reason: &str) -> Answer {
    Answer { verdict, reason: reason.to_owned(), ..Answer::default() }
}

fn tells(context: &str) -> Answer {
    Answer { additional_context: Some(context.to_owned()), ..Answer::default() }
}

fn value(text: &str) -> Value {
    hookd_json::parse(text).unwrap()
}

fn outputs(text: &str) -> Map<String, Value> {
    value(text).as_object().unwrap().clone()
}

#[test]
fn what_is_no_utf_8_is_no_answer_and_no_path() {
    let not_utf8 = |event: &str| Expect { not_utf8_at: Some(3), ..expect(event) };
    let bad = "output is not UTF-8 at byte 3";
    check_bad("{\"systemMessage\":\"\u{fffd}\"}", &not_utf8("PreToolUse"), bad);
    check_bad("/w/\u{fffd}", &not_utf8("WorktreeCreate"), bad);
    check_answer("/w/\u{fffd}", &not_utf8("PreToolUse"), Answer::default());
    check_answer("caf\u{fffd}", &not_utf8("SessionStart"), tells("caf\u{fffd}"));
}

/// `hookSpecificOutput` of the event with these members, and nothing else.
fn specific(event: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"hookSpecificOutput":{{"hookEventName":"{event}"{comma}{members}}}}}"#)
}

#[test]
fn case_026_case_034_case_037_silence_and_plain_text_are_no_opinion() {
    for text in ["", " \n", "{}", "\u{feff}{}\n", "hello", "[]", "\"{\"", "42"] {
        check_answer(text, &guard("PreToolUse"), Answer::default());
        check_answer(text, &expect("Stop"), Answer::default());
    }
    check_answer(r#"{"suppressOutput":true,"continue":true}"#, &expect("Stop"), Answer::default());
    check_answer(r#"{"decision":"approve"}"#, &expect("PreToolUse"), gives(Verdict::Allow, ""));
}

#[test]
fn plain_text_is_context_where_the_contract_says_so() {
    for event in ["SessionStart", "UserPromptSubmit", "UserPromptExpansion", "PostModelSwitch"] {
        check_answer(" two\nlines \n", &guard(event), tells("two\nlines"));
        check_answer("", &guard(event), Answer::default());
        check_answer("[1]", &guard(event), tells("[1]"));
    }
    for event in ["Setup", "Stop", "PostToolUse", "SubagentStart", "PreCompact", "SessionEnd"] {
        check_answer("text", &expect(event), Answer::default());
    }
    let path =
        |path: &str| Answer { event_output: outputs(&format!(r#"{{"worktreePath":"{path}"}}"#)), ..Answer::default() };
    check_answer("cloning …\n\u{1b}[1;32m/w/tree\u{1b}[0m\n \n", &expect("WorktreeCreate"), path("/w/tree"));
    check_answer(&specific("WorktreeCreate", r#""worktreePath":"/w""#), &expect("WorktreeCreate"), path("/w"));
}

#[test]
fn case_030_an_answer_behind_text_is_no_answer_and_a_guard_has_failed() {
    let text = "ready\n{\"decision\":\"block\",\"reason\":\"r\"}";
    check_dropped(text, &expect("PreToolUse"), Answer::default(), "JSON after text");
    check_bad(text, &guard("PreToolUse"), "text before a JSON object");
    check_dropped(text, &expect("UserPromptSubmit"), tells(text), "JSON after text");
    check_bad(text, &guard("UserPromptSubmit"), "text before a JSON object");
    // Context may well hold JSON.
    let text = "the settings are\n{\"a\":1}";
    check_answer(text, &guard("UserPromptSubmit"), tells(text));
    check_dropped(text, &guard("SessionStart"), tells(text), "");
}

#[test]
fn case_029_case_031_case_033_case_073_what_is_not_understood_is_a_failure() {
    for (text, message) in [
        (r#"{"a":1}{"decision":"block"}"#, "output is not one JSON object: trailing characters at line 1 column 8"),
        (r#"{"systemMessage":"a"#, "output is not one JSON object: EOF while parsing a string at line 1 column 19"),
        (r#"{"decision":"deny"}"#, "`decision` must be one of approve and block, not a string `\"deny\"`"),
        (r#"{"decision":null}"#, "`decision` must be one of approve and block, not `null`"),
        (r#"{"continue":"false"}"#, "`continue` must be a boolean, not a string `\"false\"`"),
        (r#"{"stopReason":1}"#, "`stopReason` must be a string, not a number `1`"),
        (r#"{"reason":[]}"#, "`reason` must be a string, not an array `[]`"),
        (r#"{"suppressOutput":1}"#, "`suppressOutput` must be a boolean, not a number `1`"),
        (r#"{"hookSpecificOutput":"x"}"#, "`hookSpecificOutput` must be an object, not a string `\"x\"`"),
    ] {
        check_bad(text, &expect("PreToolUse"), message);
    }
    for (word, seen) in [
        (r#""Deny""#, "a string `\"Deny\"`"),
        (r#""maybe""#, "a string `\"maybe\"`"),
        (r#""block""#, "a string `\"block\"`"),
        (r#""""#, "a string `\"\"`"),
        ("7", "a number `7`"),
        ("null", "`null`"),
    ] {
        check_bad(
            &specific("PreToolUse", &format!(r#""permissionDecision":{word}"#)),
            &expect("PreToolUse"),
            &format!("`permissionDecision` must be one of allow, deny, ask and defer, not {seen}"),
        );
    }
    assert!(parse(r#"{"reason":"\ud800"}"#, &expect("Stop")).is_err());
}

#[test]
fn case_023_a_key_that_decides_in_the_wrong_place_is_a_failure() {
    for (text, message) in [
        (
            r#"{"permissionDecision":"deny","permissionDecisionReason":"r"}"#,
            "misplaced key `permissionDecision`: it belongs into `hookSpecificOutput`",
        ),
        (r#"{"updatedInput":{}}"#, "misplaced key `updatedInput`: it belongs into `hookSpecificOutput`"),
        (r#"{"blocked":true}"#, "misplaced key `blocked`: this rule speaks claude-code, not hookd's own protocol"),
    ] {
        check_bad(text, &expect("PreToolUse"), message);
    }
    check_bad(
        &specific("Stop", r#""decision":"block""#),
        &expect("Stop"),
        "misplaced key `hookSpecificOutput.decision`: it belongs beside it",
    );
    check_bad(
        &specific("PostToolUse", r#""permissionDecision":"deny""#),
        &expect("PostToolUse"),
        "`permissionDecision` on PostToolUse, which has none",
    );
    check_dropped(
        r#"{"additionalContext":"x","async":true,"status":"ok"}"#,
        &expect("PreToolUse"),
        Answer::default(),
        "`additionalContext` is read in `hookSpecificOutput` alone; \
         `async` has no effect: the answer was waited for; unknown key `status`",
    );
}

#[test]
fn whatever_is_printed_is_read_in_bounded_time_and_told_of_in_few_words() {
    let keys = (0..10_000).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",");
    let named = (0..8).map(|n| format!("unknown key `k{n}`")).collect::<Vec<_>>().join("; ");
    let dropped = format!("{named}; and 9992 more");
    check_dropped(&format!("{{{keys}}}"), &expect("Stop"), Answer::default(), &dropped);
    let braces = "text\n".to_owned() + &"{\n".repeat(500_000);
    check_answer(&braces, &guard("UserPromptSubmit"), tells(braces.trim()));
}

#[test]
fn case_025_case_027_output_says_for_which_event_it_is() {
    check_bad(
        r#"{"hookSpecificOutput":{"additionalContext":"hi"}}"#,
        &expect("PostToolUse"),
        "`hookSpecificOutput` needs `hookEventName`, which would be `PostToolUse`",
    );
    check_bad(
        r#"{"hookSpecificOutput":{"hookEventName":1}}"#,
        &expect("Stop"),
        "`hookEventName` must be `Stop`, not a number `1`",
    );
    check_dropped(
        &specific("PreToolUse", r#""permissionDecision":"allow","additionalContext":"x""#),
        &expect("PostToolUse"),
        Answer::default(),
        "output for the event `PreToolUse`",
    );
    for members in [r#""permissionDecision":"deny""#, r#""decision":{"behavior":"deny"}"#, r#""decision":"block""#] {
        check_bad(
            &specific("pretooluse", members),
            &expect("PreToolUse"),
            "a decision for the event `pretooluse` on PreToolUse",
        );
    }
    // An event that hookd does not know has its own name.
    check_answer(
        &specific("PreDeploy", r#""permissionDecision":"deny""#),
        &expect("PreDeploy"),
        gives(Verdict::Block, "Blocked by hook"),
    );
}

#[test]
fn decisions_before_a_tool_runs() {
    for (members, verdict, reason) in [
        (r#""permissionDecision":"allow","permissionDecisionReason":"r""#, Verdict::Allow, "r"),
        (r#""permissionDecision":"deny","permissionDecisionReason":"r""#, Verdict::Block, "r"),
        (r#""permissionDecision":"deny""#, Verdict::Block, "Blocked by hook"),
        (r#""permissionDecision":"ask","permissionDecisionReason":"r""#, Verdict::Ask, "r"),
        (r#""permissionDecision":"defer""#, Verdict::Defer, ""),
        ("", Verdict::None, ""),
    ] {
        check_answer(&specific("PreToolUse", members), &guard("PreToolUse"), gives(verdict, reason));
    }
    // Of both forms the stricter one counts.
    let both = |legacy: &str, word: &str| {
        let inner =
            format!(r#"{{"hookEventName":"PreToolUse","permissionDecision":"{word}","permissionDecisionReason":"s"}}"#);
        format!(r#"{{"decision":"{legacy}","reason":"l","hookSpecificOutput":{inner}}}"#)
    };
    check_answer(&both("approve", "deny"), &expect("PreToolUse"), gives(Verdict::Block, "s"));
    check_answer(&both("block", "allow"), &expect("PreToolUse"), gives(Verdict::Block, "l"));
    check_answer(&both("block", "deny"), &expect("PreToolUse"), gives(Verdict::Block, "s"));

    let params = Some(value(r#"{"command":"ls","n":1.0}"#));
    let rewrite = r#""updatedInput":{"command":"ls","n":1.0}"#;
    check_answer(
        &specific("PreToolUse", rewrite),
        &expect("PreToolUse"),
        Answer { modified_params: params.clone(), ..Answer::default() },
    );
    check_answer(
        &specific("PreToolUse", &format!(r#"{rewrite},"permissionDecision":"ask""#)),
        &expect("PreToolUse"),
        Answer { modified_params: params, ..gives(Verdict::Ask, "") },
    );
    check_dropped(
        &specific("PreToolUse", &format!(r#"{rewrite},"permissionDecision":"defer""#)),
        &expect("PreToolUse"),
        gives(Verdict::Defer, ""),
        "`updatedInput` has no effect beside `defer`",
    );
    check_bad(
        &specific("PreToolUse", r#""updatedInput":"ls""#),
        &expect("PreToolUse"),
        "`updatedInput` must be an object, not a string `\"ls\"`",
    );
    check_bad(
        &specific("PostToolUse", rewrite),
        &expect("PostToolUse"),
        "`updatedInput` on PostToolUse, which has none",
    );
}

#[test]
fn the_commands_of_skills_and_switches_of_models_have_their_own_words() {
    for (members, verdict, reason) in [
        (r#""permissionDecision":"allow""#, Verdict::None, ""),
        (r#""permissionDecision":"ask","permissionDecisionReason":"r""#, Verdict::Block, "r"),
        (r#""permissionDecision":"defer""#, Verdict::Block, "Blocked by hook"),
        (
            r#""permissionDecision":"allow","updatedInput":{"command":"ls"}"#,
            Verdict::Block,
            "the hook wants another command, which cannot be put in the place of this one",
        ),
    ] {
        let event = "PreSkillShellCommand";
        check_answer(&specific(event, members), &expect(event), gives(verdict, reason));
    }
    let event = "PreModelSwitch";
    check_answer(&specific(event, r#""permissionDecision":"ask""#), &expect(event), gives(Verdict::Ask, ""));
    check_bad(
        &specific(event, r#""permissionDecision":"defer""#),
        &expect(event),
        "`permissionDecision` must be one of allow, deny and ask, not a string `\"defer\"`",
    );
}

#[test]
fn requests_for_a_permission_are_answered_by_an_object() {
    let event = "PermissionRequest";
    let decision = |members: &str| specific(event, &format!(r#""decision":{{{members}}}"#));
    check_answer(
        &decision(r#""behavior":"allow","updatedInput":{"a":1},"updatedPermissions":[{"type":"setMode"}]"#),
        &expect(event),
        Answer {
            modified_params: Some(value(r#"{"a":1}"#)),
            event_output: outputs(r#"{"updatedPermissions":[{"type":"setMode"}]}"#),
            ..gives(Verdict::Allow, "")
        },
    );
    check_answer(&decision(r#""behavior":"deny","message":"m""#), &expect(event), gives(Verdict::Block, "m"));
    check_answer(
        &decision(r#""behavior":"deny","message":"m","interrupt":true,"updatedPermissions":[]"#),
        &expect(event),
        Answer { halt: Some("m".to_owned()), ..gives(Verdict::Block, "m") },
    );
    for (members, message) in [
        ("", "`behavior` must be one of allow and deny, not `null`"),
        (r#""behavior":"ask""#, "`behavior` must be one of allow and deny, not a string `\"ask\"`"),
        (r#""behavior":"allow","updatedInput":[]"#, "`updatedInput` must be an object, not an array `[]`"),
        (r#""behavior":"allow","updatedPermissions":{}"#, "`updatedPermissions` must be an array, not an object `{}`"),
    ] {
        check_bad(&decision(members), &expect(event), message);
    }
    // Who blocks does not hand out permissions.
    let inner = r#"{"hookEventName":"PermissionRequest","decision":{"behavior":"allow","updatedPermissions":[]}}"#;
    check_answer(
        &format!(r#"{{"decision":"block","reason":"r","hookSpecificOutput":{inner}}}"#),
        &expect(event),
        gives(Verdict::Block, "r"),
    );
}

#[test]
fn results_are_replaced_whatever_the_tool() {
    for key in ["updatedToolOutput", "updatedMCPToolOutput"] {
        check_answer(
            &specific("PostToolUse", &format!(r#""{key}":{{"stdout":"x"}},"classifierContext":"c""#)),
            &expect("PostToolUse"),
            Answer {
                modified_result: Some(value(r#"{"stdout":"x"}"#)),
                event_output: outputs(r#"{"classifierContext":"c"}"#),
                ..Answer::default()
            },
        );
    }
    check_answer(
        &specific("PostToolUse", r#""updatedToolOutput":null,"updatedMCPToolOutput":1"#),
        &expect("PostToolUse"),
        Answer { modified_result: Some(value("1")), ..Answer::default() },
    );
    check_answer(r#"{"decision":"block","reason":"fix"}"#, &expect("PostToolUse"), gives(Verdict::Block, "fix"));
}

#[test]
fn an_answer_in_the_persons_place_is_an_allow() {
    for event in ["Elicitation", "ElicitationResult"] {
        check_answer(
            &specific(event, r#""action":"accept","content":{"name":"x"}"#),
            &expect(event),
            Answer {
                event_output: outputs(r#"{"action":"accept","content":{"name":"x"}}"#),
                ..gives(Verdict::Allow, "")
            },
        );
        for action in ["decline", "cancel"] {
            check_answer(
                &specific(event, &format!(r#""action":"{action}","content":{{}}"#)),
                &expect(event),
                Answer {
                    event_output: outputs(&format!(r#"{{"action":"{action}"}}"#)),
                    ..gives(Verdict::Block, "Blocked by hook")
                },
            );
        }
        check_bad(
            &specific(event, r#""action":"yes""#),
            &expect(event),
            "`action` must be one of accept, decline and cancel, not a string `\"yes\"`",
        );
        let inner = format!(r#"{{"hookEventName":"{event}","action":"accept","content":{{}}}}"#);
        check_answer(
            &format!(r#"{{"decision":"block","hookSpecificOutput":{inner}}}"#),
            &expect(event),
            gives(Verdict::Block, "Blocked by hook"),
        );
    }
}

#[test]
fn outputs_without_a_field_of_their_own_are_passed_on_by_name() {
    for (event, members) in [
        ("SessionStart", r#""initialUserMessage":"go","sessionTitle":"t","watchPaths":["/a"],"reloadSkills":true"#),
        ("UserPromptSubmit", r#""sessionTitle":"t","suppressOriginalPrompt":true"#),
        ("UserPromptExpansion", r#""suppressOriginalPrompt":false"#),
        ("MessageDisplay", r#""displayContent":"…""#),
        ("PermissionDenied", r#""retry":true"#),
        ("CwdChanged", r#""watchPaths":[]"#),
        ("FileChanged", r#""watchPaths":["/a","/b"]"#),
    ] {
        check_answer(
            &specific(event, members),
            &expect(event),
            Answer { event_output: outputs(&format!("{{{members}}}")), ..Answer::default() },
        );
    }
    check_bad(
        &specific("SessionStart", r#""watchPaths":[1]"#),
        &expect("SessionStart"),
        "`watchPaths` must be an array of strings, not an array `[1]`",
    );
    check_bad(
        &specific("PermissionDenied", r#""retry":"yes""#),
        &expect("PermissionDenied"),
        "`retry` must be a boolean, not a string `\"yes\"`",
    );
    check_dropped(
        &specific("Stop", r#""watchPaths":["/a"]"#),
        &expect("Stop"),
        Answer::default(),
        "unknown key `hookSpecificOutput.watchPaths`",
    );
    check_answer(
        r#"{"terminalSequence":"\u001b]9;done\u0007","systemMessage":"s"}"#,
        &expect("Notification"),
        Answer {
            system_message: Some("s".to_owned()),
            event_output: outputs(r#"{"terminalSequence":"\u001b]9;done\u0007"}"#),
            ..Answer::default()
        },
    );
}

#[test]
fn continue_false_halts_where_the_contract_lets_it() {
    let text = r#"{"continue":false,"stopReason":"enough"}"#;
    let halts = Answer { halt: Some("enough".to_owned()), ..Answer::default() };
    for event in
        ["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart", "PostToolBatch", "TeammateIdle"]
    {
        check_answer(text, &expect(event), halts.clone());
    }
    check_answer(r#"{"continue":false}"#, &expect("Stop"), Answer { halt: Some(String::new()), ..Answer::default() });
    check_answer(r#"{"stopReason":"enough"}"#, &expect("Stop"), Answer::default());
    for event in HALT_HAS_NO_EFFECT {
        check_dropped(text, &expect(event), Answer::default(), &format!("`continue` has no effect on {event}"));
    }
}

#[test]
fn context_makes_an_agent_that_wants_to_stop_go_on() {
    let context = |event: &str| specific(event, r#""additionalContext":"run the tests""#);
    for event in ["Stop", "SubagentStop"] {
        check_answer(&context(event), &expect(event), gives(Verdict::Block, "run the tests"));
    }
    for event in ["PreToolUse", "PostToolUseFailure", "SubagentStart", "Notification", "Setup"] {
        check_answer(&context(event), &expect(event), tells("run the tests"));
    }
    let inner = r#"{"hookEventName":"Stop","additionalContext":"c"}"#;
    check_answer(
        &format!(r#"{{"decision":"block","reason":"r","hookSpecificOutput":{inner}}}"#),
        &expect("Stop"),
        Answer { additional_context: Some("c".to_owned()), ..gives(Verdict::Block, "r") },
    );
    check_answer(
        &format!(r#"{{"continue":false,"hookSpecificOutput":{inner}}}"#),
        &expect("Stop"),
        Answer { halt: Some(String::new()), ..tells("c") },
    );
    check_answer(r#"{"decision":"block"}"#, &expect("Stop"), gives(Verdict::Block, "Blocked by hook"));
    check_answer(r#"{"decision":"approve","reason":"r"}"#, &expect("Stop"), gives(Verdict::None, "r"));
}

#[test]
fn case_085_of_an_http_body_only_nothing_or_an_object_is_an_answer() {
    let http = Expect { http: true, ..expect("UserPromptSubmit") };
    check_answer("", &http, Answer::default());
    check_answer(r#"{"decision":"block","reason":"r"}"#, &http, gives(Verdict::Block, "r"));
    for text in ["ok", "[]", "null"] {
        check_bad(text, &http, "the body is neither empty nor a JSON object");
    }
}

#[test]
fn case_097_a_rule_that_must_decide_or_may_not_rewrite_is_held_to_it() {
    let must = |event: &str| Expect { must_decide: true, ..expect(event) };
    let message = "no decision: `mustDecide` wants `decision` or `permissionDecision`";
    for text in ["", "{}", "text", r#"{"reason":"r"}"#, &specific("PreToolUse", r#""additionalContext":"c""#)] {
        check_bad(text, &must("PreToolUse"), message);
    }
    check_answer(r#"{"decision":"approve"}"#, &must("Stop"), Answer::default());
    check_answer(
        &specific("PreToolUse", r#""permissionDecision":"allow""#),
        &must("PreToolUse"),
        gives(Verdict::Allow, ""),
    );
    check_answer(
        r#"{"continue":false}"#,
        &must("PreToolUse"),
        Answer { halt: Some(String::new()), ..Answer::default() },
    );
    check_bad(
        &specific("PreToolUse", r#""updatedInput":{}"#),
        &Expect { concurrent: true, ..expect("PreToolUse") },
        "a rewrite, which a `concurrent` rule may not make",
    );
}

#[test]
fn case_078_long_context_stays_whole() {
    let long = "é".repeat(10_001);
    check_answer(
        &specific("PreToolUse", &format!(r#""additionalContext":"{long}""#)),
        &expect("PreToolUse"),
        tells(&long),
    );
}

proptest! {
    /// Never a panic, and a broken object is never taken for silence.
    #[test]
    fn whatever_is_printed_is_understood_or_a_failure(
        text in r#"(\{|\[)?("(decision|hookSpecificOutput|continue|hookEventName)":?)?[ -~\n]{0,40}\}?"#,
        central: bool,
        event in 0..34_usize,
    ) {
        let expect = Expect { central, ..expect(hookd_rules::EVENTS[event].name) };
        let parsed = parse(&text, &expect);
        if is_object(&text) && hookd_json::check(trim(&text)) != Ok(Kind::Object) {
            prop_assert!(parsed.is_err());
        }
    }
}
