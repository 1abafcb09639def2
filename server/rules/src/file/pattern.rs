//! Matchers, compiled once for every text.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Matcher, Pattern,
    matcher::{Reading, Words},
};

/// The patterns of one load; rules with the same matcher share it.
#[derive(Default)]
pub(crate) struct Patterns {
    native: HashMap<String, Matcher>,
    /// Those of Claude Code's files, by their texts and how those are read.
    claude: HashMap<(String, Reading, bool), Matcher>,
}

impl Patterns {
    /// The matcher that `text` stands for in the native form.
    ///
    /// # Errors
    /// Why the pattern cannot be compiled, on one line.
    pub(crate) fn matcher(&mut self, text: &str) -> Result<Matcher, String> {
        if text.is_empty() || text == "*" {
            return Ok(Matcher::Any);
        }
        if let Some(known) = self.native.get(text) {
            return Ok(known.clone());
        }
        let matcher = match Words::of(text) {
            Some(words) => Matcher::Words(Arc::new(words)),
            None => Matcher::Pattern(Arc::new(Pattern::new(text).map_err(|error| reason(&error))?)),
        };
        self.native.insert(text.to_owned(), matcher.clone());
        Ok(matcher)
    }

    /// The matcher that `make` makes of `text` in one of Claude Code's files, or made of it before.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn claude(
        &mut self,
        text: &str,
        reading: Reading,
        is_narrow: bool,
        make: impl FnOnce() -> Result<Matcher, String>,
    ) -> Result<Matcher, String> {
        let key = (text.to_owned(), reading, is_narrow);
        if let Some(known) = self.claude.get(&key) {
            return Ok(known.clone());
        }
        let matcher = make()?;
        self.claude.insert(key, matcher.clone());
        Ok(matcher)
    }
}

/// The reason alone: the whole message of a syntax error is a drawing of several lines.
pub(crate) fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!("it takes more than {limit} bytes when compiled"),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}
