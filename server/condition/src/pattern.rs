//! Regular expressions, shared by all expressions that have the same text.
//!
//! A pattern is compiled when its expression is loaded, so that a bad one is a load error, and then dropped: tens of
//! thousands of rules may be loaded of which few are ever asked. The first call that needs it compiles it again and
//! keeps it, up to [`MOST_COMPILED`] patterns of the whole process; then the oldest makes room. Patterns that are a
//! plain text, anchored or not, need no expression engine at all.

mod bounded;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use arc_swap::ArcSwapOption;
use regex::RegexSetBuilder;

pub(crate) use self::bounded::{Bounded, BoundedSet};
use crate::EvaluationError;

/// How large one compiled pattern may be, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// How large a pattern that is made at evaluation may be, in bytes: it is compiled for that evaluation alone.
const MAX_FRESH_BYTES: usize = 64 << 10;

/// How many compiled patterns are kept.
const MOST_COMPILED: usize = 1024;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
static COMPILED: Mutex<VecDeque<Weak<dyn Forget>>> = Mutex::new(VecDeque::new());

/// Something that is compiled and can be compiled again.
pub(crate) trait Forget: Send + Sync {
    /// Drops what was compiled.
    fn forget(&self);
}

/// Counts `compiled` among what is kept, and lets the oldest go if that is too much.
pub(crate) fn keep<F: Forget + 'static>(compiled: &Arc<F>) {
    let newest: Weak<F> = Arc::downgrade(compiled);
    let oldest = {
        let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(newest);
        if kept.len() > MOST_COMPILED { kept.pop_front() } else { None }
    };
    if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
        oldest.forget();
    }
}

/// A regular expression that is known to compile.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    shape: Shape,
    compiled: ArcSwapOption<Bounded>,
}

/// What a pattern tests, where that is plain.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Contains(Box<str>),
    Starts(Box<str>),
    Ends(Box<str>),
    Equals(Box<str>),
    Other,
}

impl Pattern {
    /// The pattern `text`, the same one for the same text.
    ///
    /// # Errors
    /// Why it does not compile, on one line.
    pub(crate) fn new(text: &str) -> Result<Arc<Self>, String> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pattern) = known.patterns.get(text).and_then(Weak::upgrade) {
            return Ok(pattern);
        }
        let shape = Shape::of(text);
        if shape == Shape::Other {
            Bounded::compile(text, MAX_BYTES)?;
        }
        let pattern = Arc::new(Self { text: text.into(), shape, compiled: ArcSwapOption::empty() });
        known.insert(&pattern);
        Ok(pattern)
    }

    /// The text that it was made from.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it needs an expression engine: the others are cheaper alone than in a set.
    pub(crate) fn is_regex(&self) -> bool {
        self.shape == Shape::Other
    }

    /// Whether it is found anywhere in `text`.
    pub(crate) fn is_match(self: &Arc<Self>, text: &str) -> Result<bool, EvaluationError> {
        Ok(match &self.shape {
            Shape::Contains(part) => text.contains(&**part),
            Shape::Starts(part) => text.starts_with(&**part),
            Shape::Ends(part) => text.ends_with(&**part),
            Shape::Equals(whole) => text == &**whole,
            Shape::Other => self.with_regex(|regex| regex.is_match(text))?.map_err(EvaluationError::new)?,
        })
    }

    /// Calls `use_it` with the compiled pattern.
    pub(crate) fn with_regex<T>(self: &Arc<Self>, use_it: impl FnOnce(&Bounded) -> T) -> Result<T, EvaluationError> {
        if let Some(regex) = &*self.compiled.load() {
            return Ok(use_it(regex));
        }
        let regex = Arc::new(Bounded::compile(&self.text, MAX_BYTES).map_err(EvaluationError::new)?);
        if self.compiled.swap(Some(Arc::clone(&regex))).is_none() {
            keep(self);
        }
        Ok(use_it(&regex))
    }
}

impl Forget for Pattern {
    fn forget(&self) {
        self.compiled.store(None);
    }
}

/// Patterns by their text. Dead ones are swept out each time the number has doubled.
#[derive(Default)]
struct Known {
    patterns: HashMap<Box<str>, Weak<Pattern>>,
    sweep_at: usize,
}

impl Known {
    fn insert(&mut self, pattern: &Arc<Pattern>) {
        if self.patterns.len() >= self.sweep_at {
            self.patterns.retain(|_, pattern| pattern.strong_count() > 0);
            self.sweep_at = self.patterns.len().saturating_mul(2).max(64);
        }
        self.patterns.insert(pattern.text.clone(), Arc::downgrade(pattern));
    }
}

impl Shape {
    fn of(text: &str) -> Self {
        let (starts, rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let mut part = String::new();
        let mut ends = false;
        let mut rest = rest.chars();
        while let Some(c) = rest.next() {
            match c {
                '\\' => match rest.next() {
                    Some(escaped) if escaped.is_ascii_punctuation() && !matches!(escaped, '<' | '>') => {
                        part.push(escaped);
                    }
                    _ => return Self::Other,
                },
                '$' if rest.as_str().is_empty() => ends = true,
                '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => return Self::Other,
                c => part.push(c),
            }
        }
        let part = part.into_boxed_str();
        match (starts, ends) {
            (false, false) => Self::Contains(part),
            (true, false) => Self::Starts(part),
            (false, true) => Self::Ends(part),
            (true, true) => Self::Equals(part),
        }
    }
}

/// A pattern that the call itself gave.
///
/// # Errors
/// Why it does not compile, on one line.
pub(crate) fn fresh(text: &str) -> Result<Bounded, String> {
    Bounded::compile(text, MAX_FRESH_BYTES)
}

/// All of `patterns` as one set, `None` where together they get too large.
pub(crate) fn set(patterns: Vec<Box<str>>) -> Option<BoundedSet> {
    let set = RegexSetBuilder::new(patterns.iter()).size_limit(MAX_BYTES).build().ok()?;
    Some(BoundedSet::new(set, patterns))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use regex::Regex;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// Whatever form a pattern has here, it says what the expression engine says.
        #[test]
        fn plain_patterns_are_regular_expressions(pattern in r"\^?[ab.é\n\\$/<-]{0,5}\$?", text in r"[ab.é\n\\$/<^-]{0,6}") {
            if let Ok(pattern) = Pattern::new(&pattern) {
                let regex = Regex::new(pattern.text()).unwrap();
                prop_assert_eq!(pattern.is_match(&text), Ok(regex.is_match(&text)), "{:?} on {:?}", pattern.text(), text);
            }
        }
    }

    #[test]
    fn equal_texts_share_a_pattern_and_few_stay_compiled() {
        let one = Pattern::new("[a-c]+x").unwrap();
        assert!(Arc::ptr_eq(&one, &Pattern::new("[a-c]+x").unwrap()));
        assert_eq!(one.is_match("bx"), Ok(true));
        assert!(one.compiled.load().is_some());
        let more: Vec<_> = (0..=MOST_COMPILED).map(|index| Pattern::new(&format!("[a-c]{index}")).unwrap()).collect();
        assert!(more.iter().all(|pattern| pattern.is_match("b") == Ok(false)));
        assert!(one.compiled.load().is_none());
        assert_eq!(one.is_match("bx"), Ok(true));
    }
}
