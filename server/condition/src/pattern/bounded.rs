//! Patterns whose work is bounded by the text alone.
//!
//! The engine of `regex` takes linear time only for each pattern: where the states that a pattern goes through are too many to
//! be kept (`[ab]*a[ab]{500}c`), it walks all parts of the pattern for each byte, which are seconds for some hundred KiB, and
//! nothing can stop it. So long texts are looked at by the automaton that makes its states as it goes, and which gives up.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder, RegexSet};
use regex_automata::{
    Input, MatchErrorKind, MatchKind, PatternSet,
    hybrid::dfa::{Cache, DFA},
    nfa::thompson,
};

/// How much the states of one pattern may take that it makes while it runs, in bytes.
const MAX_STATES: usize = 128 << 10;

/// Texts of so many bytes cost little with any pattern.
const SHORT: usize = 512;

/// How many steps (parts of the pattern for each byte) are taken without a thought: some 20 ms.
const FEW_STEPS: usize = 1_000_000;

/// How many are taken where the automaton cannot tell: it does not know the bounds of words in letters beyond ASCII.
const MOST_STEPS: usize = 20_000_000;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Bounded {
    regex: Regex,
    text: Box<str>,
    /// Made when the first long text comes.
    automaton: OnceLock<Option<Box<DFA>>>,
}

/// Several compiled patterns.
#[derive(Debug)]
pub(crate) struct BoundedSet {
    set: RegexSet,
    texts: Vec<Box<str>>,
    automaton: OnceLock<Option<Box<DFA>>>,
}

impl Bounded {
    /// Compiles `text` to at most `limit` bytes.
    ///
    /// # Errors
    /// Why that cannot be, on one line.
    pub(crate) fn compile(text: &str, limit: usize) -> Result<Self, String> {
        let regex = compile(text, limit)?;
        Ok(Self { regex, text: text.into(), automaton: OnceLock::new() })
    }

    /// Whether it is found anywhere in `text`.
    ///
    /// # Errors
    /// The pattern is too costly for a text of this length; one line.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, String> {
        Ok(match self.walk(text, true)? {
            Some(found) => found,
            None => self.regex.is_match(text),
        })
    }

    /// The pattern itself, if it goes through `text` in bounded time.
    ///
    /// # Errors
    /// As [`Self::is_match`].
    pub(crate) fn for_text(&self, text: &str) -> Result<&Regex, String> {
        self.walk(text, false).map(|_| &self.regex)
    }

    /// What the automaton says of `text`. `None`: the engine can be asked.
    fn walk(&self, text: &str, earliest: bool) -> Result<Option<bool>, String> {
        if text.len() <= SHORT {
            return Ok(None);
        }
        let automaton = self.automaton.get_or_init(|| automaton(&[&self.text], MatchKind::LeftmostFirst));
        let costly = || format!("the pattern `{}` is too costly for a text of {} bytes", shown(&self.text), text.len());
        let automaton = automaton.as_deref().ok_or_else(costly)?;
        let steps = automaton.get_nfa().states().len().saturating_mul(text.len());
        if steps <= FEW_STEPS {
            return Ok(None);
        }
        let input = Input::new(text).earliest(earliest);
        match automaton.try_search_fwd(&mut Cache::new(automaton), &input) {
            Ok(found) => Ok(Some(found.is_some())),
            Err(error) if matches!(error.kind(), MatchErrorKind::Quit { .. }) && steps <= MOST_STEPS => Ok(None),
            Err(_) => Err(costly()),
        }
    }
}

impl BoundedSet {
    pub(crate) fn new(set: RegexSet, texts: Vec<Box<str>>) -> Self {
        Self { set, texts, automaton: OnceLock::new() }
    }

    /// The places of those that are found anywhere in `text`. `None`: it takes too long to tell of all in one pass.
    pub(crate) fn matches(&self, text: &str) -> Option<Vec<usize>> {
        if text.len() <= SHORT {
            return Some(self.set.matches(text).iter().collect());
        }
        let all = || self.texts.iter().map(|text| &**text).collect::<Vec<_>>();
        let automaton = self.automaton.get_or_init(|| automaton(&all(), MatchKind::All)).as_deref()?;
        let mut found = PatternSet::new(self.texts.len());
        let mut cache = Cache::new(automaton);
        automaton.try_which_overlapping_matches(&mut cache, &Input::new(text), &mut found).ok()?;
        Some(found.iter().map(|pattern| pattern.as_usize()).collect())
    }
}

