//! The rules of sources with selectors, found by the labels of a caller: a call pays for the rules that are for it, and
//! not for those of every other tenant.
//!
//! Rules with the same selector are a group with an index of its own. What all the groups that apply to a caller come to
//! is its [`Share`], remembered by the labels that any selector names; within it, the rules of an event that match a
//! subject are merged once and remembered too. All of that is bounded, and lives as long as the catalog does.

mod share;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use arc_swap::ArcSwap;

pub(crate) use self::share::Share;
use self::share::{Room, Sources};
use crate::{DefaultRule, EventIndex, Fit, LabelPairs, MissingLabel, Operator, Rule, Selector, Tier, selector::label};

/// Over how many maps what is remembered of callers is spread: a new caller copies one of them.
const SHARDS: usize = 64;
/// How many callers one of them holds before it begins anew.
const MAX_IN_A_SHARD: usize = 1024;

/// The rules of every source that has a selector, by their selectors. Empty: no source has one.
#[derive(Debug, Default)]
pub struct Groups {
    groups: Vec<Group>,
    /// The keys of labels that any selector names. Other labels make no difference.
    keys: HashSet<Box<str>>,
    /// The labels that every caller must have, each with the first source that needs it, in the order of the sources.
    needed: Vec<Lacking>,
    /// Groups that are only for callers with a label of this key and value.
    by_label: HashMap<Box<str>, HashMap<Box<str>, Vec<u32>>>,
    /// Groups that may be for callers with any label.
    others: Vec<u32>,
    /// Places of the defaults that are for everyone.
    common_defaults: Vec<u32>,
    known: Known,
    /// Shares by their groups: callers with the same groups have one in common.
    shares: Mutex<HashMap<Box<[u32]>, Weak<Share>>>,
    room: Arc<Room>,
}

/// The rules of all sources with one selector.
#[derive(Debug)]
struct Group {
    selector: Arc<Selector>,
    by_event: HashMap<Arc<str>, Arc<EventIndex>>,
    defaults: Vec<u32>,
}

/// A caller lacks a label, so that nobody can tell whether the rules of a source are for it: its call is not judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the caller lacks the label `{label}`, which the selector of the {tier} source {} needs", source_path.display())]
pub struct Lacking {
    /// The key of the label.
    pub label: Arc<str>,
    /// The tier of the source.
    pub tier: Tier,
    /// The path of the source.
    pub source_path: Arc<Path>,
}

/// Callers by the hash of their labels.
type Callers = HashMap<u64, Arc<Caller>>;

/// What is remembered of callers.
struct Known {
    state: RandomState,
    shards: Box<[ArcSwap<Callers>]>,
}

/// Those of a caller's labels that count, and what they come to.
#[derive(Debug)]
struct Caller {
    labels: Box<[(String, String)]>,
    share: Result<Arc<Share>, Lacking>,
}

impl Groups {
    /// The groups of these rules and defaults, which stand in evaluation order; `sources` are all that have a selector, in
    /// the order of evaluation, those without a rule included.
    pub(crate) fn new(
        rules: &[Arc<Rule>],
        defaults: &[DefaultRule],
        sources: &[(Tier, PathBuf, Arc<Selector>)],
    ) -> Self {
        if sources.is_empty() {
            return Self::default();
        }
        let selectors = sources.iter().map(|(.., selector)| selector);
        let keys =
            selectors.flat_map(|selector| selector.requirements()).map(|requirement| requirement.key.as_str().into());
        let mut this = Self { keys: keys.collect(), needed: needed(sources), ..Self::default() };

        let mut rules_of = BTreeMap::<&Arc<Selector>, Vec<(u32, &Arc<Rule>)>>::new();
        for (place, rule) in (0..).zip(rules) {
            if let Some(selector) = &rule.selector {
                rules_of.entry(selector).or_default().push((place, rule));
            }
        }
        let mut defaults_of = BTreeMap::<&Arc<Selector>, Vec<u32>>::new();
        for (place, default) in (0..).zip(defaults) {
            match &default.selector {
                Some(selector) => defaults_of.entry(selector).or_default().push(place),
                None => this.common_defaults.push(place),
            }
        }
        let selectors = rules_of.keys().chain(defaults_of.keys()).copied().collect::<BTreeSet<_>>();
        for selector in selectors {
            this.groups.push(Group {
                selector: Arc::clone(selector),
                by_event: by_event(rules_of.remove(selector).unwrap_or_default()),
                defaults: defaults_of.remove(selector).unwrap_or_default(),
            });
        }
        this.index();
        this
    }

