//! The native input: strict JSON, taken apart key by key.

use hookd_json::{Kind, Map, Value};

/// Why a native input is not understood. One line, lowercase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// It is not UTF-8.
    #[error("the input is not UTF-8: byte {at} begins no character")]
    NotText {
        /// Where, from 0.
        at: usize,
    },
    /// It is not strict JSON.
    #[error("the input is not JSON: {0}")]
    NotJson(#[from] hookd_json::JsonError),
    /// It is JSON, but no object.
    #[error("the input is {0}, not an object")]
    NotAnObject(&'static str),
    /// It does not say its event, and nobody else does.
    #[error("the input does not say its event in `{0}`, and no event was given beside it")]
    NoEvent(&'static str),
    /// A key that has to be there is not.
    #[error("the input of {event} has no `{key}`")]
    Missing {
        /// The native event.
        event: String,
        /// The key.
        key: &'static str,
    },
    /// A key holds something of another type than it must.
    #[error("`{key}` is {seen}, not {wanted}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// What it has to be, with its article.
        wanted: &'static str,
        /// What it is, with its article.
        seen: &'static str,
    },
}

/// The keys of a native input that nobody has taken yet. What is left in the end becomes the payload.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    left: Map<String, Value>,
    params_are_wrapped: bool,
}

impl Fields {
    /// Reads strict JSON (see [`hookd_json`]).
    pub(crate) fn parse(input: &[u8]) -> Result<Self, Problem> {
        let text = std::str::from_utf8(input).map_err(|error| Problem::NotText { at: error.valid_up_to() })?;
        match hookd_json::parse(text)? {
            Value::Object(left) => Ok(Self::of(left)),
            other => Err(Problem::NotAnObject(Kind::of(&other).noun())),
        }
    }

    /// The fields of an object within the input.
    pub(crate) fn of(left: Map<String, Value>) -> Self {
        Self { left, params_are_wrapped: false }
    }

    /// Looks at a key and leaves it.
    pub(crate) fn peek(&self, key: &str) -> Option<&Value> {
        self.left.get(key)
    }

    /// Looks at a string and leaves it.
    pub(crate) fn peek_text(&self, key: &str) -> Option<&str> {
        self.left.get(key).and_then(Value::as_str)
    }

