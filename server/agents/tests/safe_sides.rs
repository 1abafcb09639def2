//! What agents get where there is no answer of hookd's: the proper block, or the proper nothing (law 11).

#![allow(missing_docs, reason = "a test")]

use hookd_agents::{Agent, Answer, Native, OnUnavailable, Transport, read, unanswered};
use serde_json::json;

const WHY: &str = "connection refused";
const SAID: &str = "hookd gave no decision: connection refused";

fn exit(text: &str) -> Answer {
    Answer { stdout: String::new(), stderr: text.to_owned(), exit_code: 2 }
}

fn stdout(json: serde_json::Value) -> Answer {
    Answer { stdout: json.to_string(), stderr: String::new(), exit_code: 0 }
}

fn denied(event: &str) -> Answer {
    stdout(json!({ "hookSpecificOutput": {
        "hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": SAID } }))
}

/// What is answered to an input of which only this much came.
fn broken(agent: Agent, event: Option<&str>, input: &str, policy: OnUnavailable) -> Answer {
    let native = Native { agent, event, input: input.as_bytes(), transport: Transport::Command };
    let error = read(&native).err();
    assert!(error.is_some(), "{input} is not cut");
    let seen = error.as_ref().and_then(|error| error.native_event());
    unanswered(agent, seen.or(event), None, Transport::Command, policy, WHY)
}

