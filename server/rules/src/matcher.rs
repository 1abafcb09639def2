//! What the subject of an event must look like for a rule to match.

use std::sync::{Arc, OnceLock};

use regex::{Error, Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind, Look, literal::Extractor};

use crate::claude::{names_of, readable, renamed};

/// A matcher: in the native form a pattern that is searched anywhere in the subject, in Claude Code's files
/// what that agent makes of it.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Everything: no matcher, an empty one, or `*`.
    Any,
    /// A list of names, or a pattern that stands for a few words, such as `^(Edit|Write)$` or `bash`.
    Words(Arc<Words>),
    /// Any other pattern.
    Pattern(Arc<Pattern>),
}

/// A pattern that is compiled when a subject comes near it: of thousands, few ever are.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    /// The pattern to run, where it is not the text.
    source: Option<Box<str>>,
    reading: Reading,
    /// What every subject that matches starts with. `None`: nothing is known of it.
    pub(crate) start: Option<Arc<str>>,
    compiled: OnceLock<Option<Regex>>,
}

/// How large one compiled pattern may be, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// By which rule the text of a matcher was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    /// The native form's.
    Native,
    /// Claude Code's.
    Claude,
    /// Claude Code's, on names of tools: all names that a tool answers to count.
    ClaudeTool,
}

/// The words that a pattern stands for.
#[derive(Debug)]
pub struct Words {
    /// The pattern as written.
    pub(crate) text: Box<str>,
    pub(crate) reading: Reading,
    pub(crate) standing: Standing,
    /// None of them empty, unless it is the whole subject.
    pub(crate) words: Box<[Arc<str>]>,
}

/// Where words stand in the subjects that they match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The subject is one of them.
    Whole,
    /// It starts with one.
    Start,
    /// It contains one.
    Anywhere,
}

/// A pattern that stands for more words than this is kept as a pattern.
const MAX_WORDS: usize = 64;

impl Matcher {
    /// Whether `subject` matches. `None` is a call that lacks the subject of its event: it matches, since the
    /// unknown never loses a denial (law 11).
    #[must_use]
    pub fn matches(&self, subject: Option<&str>) -> bool {
        let Some(subject) = subject else { return true };
        let names = names_of(subject).filter(|_| self.reading() == Reading::ClaudeTool).unwrap_or_default();
        self.is_match(subject) || names.iter().any(|name| self.is_match(name))
    }

    /// The pattern as written. Empty: matches everything.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => "",
            Self::Words(words) => &words.text,
            Self::Pattern(pattern) => &pattern.text,
        }
    }

    /// The pattern of the native form that matches what this one does, the names included that a tool answers to.
    /// Empty: everything.
    #[must_use]
    pub fn to_native(&self) -> String {
        let escaped = |words: &[Arc<str>]| words.iter().map(|word| regex_syntax::escape(word)).collect::<Vec<_>>();
        match self {
            Self::Any => String::new(),
            _ if self.reading() == Reading::Native => self.as_str().to_owned(),
            // A list of no names matches nothing.
            Self::Words(words) if words.words.is_empty() => "[^\\s\\S]".to_owned(),
            Self::Words(words) => {
                let list = escaped(&words.words).join("|");
                match words.standing {
                    Standing::Whole => format!("^({list})$"),
                    Standing::Start => self.with_other_names(format!("^({list})")),
                    Standing::Anywhere => self.with_other_names(list),
                }
            }
            Self::Pattern(pattern) => self.with_other_names(readable(&pattern.text, pattern.source())),
        }
    }

    /// `pattern`, and the tools that it matches only by another name.
    fn with_other_names(&self, pattern: String) -> String {
        let is_other = |tool: &&str| !self.is_match(tool) && self.matches(Some(tool));
        let others = renamed().filter(is_other).map(regex_syntax::escape).collect::<Vec<_>>();
        if others.is_empty() { pattern } else { format!("(?:{pattern})|^({})$", others.join("|")) }
    }

    /// The pattern to run, for one pass over many of them.
    pub(crate) fn source(&self) -> &str {
        match self {
            Self::Pattern(pattern) => pattern.source(),
            _ => self.as_str(),
        }
    }

    /// Whether it has to be tested on every name that a tool answers to. Whole names stand in its words already.
    pub(crate) fn minds_renamed(&self) -> bool {
        let is_whole = matches!(self, Self::Words(words) if words.standing == Standing::Whole);
        self.reading() == Reading::ClaudeTool && !is_whole
    }

    /// What counts of it for the revision: the same text is another matcher in another agent's file.
    pub(crate) fn meaning(&self) -> String {
        match self.reading() {
            Reading::Native => self.as_str().to_owned(),
            Reading::Claude | Reading::ClaudeTool => format!("claude-code:{}", self.as_str()),
        }
    }

    fn reading(&self) -> Reading {
        match self {
            Self::Any => Reading::Native,
            Self::Words(words) => words.reading,
            Self::Pattern(pattern) => pattern.reading,
        }
    }

    fn is_match(&self, subject: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Words(words) => words.words.iter().any(|word| match words.standing {
                Standing::Whole => **word == *subject,
                Standing::Start => subject.starts_with(&**word),
                Standing::Anywhere => subject.contains(&**word),
            }),
            Self::Pattern(pattern) => pattern.is_match(subject),
        }
    }
}

