//! Matchers, compiled once for every text.

use std::{collections::HashMap, sync::Arc};

use crate::{Matcher, Pattern, matcher::Words};

/// The patterns of one load; rules with the same matcher share it.
#[derive(Default)]
pub(crate) struct Patterns(HashMap<String, Matcher>);

impl Patterns {
    /// The matcher that `text` stands for.
    ///
    /// # Errors
    /// Why the pattern cannot be compiled, on one line.
    pub(crate) fn matcher(&mut self, text: &str) -> Result<Matcher, String> {
        if text.is_empty() || text == "*" {
            return Ok(Matcher::Any);
        }
        if let Some(known) = self.0.get(text) {
            return Ok(known.clone());
        }
        let matcher = match Words::of(text) {
            Some(words) => Matcher::Words(Arc::new(words)),
            None => Matcher::Pattern(Arc::new(Pattern::new(text).map_err(|error| reason(&error))?)),
        };
        self.0.insert(text.to_owned(), matcher.clone());
        Ok(matcher)
    }
}

/// The reason alone: the whole message of a syntax error is a drawing of several lines.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!("it takes more than {limit} bytes when compiled"),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}
