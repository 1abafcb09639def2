//! A tree of values that knows where each of them stands in its text, for errors that name line and column.

use std::{collections::HashSet, fmt};

use jiter::Peek;

use crate::{Json, JsonError, Kind, Map, Number, Value, reader::Reader};

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A value and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub value: Tree,
    /// Where it starts.
    pub place: Place,
}

/// The value of a [`Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, by its digits.
    Number(String),
    /// A number in a form that JSON does not have (`.inf`, `0x10`), as written. Never from JSON text.
    OddNumber(String),
    /// A string.
    String(String),
    /// An array.
    List(Vec<Node>),
    /// An object, in the order of the text. No key stands in it twice.
    Map(Vec<Entry>),
}

/// One key of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key starts.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

/// Parses the one value in `text`.
///
/// # Errors
/// [`JsonError`] exactly where [`crate::parse`] gives one.
pub fn parse_spanned(text: &str) -> Result<Node, JsonError> {
    let lines = Lines::new(text);
    let mut walk = Walk { reader: Reader::new(text), text, lines };
    let peek = walk.reader.peek()?;
    let node = walk.node(peek, 0)?;
    walk.reader.finish()?;
    Ok(node)
}

impl Node {
    /// The value without its places, or the first number in it that JSON cannot hold.
    ///
    /// # Errors
    /// The node of that number.
    pub fn to_value(&self) -> Result<Value, &Self> {
        Ok(match &self.value {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Number(digits) => Value::Number(Number::from_string_unchecked(digits.clone())),
            Tree::OddNumber(_) => return Err(self),
            Tree::String(text) => Value::String(text.clone()),
            Tree::List(items) => Value::Array(items.iter().map(Self::to_value).collect::<Result<_, _>>()?),
            Tree::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for entry in entries {
                    map.insert(entry.key.clone(), entry.node.to_value()?);
                }
                Value::Object(map)
            }
        })
    }

    /// The type of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.value {
            Tree::Null => Kind::Null,
            Tree::Bool(_) => Kind::Bool,
            Tree::Number(_) | Tree::OddNumber(_) => Kind::Number,
            Tree::String(_) => Kind::String,
            Tree::List(_) => Kind::Array,
            Tree::Map(_) => Kind::Object,
        }
    }
}

/// What a message says was seen: a small value itself, a large one by its type.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Tree::Null => f.write_str("null"),
            Tree::Bool(value) => write!(f, "{value}"),
            Tree::Number(digits) | Tree::OddNumber(digits) => write!(f, "the number {}", Short(digits)),
            Tree::String(text) => write!(f, "the string {:?}", Short(text)),
            // Where a list is wanted, this is what is wrong with it.
            Tree::List(items) if items.is_empty() => f.write_str("an empty array"),
            Tree::List(_) | Tree::Map(_) => f.write_str(self.kind().noun()),
        }
    }
}

/// Text cut to a length that a message can hold.
struct Short<'t>(&'t str);

impl Short<'_> {
    const CHARS: usize = 64;

    fn cut(&self) -> String {
        let mut text = self.0.chars().take(Self::CHARS).collect::<String>();
        if text.len() < self.0.len() {
            text.push('…');
        }
        text
    }
}

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cut())
    }
}

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.cut())
    }
}

fn own(key: Option<&str>) -> Option<String> {
    key.map(str::to_owned)
}

struct Walk<'j> {
    reader: Reader<'j>,
    text: &'j str,
    lines: Lines<'j>,
}

