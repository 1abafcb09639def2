//! Rules as YAML: JSON's values, laid out for people.

use hookd_json::{Value, to_text};

/// The file that holds `value`, an object, under a comment of one line.
pub(super) fn text(value: &Value, comment: &str) -> String {
    let comment = comment.chars().map(|char| if char.is_control() { ' ' } else { char }).collect::<String>();
    let mut text = format!("# {comment}\n");
    for (key, value) in value.as_object().into_iter().flatten() {
        member(key, value, 0, &mut text);
    }
    text
}

/// A key and its value, the key at the end of a line that is there up to it.
fn member(key: &str, value: &Value, depth: usize, text: &mut String) {
    text.push_str(&scalar(key));
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push_str(":\n");
            for (key, value) in members {
                indent(depth.saturating_add(1), text);
                member(key, value, depth.saturating_add(1), text);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            text.push_str(":\n");
            items.iter().for_each(|item| list_item(item, depth.saturating_add(1), text));
        }
        other => text.push_str(&format!(": {}\n", flow(other))),
    }
}

fn list_item(item: &Value, depth: usize, text: &mut String) {
    indent(depth, text);
    text.push_str("- ");
    match item.as_object().filter(|members| !members.is_empty()) {
        None => text.push_str(&format!("{}\n", flow(item))),
        Some(members) => {
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    indent(depth.saturating_add(1), text);
                }
                member(key, value, depth.saturating_add(1), text);
            }
        }
    }
}

fn indent(depth: usize, text: &mut String) {
    text.push_str(&"  ".repeat(depth));
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(quoted_flow).collect::<Vec<_>>().join(", ")),
        other => quoted_flow(other),
    }
}

fn quoted_flow(value: &Value) -> String {
    escaped(&to_text(value))
}

/// A text, in quotes unless it is a word that can be nothing else.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'));
    let is_taken = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|taken| text.eq_ignore_ascii_case(taken));
    if is_word && !is_taken { text.to_owned() } else { quoted_flow(&Value::from(text)) }
}

/// YAML refuses some characters that JSON lets stand as they are.
fn escaped(json: &str) -> String {
    let mut text = String::new();
    for char in json.chars() {
        match char {
            '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            char => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use hookd_rules::Format;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let value = json!({
            "hooks": [
                { "id": "a:b #c", "event": "Stop", "handler": { "argv": ["x", "- y", ""], "env": { "no": "~" }, "timeout": 5 } },
                { "odd": "a\u{7f}\u{85}\u{feff}\u{2028}\n\t\"\\ 'é'", "empty": {}, "list": [], "yes": true, "1": null },
            ],
        });
        let text = text(&value, "one\nline");
        assert!(text.starts_with("# one line\nhooks:\n  - id: \"a:b #c\"\n    event: Stop\n"), "{text}");
        assert_eq!(Format::Yaml.value(&text), Ok(value), "{text}");
    }
}
