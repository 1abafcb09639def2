//! What the subject of an event must look like for a rule to match.

use std::sync::Arc;

use regex::Regex;
use regex_syntax::hir::{Hir, HirKind, Look, literal::Extractor};

/// A matcher, searched anywhere in the subject (design §4).
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Everything: no matcher, an empty one, or `*`.
    Any,
    /// A pattern that stands for a few words, such as `^(Edit|Write)$` or `bash`.
    Words(Arc<Words>),
    /// Any other pattern.
    Pattern(Regex),
}

/// The words that a pattern stands for.
#[derive(Debug)]
pub struct Words {
    /// The pattern as written.
    pub(crate) text: Box<str>,
    /// The subject has to be one of the words; otherwise it has to contain one.
    pub(crate) is_whole: bool,
    /// None of them empty unless `is_whole`.
    pub(crate) words: Box<[Arc<str>]>,
}

/// A pattern that stands for more words than this is kept as a pattern.
const MAX_WORDS: usize = 64;

impl Matcher {
    /// Whether `subject` matches. `None` is a call that lacks the subject of its event: it matches, since the
    /// unknown never loses a denial (law 11).
    #[must_use]
    pub fn matches(&self, subject: Option<&str>) -> bool {
        match (self, subject) {
            (Self::Any, _) | (_, None) => true,
            (Self::Words(words), Some(subject)) if words.is_whole => words.words.iter().any(|word| **word == *subject),
            (Self::Words(words), Some(subject)) => words.words.iter().any(|word| subject.contains(&**word)),
            (Self::Pattern(pattern), Some(subject)) => pattern.is_match(subject),
        }
    }

    /// The pattern as written. Empty: matches everything.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "",
            Self::Words(words) => &words.text,
            Self::Pattern(pattern) => pattern.as_str(),
        }
    }
}

impl Words {
    /// The words that `pattern` stands for, if it stands for a few words and nothing else.
    pub(crate) fn of(pattern: &str) -> Option<Self> {
        let hir = regex_syntax::parse(pattern).ok()?;
        let (is_whole, inner) = match hir.kind() {
            HirKind::Concat(parts) => match parts.as_slice() {
                [start, inner @ .., end] if is_look(start, Look::Start) && is_look(end, Look::End) => {
                    (true, Hir::concat(inner.to_vec()))
                }
                _ => (false, hir),
            },
            _ => (false, hir),
        };
        if !inner.properties().look_set().is_empty() {
            return None;
        }
        let words = Extractor::new().limit_total(MAX_WORDS).extract(&inner);
        if !words.is_exact() {
            return None;
        }
        let words = words.literals()?.iter().map(|word| std::str::from_utf8(word.as_bytes()).map(Arc::from));
        let words = words.collect::<Result<Box<[Arc<str>]>, _>>().ok()?;
        let usable = !words.is_empty() && (is_whole || words.iter().all(|word| !word.is_empty()));
        usable.then(|| Self { text: pattern.into(), is_whole, words })
    }
}

fn is_look(hir: &Hir, look: Look) -> bool {
    matches!(hir.kind(), HirKind::Look(found) if *found == look)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: Option<(bool, &[&str])>) {
        let found = Words::of(pattern);
        let found =
            found.as_ref().map(|words| (words.is_whole, words.words.iter().map(|word| &**word).collect::<Vec<_>>()));
        assert_eq!(found, expected.map(|(is_whole, words)| (is_whole, words.to_vec())), "{pattern}");
    }

    #[test]
    fn patterns_that_stand_for_words_are_seen() {
        check("Bash", Some((false, &["Bash"])));
        check("edit_file|write_file", Some((false, &["edit_file", "write_file"])));
        check("^Bash$", Some((true, &["Bash"])));
        check("^(Edit|Write|MultiEdit)$", Some((true, &["Edit", "Write", "MultiEdit"])));
        check(r"^mcp:db:execute$", Some((true, &["mcp:db:execute"])));
        check(r"^a\.b$", Some((true, &["a.b"])));
        for pattern in
            ["^mcp__.*", "^Bash", "Bash$", "a*", "(?i)bash_tool_with_many_letters", "^A$|^B$|.", r"\bBash\b", "()"]
        {
            check(pattern, None);
        }
    }

    proptest! {
        #[test]
        fn words_match_what_the_pattern_matches(
            pattern in r"\^?\(?[ab]{0,2}(\|[abc]{1,2}){0,2}\)?\$?",
            subject in "[abc]{0,4}",
        ) {
            if let (Ok(regex), Some(words)) = (Regex::new(&pattern), Words::of(&pattern)) {
                let matcher = Matcher::Words(Arc::new(words));
                prop_assert_eq!(matcher.matches(Some(&subject)), regex.is_match(&subject));
            }
        }
    }
}
