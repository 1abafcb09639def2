//! Which rules of an event match a subject, found without looking at every rule, and remembered.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use aho_corasick::AhoCorasick;
use arc_swap::ArcSwap;
use regex::{RegexSet, RegexSetBuilder};

use crate::{Matcher, Rule, claude::names_of, matcher::Standing};

/// How many subjects of an event are remembered. One that comes after them is looked up each time.
const MAX_REMEMBERED: usize = 1024;
/// How many patterns are tested in one pass.
const PATTERNS_IN_A_SET: usize = 128;
/// How large one set of patterns may be, in bytes.
const MAX_SET_BYTES: usize = 1 << 26;

/// The rules of one event that match one subject, in evaluation order.
#[derive(Debug)]
pub struct Matching {
    /// The rules.
    pub rules: Box<[Arc<Rule>]>,
}

/// The rules of one event. Subjects that were asked for are remembered, under a bound, as long as the catalog lives.
pub struct EventIndex {
    rules: Vec<Arc<Rule>>,
    /// The place of each among all rules of the catalog.
    places: Box<[u32]>,
    all: Arc<Matching>,
    any: Vec<u32>,
    whole: HashMap<Arc<str>, Vec<u32>>,
    starts: Starts,
    contained: Option<Contained>,
    sets: Vec<Set>,
    /// Rules whose matchers mind all names that a tool answers to.
    renamed: Vec<u32>,
    remembered: ArcSwap<HashMap<Box<str>, Arc<Matching>>>,
    /// Matchings by their rules: subjects that match the same rules share one.
    shared: Mutex<HashMap<Box<[u32]>, Arc<Matching>>>,
}

/// Words that a subject may start with. Those of patterns say which patterns are worth testing.
#[derive(Default)]
struct Starts {
    words: HashMap<Arc<str>, Vec<u32>>,
    patterns: HashMap<Arc<str>, Vec<u32>>,
    /// Lengths of all of them, in bytes.
    lengths: BTreeSet<usize>,
}

/// Words that a subject may contain.
struct Contained {
    words: AhoCorasick,
    rules: Vec<Vec<u32>>,
}

/// Patterns that are tested in one pass; those too large for that, one by one.
enum Set {
    Together { patterns: RegexSet, rules: Vec<u32> },
    Alone { rules: Vec<u32> },
}

impl EventIndex {
    /// An index of `rules`, which stand in evaluation order, each with its place among all rules of the catalog.
    #[must_use]
    pub fn new(rules: Vec<(u32, Arc<Rule>)>) -> Self {
        let (places, rules): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        let mut any = Vec::new();
        let mut whole = HashMap::<Arc<str>, Vec<u32>>::new();
        let mut starts = Starts::default();
        let mut contained = HashMap::<Arc<str>, Vec<u32>>::new();
        let mut patterns = Vec::new();
        for (place, rule) in (0_u32..).zip(&rules) {
            match &rule.matcher {
                Matcher::Any => any.push(place),
                Matcher::Words(words) => {
                    let index = match words.standing {
                        Standing::Whole => &mut whole,
                        Standing::Start => &mut starts.words,
                        Standing::Anywhere => &mut contained,
                    };
                    for word in &words.words {
                        index.entry(Arc::clone(word)).or_default().push(place);
                    }
                }
                Matcher::Pattern(pattern) => match &pattern.start {
                    Some(start) => starts.patterns.entry(Arc::clone(start)).or_default().push(place),
                    None => patterns.push((place, rule.matcher.source())),
                },
            }
        }
        let minds_renamed = |(_, rule): &(u32, &Arc<Rule>)| rule.matcher.minds_renamed();
        let renamed = (0_u32..).zip(&rules).filter(minds_renamed).map(|(place, _)| place).collect();
        starts.lengths = starts.words.keys().chain(starts.patterns.keys()).map(|word| word.len()).collect();
        let sets = patterns.chunks(PATTERNS_IN_A_SET).map(Set::new).collect();
        let all = Arc::new(Matching { rules: rules.iter().cloned().collect() });
        Self {
            rules,
            places: places.into(),
            all,
            any,
            whole,
            starts,
            contained: Contained::new(contained),
            sets,
            renamed,
            remembered: ArcSwap::default(),
            shared: Mutex::default(),
        }
    }

