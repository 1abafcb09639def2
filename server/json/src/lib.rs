//! Strict JSON text, as hookd takes it from callers, handlers and rule files.
//!
//! Stricter than RFC 8259 where leniency would let two readers see two things: duplicate keys, trailing data, lone
//! surrogates and nesting over [`MAX_DEPTH`] are errors. Numbers keep their digits: `1`, `1.0` and `1e0` are three
//! values, and `9007199254740993` stays what it is.
//!
//! The values are [`serde_json::Value`] with `arbitrary_precision`, but they are built here and not by `serde_json`'s
//! deserialiser, which takes an object with a certain reserved key for a number.

mod json;
mod reader;
mod spanned;

pub use serde_json::{Map, Number, Value};

pub use json::{Json, Members};
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

/// Reads the one value in `text`, borrowing from it what it can.
///
/// # Errors
/// [`JsonError`] with the first place that is not strict JSON.
pub fn read(text: &str) -> Result<Json<'_>, JsonError> {
    reader::read(text)
}

/// Parses the one value in `text`.
///
/// # Errors
/// [`JsonError`] with the first place that is not strict JSON.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    read(text).map(Json::into_value)
}

/// Checks that `text` is one strict JSON value and says of what type it is.
///
/// # Errors
/// [`JsonError`] exactly where [`parse`] gives one.
pub fn check(text: &str) -> Result<Kind, JsonError> {
    read(text).map(|value| value.kind())
}

/// The text of `value` on one line, digits kept.
#[must_use]
pub fn to_text(value: &Value) -> String {
    value.to_string()
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
    fn what_is_read_borrows_from_the_text_unless_it_has_escapes() {
        use std::borrow::Cow::{Borrowed, Owned};
        let text = r#" {"a" : "b", "\u0063": ["d\n", 1.50 , -2e3]}"#;
        let Ok(Json::Object(members)) = read(text) else { panic!() };
        assert!(matches!(members.get("a"), Some(Json::Text(Borrowed("b")))));
        let Some(Json::List(items)) = members.get("c") else { panic!() };
        assert_eq!(**items, [Json::Text("d\n".into()), Json::Number("1.50"), Json::Number("-2e3")]);
        assert!(matches!(items[0], Json::Text(Owned(_))));
    }

    #[test]
    fn members_are_found_among_few_and_many() {
        for count in [0, 1, 16, 17, 1000] {
            let text = (0..count).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
            let text = format!("{{{text}}}");
            let Ok(Json::Object(members)) = read(&text) else { panic!() };
            assert_eq!(members.len(), count);
            let found = (0..=count).filter_map(|i| members.get(&format!("k{i}")).cloned()).collect::<Vec<_>>();
            let expected = (0..count).map(|i| i.to_string()).collect::<Vec<_>>();
            assert_eq!(found, expected.iter().map(|digits| Json::Number(digits)).collect::<Vec<_>>());
        }
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
