//! From text to [`Json`].

use std::borrow::Cow;

use jiter::{Jiter, JiterError, Peek};

use crate::{Json, JsonError, MAX_DEPTH, Members};

pub(crate) fn read(text: &str) -> Result<Json<'_>, JsonError> {
    let mut reader = Reader::new(text);
    let peek = reader.peek()?;
    let value = reader.value(peek, 0)?;
    reader.finish()?;
    Ok(value)
}

/// Reads value by value.
pub(crate) struct Reader<'t> {
    text: &'t str,
    pub(crate) jiter: Jiter<'t>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, jiter: Jiter::new(text.as_bytes()) }
    }

    pub(crate) fn finish(&mut self) -> Result<(), JsonError> {
        self.jiter.finish().map_err(|error| self.error(&error))
    }

    pub(crate) fn error(&self, error: &JiterError) -> JsonError {
        let position = error.get_position(&self.jiter);
        let message = error.error_type.to_string();
        let message = message.strip_prefix("Invalid JSON: ").unwrap_or(&message).to_owned();
        JsonError { message, line: position.line, column: position.column }
    }

    pub(crate) fn error_here(&self, message: String) -> JsonError {
        let position = self.jiter.current_position();
        JsonError { message, line: position.line, column: position.column }
    }

    pub(crate) fn peek(&mut self) -> Result<Peek, JsonError> {
        self.jiter.peek().map_err(|error| self.error(&error))
    }

    pub(crate) fn deeper(&self, depth: usize) -> Result<usize, JsonError> {
        if depth >= MAX_DEPTH {
            return Err(self.error_here(format!("nested more than {MAX_DEPTH} deep")));
        }
        Ok(depth.saturating_add(1))
    }

    pub(crate) fn value(&mut self, peek: Peek, depth: usize) -> Result<Json<'t>, JsonError> {
        let text = self.text;
        match peek {
            Peek::Null => self.jiter.known_null().map(|()| Json::Null).map_err(|error| self.error(&error)),
            Peek::True | Peek::False => self.jiter.known_bool(peek).map(Json::Bool).map_err(|error| self.error(&error)),
            Peek::String => {
                let found = self.jiter.known_str().map(|found| Json::Text(borrowed(text, found)));
                found.map_err(|error| self.error(&error))
            }
            Peek::Array => {
                let depth = self.deeper(depth)?;
                let mut items = Vec::new();
                let mut next = self.jiter.known_array().map_err(|error| self.error(&error))?;
                while let Some(peek) = next {
                    items.push(self.value(peek, depth)?);
                    next = self.jiter.array_step().map_err(|error| self.error(&error))?;
                }
                Ok(Json::List(items))
            }
            Peek::Object => self.object(depth),
            _ => {
                let start = self.jiter.current_index();
                let read = self.jiter.known_number_bytes(peek).map(|_| ());
                read.map_err(|error| self.error(&error))?;
                let digits = text.get(start..self.jiter.current_index());
                digits.map(Json::Number).ok_or_else(|| self.error_here("a broken number".to_owned()))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'t>, JsonError> {
        let text = self.text;
        let depth = self.deeper(depth)?;
        let mut members = Members::default();
        let mut next = self.jiter.known_object().map(|key| key.map(|key| borrowed(text, key)));
        while let Some(key) = next.map_err(|error| self.error(&error))? {
            if members.get(&key).is_some() {
                return Err(self.error_here(format!("duplicate key `{key}`")));
            }
            let peek = self.peek()?;
            let value = self.value(peek, depth)?;
            members.push(key, value);
            next = self.jiter.next_key().map(|key| key.map(|key| borrowed(text, key)));
        }
        Ok(Json::Object(members))
    }
}

/// `found` as a part of `text`, where it is one.
fn borrowed<'t>(text: &'t str, found: &str) -> Cow<'t, str> {
    let start = found.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    match text.get(start..start.saturating_add(found.len())) {
        // Read from the text itself, unless by chance from memory that lies in its range; then it reads the same.
        Some(part) if part.as_ptr() == found.as_ptr() => Cow::Borrowed(part),
        _ => Cow::Owned(found.to_owned()),
    }
}