impl Walk<'_> {
    fn here(&self) -> usize {
        self.reader.jiter.current_index()
    }

    fn node(&mut self, peek: Peek, depth: usize) -> Result<Node, JsonError> {
        let here = self.here();
        let place = self.lines.place(here);
        let value = match peek {
            Peek::Array => {
                let depth = self.reader.deeper(depth)?;
                let mut items = Vec::new();
                let mut next = self.reader.jiter.known_array().map_err(|error| self.reader.error(&error))?;
                while let Some(peek) = next {
                    items.push(self.node(peek, depth)?);
                    next = self.reader.jiter.array_step().map_err(|error| self.reader.error(&error))?;
                }
                Tree::List(items)
            }
            Peek::Object => {
                let depth = self.reader.deeper(depth)?;
                let mut entries = Vec::new();
                let mut seen = HashSet::new();
                let mut before = self.here();
                let mut next = self.reader.jiter.known_object().map(own).map_err(|e| self.reader.error(&e))?;
                while let Some(key) = next {
                    if !seen.insert(key.clone()) {
                        return Err(self.reader.error_here(format!("duplicate key `{key}`")));
                    }
                    let quote = self.next_quote(before);
                    let place = self.lines.place(quote);
                    let peek = self.reader.peek()?;
                    let node = self.node(peek, depth)?;
                    entries.push(Entry { key, place, node });
                    before = self.here();
                    next = self.reader.jiter.next_key().map(own).map_err(|e| self.reader.error(&e))?;
                }
                Tree::Map(entries)
            }
            _ => match self.reader.value(peek, depth)? {
                // Lists and objects are walked above.
                Json::Null | Json::List(_) | Json::Object(_) => Tree::Null,
                Json::Bool(value) => Tree::Bool(value),
                Json::Text(text) => Tree::String(text.into_owned()),
                Json::Number(digits) => Tree::Number(digits.to_owned()),
            },
        };
        Ok(Node { value, place })
    }

    /// Where the next key starts: between `from` and its quote there is only white space, a brace or a comma.
    fn next_quote(&self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        from.saturating_add(rest.find('"').unwrap_or_default())
    }
}

/// Turns offsets into places, in the order of the text: it goes on where the last one was.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    place: Place,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, offset: 0, place: Place { line: 1, column: 1 } }
    }

    fn place(&mut self, offset: usize) -> Place {
        for char in self.text.get(self.offset..offset).unwrap_or_default().chars() {
            if char == '\n' {
                self.place = Place { line: self.place.line.saturating_add(1), column: 1 };
            } else {
                self.place.column = self.place.column.saturating_add(1);
            }
        }
        self.offset = self.offset.max(offset);
        self.place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn places(text: &str) -> Vec<String> {
        fn walk(node: &Node, out: &mut Vec<String>) {
            out.push(format!("{}:{} {node}", node.place.line, node.place.column));
            match &node.value {
                Tree::List(items) => items.iter().for_each(|item| walk(item, out)),
                Tree::Map(entries) => entries.iter().for_each(|entry| {
                    out.push(format!("{}:{} {}=", entry.place.line, entry.place.column, entry.key));
                    walk(&entry.node, out);
                }),
                _ => {}
            }
        }
        let mut out = Vec::new();
        walk(&parse_spanned(text).unwrap(), &mut out);
        out
    }

    #[test]
    fn keys_and_values_know_their_places() {
        assert_eq!(
            places("  {\n  \"é\" : [ 1.0,\n\t\"x\\n\" ] , \"b\":{ } ,\n\"c\" :true}"),
            [
                "1:3 an object",
                "2:3 é=",
                "2:9 an array",
                "2:11 the number 1.0",
                "3:2 the string \"x\\n\"",
                "3:12 b=",
                "3:16 an object",
                "4:1 c=",
                "4:6 true",
            ]
        );
    }

    #[test]
    fn a_line_is_not_quadratic() {
        let text = format!("[{}0]", "\"é\",".repeat(100_000));
        assert_eq!(parse_spanned(&text).map(|node| node.kind()), Ok(Kind::Array));
    }

    proptest! {
        #[test]
        fn it_is_the_value_that_parse_gives(text in r#"[\[\]{}:,"a\\u0-9.eE+\- ntrf]{0,40}"#) {
            let spanned = parse_spanned(&text).map(|node| node.to_value().unwrap());
            prop_assert_eq!(spanned, crate::parse(&text));
        }
    }
}
