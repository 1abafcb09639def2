//! `anyMatch(value, regex)` and `redact(value, regex, with)`: over all strings of a JSON value.
//!
//! `anyMatch` looks at the keys of objects too, so that nothing hides in one; `redact` leaves keys as they are, since two
//! of them could become the same.

use hookd_json::{Json, Map, Value};

use crate::pattern::Bounded;

/// The most that `redact` may make, in bytes.
const MAX_REDACTED: usize = 16 << 20;

/// Whether `matches` holds for `value` or any string in it.
pub(crate) fn any_match<E>(value: &Json<'_>, matches: &mut impl FnMut(&str) -> Result<bool, E>) -> Result<bool, E> {
    match value {
        Json::Text(text) => return matches(text),
        Json::List(items) => {
            for item in items {
                if any_match(item, matches)? {
                    return Ok(true);
                }
            }
        }
        Json::Object(members) => {
            for (key, item) in members.iter() {
                if matches(key)? || any_match(item, matches)? {
                    return Ok(true);
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
    Ok(false)
}

/// `value` with each match of `regex` in any of its strings replaced by `with`, taken as it is.
///
/// # Errors
/// It would get too large.
pub(crate) fn redact(value: &Json<'_>, regex: &Bounded, with: &str) -> Result<Value, String> {
    Redactor { regex, with, made: 0 }.value(value)
}

struct Redactor<'r> {
    regex: &'r Bounded,
    with: &'r str,
    made: usize,
}

impl Redactor<'_> {
    fn value(&mut self, value: &Json<'_>) -> Result<Value, String> {
        Ok(match value {
            Json::Text(text) => Value::String(self.text(text)?),
            Json::List(items) => Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?),
            Json::Object(members) => {
                let entries = members.iter().map(|(key, item)| Ok((key.to_owned(), self.value(item)?)));
                Value::Object(entries.collect::<Result<Map<_, _>, String>>()?)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone().into_value(),
        })
    }

    fn text(&mut self, text: &str) -> Result<String, String> {
        let mut redacted = String::new();
        let mut done = 0;
        for found in self.regex.for_text(text)?.find_iter(text) {
            redacted.push_str(text.get(done..found.start()).unwrap_or_default());
            redacted.push_str(self.with);
            done = found.end();
            if redacted.len().saturating_add(self.made) > MAX_REDACTED {
                return Err(format!("`redact`: the result has more than {MAX_REDACTED} bytes"));
            }
        }
        redacted.push_str(text.get(done..).unwrap_or_default());
        self.made = self.made.saturating_add(redacted.len());
        Ok(redacted)
    }
}