impl Pattern {
    /// The pattern `text`.
    ///
    /// # Errors
    /// It cannot be compiled, or only to more than [`MAX_BYTES`].
    pub fn new(text: &str) -> Result<Self, Error> {
        compile(text)?;
        Ok(Self {
            text: text.into(),
            source: None,
            reading: Reading::Native,
            start: start_of(text),
            compiled: OnceLock::new(),
        })
    }

    /// The pattern `source`, written as `text` and read by the rule `reading`.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn read(text: &str, source: &str, reading: Reading) -> Result<Self, Error> {
        let different = (text != source).then(|| source.into());
        Ok(Self { text: text.into(), source: different, reading, ..Self::new(source)? })
    }

    fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.text)
    }

    /// Whether it is found in `subject`.
    #[must_use]
    pub fn is_match(&self, subject: &str) -> bool {
        // It was compiled before, so it can be now.
        self.compiled.get_or_init(|| compile(self.source()).ok()).as_ref().is_none_or(|regex| regex.is_match(subject))
    }
}

fn compile(text: &str) -> Result<Regex, Error> {
    RegexBuilder::new(text).size_limit(MAX_BYTES).build()
}

/// The literal that every subject which `pattern` matches starts with, where there is one.
fn start_of(pattern: &str) -> Option<Arc<str>> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let HirKind::Concat(parts) = hir.kind() else { return None };
    let [start, first, ..] = parts.as_slice() else { return None };
    match (is_look(start, Look::Start), first.kind()) {
        (true, HirKind::Literal(literal)) => std::str::from_utf8(&literal.0).ok().map(Arc::from),
        _ => None,
    }
}

impl Words {
    /// The words that `pattern` stands for, if it stands for a few words and nothing else.
    pub(crate) fn of(pattern: &str) -> Option<Self> {
        let hir = regex_syntax::parse(pattern).ok()?;
        let (standing, inner) = match hir.kind() {
            HirKind::Concat(parts) => match parts.as_slice() {
                [start, inner @ .., end] if is_look(start, Look::Start) && is_look(end, Look::End) => {
                    (Standing::Whole, Hir::concat(inner.to_vec()))
                }
                [start, inner @ ..] if is_look(start, Look::Start) => (Standing::Start, Hir::concat(inner.to_vec())),
                _ => (Standing::Anywhere, hir),
            },
            _ => (Standing::Anywhere, hir),
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
        let usable = standing == Standing::Whole || words.iter().all(|word| !word.is_empty());
        (usable && !words.is_empty()).then(|| Self { text: pattern.into(), reading: Reading::Native, standing, words })
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
    fn check(pattern: &str, expected: Option<(Standing, &[&str])>) {
        let found = Words::of(pattern);
        let found =
            found.as_ref().map(|words| (words.standing, words.words.iter().map(|word| &**word).collect::<Vec<_>>()));
        assert_eq!(found, expected.map(|(standing, words)| (standing, words.to_vec())), "{pattern}");
    }

    #[test]
    fn patterns_that_stand_for_words_are_seen() {
        check("Bash", Some((Standing::Anywhere, &["Bash"])));
        check("edit_file|write_file", Some((Standing::Anywhere, &["edit_file", "write_file"])));
        check("^Bash$", Some((Standing::Whole, &["Bash"])));
        check("^(Edit|Write|MultiEdit)$", Some((Standing::Whole, &["Edit", "Write", "MultiEdit"])));
        check(r"^mcp:db:execute$", Some((Standing::Whole, &["mcp:db:execute"])));
        check("^Bash", Some((Standing::Start, &["Bash"])));
        check(r"^a\.b$", Some((Standing::Whole, &["a.b"])));
        for pattern in
            ["^mcp__.*", "^(A|)", "Bash$", "a*", "(?i)bash_tool_with_many_letters", "^A$|^B$|.", r"\bBash\b", "()"]
        {
            check(pattern, None);
        }
    }

    #[test]
    fn what_a_subject_must_start_with_is_seen() {
        for (pattern, start) in [
            ("^mcp__db__.*", Some("mcp__db__")),
            ("^a(b|c).*d$", Some("a")),
            ("^.*a", None),
            ("mcp__.*", None),
            ("^(a|b).*", None),
            ("(?i)^mcp.*", None),
            ("(?m)^mcp.*", None),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().start.as_deref(), start, "{pattern}");
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
