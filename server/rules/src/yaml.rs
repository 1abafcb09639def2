//! YAML text as the same tree that JSON gives.
//!
//! YAML 1.2 with its core schema, less what two readers may see differently or what JSON cannot hold: keys that are no
//! strings, duplicate keys, tags, several documents. Numbers in other forms than JSON's are kept apart, so that they
//! are refused wherever a value counts. Anchors are permitted, up to [`MAX_NODES`] values after expansion.

use std::collections::{HashMap, HashSet};

use hookd_json::{Entry, JsonError, MAX_DEPTH, Node, Place, Tree};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};

/// How many values one file may hold, those that aliases repeat included.
const MAX_NODES: usize = 200_000;

/// Text of so many bytes that an alias repeats counts as one value more.
const TEXT_OF_A_VALUE: usize = 64;

/// Parses the one document in `text`; nothing but comments is `null`.
pub(crate) fn parse(text: &str) -> Result<Node, JsonError> {
    let mut walk = Walk { parser: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0 };
    let mut document = None;
    loop {
        let (event, span) = walk.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            _ if document.is_some() => return Err(error(&span, "more than one document")),
            event => document = Some(walk.node(event, &span, 0)?),
        }
    }
    Ok(document.unwrap_or(Node { value: Tree::Null, place: Place { line: 1, column: 1 } }))
}

struct Walk<'t> {
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'t> Walk<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), JsonError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let place = Place { line: error.marker().line(), column: error.marker().col().saturating_add(1) };
                Err(at(place, error.info().replace('\n', " ")))
            }
            None => Err(at(Place { line: 1, column: 1 }, "unexpected end of the text")),
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node, JsonError> {
        self.count(1, span)?;
        if event.tag().is_some() {
            return Err(error(span, "tags are not supported"));
        }
        let place = place(span);
        let anchor = event.anchor_id();
        let value = match event {
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceStart(..) => self.list(deeper(depth, 1, span)?)?,
            Event::MappingStart(..) => self.map(deeper(depth, 1, span)?)?,
            Event::Alias(id) => {
                let Some(target) = self.anchors.get(&id) else {
                    return Err(error(span, "an alias inside of what it stands for"));
                };
                deeper(depth, height(&target.value), span)?;
                let value = target.value.clone();
                self.count(size(&value), span)?;
                value
            }
            _ => return Err(error(span, "expected a value")),
        };
        let node = Node { value, place };
        if let Some(id) = anchor {
            self.count(size(&node.value), span)?;
            self.anchors.insert(id, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Tree, JsonError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Tree::List(items)),
                (event, span) => items.push(self.node(event, &span, depth)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Tree, JsonError> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Tree::Map(entries));
            }
            let Tree::String(key) = self.node(event, &span, depth)?.value else {
                return Err(error(&span, "a key must be a string"));
            };
            if !seen.insert(key.clone()) {
                return Err(error(&span, format!("duplicate key `{}`", crate::problem::shown(&key))));
            }
            let (event, value_span) = self.next()?;
            let node = self.node(event, &value_span, depth)?;
            entries.push(Entry { key, place: place(&span), node });
        }
    }

    fn count(&mut self, nodes: usize, span: &Span) -> Result<(), JsonError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(error(span, format!("more than {MAX_NODES} values")));
        }
        Ok(())
    }
}

/// The plain scalars of YAML's core schema; quoted and block scalars are strings.
fn scalar(text: &str, style: ScalarStyle) -> Tree {
    if style != ScalarStyle::Plain {
        return Tree::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Tree::Null,
        "true" | "True" | "TRUE" => Tree::Bool(true),
        "false" | "False" | "FALSE" => Tree::Bool(false),
        _ if hookd_json::check(text) == Ok(hookd_json::Kind::Number) => Tree::Number(text.to_owned()),
        _ if is_odd_number(text) => Tree::OddNumber(text.to_owned()),
        _ => Tree::String(text.to_owned()),
    }
}

/// Whether YAML takes `text` for a number although JSON does not.
fn is_odd_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (prefix, rest) = digits.split_at_checked(2).unwrap_or((digits, ""));
    match prefix {
        "0x" => !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "0o" => !rest.is_empty() && rest.bytes().all(|byte| (b'0'..=b'7').contains(&byte)),
        _ if [".inf", ".nan", "nan", "inf", "infinity"].contains(&digits.to_ascii_lowercase().as_str()) => true,
        _ => digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') && digits.parse::<f64>().is_ok(),
    }
}

/// The depth inside of `levels` more lists and maps.
fn deeper(depth: usize, levels: usize, span: &Span) -> Result<usize, JsonError> {
    let depth = depth.saturating_add(levels);
    if depth > MAX_DEPTH { Err(error(span, format!("nested more than {MAX_DEPTH} deep"))) } else { Ok(depth) }
}

fn height(value: &Tree) -> usize {
    let inner = match value {
        Tree::List(items) => items.iter().map(|item| height(&item.value)).max(),
        Tree::Map(entries) => entries.iter().map(|entry| height(&entry.node.value)).max(),
        _ => return 0,
    };
    inner.unwrap_or_default().saturating_add(1)
}

