//! Strict JSON text, as hookd takes it from callers, handlers and rule files.
//!
//! Stricter than RFC 8259 where leniency would let two readers see two things: duplicate keys, trailing data, lone
//! surrogates and nesting over [`MAX_DEPTH`] are errors. Numbers keep their digits: `1`, `1.0` and `1e0` are three
//! values, and `9007199254740993` stays what it is.
//!
//! The values are [`serde_json::Value`] with `arbitrary_precision`, but they are built here and not by `serde_json`'s
//! deserialiser, which takes an object with a certain reserved key for a number.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
};

use jiter::{Jiter, JiterError, Peek};
pub use serde_json::{Map, Number, Value};

mod spanned;

pub use spanned::{Entry, Node, Place, Tree, parse_spanned};

/// How deeply arrays and objects may be nested.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not strict JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct JsonError {
    /// What is wrong, lowercase.
    pub message: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// The type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number
    Number,
    /// A string
    String,
    /// An array
    Array,
    /// An object
    Object,
}

impl Kind {
    /// The type of `value`.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// The type with its article, for messages: `an object`.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// Parses the one value in `text`.
///
/// # Errors
/// [`JsonError`] with the first place that is not strict JSON.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    let mut reader = Reader::new(text);
    let peek = reader.peek()?;
    let value = reader.value(peek, 0)?;
    reader.finish()?;
    Ok(value)
}

/// Checks that `text` is one strict JSON value, without building it, and says of what type it is.
///
/// # Errors
/// [`JsonError`] exactly where [`parse`] gives one.
pub fn check(text: &str) -> Result<Kind, JsonError> {
    match skim(text) {
        Ok((kind, false)) => Ok(kind),
        // Two keys with one hash, or an error behind them: look which of the two comes first.
        _ => parse(text).map(|value| Kind::of(&value)),
    }
}

/// The text of `value` on one line, digits kept.
#[must_use]
pub fn to_text(value: &Value) -> String {
    value.to_string()
}

/// Reads the one value in `text` and forgets it; the second part says whether some object may have a key twice.
fn skim(text: &str) -> Result<(Kind, bool), JsonError> {
    let mut reader = Reader::new(text);
    let peek = reader.peek()?;
    let skimmed = reader.skim(peek, 0)?;
    reader.finish()?;
    Ok(skimmed)
}

struct Reader<'j> {
    jiter: Jiter<'j>,
    hasher: RandomState,
}

impl<'j> Reader<'j> {
    fn new(text: &'j str) -> Self {
        Self { jiter: Jiter::new(text.as_bytes()), hasher: RandomState::new() }
    }

    fn error(&self, error: &JiterError) -> JsonError {
        let position = error.get_position(&self.jiter);
        let message = error.error_type.to_string();
        let message = message.strip_prefix("Invalid JSON: ").unwrap_or(&message).to_owned();
        JsonError { message, line: position.line, column: position.column }
    }

    fn error_here(&self, message: String) -> JsonError {
        let position = self.jiter.current_position();
        JsonError { message, line: position.line, column: position.column }
    }

    fn peek(&mut self) -> Result<Peek, JsonError> {
        self.jiter.peek().map_err(|error| self.error(&error))
    }

    fn finish(&mut self) -> Result<(), JsonError> {
        self.jiter.finish().map_err(|error| self.error(&error))
    }

    fn deeper(&self, depth: usize) -> Result<usize, JsonError> {
        if depth >= MAX_DEPTH {
            return Err(self.error_here(format!("nested more than {MAX_DEPTH} deep")));
        }
        Ok(depth.saturating_add(1))
    }

    fn value(&mut self, peek: Peek, depth: usize) -> Result<Value, JsonError> {
        match peek {
            Peek::Null => self.jiter.known_null().map(|()| Value::Null).map_err(|error| self.error(&error)),
            Peek::True | Peek::False => {
                self.jiter.known_bool(peek).map(Value::Bool).map_err(|error| self.error(&error))
            }
            Peek::String => {
                let text = self.jiter.known_str().map(str::to_owned);
                text.map(Value::String).map_err(|error| self.error(&error))
            }
            Peek::Array => {
                let depth = self.deeper(depth)?;
                let mut items = Vec::new();
                let mut next = self.jiter.known_array().map_err(|error| self.error(&error))?;
                while let Some(peek) = next {
                    items.push(self.value(peek, depth)?);
                    next = self.jiter.array_step().map_err(|error| self.error(&error))?;
                }
                Ok(Value::Array(items))
            }
            Peek::Object => {
                let depth = self.deeper(depth)?;
                let mut map = Map::new();
                let mut next = owned(self.jiter.known_object()).map_err(|error| self.error(&error))?;
                while let Some(key) = next {
                    if map.contains_key(&key) {
                        return Err(self.error_here(format!("duplicate key `{key}`")));
                    }
                    let peek = self.peek()?;
                    let value = self.value(peek, depth)?;
                    map.insert(key, value);
                    next = owned(self.jiter.next_key()).map_err(|error| self.error(&error))?;
                }
                Ok(Value::Object(map))
            }
            _ => {
                let digits =
                    self.jiter.known_number_bytes(peek).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                digits
                    .map(|digits| Value::Number(Number::from_string_unchecked(digits)))
                    .map_err(|error| self.error(&error))
            }
        }
    }

