use super::*;

fn arrival() -> Arrival {
    Arrival { decision_id: "id".to_owned(), now_ms: 7, traceparent: String::new(), identity: Identity::anonymous() }
}

fn call(tool: &str, params: &str) -> v1::ToolCall {
    v1::ToolCall { tool: tool.to_owned(), params_json: params.to_owned(), ..v1::ToolCall::default() }
}

fn pre_tool_use(params: &str) -> v1::TriggerRequest {
    v1::TriggerRequest {
        event: "PreToolUse".to_owned(),
        tool_call: Some(call("Bash", params)),
        ..v1::TriggerRequest::default()
    }
}

#[track_caller]
fn check_refused(request: v1::TriggerRequest, expected: &[(&str, &str)]) {
    let expected = expected
        .iter()
        .map(|(field, description)| Violation { field: (*field).to_owned(), description: (*description).to_owned() })
        .collect::<Vec<_>>();
    assert_eq!(parse(request, arrival()).map(|_| ()), Err(NotJudged::Invalid(expected)));
}

#[test]
fn case_074_digits_and_key_order_arrive_and_texts_are_on_one_line() {
    let trigger = parse(pre_tool_use("{\n \"id\": 9007199254740993,\n \"a\": 1.0}"), arrival()).unwrap();
    assert_eq!(&*trigger.form.params, r#"{"id":9007199254740993,"a":1.0}"#);
    let trigger = parse(pre_tool_use(""), arrival()).unwrap();
    assert_eq!((&*trigger.form.params, trigger.timestamp_ms), ("{}", 7));
}

#[test]
fn law_11_what_cannot_be_one_event_is_refused() {
    check_refused(
        v1::TriggerRequest { event: "pretooluse".to_owned(), ..pre_tool_use("{}") },
        &[("event", "event `pretooluse` is not known, did you mean `PreToolUse`")],
    );
    check_refused(
        v1::TriggerRequest { tool_call: None, ..pre_tool_use("{}") },
        &[("tool_call", "PreToolUse is about a tool call and needs one")],
    );
    check_refused(
        v1::TriggerRequest { session_id: "a\u{1b}[0m".to_owned(), ..pre_tool_use(r#"{"a":1,"a":2}"#) },
        &[
            ("session_id", "holds control characters: \"a\\u{1b}[0m\""),
            ("tool_call.params_json", "is not JSON: duplicate key `a` at line 1 column 12"),
        ],
    );
    // Terminals take the second set of control characters for commands too.
    check_refused(
        v1::TriggerRequest { tool_call: Some(call("Ba\u{85}sh", "{}")), ..pre_tool_use("{}") },
        &[("tool_call.tool", "holds control characters: \"Ba\\u{85}sh\"")],
    );
    check_refused(pre_tool_use("[1]"), &[("tool_call.params_json", "is an array, not an object")]);
    check_refused(
        v1::TriggerRequest { tool_call: Some(call("", "{}")), ..pre_tool_use("{}") },
        &[("tool_call.tool", "is empty, the name of the tool is needed")],
    );
}

#[test]
fn case_073_a_lone_surrogate_is_refused() {
    assert!(matches!(parse(pre_tool_use(r#"{"a":"\ud800"}"#), arrival()), Err(NotJudged::Invalid(_))));
}

#[test]
fn times_out_of_range_are_refused() {
    let timed = |seconds, nanos| v1::TriggerRequest {
        timestamp: Some(prost_types::Timestamp { seconds, nanos }),
        ..pre_tool_use("{}")
    };
    assert_eq!(parse(timed(1, 999_999_999), arrival()).unwrap().timestamp_ms, 1_999);
    for (seconds, nanos) in [(i64::MAX, 0), (0, -1), (0, 1_000_000_000)] {
        assert!(parse(timed(seconds, nanos), arrival()).is_err());
    }
}

#[test]
fn what_only_handlers_of_the_agents_own_protocol_read_arrives() {
    let mut request = v1::TriggerRequest {
        turn_id: "t1".to_owned(),
        transcript_path: "/t.jsonl".to_owned(),
        permission_mode: "plan".to_owned(),
        model: "m".to_owned(),
        workspace_roots: vec!["/w".to_owned()],
        ..pre_tool_use("{}")
    };
    let tool = |elapsed| v1::ToolCall { error: Some("e".to_owned()), elapsed: Some(elapsed), ..call("Bash", "{}") };
    request.tool_call = Some(tool(prost_types::Duration { seconds: 1, nanos: 5_000_000 }));
    let trigger = parse(request.clone(), arrival()).unwrap();
    let session = Session {
        turn_id: "t1".to_owned(),
        transcript_path: "/t.jsonl".to_owned(),
        permission_mode: "plan".to_owned(),
        model: "m".to_owned(),
        workspace_roots: vec!["/w".to_owned()],
    };
    let tool_call = ToolCall {
        tool: "Bash".to_owned(),
        error: Some("e".to_owned()),
        elapsed: Some(Duration::from_millis(1005)),
        ..ToolCall::default()
    };
    assert_eq!((trigger.session, trigger.tool_call), (session, Some(tool_call)));
    request.tool_call = Some(tool(prost_types::Duration { seconds: -1, nanos: 0 }));
    check_refused(request, &[("tool_call.elapsed", "is not a time from 0 on")]);
}

#[test]
fn subjects_come_from_where_the_table_says() {
    let subject = |event: &str, payload: &str, agent_type: &str| {
        let request = v1::TriggerRequest {
            event: event.to_owned(),
            payload_json: payload.to_owned(),
            caller: Some(v1::Caller { agent_type: agent_type.to_owned(), ..v1::Caller::default() }),
            ..v1::TriggerRequest::default()
        };
        parse(request, arrival()).unwrap().subject().map(str::to_owned)
    };
    assert_eq!(subject("SessionStart", r#"{"source":"startup"}"#, ""), Some("startup".to_owned()));
    assert_eq!(subject("SessionStart", r#"{"source":7}"#, ""), None);
    assert_eq!(subject("SessionStart", "", ""), None);
    assert_eq!(subject("FileChanged", r#"{"file_path":"/a/b/.env"}"#, ""), Some(".env".to_owned()));
    assert_eq!(subject("SubagentStop", r#"{"agent_type":"a"}"#, "b"), Some("b".to_owned()));
    assert_eq!(subject("SubagentStop", r#"{"agent_type":"a"}"#, ""), Some("a".to_owned()));
    assert_eq!(subject("Stop", r#"{"source":"startup"}"#, ""), None);
}

#[test]
fn a_subject_that_is_too_long_is_named_by_its_field() {
    let long = "x".repeat(513);
    let caller = Some(v1::Caller { agent_type: long.clone(), ..v1::Caller::default() });
    let request = |payload: String, caller| v1::TriggerRequest {
        event: "SubagentStop".to_owned(),
        payload_json: payload,
        caller,
        ..v1::TriggerRequest::default()
    };
    let expected = "what matchers test in it has 513 bytes, at most 512 are taken";
    check_refused(request(String::new(), caller), &[("caller.agent_type", expected)]);
    check_refused(request(format!(r#"{{"agent_type":"{long}"}}"#), None), &[("payload_json", expected)]);
}

#[test]
fn what_the_agents_translators_make_of_their_inputs_is_a_request() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors");
    let mut read = 0;
    for agent in hookd_agents::Agent::ALL {
        for file in std::fs::read_dir(vectors.join(agent.name())).unwrap() {
            let path = file.unwrap().path();
            let vector = hookd_json::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let input = hookd_json::to_text(&vector["input"]);
            let call = hookd_agents::read(&hookd_agents::Native {
                agent,
                event: vector["event"].as_str(),
                input: input.as_bytes(),
                transport: hookd_agents::Transport::Command,
            });
            let trigger = parse(call.unwrap().request, arrival()).map(|trigger| trigger.event_name.to_string());
            assert_eq!(trigger.as_deref(), Ok(vector["request"]["event"].as_str().unwrap()), "{}", path.display());
            read += 1;
        }
    }
    assert!(read > 1000, "{read} vectors");
}
