//! Changes in the text of a JSON file: what is not changed stays as it is, byte by byte, order, indentation and line ends
//! included.

use std::ops::Range;

use hookd_json::{Kind as Is, Value};

/// A text that is strict JSON, and where its values stand in it.
#[derive(Debug)]
pub(super) struct Text {
    text: String,
    root: Node,
}

/// A value, by its bytes in the text.
#[derive(Debug)]
struct Node {
    range: Range<usize>,
    children: Vec<Child>,
}

/// A member of an object, or an item of an array.
#[derive(Debug)]
struct Child {
    /// Empty for an item.
    key: String,
    /// With its key.
    whole: Range<usize>,
    value: Node,
}

/// What a file that is to be changed may look like besides.
const BOM: char = '\u{feff}';

impl Text {
    /// Reads a text.
    ///
    /// # Errors
    /// Why it is no strict JSON, with line and column.
    pub(super) fn parse(text: String) -> Result<Self, String> {
        hookd_json::check(text.strip_prefix(BOM).unwrap_or(&text)).map_err(|error| error.to_string())?;
        let mut scan = Scan { text: &text, at: 0 };
        scan.take(BOM);
        let root = scan.value().ok_or("it cannot be told where its values stand")?;
        Ok(Self { text, root })
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// The value at `path`, which is made of keys.
    pub(super) fn value(&self, path: &[&str]) -> Option<Value> {
        let range = self.node(path)?.range.clone();
        hookd_json::parse(self.text.get(range)?).ok()
    }

    /// What stands at `path`, for messages. `None`: nothing.
    pub(super) fn kind(&self, path: &[&str]) -> Option<Is> {
        self.value(path).as_ref().map(Is::of)
    }

    /// The keys of the object at `path`, in the order of the text.
    pub(super) fn keys(&self, path: &[&str]) -> Vec<String> {
        let children = self.node(path).map(|node| node.children.as_slice()).unwrap_or_default();
        children.iter().map(|child| child.key.clone()).filter(|key| !key.is_empty()).collect()
    }

    /// The position of `key` in the object at `path`.
    pub(super) fn position(&self, path: &[&str], key: &str) -> Option<usize> {
        self.node(path)?.children.iter().position(|child| child.key == key)
    }

    /// Puts `child` behind the last one of the object or array at `path`: an item, or a key with its value, in one line.
    ///
    /// # Errors
    /// There is no such object or array.
    pub(super) fn push(self, path: &[&str], child: &str) -> Result<Self, String> {
        let node = self.node(path).ok_or_else(|| gone(path))?;
        let Some(last) = node.children.last() else {
            let (open, close) = (node.range.start.saturating_add(1), node.range.end.saturating_sub(1));
            let inside = if self.is_one_line() {
                child.to_owned()
            } else {
                let (end, indent) = (self.line_end(), self.indent_at(node.range.start));
                format!("{end}{indent}{}{child}{end}{indent}", self.unit())
            };
            return self.splice(open..close, &inside);
        };
        let before = self.text.get(..last.whole.start).unwrap_or_default();
        let gap = before.get(before.trim_end().len()..).unwrap_or_default();
        let is_alone = node.children.len() == 1;
        let gap = if gap.contains('\n') || !is_alone { gap.to_owned() } else { " ".to_owned() };
        let at = last.whole.end;
        self.splice(at..at, &format!(",{gap}{child}"))
    }

    /// Takes out the child number `index` of the object or array at `path`, with what separates it from the others.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn take_out(self, path: &[&str], index: usize) -> Result<Self, String> {
        let range = self.node(path).and_then(|node| {
            let child = node.children.get(index)?;
            let next = node.children.get(index.checked_add(1)?);
            let previous = index.checked_sub(1).and_then(|index| node.children.get(index));
            Some(match (previous, next) {
                (_, Some(next)) => child.whole.start..next.whole.start,
                (Some(previous), None) => previous.whole.end..child.whole.end,
                (None, None) => node.range.start.saturating_add(1)..node.range.end.saturating_sub(1),
            })
        });
        self.splice(range.ok_or_else(|| gone(path))?, "")
    }