    /// Takes whatever is at `key`; a `null` is taken and is nothing.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        self.left.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Takes a string. A `null` is taken and is nothing; anything else is left to the payload, as it came.
    pub(crate) fn take_text(&mut self, key: &str) -> Option<String> {
        match self.left.get(key)? {
            Value::String(_) | Value::Null => match self.left.shift_remove(key) {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// As [`Fields::take_text`], empty where there is none: how the wire says "not known".
    pub(crate) fn text(&mut self, key: &str) -> String {
        self.take_text(key).unwrap_or_default()
    }

    /// Takes a string that has to be there and not empty, such as a tool's name.
    pub(crate) fn need_text(&mut self, event: &str, key: &'static str) -> Result<String, Problem> {
        match self.take(key) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            None | Some(Value::String(_)) => Err(Problem::Missing { event: event.to_owned(), key }),
            Some(other) => Err(Problem::WrongType { key, wanted: "a string", seen: Kind::of(&other).noun() }),
        }
    }

    /// Takes the parameters of a tool call as the JSON text of an object: an object, a string that holds one as JSON text
    /// (older builds of some agents), or nothing. Parameters that are something else are the object's only key,
    /// `input`; those cannot be rewritten, since a rewrite is an object.
    pub(crate) fn params_text(&mut self, key: &str) -> String {
        let map = match self.take(key) {
            None => Map::new(),
            Some(Value::Object(map)) => map,
            Some(Value::String(text)) if text.is_empty() => Map::new(),
            Some(value) => match value.as_str().and_then(|text| hookd_json::parse(text).ok()) {
                Some(Value::Object(map)) => map,
                _ => {
                    self.params_are_wrapped = true;
                    Map::from_iter([("input".to_owned(), value)])
                }
            },
        };
        hookd_json::to_text(&Value::Object(map))
    }

    /// The parameters were no object: see [`Fields::params_text`].
    pub(crate) fn params_are_wrapped(&self) -> bool {
        self.params_are_wrapped
    }

    /// Takes these keys with what they hold, those of them that are there.
    pub(crate) fn take_all(&mut self, keys: &[&str]) -> Map<String, Value> {
        keys.iter().filter_map(|key| Some(((*key).to_owned(), self.left.shift_remove(*key)?))).collect()
    }

    /// Takes any value as JSON text: a result. A `null` is a result, nothing at all is none.
    pub(crate) fn take_json(&mut self, key: &str) -> Option<String> {
        self.left.shift_remove(key).map(|value| hookd_json::to_text(&value))
    }

    /// Takes a string that holds JSON as that JSON; any other string and any other value is a JSON text of its own.
    pub(crate) fn take_json_in_text(&mut self, key: &str) -> Option<String> {
        let value = self.left.shift_remove(key)?;
        let inner = value.as_str().and_then(|text| hookd_json::parse(text).ok());
        Some(hookd_json::to_text(&inner.unwrap_or(value)))
    }

    /// Takes a number of milliseconds (fractions are cut). What is no duration is left to the payload.
    pub(crate) fn take_millis(&mut self, key: &str) -> Option<prost_types::Duration> {
        let millis = match self.left.get(key)? {
            Value::Number(number) => whole(number)?,
            _ => return None,
        };
        let seconds = i64::try_from(millis.checked_div(1000)?).ok()?;
        let nanos = i32::try_from(millis.checked_rem(1000)?.checked_mul(1_000_000)?).ok()?;
        self.left.shift_remove(key);
        Some(prost_types::Duration { seconds, nanos })
    }

    /// Takes a time: a string (RFC 3339) or a number of milliseconds since 1970. What is no time is left to the payload.
    pub(crate) fn take_time(&mut self, key: &str) -> Option<prost_types::Timestamp> {
        let time = match self.left.get(key)? {
            Value::String(text) => text.parse().ok()?,
            Value::Number(number) => {
                let millis = whole(number)?;
                let seconds = i64::try_from(millis.checked_div(1000)?).ok()?;
                let nanos = i32::try_from(millis.checked_rem(1000)?.checked_mul(1_000_000)?).ok()?;
                prost_types::Timestamp { seconds, nanos }
            }
            _ => return None,
        };
        self.left.shift_remove(key);
        Some(time)
    }

    /// Takes the strings of a list of strings. Any other value is left to the payload.
    pub(crate) fn take_texts(&mut self, key: &str) -> Vec<String> {
        let Some(Value::Array(items)) = self.left.get(key) else { return Vec::new() };
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        match texts {
            Some(texts) => {
                self.left.shift_remove(key);
                texts
            }
            None => Vec::new(),
        }
    }

    /// Gives a key that means the same as one of Claude Code's that agent's name. Where that name is taken already, both
    /// stay as they are.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        if !self.left.contains_key(to)
            && let Some(value) = self.left.shift_remove(from)
        {
            self.left.insert(to.to_owned(), value);
        }
    }

    /// Puts something into the payload that the input says in other words. What came under that name stays.
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Value>) {
        if !self.left.contains_key(key) {
            self.left.insert(key.to_owned(), value.into());
        }
    }

    /// Puts what is left of an object within the input into the payload, as [`Fields::put`] does.
    pub(crate) fn put_all(&mut self, inner: Self) {
        for (key, value) in inner.left {
            self.put(&key, value);
        }
    }

    /// What is left, as the JSON text of the payload. Nothing is left: empty.
    pub(crate) fn into_payload(self) -> String {
        if self.left.is_empty() { String::new() } else { hookd_json::to_text(&Value::Object(self.left)) }
    }
}