    /// Whether no source has a selector.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.needed.is_empty()
    }

    /// The labels that every caller must have, sorted.
    pub(crate) fn needed_labels(&self) -> Vec<&str> {
        self.needed.iter().map(|needed| &*needed.label).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What applies to the caller with these labels, beside what is for everyone, which `common` is. For labels that are
    /// remembered this neither allocates nor locks.
    ///
    /// # Errors
    /// A label that it lacks.
    pub(crate) fn share(
        &self,
        common: &HashMap<Arc<str>, Arc<EventIndex>>,
        labels: &LabelPairs,
    ) -> Result<Arc<Share>, Lacking> {
        let counts = || labels.iter().filter(|(key, _)| self.keys.contains(key.as_str()));
        let mut hasher = self.known.state.build_hasher();
        counts().for_each(|pair| pair.hash(&mut hasher));
        let hash = hasher.finish();
        if let Some(caller) = self.known.get(hash)
            && caller.labels.iter().eq(counts())
        {
            return caller.share.clone();
        }
        let labels = counts().cloned().collect::<Box<[_]>>();
        let share = self.find(common, &labels);
        self.known.put(hash, Caller { labels, share: share.clone() });
        share
    }

    fn find(&self, common: &HashMap<Arc<str>, Arc<EventIndex>>, labels: &LabelPairs) -> Result<Arc<Share>, Lacking> {
        if let Some(lacking) = self.needed.iter().find(|needed| label(labels, &needed.label).is_none()) {
            return Err(lacking.clone());
        }
        let by_label = labels.iter().filter_map(|(key, value)| self.by_label.get(key.as_str())?.get(value.as_str()));
        let near = by_label.flatten().chain(&self.others).copied();
        let applies = |place: &u32| self.group(*place).is_some_and(|group| group.selector.fit(labels) == Fit::Applies);
        let groups = near.filter(applies).collect::<BTreeSet<_>>().into_iter().collect::<Box<[_]>>();

        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&groups).and_then(Weak::upgrade) {
            return Ok(share);
        }
        let own = groups.iter().filter_map(|place| self.group(*place));
        let share = Arc::new(Share::new(Sources {
            common,
            own: own.clone().map(|group| &group.by_event).collect(),
            defaults: self.common_defaults.iter().chain(own.flat_map(|group| &group.defaults)).copied().collect(),
            room: &self.room,
        }));
        if shares.len() >= SHARDS.saturating_mul(MAX_IN_A_SHARD) {
            shares.retain(|_, share| share.strong_count() > 0);
        }
        shares.insert(groups, Arc::downgrade(&share));
        Ok(share)
    }

    /// Puts each group where it is found: by the label that the fewest groups ask for, or with those that are tested for
    /// every caller.
    fn index(&mut self) {
        let mut asked = HashMap::<(&str, &str), usize>::new();
        for (key, value) in self.groups.iter().flat_map(|group| asked_labels(&group.selector)).flatten() {
            let count = asked.entry((key, value)).or_default();
            *count = count.saturating_add(1);
        }
        let crowd = |labels: &Vec<(&str, &str)>| labels.iter().filter_map(|label| asked.get(label)).sum::<usize>();
        let mut by_label = HashMap::<Box<str>, HashMap<Box<str>, Vec<u32>>>::new();
        for (place, group) in (0..).zip(&self.groups) {
            match asked_labels(&group.selector).min_by_key(crowd) {
                Some(labels) => {
                    for (key, value) in labels {
                        by_label.entry(key.into()).or_default().entry(value.into()).or_default().push(place);
                    }
                }
                None => self.others.push(place),
            }
        }
        self.by_label = by_label;
    }

    fn group(&self, place: u32) -> Option<&Group> {
        self.groups.get(usize::try_from(place).ok()?)
    }
}

impl Known {
    fn get(&self, hash: u64) -> Option<Arc<Caller>> {
        self.shard(hash)?.load().get(&hash).cloned()
    }

    fn put(&self, hash: u64, caller: Caller) {
        let Some(shard) = self.shard(hash) else { return };
        let caller = Arc::new(caller);
        shard.rcu(|callers| {
            // Whoever comes after so many others is remembered all the same: those begin anew.
            let mut more = if callers.len() < MAX_IN_A_SHARD { HashMap::clone(callers) } else { HashMap::new() };
            more.insert(hash, Arc::clone(&caller));
            more
        });
    }

    fn shard(&self, hash: u64) -> Option<&ArcSwap<Callers>> {
        let shards = u64::try_from(self.shards.len()).ok()?;
        self.shards.get(usize::try_from(hash.checked_rem(shards)?).ok()?)
    }
}

impl Default for Known {
    fn default() -> Self {
        Self { state: RandomState::new(), shards: (0..SHARDS).map(|_| ArcSwap::default()).collect() }
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

/// The indexes of these rules, each with its place in evaluation order, by their events.
pub(crate) fn by_event<'r>(
    rules: impl IntoIterator<Item = (u32, &'r Arc<Rule>)>,
) -> HashMap<Arc<str>, Arc<EventIndex>> {
    let mut by_event = HashMap::<Arc<str>, Vec<(u32, Arc<Rule>)>>::new();
    for (place, rule) in rules {
        for event in &rule.events {
            by_event.entry(Arc::clone(event)).or_default().push((place, Arc::clone(rule)));
        }
    }
    by_event.into_iter().map(|(event, rules)| (event, Arc::new(EventIndex::new(rules)))).collect()
}

/// The labels that callers must have, each with the first source that refuses those without it.
fn needed(sources: &[(Tier, PathBuf, Arc<Selector>)]) -> Vec<Lacking> {
    let (mut needed, mut seen) = (Vec::new(), HashSet::new());
    for (tier, path, selector) in sources {
        if selector.missing_label() == MissingLabel::Skip {
            continue;
        }
        for key in selector.needed().filter(|key| seen.insert(*key)) {
            needed.push(Lacking { label: key.into(), tier: *tier, source_path: path.as_path().into() });
        }
    }
    needed
}

/// For each requirement that only labels with certain values meet, those labels: a caller needs one of them.
fn asked_labels(selector: &Selector) -> impl Iterator<Item = Vec<(&str, &str)>> {
    selector.requirements().iter().filter_map(|requirement| match &requirement.operator {
        Operator::In(values) => Some(values.iter().map(|value| (requirement.key.as_str(), value.as_str())).collect()),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
