//! What goes to hookd and what a decision carries. What each answer makes an agent do is in `tests/conformance`.

use std::sync::mpsc;

use hookd_client::{
    Client, Gate, OnUnavailable,
    proto::{Note, Tier, ToolCall, TriggerRequest, TriggerResponse, Verdict},
};

use crate::server::{TestServer, answer, serve_unix};

/// It goes on with what was sent.
fn runs(gate: &Gate, may: bool) -> bool {
    matches!(gate, Gate::Run { params: None, result: None, approved, .. } if *approved == may)
}

#[test]
fn the_decision_carries_what_hookd_said() {
    let note = Note { text: "mind the gap".into(), rule_id: "r".into(), tier: Tier::Local.into() };
    let sent = TriggerResponse {
        additional_context: vec![note.clone()],
        system_messages: vec![note.clone()],
        event_output_json: Some("{\"a\":1}".into()),
        degraded: true,
        ..answer(Verdict::None)
    };
    let gate = Gate::of_answer("PreToolUse", sent.clone());
    let decision = gate.decision();
    assert_eq!(decision.answer(), Some(&sent));
    assert_eq!(decision.error(), None);
    assert_eq!((decision.id(), decision.policy_revision(), decision.degraded()), ("d1", "r1", true));
    assert_eq!(decision.additional_context(), std::slice::from_ref(&note));
    assert_eq!(decision.system_messages(), [note]);
    assert_eq!(decision.event_output_json(), Some("{\"a\":1}"));
}

#[tokio::test]
async fn a_session_sends_what_was_set_and_the_call() {
    let (sent, received) = mpsc::channel();
    let server = TestServer::answering(move |request| {
        sent.send(request).unwrap();
        Ok(answer(Verdict::None))
    });
    let mut session = server.client(OnUnavailable::Block).session("s1").cwd("/p");
    session.template_mut().model = "m1".into();
    let tool_call = |result: Option<&str>| {
        Some(ToolCall {
            tool: "bash".into(),
            params_json: "{\"n\":1.0}".into(),
            result_json: result.map(str::to_owned),
            ..Default::default()
        })
    };
    let expect = |event: &str, tool_call: Option<ToolCall>, payload: &str| {
        let mut request = received.recv().unwrap();
        assert!(request.timestamp.take().is_some_and(|timestamp| timestamp.seconds > 1_700_000_000));
        let expected = TriggerRequest {
            event: event.into(),
            session_id: "s1".into(),
            cwd: "/p".into(),
            model: "m1".into(),
            payload_json: payload.into(),
            tool_call,
            ..Default::default()
        };
        assert_eq!(request, expected);
    };
    assert!(runs(&session.pre_tool_use("bash", "{\"n\":1.0}").await, false));
    expect("PreToolUse", tool_call(None), "");
    assert!(runs(&session.post_tool_use("bash", "{\"n\":1.0}", "[1]").await, false));
    expect("PostToolUse", tool_call(Some("[1]")), "");
    assert!(runs(&session.user_prompt_submit("say \"hi\"\n").await, false));
    expect("UserPromptSubmit", None, r#"{"prompt":"say \"hi\"\n"}"#);
    assert!(runs(&session.session_start("startup").await, false));
    expect("SessionStart", None, r#"{"source":"startup"}"#);
    assert!(runs(&session.session_end("other").await, false));
    expect("SessionEnd", None, r#"{"reason":"other"}"#);
    assert!(runs(&session.stop(true).await, false));
    expect("Stop", None, r#"{"stop_hook_active":true}"#);
}

#[tokio::test]
async fn a_unix_socket_is_an_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hookd.sock");
    serve_unix(&path, |_| Ok(answer(Verdict::Allow)));
    let client = Client::connect_lazy(&format!("unix:{}", path.display()), OnUnavailable::Block).unwrap();
    assert!(runs(&client.session("s").pre_tool_use("bash", "{}").await, true));
}
