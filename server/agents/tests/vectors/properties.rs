//! What must hold for every agent, whatever hookd says or does not say. How an agent reads an answer is written down here
//! a second time, from the agents' documentation and not from the translators.

use std::sync::LazyLock;

use hookd_agents::{Agent, Answer, Call, Native, OnUnavailable, Transport, answer, read, unanswered};
use hookd_json::Value;
use hookd_proto::v1::{self, Capability, TriggerResponse};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::format;

static VECTORS: LazyLock<Vec<format::Vector>> = LazyLock::new(format::load);

/// Every different input of the vectors, read.
static CALLS: LazyLock<Vec<Call>> = LazyLock::new(|| {
    let mut seen = std::collections::HashSet::new();
    let new = VECTORS.iter().filter(|vector| seen.insert((&vector.agent, &vector.event, vector.http, &vector.input)));
    new.map(|vector| {
        let agent = Agent::from_name(&vector.agent).unwrap();
        let transport = if vector.http { Transport::Http } else { Transport::Command };
        read(&Native { agent, event: Some(&vector.event), input: vector.input.as_bytes(), transport }).unwrap()
    })
    .collect()
});

/// What an agent takes from an answer.
#[derive(Debug, Default)]
struct Taken {
    /// It prevents, gives feedback, or goes on instead of stopping.
    blocks: bool,
    /// It is told to stop altogether.
    halts: bool,
    /// It is told that it may.
    allows: bool,
    /// It runs another call than it meant to.
    rewrites: bool,
}

/// Reads an answer as the agent would; `Err` where an agent could read two things out of it.
fn taken(call: &Call, answer: &Answer) -> Result<Taken, String> {
    let mut taken = Taken::default();
    match answer.exit_code {
        0 => {}
        2 if answer.stderr.trim().is_empty() => return Err("exit 2 without a text is a failed hook".to_owned()),
        2 if !answer.stdout.is_empty() => return Err("exit 2 beside an output".to_owned()),
        2 => taken.blocks = true,
        other => return Err(format!("exit {other} is a failed hook")),
    }
    if call.transport == Transport::Http && answer.exit_code != 0 {
        return Err("http has no exit code".to_owned());
    }
    if answer.stdout.is_empty() {
        return if call.agent == Agent::Cursor && answer.exit_code == 0 {
            Err("no object".to_owned())
        } else {
            Ok(taken)
        };
    }
    let json = match hookd_json::parse(&answer.stdout) {
        Ok(json @ Value::Object(_)) => json,
        // Plain text is context, or the path of a worktree; it decides nothing.
        _ if !answer.stdout.starts_with('{') => return Ok(taken),
        other => return Err(format!("no JSON object: {other:?}")),
    };
    let specific = json.get("hookSpecificOutput").cloned().unwrap_or_default();
    if call.agent != Agent::Cursor && specific.is_object() && specific["hookEventName"] != call.native_event.as_str() {
        return Err("hookSpecificOutput of another event".to_owned());
    }
    let words = |value: &Value| value.as_str().map(str::to_owned);
    let inner = &specific["decision"];
    let decisions = [
        words(&json["decision"]),
        words(&json["permission"]),
        words(&json["permissionDecision"]),
        words(&json["behavior"]),
        words(&specific["permissionDecision"]),
        words(&specific["decision"]),
        words(&inner["behavior"]),
        words(&specific["action"]),
    ];
    for decision in decisions.into_iter().flatten() {
        match decision.as_str() {
            "block" | "deny" | "decline" => taken.blocks = true,
            "allow" | "approve" | "accept" => taken.allows = true,
            "ask" => {}
            other => return Err(format!("unknown decision {other}")),
        }
    }
    let has = |key: &str| json.get(key).is_some() || specific.get(key).is_some();
    taken.halts = json["continue"] == false || json["cancel"] == true || json["interrupt"] == true;
    taken.blocks |= has("followup_message") || json["exitCode"] == 2 || (json["continue"] == false);
    taken.blocks |= json["cancel"] == true;
    taken.rewrites =
        ["updatedInput", "tool_input", "updated_input", "modifiedArgs", "overrideInput"].into_iter().any(has)
            || inner.get("updatedInput").is_some();
    // After the fact a text for the model is all that a block can be for some agents.
    if matches!(call.request.event.as_str(), "PostToolUse" | "PostToolUseFailure") {
        taken.blocks |=
            ["additional_context", "additionalContext", "context", "contextModification"].into_iter().any(has);
    }
    if taken.blocks && (taken.allows || taken.rewrites) {
        return Err("blocks and lets run".to_owned());
    }
    strict(call, &json)?;
    Ok(taken)
}