fn automaton(patterns: &[&str], kind: MatchKind) -> Option<Box<DFA>> {
    let config = DFA::config()
        .match_kind(kind)
        .unicode_word_boundary(true)
        .cache_capacity(MAX_STATES)
        .skip_cache_capacity_check(true)
        // Where the engine would give up too.
        .minimum_cache_clear_count(Some(3))
        .minimum_bytes_per_state(Some(10));
    let mut builder = DFA::builder();
    builder.configure(config).thompson(thompson::Config::new().which_captures(thompson::WhichCaptures::None));
    builder.build_many(patterns).ok().map(Box::new)
}

fn compile(text: &str, limit: usize) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(limit).dfa_size_limit(MAX_STATES).build().map_err(|error| match &error {
        regex::Error::CompiledTooBig(limit) => {
            format!("the pattern `{text}` takes more than {limit} bytes when compiled")
        }
        // The whole message is a drawing of several lines; the reason is its last one.
        error => {
            let drawing = error.to_string();
            let last = drawing.lines().last().unwrap_or_default();
            format!("the pattern `{text}` is refused: {}", last.strip_prefix("error: ").unwrap_or(last))
        }
    })
}

fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(bytes: usize) -> String {
        let next = |state: &mut u64| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(if *state >> 63 == 1 { 'a' } else { 'b' })
        };
        std::iter::repeat(()).scan(1, |state, ()| next(state)).take(bytes).collect()
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_a_failure_on_long_texts_and_right_on_short_ones() {
        let slow = Bounded::compile("[ab]*a[ab]{500}c", 1 << 20).unwrap();
        // The engine alone takes minutes for each of these.
        let text = noise(4 << 20);
        let expected = "the pattern `[ab]*a[ab]{500}c` is too costly for a text of 4194304 bytes";
        assert_eq!(slow.is_match(&text), Err(expected.to_owned()));
        assert_eq!(slow.for_text(&text).map(drop), Err(expected.to_owned()));
        let words = Bounded::compile(r"\b[ab]*a[ab]{500}c\b", 1 << 20).unwrap();
        assert!(words.is_match(&format!("é{text}")).is_err());
        let texts = ["[ab]*a[ab]{500}c", "x+", "y", "z"];
        let set = RegexSet::new(texts).unwrap();
        assert_eq!(BoundedSet::new(set, texts.map(Box::from).into()).matches(&text), None);
        let found = format!("{}a{}c", noise(100), noise(500).replace('c', "b"));
        assert_eq!((slow.is_match(&found), slow.is_match(&noise(100))), (Ok(true), Ok(false)));
    }

    #[test]
    fn usual_patterns_are_found_in_the_longest_texts() {
        let text = format!("{} é sudo rm  -rf /home", noise(4 << 20));
        for (pattern, expected) in [
            (r"rm\s+-rf", true),
            (r"(?i)SUDO", true),
            (r"^[ab]+ . \w+ rm", true),
            (r"(curl|wget)\s+https?://", false),
            (r"-----BEGIN [A-Z ]*PRIVATE KEY-----", false),
            (r"[A-Za-z0-9+/]{40,}={0,2}$", false),
        ] {
            assert_eq!(Bounded::compile(pattern, 1 << 20).unwrap().is_match(&text), Ok(expected), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn both_engines_say_the_same(pattern in r"[ab.^$|()*+?\\bw]{1,12}", text in "[ab é\n]{0,40}", times in 1_usize..60) {
            let Ok(bounded) = Bounded::compile(&pattern, 1 << 20) else { return Ok(()) };
            let text = text.repeat(times);
            if let Some(automaton) = automaton(&[&pattern], MatchKind::LeftmostFirst)
                && let Ok(found) = automaton.try_search_fwd(&mut Cache::new(&automaton), &Input::new(&text).earliest(true))
            {
                prop_assert_eq!(found.is_some(), bounded.regex.is_match(&text));
            }
            if let (Ok(set), texts) = (RegexSet::new([&*pattern, "b", "ba"]), [&*pattern, "b", "ba"])
                && let Some(found) = BoundedSet::new(set.clone(), texts.map(Box::from).into()).matches(&text)
            {
                prop_assert_eq!(found, set.matches(&text).iter().collect::<Vec<_>>());
            }
        }
    }
}