/// A number that is not negative, without its fraction.
fn whole(number: &hookd_json::Number) -> Option<u64> {
    let text = number.to_string();
    let digits = text.split_once('.').map_or(text.as_str(), |(whole, _)| whole);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_no_object_is_refused_with_a_place() {
        for (input, expected) in [
            (&b"\xef\xbb\xbf{}"[..], "the input is not JSON: expected value at line 1 column 1"),
            (b"{\"a\":\"\xff\"}", "the input is not UTF-8: byte 6 begins no character"),
            (b"{\"a\":1,\"a\":2}", "the input is not JSON: duplicate key `a` at line 1 column 12"),
            (b"{} {}", "the input is not JSON: trailing characters at line 1 column 4"),
            (b"[]", "the input is an array, not an object"),
        ] {
            assert_eq!(Fields::parse(input).map(|_| ()).map_err(|error| error.to_string()), Err(expected.to_owned()));
        }
    }

    #[test]
    fn what_has_another_type_is_left_to_the_payload() {
        let mut fields = fields(r#"{"a":7,"b":null,"c":"x","d":-1,"e":"soon","f":[1]}"#);
        assert_eq!(
            (fields.text("a"), fields.text("b"), fields.text("c")),
            (String::new(), String::new(), "x".to_owned())
        );
        assert_eq!((fields.take_millis("d"), fields.take_time("e")), (None, None));
        assert_eq!(fields.take_texts("f"), [""; 0]);
        assert_eq!(fields.into_payload(), r#"{"a":7,"d":-1,"e":"soon","f":[1]}"#);
    }

    #[test]
    fn times_are_read_in_both_forms() {
        for (input, time) in [
            (r#"{"t":1787306400500}"#, Some((1_787_306_400, 500_000_000))),
            (r#"{"t":1787306400500.9}"#, Some((1_787_306_400, 500_000_000))),
            (r#"{"t":"2026-08-21T10:00:00.5Z"}"#, Some((1_787_306_400, 500_000_000))),
            (r#"{"t":1e400}"#, None),
            (r#"{"t":99999999999999999999999}"#, None),
        ] {
            let read = fields(input).take_time("t").map(|time| (time.seconds, time.nanos));
            assert_eq!(read, time, "{input}");
        }
        let elapsed = fields(r#"{"ms":12.9}"#).take_millis("ms");
        assert_eq!(elapsed, Some(prost_types::Duration { seconds: 0, nanos: 12_000_000 }));
    }

    #[test]
    fn case_074_parameters_become_an_object_with_digits_as_they_came() {
        for (input, params, wrapped) in [
            (r#"{"p":{"id":9007199254740993,"n":1.0}}"#, r#"{"id":9007199254740993,"n":1.0}"#, false),
            (r#"{"p":"{\"a\":1}"}"#, r#"{"a":1}"#, false),
            (r#"{"p":null}"#, "{}", false),
            (r#"{"p":""}"#, "{}", false),
            ("{}", "{}", false),
            (r#"{"p":"*** Begin Patch"}"#, r#"{"input":"*** Begin Patch"}"#, true),
            (r#"{"p":"[1]"}"#, r#"{"input":"[1]"}"#, true),
            (r#"{"p":[1]}"#, r#"{"input":[1]}"#, true),
        ] {
            let mut fields = fields(input);
            assert_eq!((fields.params_text("p").as_str(), fields.params_are_wrapped()), (params, wrapped), "{input}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_not_given_twice() {
        let mut fields = fields(r#"{"response":"a","last_assistant_message":"b","x":1}"#);
        fields.rename("response", "last_assistant_message");
        fields.rename("x", "y");
        fields.put("y", "z");
        assert_eq!(fields.into_payload(), r#"{"response":"a","last_assistant_message":"b","y":1}"#);
        assert_eq!(Fields::default().into_payload(), "");
    }
}
