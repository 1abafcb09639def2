//! Texts for people and models: where they come from, and a bound for what they quote.

use hookd_json::Value;

use crate::v1;

/// How many bytes of a call a reason quotes.
const MAX_QUOTED: usize = 4096;

/// `reason (rule, decision id)`; without a rule `reason (decision id)`. Never empty: an empty reason stops nothing at
/// agents that take an empty text for a failed hook.
pub(crate) fn signed(reason: &str, response: &v1::TriggerResponse, otherwise: &str) -> String {
    let reason = if reason.trim().is_empty() { otherwise } else { reason };
    format!("{reason}{}", signature(response))
}

/// ` (rule, decision id)`, as far as they are known.
pub(crate) fn signature(response: &v1::TriggerResponse) -> String {
    let rule = response.decided_by.as_ref().map_or("", |by| by.rule_id.as_str());
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