    /// Puts `value` in the place of the value number `index` of the object or array at `path`.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn replace(self, path: &[&str], index: usize, value: &str) -> Result<Self, String> {
        let node = self.node(path).and_then(|node| node.children.get(index));
        let range = node.map(|child| child.value.range.clone()).ok_or_else(|| gone(path))?;
        self.splice(range, value)
    }

    /// Numbers in a path are the positions of items.
    fn node(&self, path: &[&str]) -> Option<&Node> {
        let mut node = &self.root;
        for key in path {
            let by_key = node.children.iter().find(|child| child.key == *key && !key.is_empty());
            let child = by_key.or_else(|| node.children.get(key.parse::<usize>().ok()?).filter(|it| it.key.is_empty()));
            node = &child?.value;
        }
        Some(node)
    }

    fn splice(mut self, range: Range<usize>, with: &str) -> Result<Self, String> {
        self.text.replace_range(range, with);
        Self::parse(self.text)
    }

    /// Everything stands in one line, and it is more than an empty object.
    fn is_one_line(&self) -> bool {
        !self.text.trim().contains('\n') && !self.root.children.is_empty()
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// What the line that holds this byte starts with.
    fn indent_at(&self, at: usize) -> &str {
        let line = self.text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
        blank_start(line.trim_start_matches(BOM))
    }

    /// By how much the text is indented: as far as its first line that is.
    fn unit(&self) -> &str {
        let indents = self.text.lines().filter(|line| !line.trim().is_empty()).map(blank_start);
        indents.into_iter().find(|indent| !indent.is_empty()).unwrap_or("  ")
    }
}

/// Whether `text` would be JSON if it had no comments.
pub(super) fn has_comments(text: &str) -> bool {
    let mut without = String::new();
    let mut rest = text;
    while let Some(next) = rest.find(['"', '/']) {
        let (before, after) = rest.split_at_checked(next).unwrap_or((rest, ""));
        without.push_str(before);
        let end = if after.starts_with("//") {
            after.find('\n').unwrap_or(after.len())
        } else if after.starts_with("/*") {
            after.find("*/").map_or(after.len(), |end| end.saturating_add(2))
        } else {
            // A text in quotes, or a stroke that stands nowhere in JSON.
            let mut scan = Scan { text: after, at: 0 };
            let end = if scan.string().is_some() { scan.at } else { 1 };
            without.push_str(after.get(..end).unwrap_or_default());
            end
        };
        rest = after.get(end..).unwrap_or_default();
    }
    without.push_str(rest);
    hookd_json::check(text).is_err() && hookd_json::check(&without).is_ok()
}

/// A value on one line, as people write one: `{ "a": [1, 2] }`.
pub(super) fn one_line(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| member(key, value)).collect::<Vec<_>>();
            format!("{{ {} }}", members.join(", "))
        }
        other => hookd_json::to_text(other),
    }
}

/// A key and its value on one line.
pub(super) fn member(key: &str, value: &Value) -> String {
    format!("{}: {}", hookd_json::to_text(&Value::from(key)), one_line(value))
}

fn blank_start(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '\t']);
    line.get(..line.len().saturating_sub(rest.len())).unwrap_or_default()
}

fn gone(path: &[&str]) -> String {
    format!("`{}` is not where it was", path.join("."))
}