#[test]
fn law_11_a_cut_input_is_blocked_in_the_form_of_its_event() {
    let nothing = Answer::default;
    let cancelled = || stdout(json!({ "cancel": true, "errorMessage": SAID }));
    let cases = [
        (Agent::VsCode, r#"{"hookEventName":"PreToolUse","tool_input":{"#, denied("PreToolUse")),
        (Agent::VsCode, r#"{"hook_event_name":"UserPromptSubmit","prompt":"#, exit(SAID)),
        (Agent::VsCode, r#"{"hookEventName":"Stop","stop_hook"#, nothing()),
        (Agent::VsCode, r#"{"hookEventName":"SessionStart","sou"#, nothing()),
        (Agent::VsCode, "", exit(SAID)),
        (Agent::QwenCode, r#"{"hook_event_name":"PreToolUse","tool_input":{"#, denied("PreToolUse")),
        (
            Agent::QwenCode,
            r#"{"hook_event_name":"UserPromptSubmit","prompt"#,
            stdout(json!({ "decision": "block", "reason": SAID })),
        ),
        (
            Agent::QwenCode,
            r#"{"hook_event_name":"PermissionRequest","tool_input":{"#,
            stdout(json!({ "hookSpecificOutput": {
                "hookEventName": "PermissionRequest", "decision": { "behavior": "deny", "message": SAID } } })),
        ),
        (Agent::QwenCode, r#"{"hook_event_name":"SubagentStop","stop"#, nothing()),
        (Agent::QwenCode, "\u{feff}{}", exit(SAID)),
        (Agent::FactoryDroid, r#"{"hook_event_name":"PreToolUse","tool_input":{"#, denied("PreToolUse")),
        (
            Agent::FactoryDroid,
            r#"{"hookEventName":"UserPromptSubmit","pro"#,
            stdout(json!({ "decision": "block", "reason": SAID })),
        ),
        (Agent::FactoryDroid, r#"{"hook_event_name":"Stop","stop_hook_active":tru"#, nothing()),
        (Agent::FactoryDroid, "[1]", exit(SAID)),
        (Agent::Windsurf, r#"{"agent_action_name":"pre_run_command","tool_info":{"#, exit(SAID)),
        (Agent::Windsurf, r#"{"agent_action_name":"post_run_command","tool_info":{"#, nothing()),
        (Agent::Windsurf, "null", exit(SAID)),
        (Agent::Goose, r#"{"event":"PreToolUse","tool_input":{"#, exit(SAID)),
        (Agent::Goose, r#"{"event":"Stop","session_id"#, nothing()),
        (Agent::Goose, r#"{"event":"UserPromptSubmit","message"#, nothing()),
        (Agent::Goose, "{", exit(SAID)),
        (Agent::Cline, r#"{"hookName":"tool_call","tool_call":{"#, cancelled()),
        (Agent::Cline, r#"{"hookName":"PreToolUse","preToolUse":{"#, cancelled()),
        (Agent::Cline, r#"{"hookName":"TaskComplete","taskId"#, stdout(json!({ "cancel": false }))),
        (Agent::Cline, r#"{"hookName":"prompt_submit","userPromptSubmit"#, stdout(json!({}))),
        (Agent::Cline, "", cancelled()),
        (Agent::AmazonQ, r#"{"hook_event_name":"preToolUse","tool_input":{"#, exit(SAID)),
        (Agent::AmazonQ, r#"{"hook_event_name":"userPromptSubmit","prompt"#, nothing()),
        (Agent::AmazonQ, r#"{"hook_event_name":"stop","cwd"#, nothing()),
        (Agent::AmazonQ, "", exit(SAID)),
        (Agent::Kiro, r#"{"hook_event_name":"PreToolUse","tool_input":{"#, exit(SAID)),
        (Agent::Kiro, r#"{"hook_event_name":"PreTaskExec","ta"#, exit(SAID)),
        (Agent::Kiro, r#"{"hook_event_name":"stop","assis"#, nothing()),
        (Agent::Kiro, "", exit(SAID)),
    ];
    for (agent, input, expected) in cases {
        assert_eq!(broken(agent, None, input, OnUnavailable::Block), expected, "{}: {input}", agent.name());
    }
}

#[test]
fn law_11_an_operator_who_allows_gets_the_agents_proper_nothing() {
    for agent in [
        Agent::VsCode,
        Agent::QwenCode,
        Agent::FactoryDroid,
        Agent::Windsurf,
        Agent::Goose,
        Agent::AmazonQ,
        Agent::Kiro,
    ] {
        assert_eq!(broken(agent, None, "", OnUnavailable::Allow), Answer::default(), "{}", agent.name());
    }
    assert_eq!(broken(Agent::Cline, None, "", OnUnavailable::Allow), stdout(json!({ "cancel": false })));
    assert_eq!(broken(Agent::Cline, Some("tool_call"), "", OnUnavailable::Allow), stdout(json!({})));
}

#[test]
fn law_11_a_tool_event_without_its_tool_is_no_call_to_wave_through() {
    let cases = [
        (Agent::VsCode, r#"{"hookEventName":"PreToolUse"}"#, "the input of PreToolUse has no `tool_name`"),
        (Agent::QwenCode, r#"{"hook_event_name":"PreToolUse","tool_name":7}"#, "`tool_name` is a number, not a string"),
        (
            Agent::FactoryDroid,
            r#"{"hook_event_name":"PreToolUse","tool_name":""}"#,
            "the input of PreToolUse has no `tool_name`",
        ),
        (
            Agent::Windsurf,
            r#"{"agent_action_name":"pre_run_command","tool_info":{}}"#,
            "the input of pre_run_command has no `command_line`",
        ),
        (
            Agent::Windsurf,
            r#"{"agent_action_name":"pre_mcp_tool_use"}"#,
            "the input of pre_mcp_tool_use has no `mcp_server_name`",
        ),
        (Agent::Goose, r#"{"event":"PreToolUse"}"#, "the input of PreToolUse has no `tool_name`"),
        (Agent::Cline, r#"{"hookName":"tool_call"}"#, "the input of tool_call has no `preToolUse`"),
        (Agent::Cline, r#"{"hookName":"PreToolUse","preToolUse":{}}"#, "the input of PreToolUse has no `toolName`"),
        (Agent::AmazonQ, r#"{"hook_event_name":"preToolUse"}"#, "the input of preToolUse has no `tool_name`"),
        // IDE 0.x sends nothing of the call.
        (
            Agent::Kiro,
            r#"{"hook_event_name":"PreToolUse","tool_input":{}}"#,
            "the input of PreToolUse has no `tool_name`",
        ),
        (
            Agent::Kiro,
            r#"{"session_id":"s1"}"#,
            "the input does not say its event in `hook_event_name`, and no event was given beside it",
        ),
    ];
    for (agent, input, expected) in cases {
        let native = Native { agent, event: None, input: input.as_bytes(), transport: Transport::Command };
        let error = read(&native).map(|call| call.request).unwrap_err();
        assert_eq!(error.to_string(), expected, "{}: {input}", agent.name());
    }
}

#[test]
fn an_answer_is_never_mixed() {
    for agent in Agent::ALL {
        for event in agent.events().chain(["PreDeploy", ""]) {
            for policy in [OnUnavailable::Block, OnUnavailable::Allow] {
                let answer = unanswered(agent, Some(event), None, Transport::Command, policy, WHY);
                let said = (answer.stdout.is_empty(), answer.stderr.is_empty(), answer.exit_code);
                assert!(matches!(said, (_, true, 0) | (true, false, 2)), "{} {event}: {answer:?}", agent.name());
                let http = unanswered(agent, Some(event), None, Transport::Http, policy, WHY);
                assert_eq!((http.stderr.as_str(), http.exit_code), ("", 0), "{} {event}", agent.name());
            }
        }
    }
}