/// Codex takes an answer with a key that it does not know for a failed hook, and runs the tool.
fn strict(call: &Call, json: &Value) -> Result<(), String> {
    if call.agent != Agent::Codex {
        return Ok(());
    }
    let top = ["continue", "stopReason", "systemMessage", "decision", "reason", "hookSpecificOutput"];
    let specific = [
        "hookEventName",
        "permissionDecision",
        "permissionDecisionReason",
        "updatedInput",
        "additionalContext",
        "decision",
    ];
    let unknown = |value: &Value, known: &[&str]| {
        value.as_object().and_then(|map| map.keys().find(|key| !known.contains(&key.as_str())).cloned())
    };
    if let Some(key) = unknown(json, &top).or_else(|| unknown(&json["hookSpecificOutput"], &specific)) {
        return Err(format!("unknown key {key}"));
    }
    let before = matches!(call.native_event.as_str(), "PreToolUse" | "PermissionRequest");
    if before && (json.get("continue").is_some() || json.get("stopReason").is_some()) {
        return Err("continue is not supported here".to_owned());
    }
    let out = &json["hookSpecificOutput"];
    let allowed = out["permissionDecision"] == "allow";
    if before && (allowed != out.get("updatedInput").is_some() || out["permissionDecision"] == "ask") {
        return Err("an allow without a rewrite, a rewrite without an allow, or a question".to_owned());
    }
    Ok(())
}

fn stops(call: &Call) -> bool {
    matches!(call.request.event.as_str(), "Stop" | "SubagentStop" | "TaskCompleted" | "TeammateIdle")
}

fn can(call: &Call, capability: Capability) -> bool {
    call.request.capabilities.as_ref().is_some_and(|can| can.supported.contains(&capability.into()))
}

/// The agent has a form for a block of this call.
fn can_block(call: &Call) -> bool {
    can(call, if stops(call) { Capability::ForceContinue } else { Capability::Block })
}

