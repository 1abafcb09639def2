//! What each answer makes the agent do.

use std::sync::mpsc;

use hookd_client::{
    CallErrorKind, Client, Gate, OnUnavailable,
    proto::{Note, Tier, ToolCall, TriggerRequest, TriggerResponse, Verdict},
};

use crate::server::{TestServer, answer, serve_unix};

/// A gate without its decision, and whether the answer was carried out.
#[derive(Debug, PartialEq)]
enum Seen {
    Run { params: Option<String>, result: Option<String>, approved: bool },
    Ask { reason: String, params: Option<String> },
    Suspend { reason: String, params: Option<String> },
    Refuse { reason: String, result: Option<String> },
    Continue { reason: String },
    Halt { reason: String },
}

fn seen(gate: Gate) -> Seen {
    match gate {
        Gate::Run { params, result, approved, .. } => Seen::Run { params, result, approved },
        Gate::Ask { reason, params, .. } => Seen::Ask { reason, params },
        Gate::Suspend { reason, params, .. } => Seen::Suspend { reason, params },
        Gate::Refuse { reason, result, .. } => Seen::Refuse { reason, result },
        Gate::Continue { reason, .. } => Seen::Continue { reason },
        Gate::Halt { reason, .. } => Seen::Halt { reason },
    }
}

async fn gate(event: &str, answer: TriggerResponse) -> Gate {
    let server = TestServer::answering(move |_| Ok(answer.clone()));
    // The most lenient setting: what blocks here blocks always.
    server.client(OnUnavailable::Allow).trigger(TriggerRequest { event: event.into(), ..Default::default() }).await
}

fn run() -> Seen {
    Seen::Run { params: None, result: None, approved: false }
}

#[tokio::test]
async fn case_034_allow_and_silence_stay_two_things() {
    assert_eq!(seen(gate("PreToolUse", answer(Verdict::None)).await), run());
    let approved = Seen::Run { params: None, result: None, approved: true };
    assert_eq!(seen(gate("PreToolUse", answer(Verdict::Allow)).await), approved);
}

