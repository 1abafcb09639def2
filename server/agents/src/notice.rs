//! Texts for people and models: where they come from, and a bound for what they quote.

use hookd_json::{Kind, Value};

use crate::v1;

/// How many bytes of a call a reason quotes.
const MAX_QUOTED: usize = 4096;

/// `reason (rule, decision id)`; without a rule `reason (decision id)`. Never empty: an empty reason stops nothing at
/// agents that take an empty text for a failed hook.
pub(crate) fn signed(reason: &str, response: &v1::TriggerResponse, otherwise: &str) -> String {
    let reason = if reason.trim().is_empty() { otherwise } else { reason };
    format!("{reason}{}", signature(response))
}

/// ` (rule, decision id)`, as far as they are known. Where nothing gave a verdict and the call was rewritten, the rule is
/// the rewrite's last author: a block can only be about that.
pub(crate) fn signature(response: &v1::TriggerResponse) -> String {
    let rule = match (&response.decided_by, response.rewrites.last()) {
        (Some(by), _) => by.rule_id.as_str(),
        (None, Some(rewrite)) => rewrite.rule_id.as_str(),
        (None, None) => "",
    };
    match (rule, response.decision_id.as_str()) {
        ("", "") => String::new(),
        (one, "") | ("", one) => format!(" ({one})"),
        (rule, id) => format!(" ({rule}, {id})"),
    }
}

/// `text`, or as much of it as a reason quotes, with what is missing said.
pub(crate) fn quoted(text: &str) -> String {
    if text.len() <= MAX_QUOTED {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_QUOTED);
    let shown = text.get(..end).unwrap_or_default();
    format!("{shown}… ({} bytes in all)", text.len())
}

/// A result in the shape of `original` that shows `text` in its first string and nothing in the others, for agents that
/// ignore a result of another shape (and would show the original). Values of `type`, which such shapes tell their
/// variants by, stay.
pub(crate) fn in_shape_of(original: &Value, text: &str) -> Value {
    fn fill(value: &mut Value, text: &mut Option<String>) {
        match value {
            Value::String(old) => *old = text.take().unwrap_or_default(),
            Value::Array(items) => items.iter_mut().for_each(|item| fill(item, text)),
            Value::Object(map) => {
                map.iter_mut().filter(|(key, _)| *key != "type").for_each(|(_, value)| fill(value, text));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut shaped = original.clone();
    let mut text = Some(text.to_owned());
    fill(&mut shaped, &mut text);
    // Nothing of it could hold a text: then the text itself is the result, whatever becomes of it.
    text.map_or(shaped, Value::String)
}

/// Whether `value` has the fields of `original`, each of its type, and no others. Arrays may be of any length.
pub(crate) fn has_shape_of(original: &Value, value: &Value) -> bool {
    match (original, value) {
        (Value::Object(original), Value::Object(map)) => {
            original.len() == map.len()
                && original.iter().all(|(key, field)| map.get(key).is_some_and(|value| has_shape_of(field, value)))
        }
        (Value::Array(original), Value::Array(items)) => {
            items.iter().all(|item| original.iter().any(|known| has_shape_of(known, item)))
        }
        _ => Kind::of(original) == Kind::of(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shape_is_fields_and_types() {
        let bash = json!({ "stdout": "key", "stderr": "", "interrupted": false, "lines": [{ "n": 1 }] });
        let redacted = json!({ "stdout": "***", "stderr": "", "interrupted": true, "lines": [{ "n": 2 }, { "n": 3 }] });
        assert!(has_shape_of(&bash, &redacted) && has_shape_of(&bash, &bash));
        assert!(has_shape_of(&bash, &json!({ "lines": [], "stdout": "", "stderr": "", "interrupted": false })));
        for other in [
            json!({ "hidden": true }),
            json!({ "stdout": "***" }),
            json!({ "stdout": 1, "stderr": "", "interrupted": false, "lines": [] }),
            json!({ "stdout": "", "stderr": "", "interrupted": false, "lines": [1] }),
            json!({ "stdout": "", "stderr": "", "interrupted": false, "lines": [], "more": 1 }),
            json!([]),
            json!(1),
            json!(null),
        ] {
            assert!(!has_shape_of(&bash, &other), "{other}");
        }
    }

    #[test]
    fn a_text_ends_with_who_said_it() {
        let response = |rule: &str, id: &str| v1::TriggerResponse {
            decided_by: Some(v1::DecidedBy { rule_id: rule.to_owned(), ..Default::default() }),
            decision_id: id.to_owned(),
            ..Default::default()
        };
        for (reason, rule, id, text) in [
            ("no", "r", "d", "no (r, d)"),
            ("no", "", "d", "no (d)"),
            ("no", "r", "", "no (r)"),
            ("no", "", "", "no"),
            (" \n", "r", "d", "blocked (r, d)"),
        ] {
            assert_eq!(signed(reason, &response(rule, id), "blocked"), text);
        }
        assert_eq!(signed("no", &v1::TriggerResponse::default(), ""), "no");
        let by = |rule: &str| v1::Rewrite { rule_id: rule.to_owned(), ..Default::default() };
        let rewritten = v1::TriggerResponse { rewrites: vec![by("a"), by("b")], ..Default::default() };
        assert_eq!(signed("no", &rewritten, ""), "no (b)");
        assert_eq!(signed("no", &v1::TriggerResponse { rewrites: vec![by("a")], ..response("", "d") }, ""), "no (d)");
    }

    #[test]
    fn what_is_quoted_is_cut_between_characters() {
        assert_eq!(quoted("é"), "é");
        let long = "é".repeat(MAX_QUOTED);
        let expected = format!("{}… (8192 bytes in all)", "é".repeat(MAX_QUOTED / 2));
        assert_eq!(quoted(&long), expected);
    }

    #[test]
    fn a_text_takes_the_shape_of_the_result_that_it_replaces() {
        for (original, shaped) in [
            (json!({"stdout": "key", "stderr": "x", "code": 1}), json!({"stdout": "t", "stderr": "", "code": 1})),
            (json!([{"type": "text", "text": "key"}]), json!([{"type": "text", "text": "t"}])),
            (json!({"code": 1}), json!("t")),
            (json!("key"), json!("t")),
        ] {
            assert_eq!(in_shape_of(&original, "t"), shaped);
        }
    }
}