fn responses() -> impl Strategy<Value = TriggerResponse> {
    let text = || select(vec!["", " ", "refused-7", "a\nb \"c\" {", "中"]).prop_map(str::to_owned);
    let json = || {
        select(vec!["{}", r#"{"command":"id"}"#, r#"{"command":1}"#, "[]", "7", "\"x\"", "{", "", "null"])
            .prop_map(str::to_owned)
    };
    let extra = select(vec![
        r#"{"permissionDecision":"allow","decision":"allow","behavior":"allow","permission":"allow","continue":true}"#,
        r#"{"updatedInput":{"command":"rm"},"modifiedArgs":{},"tool_input":{},"overrideInput":{},"action":"accept"}"#,
        r#"{"hookEventName":"Stop","env":{"A":"1"},"interrupt":true,"worktreePath":"/w","cancel":false}"#,
        "[1]",
        "{",
    ])
    .prop_map(str::to_owned);
    let notes = || vec(text().prop_map(|text| v1::Note { text, ..Default::default() }), 0..3);
    let form = (-1..12_i32, text(), option::of(json()), option::of(json()), any::<bool>(), text(), option::of(extra));
    (form, notes(), notes(), text()).prop_map(
        |((verdict, reason, params, result, halt, halt_reason, extra), context, messages, id)| TriggerResponse {
            verdict,
            reason,
            modified_params_json: params,
            modified_result_json: result,
            additional_context: context,
            system_messages: messages,
            halt,
            halt_reason,
            event_output_json: extra,
            decision_id: id,
            ..Default::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_11_no_answer_is_mixed_and_no_denial_is_lost(response in responses()) {
        for call in CALLS.iter() {
            let answer = answer(call, &response);
            let taken = taken(call, &answer);
            let context = format!("{} {}: {answer:?}", call.agent.name(), call.native_event);
            prop_assert!(taken.is_ok(), "{taken:?} {context}");
            let Ok(taken) = taken else { continue };
            let verdict = v1::Verdict::try_from(response.verdict).unwrap_or(v1::Verdict::Unspecified);
            let rewritten = response.modified_params_json.is_some() && !can(call, Capability::ModifyParams);
            let denies = match verdict {
                v1::Verdict::Block | v1::Verdict::Unspecified => true,
                v1::Verdict::Ask => !can(call, Capability::Ask),
                v1::Verdict::Defer => !can(call, Capability::Defer),
                v1::Verdict::None | v1::Verdict::Allow => false,
            };
            // The texts of two events' blocks are shown to nobody.
            let silent = call.native_event.starts_with("Elicitation");
            if verdict == v1::Verdict::Block && !response.halt && can_block(call) && !silent && response.reason == "refused-7" {
                prop_assert!(answer.stdout.contains("refused-7") || answer.stderr.contains("refused-7"), "{context}");
            }
            if stops(call) {
                // Only a block keeps an agent from stopping.
                let goes_on = taken.blocks && !taken.halts;
                prop_assert!(!goes_on || (verdict == v1::Verdict::Block && !response.halt), "{context}");
            } else if (denies || rewritten || response.halt) && can_block(call) {
                prop_assert!(taken.blocks && !taken.allows && !taken.rewrites, "{context}");
            }
            // Who answers a server's request in the person's place says so in an output of the event.
            let answers = call.request.event.starts_with("Elicitation") && verdict == v1::Verdict::None;
            if verdict != v1::Verdict::Allow && taken.allows && !answers {
                // The two agents that carry a rewrite only with an allow; theirs silences no prompt.
                prop_assert!(taken.rewrites && matches!(call.agent, Agent::Codex | Agent::Cursor), "{context}");
            }
        }
    }

    #[test]
    fn law_11_an_input_that_is_cut_or_damaged_never_passes(at in 0.0..1.0_f64, byte in option::of(any::<u8>()), index in any::<prop::sample::Index>()) {
        let vector = index.get(&VECTORS);
        let agent = Agent::from_name(&vector.agent).unwrap();
        let transport = if vector.http { Transport::Http } else { Transport::Command };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a short text")]
        let place = (at * vector.input.len() as f64) as usize;
        let mut input = vector.input.clone().into_bytes();
        input.truncate(place);
        input.extend(byte);
        let native = Native { agent, event: Some(&vector.event), input: &input, transport };
        if let Err(error) = read(&native) {
            let event = error.native_event().or(Some(&vector.event));
            let whole = read(&Native { input: vector.input.as_bytes(), ..native }).unwrap();
            let answer = unanswered(agent, event, None, transport, OnUnavailable::Block, "cut");
            let taken = taken(&whole, &answer);
            prop_assert!(taken.is_ok(), "{taken:?} {answer:?}");
            // Some cases of an event can do less than the event's first row; never more.
            if can_block(&whole) && !stops(&whole) {
                prop_assert!(taken.is_ok_and(|taken| taken.blocks), "{}: {answer:?}", vector.path.display());
            }
        }
    }
}

#[test]
fn law_11_without_an_answer_whatever_can_block_blocks_and_what_wants_to_stop_stops() {
    for call in CALLS.iter() {
        let context = format!("{} {}", call.agent.name(), call.native_event);
        let asked = |policy| unanswered(call.agent, None, Some(call), call.transport, policy, "connection refused");
        let blocked = taken(call, &asked(OnUnavailable::Block)).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(blocked.blocks, can_block(call) && !stops(call), "{context}");
        assert!(!blocked.allows && !blocked.rewrites, "{context}");
        let allowed = taken(call, &asked(OnUnavailable::Allow)).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(!allowed.blocks && !allowed.allows && !allowed.rewrites, "{context}");
    }
}

#[test]
fn an_event_that_nobody_knows_blocks() {
    for agent in Agent::ALL {
        for transport in [Transport::Command, Transport::Http] {
            let answer = unanswered(agent, None, None, transport, OnUnavailable::Block, "cut");
            let text = format!("{}{}", answer.stdout, answer.stderr);
            assert!(text.contains("hookd gave no decision: cut"), "{}: {answer:?}", agent.name());
            let says_no = ["\"deny\"", "\"block\"", "\"cancel\":true", "\"exitCode\":2"];
            assert!(answer.exit_code == 2 || says_no.iter().any(|no| answer.stdout.contains(no)), "{answer:?}");
        }
    }
}
