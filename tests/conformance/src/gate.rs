//! What an answer makes an agent do: laws 11 and 13 (`deploy/docs/rules.md`), in the fewest words. Written beside the
//! clients and not from one of them, so that a fault in one is not a rule for all.

use hookd_json::Kind;
use hookd_proto::v1::{TriggerResponse, Verdict};
use hookd_rules::{Block, Event, Modifies};
use serde_json::{Value, json};

/// The gate of `answer` on `event` as `{ "gate": …, "error"?: … }`, in the words of the table.
#[must_use]
pub fn of_answer(event: &str, answer: &TriggerResponse) -> Value {
    let of_event = Event::known(event).unwrap_or_else(|| Event::unknown(true));
    if answer.halt {
        let reason = if answer.halt_reason.is_empty() { &answer.reason } else { &answer.halt_reason };
        return json!({ "gate": { "kind": "halt", "reason": reason } });
    }
    let verdict = Verdict::try_from(answer.verdict).unwrap_or(Verdict::Unspecified);
    let (params, result) = (answer.modified_params_json.as_deref(), answer.modified_result_json.as_deref());
    let problem = match verdict {
        Verdict::Unspecified => Some(format!("verdict {} is not known", answer.verdict)),
        Verdict::Block => None,
        _ if params.is_some_and(|text| hookd_json::check(text) != Ok(Kind::Object)) => {
            Some("the modified parameters are not a JSON object{any}".to_owned())
        }
        _ if result.is_some_and(|text| hookd_json::check(text).is_err()) => {
            Some("the modified result is not JSON{any}".to_owned())
        }
        _ => None,
    };
    if let Some(problem) = problem {
        let reason = format!("the answer of hookd cannot be carried out: {problem}");
        let error = json!({ "kind": "not_understood", "ofHookd": false });
        return json!({ "gate": safe_side(of_event, &reason), "error": error });
    }
    let mut gate = match verdict {
        Verdict::Block => return json!({ "gate": blocked(of_event, &answer.reason, result) }),
        Verdict::Ask => json!({ "kind": "ask", "reason": answer.reason }),
        Verdict::Defer => json!({ "kind": "suspend", "reason": answer.reason }),
        _ => json!({ "kind": "run", "approved": verdict == Verdict::Allow }),
    };
    for (key, form) in [("params", params), ("result", result)] {
        if let Some(form) = form {
            gate[key] = form.into();
        }
    }
    json!({ "gate": gate })
}

fn blocked(event: &Event, reason: &str, result: Option<&str>) -> Value {
    match event.block {
        Block::PreventsStop => json!({ "kind": "continue", "reason": reason }),
        Block::Recorded => json!({ "kind": "run", "approved": false }),
        Block::Feedback if event.modifies == Modifies::Result => {
            let is_json = |text: &str| hookd_json::check(text).is_ok();
            let mut gate = json!({ "kind": "refuse", "reason": reason });
            if let Some(result) = result {
                let notice = || not_shown("its replacement by hookd is not JSON");
                gate["result"] = if is_json(result) { result.to_owned() } else { notice() }.into();
            }
            gate
        }
        Block::Feedback | Block::Prevents => json!({ "kind": "refuse", "reason": reason }),
    }
}

fn safe_side(event: &Event, reason: &str) -> Value {
    match event.block {
        Block::PreventsStop | Block::Recorded => json!({ "kind": "run", "approved": false }),
        Block::Feedback if event.modifies == Modifies::Result => {
            json!({ "kind": "refuse", "reason": reason, "result": not_shown(reason) })
        }
        Block::Feedback | Block::Prevents => json!({ "kind": "refuse", "reason": reason }),
    }
}

fn not_shown(why: &str) -> String {
    hookd_json::to_text(&format!("the result is not shown: {why}").into())
}
