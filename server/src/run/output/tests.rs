use proptest::prelude::*;

use super::*;

fn expect(event: &str) -> Expect {
    let event_name = event.into();
    let event = Event::known(event).unwrap();
    Expect {
        protocol: Protocol::Native,
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

fn guard(event: &str) -> Expect {
    Expect { central: true, ..expect(event) }
}

#[track_caller]
fn check_answer(text: &str, expect: Expect, answer: Answer) {
    assert_eq!(parse(text, &expect), Ok(Parsed { answer, dropped: String::new() }), "{text}");
}

#[track_caller]
fn check_bad(text: &str, expect: Expect, message: &str) {
    assert_eq!(parse(text, &expect), Err(Failed::new(Failure::BadOutput, message)), "{text}");
}

fn object(text: &str) -> Option<Value> {
    Some(hookd_json::parse(text).unwrap())
}

fn gives(verdict: Verdict, reason: &str) -> Answer {
    Answer { verdict, reason: reason.to_owned(), ..Answer::default() }
}

#[test]
fn case_026_case_034_case_037_silence_is_no_opinion_and_allow_is_allow() {
    for text in
        ["", " \n", "{}", "{}\n", "\u{feff}{}", "hello", "[]", "42", "null", r#"{"other":{"decision":"block"}}"#]
    {
        check_answer(text, expect("PreToolUse"), Answer::default());
    }
    for text in ["", "{}", "hello", "[1]"] {
        check_answer(text, guard("PreToolUse"), Answer::default());
    }
    check_answer(r#"{"decision":"allow"}"#, expect("PreToolUse"), gives(Verdict::Allow, ""));
}

#[test]
fn what_is_no_utf_8_is_text_and_never_an_answer() {
    let read = |bytes: &[u8]| {
        let mut expect = expect("PreToolUse");
        let text = expect.text(bytes).into_owned();
        parse(&text, &expect).map(|parsed| parsed.answer)
    };
    let bad = Err(Failed::new(Failure::BadOutput, "output is not UTF-8 at byte 28"));
    assert_eq!(read(b" {\"modifiedParams\":{\"path\":\"\xe9\"}}"), bad);
    assert_eq!(read(b"caf\xe9"), Ok(Answer::default()));
    // What is UTF-8 stays what it is, U+FFFD included.
    let rewrite = Answer { modified_params: object("{\"path\":\"\u{fffd}\"}"), ..Answer::default() };
    assert_eq!(read("{\"modifiedParams\":{\"path\":\"\u{fffd}\"}}".as_bytes()), Ok(rewrite));
}

#[test]
fn every_decision_and_the_most_restrictive_of_two() {
    for (text, verdict, reason) in [
        (r#"{"decision":"ask","reason":"r"}"#, Verdict::Ask, "r"),
        (r#"{"decision":"defer"}"#, Verdict::Defer, ""),
        (r#"{"decision":"block","reason":"r","blockReason":"b"}"#, Verdict::Block, "r"),
        (r#"{"decision":"block"}"#, Verdict::Block, "Blocked by hook"),
        (r#"{"blocked":true}"#, Verdict::Block, "Blocked by hook"),
        (r#"{"blocked":true,"reason":""}"#, Verdict::Block, "Blocked by hook"),
        (r#"{"blocked":true,"blockReason":"b","reason":""}"#, Verdict::Block, "b"),
        (r#"{"blocked":true,"decision":"allow"}"#, Verdict::Block, "Blocked by hook"),
        (r#"{"blocked":false,"decision":"block","reason":"r"}"#, Verdict::Block, "r"),
        (r#"{"blocked":false,"decision":"allow"}"#, Verdict::Allow, ""),
        (r#"{"blocked":false,"blockReason":"b"}"#, Verdict::None, "b"),
    ] {
        check_answer(text, expect("PreToolUse"), gives(verdict, reason));
        check_answer(&format!("\n {text} \n"), guard("Stop"), gives(verdict, reason));
    }
}

#[test]
fn case_033_an_unknown_decision_is_a_failure() {
    for (word, seen) in
        [(r#""Deny""#, "Deny"), (r#""maybe""#, "maybe"), (r#""""#, ""), (r#""none""#, "none"), (r#""ALLOW""#, "ALLOW")]
    {
        check_bad(
            &format!(r#"{{"decision":{word}}}"#),
            expect("PreToolUse"),
            &format!(r#"`decision` must be one of allow, ask, defer and block, not a string `"{seen}"`"#),
        );
    }
}

#[test]
fn a_key_of_the_protocol_with_a_wrong_type_is_a_failure() {
    for (text, message) in [
        (r#"{"blocked":"yes"}"#, r#"`blocked` must be a boolean, not a string `"yes"`"#),
        (r#"{"blocked":1}"#, "`blocked` must be a boolean, not a number `1`"),
        (r#"{"blocked":null}"#, "`blocked` must be a boolean, not `null`"),
        (r#"{"decision":true}"#, "`decision` must be one of allow, ask, defer and block, not a boolean `true`"),
        (r#"{"reason":1.50}"#, "`reason` must be a string, not a number `1.50`"),
        (r#"{"blockReason":[]}"#, "`blockReason` must be a string, not an array `[]`"),
        (r#"{"halt":"x"}"#, r#"`halt` must be a boolean, not a string `"x"`"#),
        (r#"{"haltReason":{}}"#, "`haltReason` must be a string, not an object `{}`"),
        (r#"{"additionalContext":0}"#, "`additionalContext` must be a string, not a number `0`"),
        (r#"{"systemMessage":false}"#, "`systemMessage` must be a string, not a boolean `false`"),
        (r#"{"modifiedParams":[1]}"#, "`modifiedParams` must be an object, not an array `[1]`"),
    ] {
        check_bad(text, expect("PreToolUse"), message);
    }
}

#[test]
fn case_029_case_031_case_073_a_broken_object_is_a_failure_with_its_place() {
    for (text, message) in [
        (r#"{"a":1}{"decision":"block"}"#, "trailing characters at line 1 column 8"),
        ("{\"a\":1}\ndone", "trailing characters at line 2 column 1"),
        (r#"{"systemMessage":"a"#, "EOF while parsing a string at line 1 column 19"),
        (r#"{"a":"\ud800"}"#, "unexpected end of hex escape at line 1 column 13"),
        (r#"{"decision":"block","decision":"allow"}"#, "duplicate key `decision` at line 1 column 32"),
    ] {
        check_bad(text, expect("PreToolUse"), &format!("output is not one JSON object: {message}"));
    }
}

#[test]
fn case_030_text_before_an_object_is_plain_text_below_and_a_failure_in_a_guard() {
    for text in
        ["ready\n{\"decision\":\"block\",\"reason\":\"r\"}", "ready\n  {broken", "ready {\"decision\":\"block\"}"]
    {
        let plain = Parsed { answer: Answer::default(), dropped: "JSON after text".to_owned() };
        assert_eq!(parse(text, &expect("PreToolUse")), Ok(plain.clone()));
        assert_eq!(parse(text, &guard("PostToolUse")), Ok(plain), "PostToolUse prevents nothing");
        check_bad(text, guard("PreToolUse"), "text before a JSON object");
        check_bad(text, guard("Stop"), "text before a JSON object");
    }
    check_answer("a } { b", guard("PreToolUse"), Answer::default());
}

#[test]
fn case_081_case_085_an_http_body_of_a_guard_is_empty_or_an_object() {
    for text in ["ok", "not json", "[]", "<html>"] {
        let http = Expect { http: true, ..guard("PreToolUse") };
        check_bad(text, http, "the body is neither empty nor a JSON object");
        check_answer(text, Expect { http: true, ..expect("PreToolUse") }, Answer::default());
        check_answer(text, Expect { http: true, ..guard("PostToolUse") }, Answer::default());
    }
    for text in ["", "\n", "{}"] {
        check_answer(text, Expect { http: true, ..guard("PreToolUse") }, Answer::default());
    }
}

#[test]
fn case_097_case_023_a_guard_that_must_decide_and_does_not_fails() {
    let must = Expect { must_decide: true, ..guard("PreToolUse") };
    for text in [
        "",
        "fine",
        "{}",
        r#"{"permissionDecision":"deny","permissionDecisionReason":"r"}"#,
        r#"{"reason":"r"}"#,
        r#"{"halt":true}"#,
        r#"{"modifiedParams":{}}"#,
    ] {
        check_bad(text, must.clone(), "no decision: `mustDecide` wants `decision` or `blocked`");
    }
    check_answer(r#"{"blocked":false}"#, must.clone(), Answer::default());
    check_answer(r#"{"decision":"allow"}"#, must, gives(Verdict::Allow, ""));
}

#[test]
fn rewrites_only_where_the_event_can_carry_them() {
    let params = r#"{"modifiedParams":{"id":9007199254740993,"n":1.0}}"#;
    let rewrite = Answer { modified_params: object(r#"{"id":9007199254740993,"n":1.0}"#), ..Answer::default() };
    check_answer(params, expect("PreToolUse"), rewrite.clone());
    check_answer(params, expect("PermissionRequest"), rewrite.clone());
    let unknown = Expect { event: Event::unknown(true), has_tool: true, ..expect("Stop") };
    check_answer(params, unknown, rewrite);
    let refused = "`modifiedParams` on an event whose parameters cannot be rewritten";
    check_bad(params, expect("PostToolUse"), refused);
    check_bad(params, expect("Stop"), refused);
    check_bad(params, Expect { has_tool: false, ..expect("PreToolUse") }, refused);

    for result in ["[1]", "\"x\"", "false", "{}"] {
        check_answer(
            &format!(r#"{{"modifiedResult":{result}}}"#),
            expect("PostToolUse"),
            Answer { modified_result: object(result), ..Answer::default() },
        );
    }
    let refused = "`modifiedResult` on an event whose result cannot be rewritten";
    check_bad(r#"{"modifiedResult":1}"#, expect("PreToolUse"), refused);
    check_bad(r#"{"modifiedResult":1}"#, Expect { has_tool: false, ..expect("PostToolUse") }, refused);
    check_answer(r#"{"modifiedParams":null,"modifiedResult":null}"#, expect("Stop"), Answer::default());
}

#[test]
fn halt_and_texts() {
    let halts = |reason: &str| Answer { halt: Some(reason.to_owned()), ..Answer::default() };
    check_answer(r#"{"halt":true}"#, expect("Stop"), halts(""));
    check_answer(r#"{"halt":true,"haltReason":"h"}"#, expect("Stop"), halts("h"));
    check_answer(r#"{"halt":false,"haltReason":"h"}"#, expect("Stop"), Answer::default());
    check_answer(
        r#"{"additionalContext":"c","systemMessage":"s","unknown":[1]}"#,
        expect("SessionStart"),
        Answer { additional_context: Some("c".to_owned()), system_message: Some("s".to_owned()), ..Answer::default() },
    );
}

#[test]
fn case_070_case_078_long_texts_arrive_whole() {
    let reason = "é".repeat(100_000);
    check_answer(
        &format!(r#"{{"decision":"block","reason":"{reason}"}}"#),
        expect("PreToolUse"),
        gives(Verdict::Block, &reason),
    );
    let context = "x".repeat(10_001);
    check_answer(
        &format!(r#"{{"additionalContext":"{context}"}}"#),
        expect("PreToolUse"),
        Answer { additional_context: Some(context), ..Answer::default() },
    );
}

proptest! {
    #[test]
    fn no_text_panics_and_only_allow_allows(
        pieces in proptest::collection::vec(prop_oneof![
            Just("{".to_owned()), Just("}".to_owned()), Just(":".to_owned()), Just(",".to_owned()),
            Just("\"decision\"".to_owned()), Just("\"blocked\"".to_owned()), Just("\"allow\"".to_owned()),
            Just("\"Allow\"".to_owned()), Just("\"block\"".to_owned()), Just("true".to_owned()),
            Just("{\"decision\":".to_owned()), Just("\n".to_owned()), ".{0,6}",
        ], 0..12),
        event in 0..34_usize,
        flags in any::<[bool; 5]>(),
    ) {
        let text = pieces.concat();
        let [has_tool, central, must_decide, concurrent, http] = flags;
        let event = &hookd_rules::EVENTS[event];
        let expect = Expect { event, has_tool, central, must_decide, concurrent, http, ..expect("Stop") };
        if let Ok(parsed) = parse(&text, &expect)
            && parsed.answer.verdict == Verdict::Allow
        {
            prop_assert!(text.contains("\"allow\""), "{}", text);
        }
    }
}