    /// Reads one value and forgets it; the second part says whether some object may have a key twice.
    fn skim(&mut self, peek: Peek, depth: usize) -> Result<(Kind, bool), JsonError> {
        let mut repeats = false;
        let kind = match peek {
            Peek::Null => self.jiter.known_null().map(|()| Kind::Null).map_err(|error| self.error(&error))?,
            Peek::True | Peek::False => {
                self.jiter.known_bool(peek).map(|_| Kind::Bool).map_err(|error| self.error(&error))?
            }
            Peek::String => {
                let read = self.jiter.known_str().map(|_| Kind::String);
                read.map_err(|error| self.error(&error))?
            }
            Peek::Array => {
                let depth = self.deeper(depth)?;
                let mut next = self.jiter.known_array().map_err(|error| self.error(&error))?;
                while let Some(peek) = next {
                    repeats |= self.skim(peek, depth)?.1;
                    next = self.jiter.array_step().map_err(|error| self.error(&error))?;
                }
                Kind::Array
            }
            Peek::Object => {
                let depth = self.deeper(depth)?;
                let mut seen = Seen::default();
                let hasher = &self.hasher;
                let mut next = self.jiter.known_object().map(|key| key.map(|key| hasher.hash_one(key)));
                while let Some(hash) = next.map_err(|error| self.error(&error))? {
                    repeats |= seen.repeats(hash);
                    let peek = self.peek()?;
                    repeats |= self.skim(peek, depth)?.1;
                    let hasher = &self.hasher;
                    next = self.jiter.next_key().map(|key| key.map(|key| hasher.hash_one(key)));
                }
                Kind::Object
            }
            _ => {
                let read = self.jiter.known_number_bytes(peek).map(|_| Kind::Number);
                read.map_err(|error| self.error(&error))?
            }
        };
        Ok((kind, repeats))
    }
}

/// Hashes of the keys of one object: a few without allocating, any number with.
#[derive(Default)]
struct Seen {
    few: [u64; 12],
    count: usize,
    many: HashSet<u64>,
}

impl Seen {
    fn repeats(&mut self, hash: u64) -> bool {
        if self.few.iter().take(self.count).any(|seen| *seen == hash) {
            return true;
        }
        if let Some(slot) = self.few.get_mut(self.count) {
            *slot = hash;
            self.count = self.count.saturating_add(1);
            return false;
        }
        !self.many.insert(hash)
    }
}

fn owned(key: Result<Option<&str>, JiterError>) -> Result<Option<String>, JiterError> {
    key.map(|key| key.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(text).map_err(|error| error.to_string());
        assert_eq!(error, Err(expected.to_owned()));
        assert_eq!(check(text).map_err(|error| error.to_string()), Err(expected.to_owned()));
    }

    #[test]
    fn digits_order_and_reserved_keys_are_kept() {
        for text in [
            r#"{"id":9007199254740993,"n":1,"f":1.0,"e":1e400,"b":-0.0}"#,
            r#"{"z":1,"a":{"$serde_json::private::Number":"1"}}"#,
            r#"{"z":1,"a":{"$serde_json::private::RawValue":"{}"}}"#,
            r#"[null,true,false,"é中\n",[],{}]"#,
        ] {
            assert_eq!(parse(text).map(|value| to_text(&value)).as_deref(), Ok(text));
        }
        assert_ne!(parse("1"), parse("1.0"));
        assert_ne!(parse(r#"{"a":{"$serde_json::private::Number":"1"}}"#), parse(r#"{"a":1}"#));
    }

    #[test]
    fn case_073_a_lone_surrogate_is_an_error_with_a_place() {
        check_error(r#"{"a":"\ud800"}"#, "unexpected end of hex escape at line 1 column 13");
    }

    #[test]
    fn duplicate_keys_are_errors_at_any_depth() {
        check_error("{\"a\":[{\"b\":1,\n\"b\":2}]}", "duplicate key `b` at line 2 column 5");
        check_error(r#"{"a":1,"a":2,}"#, "duplicate key `a` at line 1 column 12");
        check_error(r#"{"a":1,"\u0061":2}"#, "duplicate key `a` at line 1 column 17");
        let many = (0..40).map(|i| format!("\"k{i}\":0")).collect::<Vec<_>>().join(",");
        assert_eq!(check(&format!("{{{many}}}")), Ok(Kind::Object));
        assert!(check(&format!("{{{many},\"k39\":0}}")).is_err());
    }

    #[test]
    fn trailing_data_and_other_dialects_are_errors() {
        check_error(r#"{"a":1}{"decision":"block"}"#, "trailing characters at line 1 column 8");
        for text in
            ["", " ", "{", "[1,]", "{\"a\":1,}", "NaN", "Infinity", "'a'", "01", "1.", ".5", "+1", "\"\t\"", "// x\n1"]
        {
            assert!(parse(text).is_err(), "{text:?}");
            assert!(check(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(check(&deep(MAX_DEPTH)), Ok(Kind::Array));
        check_error(&deep(MAX_DEPTH + 1), "nested more than 128 deep at line 1 column 129");
        assert!(parse(&"[".repeat(1_000_000)).is_err());
    }

    proptest! {
        #[test]
        fn check_and_parse_agree(text in r#"[\[\]{}:,"a\\u0-9.eE+\- ntrf]{0,40}"#) {
            prop_assert_eq!(check(&text), parse(&text).map(|value| Kind::of(&value)));
        }

        #[test]
        fn what_parses_prints_and_parses_to_the_same(text in r#"[\[\]{}:,"a0-9.eE+\- ]{0,24}"#) {
            if let Ok(value) = parse(&text) {
                prop_assert_eq!(parse(&to_text(&value)), Ok(value));
            }
        }
    }
}