/// How many values there are, long texts counted as several.
fn size(value: &Tree) -> usize {
    match value {
        Tree::List(items) => items.iter().fold(1, |sum, item| sum.saturating_add(size(&item.value))),
        Tree::Map(entries) => entries.iter().fold(1, |sum, entry| {
            sum.saturating_add(size(&entry.node.value)).saturating_add(entry.key.len() / TEXT_OF_A_VALUE)
        }),
        Tree::String(text) | Tree::Number(text) | Tree::OddNumber(text) => {
            (text.len() / TEXT_OF_A_VALUE).saturating_add(1)
        }
        Tree::Null | Tree::Bool(_) => 1,
    }
}

fn place(span: &Span) -> Place {
    Place { line: span.start.line(), column: span.start.col().saturating_add(1) }
}

fn error(span: &Span, message: impl Into<String>) -> JsonError {
    at(place(span), message)
}

fn at(place: Place, message: impl Into<String>) -> JsonError {
    JsonError { message: message.into(), line: place.line, column: place.column }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(text: &str) -> Result<String, String> {
        let node = parse(text).map_err(|error| error.to_string())?;
        node.to_value().map(|value| value.to_string()).map_err(|node| node.to_string())
    }

    #[test]
    fn plain_scalars_are_those_of_the_core_schema() {
        for (text, value) in [
            ("", "null"),
            ("# nothing\n", "null"),
            ("---\n", "null"),
            (
                "[~, null, yes, on, True, 'true', -0, 1.0, 1e3, 12:30, 1_000, 2024-01-01]",
                r#"[null,null,"yes","on",true,"true",-0,1.0,1e3,"12:30","1_000","2024-01-01"]"#,
            ),
            ("a: &x {b: [1]}\nc: *x\n", r#"{"a":{"b":[1]},"c":{"b":[1]}}"#),
            ("|\n  a\n  b\n", r#""a\nb\n""#),
            ("{\"a\": \"\\u00e9\", \"b\": [9007199254740993]}", r#"{"a":"é","b":[9007199254740993]}"#),
        ] {
            assert_eq!(json(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn numbers_that_json_cannot_hold_are_kept_apart() {
        for text in [".inf", "-.INF", ".nan", "NaN", "inf", "0x1F", "0o17", "+1", "007", ".5", "5.", "1.e3"] {
            assert_eq!(parse(text).map(|node| node.value), Ok(Tree::OddNumber(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_two_readers_may_see_differently_is_refused() {
        for (text, message) in [
            ("a: 1\nb: 2\na: 3\n", "duplicate key `a` at line 3 column 1"),
            ("a:\n  1: 2\n", "a key must be a string at line 2 column 3"),
            ("? [a]\n: 1\n", "a key must be a string at line 1 column 3"),
            ("a: !!str 1\n", "tags are not supported at line 1 column 10"),
            ("a: 1\n---\nb: 1\n", "more than one document at line 3 column 1"),
            ("a: &x [*x]\n", "an alias inside of what it stands for at line 1 column 8"),
        ] {
            assert_eq!(json(text), Err(message.to_owned()), "{text}");
        }
        assert!(json("a: [1\nb: 2\n").is_err());
        assert!(json("a: *nowhere\n").is_err());
    }

    #[test]
    fn alias_bombs_and_depth_are_bounded() {
        let bomb = (1..40).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, i| {
            let aliases = vec![format!("*a{}", i - 1); 9].join(",");
            format!("{text}a{i}: &a{i} [{aliases}]\n")
        });
        assert!(json(&bomb).unwrap_err().starts_with("more than 200000 values"));
        // A long text again and again, which is few values and much memory.
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a,".repeat(40_000));
        assert!(json(&long).unwrap_err().starts_with("more than 200000 values"));
        let keys = format!("a: &a {{ {}: 1 }}\nb: [{}]\n", "x".repeat(900), "*a,".repeat(40_000));
        assert!(json(&keys).unwrap_err().starts_with("more than 200000 values"));
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(json(&deep), Err("nested more than 128 deep at line 1 column 129".to_owned()));
        let tower = (1..40).fold("a0: &a0 [x]\n".to_owned(), |text, i| {
            format!("{text}a{i}: &a{i} {}*a{}{}\n", "[".repeat(9), i - 1, "]".repeat(9))
        });
        assert_eq!(json(&tower), Err("nested more than 128 deep at line 16 column 20".to_owned()));
        assert!(json(&"[".repeat(100_000)).is_err());
        assert!(json(&"- ".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn json_text_is_the_same_value_in_yaml(text in r#"[\[\]{}:,"a0-9. ]{0,24}"#) {
            if let (Ok(json), Ok(yaml)) = (hookd_json::parse(&text), parse(&text)) {
                prop_assert_eq!(yaml.to_value(), Ok(json));
            }
        }
    }
}