    /// The rules, in evaluation order.
    #[must_use]
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// The rules that match `subject`; all of them for a call that lacks its event's subject. For a subject that is
    /// remembered this neither allocates nor locks.
    #[must_use]
    pub fn matching(&self, subject: Option<&str>) -> Arc<Matching> {
        let Some(subject) = subject else { return Arc::clone(&self.all) };
        if let Some(known) = self.remembered.load().get(subject) {
            return Arc::clone(known);
        }
        let found = self.share(self.find(subject));
        self.remembered.rcu(|remembered| {
            if remembered.len() >= MAX_REMEMBERED {
                return Arc::clone(remembered);
            }
            let mut more = HashMap::clone(remembered);
            more.insert(subject.into(), Arc::clone(&found));
            Arc::new(more)
        });
        found
    }

    /// As [`Self::matching`], each rule with its place among all rules of the catalog, and nothing is remembered.
    pub(crate) fn look_up(&self, subject: Option<&str>) -> Vec<(u32, Arc<Rule>)> {
        let placed = |(place, rule): (&u32, &Arc<Rule>)| (*place, Arc::clone(rule));
        let Some(subject) = subject else { return self.places.iter().zip(&self.rules).map(placed).collect() };
        let found = self.find(subject).into_iter().filter_map(|place| usize::try_from(place).ok());
        found.filter_map(|place| self.places.get(place).zip(self.rules.get(place)).map(placed)).collect()
    }

    /// The places in this index of the rules that match, in order.
    fn find(&self, subject: &str) -> Vec<u32> {
        let mut places = self.any.clone();
        places.extend(self.whole.get(subject).into_iter().flatten());
        for start in self.starts.lengths.iter().map_while(|length| subject.as_bytes().get(..*length)) {
            let Ok(start) = std::str::from_utf8(start) else { continue };
            places.extend(self.starts.words.get(start).into_iter().flatten());
            let near = self.starts.patterns.get(start).into_iter().flatten();
            places.extend(near.filter(|place| self.matches(**place, subject)));
        }
        if let Some(contained) = &self.contained {
            contained.find(subject, &mut places);
        }
        for set in &self.sets {
            match set {
                Set::Together { patterns, rules } => {
                    places.extend(patterns.matches(subject).iter().filter_map(|hit| rules.get(hit)));
                }
                Set::Alone { rules } => {
                    places.extend(rules.iter().filter(|place| self.matches(**place, subject)));
                }
            }
        }
        if names_of(subject).is_some() {
            places.extend(self.renamed.iter().filter(|place| self.matches(**place, subject)));
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn matches(&self, place: u32, subject: &str) -> bool {
        self.rule(place).is_some_and(|rule| rule.matcher.matches(Some(subject)))
    }

    fn rule(&self, place: u32) -> Option<&Arc<Rule>> {
        self.rules.get(usize::try_from(place).ok()?)
    }

    fn share(&self, places: Vec<u32>) -> Arc<Matching> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.get(places.as_slice()) {
            return Arc::clone(known);
        }
        let rules = places.iter().filter_map(|place| self.rule(*place).cloned()).collect();
        let matching = Arc::new(Matching { rules });
        if shared.len() < MAX_REMEMBERED {
            shared.insert(places.into(), Arc::clone(&matching));
        }
        matching
    }
}

impl fmt::Debug for EventIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventIndex").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Contained {
    fn new(index: HashMap<Arc<str>, Vec<u32>>) -> Option<Self> {
        let (words, rules): (Vec<_>, Vec<_>) = index.into_iter().unzip();
        if words.is_empty() {
            return None;
        }
        // It fails only for more than 2^31 bytes of words, which no catalog holds.
        let words = AhoCorasick::new(words.iter().map(|word| word.as_bytes())).ok()?;
        Some(Self { words, rules })
    }

    fn find(&self, subject: &str, places: &mut Vec<u32>) {
        for hit in self.words.find_overlapping_iter(subject) {
            places.extend(self.rules.get(hit.pattern().as_usize()).into_iter().flatten());
        }
    }
}

impl Set {
    fn new(patterns: &[(u32, &str)]) -> Self {
        let rules = patterns.iter().map(|(place, _)| *place).collect();
        let texts = patterns.iter().map(|(_, pattern)| pattern);
        match RegexSetBuilder::new(texts).size_limit(MAX_SET_BYTES).build() {
            Ok(patterns) => Self::Together { patterns, rules },
            Err(_) => Self::Alone { rules },
        }
    }
}

#[cfg(test)]
mod tests;
