//! Gates in the words of the table, and how they are compared with it.

use hookd_client::{CallErrorKind, Gate};
use serde_json::{Value, json};

/// `{ "gate": …, "error"?: … }`.
pub(crate) fn seen(gate: &Gate) -> Value {
    let mut seen = json!({ "gate": gate_of(gate) });
    if let Some(error) = gate.decision().error() {
        let (kind, retry_after) = match error.kind {
            CallErrorKind::Unavailable => ("unavailable", None),
            CallErrorKind::DeadlineExceeded => ("deadline_exceeded", None),
            CallErrorKind::Internal => ("internal", None),
            CallErrorKind::Shed { retry_after } => ("shed", Some(retry_after)),
            CallErrorKind::Refused => ("refused", None),
            CallErrorKind::NotUnderstood => ("not_understood", None),
            CallErrorKind::NotTrusted => ("not_trusted", None),
        };
        seen["error"] = json!({ "kind": kind, "ofHookd": error.decision_id.is_some() });
        if let Some(after) = retry_after {
            seen["error"]["retryAfterMs"] = u64::try_from(after.as_millis()).unwrap().into();
        }
    }
    seen
}

fn gate_of(gate: &Gate) -> Value {
    let with = |mut value: Value, forms: [(&str, &Option<String>); 2]| {
        for (key, form) in forms {
            if let Some(form) = form {
                value[key] = form.as_str().into();
            }
        }
        value
    };
    match gate {
        Gate::Run { params, result, approved, .. } => {
            with(json!({ "kind": "run", "approved": approved }), [("params", params), ("result", result)])
        }
        Gate::Ask { reason, params, result, .. } => {
            with(json!({ "kind": "ask", "reason": reason }), [("params", params), ("result", result)])
        }
        Gate::Suspend { reason, params, result, .. } => {
            with(json!({ "kind": "suspend", "reason": reason }), [("params", params), ("result", result)])
        }
        Gate::Refuse { reason, result, .. } => {
            with(json!({ "kind": "refuse", "reason": reason }), [("params", &None), ("result", result)])
        }
        Gate::Continue { reason, .. } => json!({ "kind": "continue", "reason": reason }),
        Gate::Halt { reason, .. } => json!({ "kind": "halt", "reason": reason }),
    }
}

/// How `seen` is not as `expected` says. Empty: it is.
pub(crate) fn differences(expected: &Value, seen: &Value, addresses: &[String]) -> Vec<String> {
    let places = ["gate", "error"].into_iter();
    let bad = places.filter(|key| !holds(&expected[key], &seen[key], addresses));
    bad.map(|key| format!("the {key} is {}, not {}", seen[key], expected[key])).collect()
}

fn holds(expected: &Value, seen: &Value, addresses: &[String]) -> bool {
    match (expected, seen) {
        (Value::Object(expected), Value::Object(seen)) => {
            expected.len() == seen.len()
                && expected.iter().all(|(key, value)| seen.get(key).is_some_and(|found| holds(value, found, addresses)))
        }
        (Value::String(expected), Value::String(seen)) => fits(expected, seen, addresses),
        (Value::String(any), Value::Bool(_)) => any == "any",
        _ => expected == seen,
    }
}

/// `{address}` and `{address 2}` stand for the servers' addresses, `{any}` for any text.
fn fits(expected: &str, seen: &str, addresses: &[String]) -> bool {
    let mut expected = expected.to_owned();
    for (at, address) in addresses.iter().enumerate() {
        let name = if at == 0 { "{address}".to_owned() } else { format!("{{address {}}}", at + 1) };
        expected = expected.replace(&name, address);
    }
    let parts = expected.split("{any}").collect::<Vec<_>>();
    let [first, between @ .., last] = parts.as_slice() else { return expected == seen };
    let Some(mut rest) = seen.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    between.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}