/// Finds where the values of a text stand that was read as JSON before.
struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    fn take(&mut self, char: char) -> bool {
        let is_next = self.rest().starts_with(char);
        if is_next {
            self.skip(char.len_utf8());
        }
        is_next
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.skip(rest.len().saturating_sub(rest.trim_start_matches([' ', '\t', '\n', '\r']).len()));
    }

    fn value(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let mut children = Vec::new();
        if self.take('{') {
            self.children('}', true, &mut children)?;
        } else if self.take('[') {
            self.children(']', false, &mut children)?;
        } else if self.rest().starts_with('"') {
            self.string()?;
        } else {
            let rest = self.rest();
            let length = rest.find([',', '}', ']', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
            self.skip(length);
        }
        Some(Node { range: start..self.at, children })
    }

    fn children(&mut self, close: char, has_keys: bool, children: &mut Vec<Child>) -> Option<()> {
        loop {
            self.space();
            if self.take(close) {
                return Some(());
            }
            if self.take(',') {
                self.space();
            }
            let start = self.at;
            let mut key = String::new();
            if has_keys {
                key = self.string()?;
                self.space();
                self.take(':').then_some(())?;
            }
            let value = self.value()?;
            children.push(Child { key, whole: start..self.at, value });
        }
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.take('"').then_some(())?;
        loop {
            let next = self.rest().find(['"', '\\'])?;
            let is_end = self.rest().get(next..)?.starts_with('"');
            self.skip(next.saturating_add(1));
            if is_end {
                break;
            }
            // What is escaped is at least one character; those of `\u0022` end no string.
            let escaped = self.rest().chars().next()?;
            self.skip(escaped.len_utf8());
        }
        match hookd_json::parse(self.text.get(start..self.at)?).ok()? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(text: &str) -> Text {
        Text::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn what_is_put_in_looks_like_its_neighbours_and_goes_without_a_trace() {
        for (before, path, child, after) in [
            ("{}", &[][..], r#""a": 1"#, "{\n  \"a\": 1\n}"),
            ("{}\n", &[], r#""a": 1"#, "{\n  \"a\": 1\n}\n"),
            ("{\r\n\t\"b\": {}\r\n}", &["b"], r#""a": 1"#, "{\r\n\t\"b\": {\r\n\t\t\"a\": 1\r\n\t}\r\n}"),
            ("{\n    \"b\": 2\n}\n", &[], r#""a": 1"#, "{\n    \"b\": 2,\n    \"a\": 1\n}\n"),
            (r#"{"b":[1,2]}"#, &["b"], "3", r#"{"b":[1,2,3]}"#),
            (r#"{"b": [1, 2]}"#, &["b"], "3", r#"{"b": [1, 2, 3]}"#),
            (r#"{"b":[]}"#, &["b"], "3", r#"{"b":[3]}"#),
            ("{\n  \"b\": [{ \"c\": [] }]\n}", &["b"], "3", "{\n  \"b\": [{ \"c\": [] }, 3]\n}"),
            ("\u{feff}{\n  \"b\": 2\n}", &[], r#""a": 1"#, "\u{feff}{\n  \"b\": 2,\n  \"a\": 1\n}"),
            ("{\n  \"x\": [[], {\"y\": []}]\n}", &["x", "1", "y"], "5", "{\n  \"x\": [[], {\"y\": [\n    5\n  ]}]\n}"),
        ] {
            let put = text(before).push(path, child).unwrap();
            assert_eq!(put.text, after, "{before}");
            let index = put.node(path).unwrap().children.len() - 1;
            assert_eq!(put.take_out(path, index).unwrap().text, before, "{before}");
        }
    }

    #[test]
    fn odd_texts_are_found_where_they_stand() {
        let odd = "{ \"a\\\"}\\u0022\" : [ \"]\\\\\" , -1.5e3,null ] ,\"\\u0062\":{\"c\":\"\u{e9}\\\"\"}, \"\": 0}";
        let text = text(odd);
        assert_eq!(text.keys(&[]), ["a\"}\"", "b"]);
        assert_eq!(text.value(&["a\"}\""]), hookd_json::parse(r#"["]\\", -1.5e3, null]"#).ok());
        assert_eq!(text.value(&["b", "c"]), Some(json!("\u{e9}\"")));
        assert_eq!(text.kind(&["none"]), None);
        let less = text.take_out(&[], 1).unwrap().take_out(&["a\"}\""], 0).unwrap().replace(&[], 0, "true").unwrap();
        assert_eq!(less.text, "{ \"a\\\"}\\u0022\" : true ,\"\": 0}");
        assert_eq!(less.take_out(&[], 5).unwrap_err(), "`` is not where it was");
    }

    #[test]
    fn comments_are_told_from_other_faults() {
        for (text, expected) in [
            ("// a\n{ \"u\": \"http://x /* y */\", /* \" */ \"b\": [1 // ]\n] }", true),
            ("{} // end", true),
            ("/**/{}", true),
            ("{ \"u\": \"http://x\" }", false),
            ("{ \"u\": \"http://x\", }", false),
            ("{ \"a\": 1 } / 2", false),
            ("{ /* ", false),
            ("{ \"a", false),
        ] {
            assert_eq!(has_comments(text), expected, "{text}");
        }
    }

    #[test]
    fn values_are_written_as_people_write_them() {
        let value = json!({ "a": [1, { "b": "x\n" }], "c": {}, "d": [] });
        assert_eq!(one_line(&value), r#"{ "a": [1, { "b": "x\n" }], "c": {}, "d": [] }"#);
    }
}