#[tokio::test]
async fn each_verdict_has_its_gate() {
    let reason = || "because".to_owned();
    let rewritten =
        TriggerResponse { modified_params_json: Some(r#"{"n":9007199254740993}"#.into()), ..answer(Verdict::None) };
    let with = |verdict: Verdict| TriggerResponse { verdict: verdict.into(), ..rewritten.clone() };
    let params = || Some(r#"{"n":9007199254740993}"#.to_owned());
    let expected = Seen::Run { params: params(), result: None, approved: true };
    assert_eq!(seen(gate("PreToolUse", with(Verdict::Allow)).await), expected);
    let expected = Seen::Ask { reason: reason(), params: params() };
    assert_eq!(seen(gate("PreToolUse", with(Verdict::Ask)).await), expected);
    let expected = Seen::Suspend { reason: reason(), params: params() };
    assert_eq!(seen(gate("PreToolUse", with(Verdict::Defer)).await), expected);
    let refused = || Seen::Refuse { reason: reason(), result: None };
    assert_eq!(seen(gate("PreToolUse", with(Verdict::Block)).await), refused());

    assert_eq!(seen(gate("UserPromptSubmit", answer(Verdict::Block)).await), refused());
    assert_eq!(seen(gate("PreDeploy", answer(Verdict::Block)).await), refused());
    assert_eq!(seen(gate("PostToolUseFailure", answer(Verdict::Block)).await), refused());
    assert_eq!(seen(gate("SessionStart", answer(Verdict::Block)).await), run());
    for event in ["Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"] {
        assert_eq!(seen(gate(event, answer(Verdict::Block)).await), Seen::Continue { reason: reason() });
    }

    let redacted =
        |verdict: Verdict| TriggerResponse { modified_result_json: Some("\"***\"".into()), ..answer(verdict) };
    let result = || Some("\"***\"".to_owned());
    let expected = Seen::Run { params: None, result: result(), approved: false };
    assert_eq!(seen(gate("PostToolUse", redacted(Verdict::None)).await), expected);
    let expected = Seen::Refuse { reason: reason(), result: result() };
    assert_eq!(seen(gate("PostToolUse", redacted(Verdict::Block)).await), expected);
}

#[tokio::test]
async fn law_13_halt_takes_precedence() {
    for event in ["PreToolUse", "Stop", "SessionStart"] {
        for verdict in [0, 1, 2, 3, 4, 5, 77] {
            let halt = TriggerResponse { verdict, halt: true, halt_reason: "enough".into(), ..answer(Verdict::None) };
            assert_eq!(seen(gate(event, halt).await), Seen::Halt { reason: "enough".into() });
        }
    }
    let halt = TriggerResponse { halt: true, ..answer(Verdict::Block) };
    assert_eq!(seen(gate("PreToolUse", halt).await), Seen::Halt { reason: "because".into() });
}

#[tokio::test]
async fn law_11_case_033_what_is_not_known_takes_the_safe_side() {
    let why = "the answer of hookd cannot be carried out: ";
    let number = |verdict: i32| TriggerResponse { verdict, ..answer(Verdict::None) };
    for verdict in [0, 6, 77, -1] {
        let reason = format!("{why}verdict {verdict} is not known");
        for event in ["PreToolUse", "UserPromptSubmit", "PreDeploy"] {
            let gate = gate(event, number(verdict)).await;
            assert_eq!(gate.decision().error().map(|error| error.kind), Some(CallErrorKind::NotUnderstood));
            assert!(gate.decision().degraded());
            assert_eq!(gate.decision().id(), "d1");
            assert_eq!(seen(gate), Seen::Refuse { reason: reason.clone(), result: None });
        }
        let hidden = format!("\"the result is not shown: {reason}\"");
        let expected = Seen::Refuse { reason, result: Some(hidden) };
        assert_eq!(seen(gate("PostToolUse", number(verdict)).await), expected);
        assert_eq!(seen(gate("Stop", number(verdict)).await), run());
        assert_eq!(seen(gate("Notification", number(verdict)).await), run());
    }
}

#[tokio::test]
async fn law_11_forms_that_cannot_be_carried_out_take_the_safe_side() {
    for params in ["", "[]", "\"ls\"", "{\"a\":1", "{} {}", "null"] {
        for verdict in [Verdict::None, Verdict::Allow, Verdict::Ask, Verdict::Defer] {
            let answer = TriggerResponse { modified_params_json: Some(params.into()), ..answer(verdict) };
            let gate = gate("PreToolUse", answer).await;
            assert!(matches!(&gate, Gate::Refuse { reason, .. } if reason.contains("not a JSON object")), "{gate:?}");
        }
    }
    let garbled = TriggerResponse { modified_result_json: Some("{".into()), ..answer(Verdict::None) };
    let refused = gate("PostToolUse", garbled.clone()).await;
    assert!(
        matches!(&refused, Gate::Refuse { result: Some(result), .. } if result.contains("not shown")),
        "{refused:?}"
    );
    let blocked = gate("PostToolUse", TriggerResponse { verdict: Verdict::Block.into(), ..garbled }).await;
    let result = Some("\"the result is not shown: its replacement by hookd is not JSON\"".to_owned());
    assert_eq!(seen(blocked), Seen::Refuse { reason: "because".into(), result });
}

#[tokio::test]
async fn the_decision_carries_what_hookd_said() {
    let note = Note { text: "mind the gap".into(), rule_id: "r".into(), tier: Tier::Local.into() };
    let sent = TriggerResponse {
        additional_context: vec![note.clone()],
        system_messages: vec![note.clone()],
        event_output_json: Some("{\"a\":1}".into()),
        degraded: true,
        ..answer(Verdict::None)
    };
    let gate = gate("PreToolUse", sent.clone()).await;
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
    assert_eq!(seen(session.pre_tool_use("bash", "{\"n\":1.0}").await), run());
    expect("PreToolUse", tool_call(None), "");
    assert_eq!(seen(session.post_tool_use("bash", "{\"n\":1.0}", "[1]").await), run());
    expect("PostToolUse", tool_call(Some("[1]")), "");
    assert_eq!(seen(session.user_prompt_submit("say \"hi\"\n").await), run());
    expect("UserPromptSubmit", None, r#"{"prompt":"say \"hi\"\n"}"#);
    assert_eq!(seen(session.session_start("startup").await), run());
    expect("SessionStart", None, r#"{"source":"startup"}"#);
    assert_eq!(seen(session.session_end("other").await), run());
    expect("SessionEnd", None, r#"{"reason":"other"}"#);
    assert_eq!(seen(session.stop(true).await), run());
    expect("Stop", None, r#"{"stop_hook_active":true}"#);
}

#[tokio::test]
async fn a_unix_socket_is_an_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hookd.sock");
    serve_unix(&path, |_| Ok(answer(Verdict::Allow)));
    let client = Client::connect_lazy(&format!("unix:{}", path.display()), OnUnavailable::Block).unwrap();
    let approved = Seen::Run { params: None, result: None, approved: true };
    assert_eq!(seen(client.session("s").pre_tool_use("bash", "{}").await), approved);
}
