//! What a rewrite changed, line by line.

use similar::{ChangeTag, TextDiff};

use super::{Ink, Paint, cut, lines};

/// Longest line, in characters; the whole of it is in the JSON output.
const LONGEST_LINE: usize = 200;
/// Unchanged lines shown around a change.
const AROUND: usize = 3;

/// The difference between two JSON texts, printed pretty, indented by four.
pub(crate) fn picture(before: &str, after: &str, paint: Paint) -> String {
    let (before, after) = (pretty(before), pretty(after));
    let diff = TextDiff::from_lines(&before, &after);
    let mut text = String::new();
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            text.push_str(&paint.with(Ink::Dim, "    …"));
            text.push('\n');
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let (sign, ink) = match change.tag() {
                ChangeTag::Delete => ('-', Ink::Bad),
                ChangeTag::Insert => ('+', Ink::Good),
                ChangeTag::Equal => (' ', Ink::Plain),
            };
            let line = lines(change.value()).next().unwrap_or_default();
            let line = format!("  {sign} {}", cut(&line, LONGEST_LINE));
            text.push_str(&paint.with(ink, line.trim_end()));
            text.push('\n');
        }
    }
    text
}

fn pretty(text: &str) -> String {
    let value = hookd_json::parse(text).ok();
    let mut pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.into());
    pretty.push('\n');
    pretty
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_marked_and_digits_are_kept() {
        let before = r#"{"command":"rm -rf x","id":9007199254740993,"deep":{"a":[1,2]}}"#;
        let after = r#"{"command":"trash x","id":9007199254740993,"deep":{"a":[1,2.0]}}"#;
        let picture = picture(before, after, Paint::new(false));
        insta::assert_snapshot!(picture, @r#"
            {
          -   "command": "rm -rf x",
          +   "command": "trash x",
              "id": 9007199254740993,
              "deep": {
                "a": [
                  1,
          -       2
          +       2.0
                ]
              }
            }
        "#);
    }
}
