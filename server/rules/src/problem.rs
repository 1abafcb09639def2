//! What a load has to say: errors and warnings, each with its place.

use std::{fmt, path::PathBuf};

use hookd_json::Place;

use crate::Tier;

/// Something wrong or odd in a rule file.
///
/// Shown as one line: `FILE:LINE:COLUMN: KEY: MESSAGE`, without the parts that it does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The tier that it is in; `None` where it is about all of them.
    pub tier: Option<Tier>,
    /// The file or source, absolute; empty where it is about none.
    pub file: PathBuf,
    /// Where in the file; `None` where it is about the file as a whole.
    pub place: Option<Place>,
    /// The key, from the top of the file: `hooks[2].handler.timeout`. Positions count from 0. Empty: no key.
    pub key: String,
    /// The id of the rule that is left out for it, below team. In the message as well.
    pub rule: Option<String>,
    /// What is wrong and what would be right: one line, lowercase, no full stop.
    pub message: String,
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It is in force, but may not be what was meant.
    Warning,
    /// Something is not in force: the load is refused, or below team a file or rule is left out.
    Error,
}

impl Severity {
    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.as_os_str().is_empty() {
            f.write_str(&one_line(&self.file.display().to_string()))?;
            if let Some(place) = self.place {
                write!(f, ":{}:{}", place.line, place.column)?;
            }
            f.write_str(": ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// `text` without control characters, so that it neither begins a line of its own nor writes to a terminal.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() { line.extend(char.escape_debug()) } else { line.push(char) }
    }
    line
}

/// Something wrong or odd in the text of one file, before it is known which file that is.
#[derive(Debug)]
pub(crate) struct Issue {
    pub(crate) severity: Severity,
    pub(crate) place: Option<Place>,
    pub(crate) key: String,
    pub(crate) rule: Option<String>,
    pub(crate) message: String,
}

/// Where the parts of the loader put what they find.
#[derive(Debug, Default)]
pub(crate) struct Issues {
    pub(crate) list: Vec<Issue>,
    errors: usize,
}

impl Issues {
    pub(crate) fn error(&mut self, place: Place, key: KeyPath<'_>, message: impl Into<String>) {
        self.errors = self.errors.saturating_add(1);
        self.push(Severity::Error, Some(place), key, message.into());
    }

    /// As [`Self::error`], for a key that is written down already.
    pub(crate) fn error_at(&mut self, place: Place, key: String, message: String) {
        self.errors = self.errors.saturating_add(1);
        self.list.push(Issue { severity: Severity::Error, place: Some(place), key, rule: None, message });
    }

    pub(crate) fn warning(&mut self, place: Place, key: KeyPath<'_>, message: impl Into<String>) {
        self.push(Severity::Warning, Some(place), key, message.into());
    }

    /// How many errors there are so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// Says of all errors from the `from`th issue on that they leave out the rule `id`, and drops the warnings there.
    pub(crate) fn leave_out(&mut self, from: usize, id: &str) {
        let tail = self.list.split_off(from.min(self.list.len()));
        for mut issue in tail {
            if issue.severity == Severity::Error {
                issue.rule = Some(id.to_owned());
                self.list.push(issue);
            }
        }
    }

    fn push(&mut self, severity: Severity, place: Option<Place>, key: KeyPath<'_>, message: String) {
        self.list.push(Issue { severity, place, key: key.to_string(), rule: None, message });
    }
}

/// The way from the top of a file to a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyPath<'p> {
    Top,
    Key(&'p KeyPath<'p>, &'p str),
    Index(&'p KeyPath<'p>, usize),
}

impl fmt::Display for KeyPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => Ok(()),
            Self::Key(Self::Top, key) => f.write_str(&shown(key)),
            Self::Key(parent, key) => write!(f, "{parent}.{}", shown(key)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// `text` for a message: one line, and not too long.
pub(crate) fn shown(text: &str) -> String {
    let cut = text.char_indices().nth(128).map_or(text.len(), |(at, _)| at);
    let mut shown = one_line(text.get(..cut).unwrap_or(text));
    if text.chars().nth(128).is_some() {
        shown.push('…');
    }
    shown
}
