//! The real `hookd` with rules that decide what the vector wants, asked at `POST /v1/hooks/{agent}`.

use std::collections::BTreeMap;

use hookd_agents::Agent;
use hookd_json::Value;
use hookd_tests::{
    Hookd, HttpAnswer, RawHttp1, Tier, decide, rule,
    v1::{Capability, DecidedBy, Note, ToolCall, TriggerResponse, Verdict},
    with,
};
use serde_json::json;

use super::{
    Said, block_of, can, expected,
    format::{self, Vector},
    is_nothing, is_stop_like, key, name, reason_in_form_of, request, said,
};

/// The rule of a response that names none.
const REWRITES: &str = "rewrites";

/// One call: the input of `vector`, under rules that decide `response`.
struct Case<'v> {
    vector: &'v Vector,
    response: TriggerResponse,
    /// Its event by hookd's name.
    event: String,
    /// What takes the place of what the agent cannot carry out has the form of this one.
    instead: Option<&'v Vector>,
}

/// What an agent may be told, beyond what the vectors hold.
fn wishes(call: Option<&ToolCall>, event: &str) -> Vec<(Capability, TriggerResponse)> {
    let by = |verdict: Verdict| TriggerResponse {
        verdict: verdict.into(),
        reason: "is that wanted?".to_owned(),
        decided_by: Some(DecidedBy { rule_id: "no-force-push".to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let nothing = TriggerResponse { verdict: Verdict::None.into(), ..Default::default() };
    let note = Note { text: "the tests are slow".to_owned(), ..Default::default() };
    let context = TriggerResponse { additional_context: vec![note], ..nothing.clone() };
    let halt = TriggerResponse { halt: true, halt_reason: "the budget is spent".to_owned(), ..by(Verdict::None) };
    let mut wishes = vec![
        (Capability::Ask, by(Verdict::Ask)),
        (Capability::Defer, by(Verdict::Defer)),
        (Capability::AdditionalContext, context),
        (Capability::Halt, TriggerResponse { reason: String::new(), ..halt }),
    ];
    if call.is_some() && ["PreToolUse", "PermissionRequest"].contains(&event) {
        let params = Some(r#"{"command":"echo rewritten"}"#.to_owned());
        wishes.push((Capability::ModifyParams, TriggerResponse { modified_params_json: params, ..nothing.clone() }));
    }
    if call.is_some_and(|call| call.result_json.is_some()) && event == "PostToolUse" {
        let result = Some("\"***\"".to_owned());
        wishes.push((Capability::ModifyResult, TriggerResponse { modified_result_json: result, ..nothing }));
    }
    wishes
}

/// What the agent lacks, so that the settings' fallbacks take the place of what was decided.
fn lacks(vector: &Vector, response: &TriggerResponse) -> bool {
    let request = request(vector);
    let needs = [
        (response.verdict() == Verdict::Ask, Capability::Ask),
        (response.verdict() == Verdict::Defer, Capability::Defer),
        (response.modified_params_json.is_some(), Capability::ModifyParams),
        (response.modified_result_json.is_some(), Capability::ModifyResult),
    ];
    needs.into_iter().any(|(needed, capability)| needed && !can(&request, capability))
}

/// Rules can decide this: a verdict that is known and has a rule, no output of another protocol, no rewrite where hookd
/// knows of none.
fn can_be_decided(event: &str, response: &TriggerResponse) -> bool {
    if event == "PreSkillShellCommand" && response.modified_params_json.is_some() {
        return false;
    }
    let known = !matches!(Verdict::try_from(response.verdict), Ok(Verdict::Unspecified) | Err(_));
    let has_rule = response.decided_by.is_some() || (response.verdict() == Verdict::None && !response.halt);
    known && has_rule && response.event_output_json.is_none()
}

/// The rules, without their events.
fn rules(response: &TriggerResponse) -> Vec<Value> {
    let mut rules = Vec::new();
    let notes = [("additionalContext", &response.additional_context), ("systemMessage", &response.system_messages)];
    for (key, notes) in notes {
        for (index, note) in notes.iter().enumerate() {
            rules.push(rule(&format!("{key}-{index}"), "", decide(json!({ key: note.text }))));
        }
    }
    let mut answer = serde_json::Map::new();
    let mut put = |there: bool, key: &str, value: Value| drop(there.then(|| answer.insert(key.to_owned(), value)));
    let word = response.verdict().as_str_name().trim_start_matches("VERDICT_").to_ascii_lowercase();
    put(response.verdict() != Verdict::None && !response.halt, "verdict", word.into());
    put(!response.reason.is_empty(), "reason", response.reason.clone().into());
    put(response.halt, "halt", true.into());
    put(response.halt, "haltReason", response.halt_reason.clone().into());
    for (key, text) in
        [("modifiedParams", &response.modified_params_json), ("modifiedResult", &response.modified_result_json)]
    {
        put(text.is_some(), key, text.as_deref().map_or(Value::Null, |text| hookd_json::parse(text).unwrap()));
    }
    if !answer.is_empty() {
        let id = response.decided_by.as_ref().map_or(REWRITES, |by| &by.rule_id);
        rules.push(rule(id, "", decide(answer.into())));
    }
    rules
}

/// The vectors that rules can decide, and what each agent lacks on each of its events.
fn cases(vectors: &[Vector]) -> Vec<Case<'_>> {
    let mut cases = Vec::new();
    for vector in vectors.iter().filter(|vector| is_asked_so(vectors, vector)) {
        let asked = request(vector);
        let mut add = |response: TriggerResponse, falls_back: bool| {
            let instead = falls_back.then(|| block_of(vectors, vector));
            cases.push(Case { vector, response, event: asked.event.clone(), instead });
        };
        if can_be_decided(&asked.event, &vector.response) {
            add(vector.response.clone(), lacks(vector, &vector.response) && !is_stop_like(&asked));
        }
        if is_nothing(&vector.response) {
            let wishes = wishes(asked.tool_call.as_ref(), &asked.event);
            for (_, wish) in wishes.into_iter().filter(|(capability, _)| !can(&asked, *capability)) {
                // An agent that cannot be halted is blocked where it can be. One that wants to stop may, whatever cannot
                // be carried out. Context that it cannot take is held back.
                let falls_back = (lacks(vector, &wish) || wish.halt) && !is_stop_like(&asked);
                add(wish, falls_back);
            }
        }
    }
    cases
}

/// The endpoint answers as the vector has it: agents with http hooks by http, of which vectors of commands hold as well
/// where their answer is an object and there is none by http; the others as their commands.
fn is_asked_so(vectors: &[Vector], vector: &Vector) -> bool {
    let by_http = Agent::from_name(&vector.agent).unwrap().has_http_hooks();
    if vector.http || !by_http {
        return vector.http == by_http;
    }
    let response = |vector: &Vector| TriggerResponse { decision_id: String::new(), ..vector.response.clone() };
    let twin =
        |other: &Vector| key(other) == (&vector.agent, &vector.event, true) && response(other) == response(vector);
    let is_object =
        |vector: &Vector| vector.exit_code == 0 && !matches!(&vector.stdout, Value::String(text) if !text.is_empty());
    !vectors.iter().any(twin) && is_object(vector) && is_object(block_of(vectors, vector))
}

/// What the agent, or a person with `curl`, makes of the answer.
fn got(vector: &Vector, answer: &HttpAnswer) -> Said {
    assert_eq!((answer.status, answer.header("hookd-not-judged")), (200, None), "{}: {answer:?}", name(vector));
    match answer.header("hookd-exit-code") {
        None | Some("0") => said(&answer.body, "", 0),
        Some(code) => said("", answer.body.trim_end(), code.parse().unwrap()),
    }
}

#[tokio::test]
async fn every_vector_that_rules_can_decide_holds_at_the_endpoint() {
    let vectors = format::load();
    let mut groups = BTreeMap::<String, Vec<Case<'_>>>::new();
    for case in cases(&vectors) {
        groups.entry(Value::from(rules(&case.response)).to_string()).or_default().push(case);
    }
    let count = groups.values().map(Vec::len).sum::<usize>();
    assert!(count > 2000 && groups.len() > 30, "{count} calls under {} sets of rules", groups.len());

    let hookd = Hookd::builder().managed(json!([])).start().await;
    let mut connection = RawHttp1::connect(hookd.address()).await;
    let mut wrong = Vec::new();
    for cases in groups.values() {
        let mut events = cases.iter().map(|case| case.event.as_str()).collect::<Vec<_>>();
        events.sort_unstable();
        events.dedup();
        let on_all = json!({ "event": events, "customEvent": true });
        let rules = rules(&cases[0].response).into_iter().map(|rule| with(rule, on_all.clone())).collect::<Value>();
        hookd.rewrite_rules(Tier::Managed, rules.clone());
        let reloaded = hookd.reload().await;
        assert!(reloaded.ok, "{rules}: {reloaded:?}");
        for Case { vector, instead, .. } in cases {
            let path = format!("/v1/hooks/{}?event={}", vector.agent, vector.event);
            let answer = connection.ask(&path, "", &vector.input).await;
            let id = answer.header("hookd-decision-id").unwrap();
            let got = got(vector, &answer);
            let right = match instead {
                Some(block) => reason_in_form_of(block, &got).is_some_and(|reason| {
                    let signed = reason.ends_with(&format!(", {id})"));
                    let says = ["agent cannot wait for it", "was rewritten", "the budget is spent"];
                    reason.is_empty() || (signed && says.iter().any(|why| reason.contains(why)))
                }),
                None => {
                    let theirs = vector.response.decision_id.as_str();
                    // The vector has no rule; here there is always one that rewrote the call.
                    let expected =
                        expected(vector).to_string().replace(&format!("({theirs})"), &format!("({REWRITES}, {id})"));
                    got == hookd_json::parse(&expected.replace(theirs, id)).unwrap()
                }
            };
            if !right {
                let (what, expected) = match instead {
                    Some(block) => ("in the form of", expected(block)),
                    None => ("not", expected(vector)),
                };
                wrong.push(format!("{} under {rules}: it got {got}, {what} {expected}", name(vector)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
