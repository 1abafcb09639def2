//! Many patterns on one field, found in one pass.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{
    EvaluationError, Facts,
    native::{Operand, Test},
    pattern::{self, BoundedSet, Forget, Pattern},
};
use arc_swap::ArcSwapOption;

/// How many patterns one group has at most: as many as a word has bits.
const MOST: usize = 64;

/// With fewer, one by one is as fast.
const FEWEST: usize = 4;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Patterns of several conditions that are tested on the same field.
#[derive(Debug)]
pub(crate) struct Group {
    /// Never the same twice, so that what was remembered of a dropped group is never taken for this one's.
    id: u64,
    patterns: Box<[Arc<Pattern>]>,
    compiled: ArcSwapOption<BoundedSet>,
    too_large: AtomicBool,
}

impl Forget for Group {
    fn forget(&self) {
        self.compiled.store(None);
    }
}

impl Group {
    fn new(patterns: Box<[Arc<Pattern>]>) -> Arc<Self> {
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            patterns,
            compiled: ArcSwapOption::empty(),
            too_large: AtomicBool::new(false),
        })
    }

    /// Whether the pattern at `place` is found in `text`, which is the group's field in `facts`.
    pub(crate) fn is_match(
        self: &Arc<Self>,
        place: u32,
        text: &str,
        facts: &Facts<'_>,
    ) -> Result<bool, EvaluationError> {
        if let Some(found) = facts.remembered(self.id, || self.all(text)) {
            return Ok(found.checked_shr(place).unwrap_or(0) & 1 == 1);
        }
        let pattern = usize::try_from(place).ok().and_then(|place| self.patterns.get(place));
        pattern.ok_or_else(|| EvaluationError::new("no such pattern in the group"))?.is_match(text)
    }

    /// A bit for each pattern that is found in `text`; `None` where they or the text are too large for one pass.
    fn all(self: &Arc<Self>, text: &str) -> Option<u64> {
        if let Some(set) = &*self.compiled.load() {
            return bits(set, text);
        }
        if self.too_large.load(Ordering::Relaxed) {
            return None;
        }
        let Some(set) = pattern::set(self.patterns.iter().map(|pattern| pattern.text().into()).collect()) else {
            self.too_large.store(true, Ordering::Relaxed);
            return None;
        };
        let set = Arc::new(set);
        if self.compiled.swap(Some(Arc::clone(&set))).is_none() {
            pattern::keep(self);
        }
        bits(&set, text)
    }
}

fn bits(set: &BoundedSet, text: &str) -> Option<u64> {
    let places = set.matches(text)?.into_iter().filter_map(|place| u32::try_from(place).ok());
    Some(places.fold(0, |bits, place| bits | 1_u64.checked_shl(place).unwrap_or(0)))
}

/// Lets all `tests` share one pass for the patterns that they ask of the same field.
pub(crate) fn group(tests: &mut [&mut Test]) {
    let mut fields: HashMap<Operand, Vec<Arc<Pattern>>> = HashMap::new();
    for test in &mut *tests {
        test.each_match(&mut |test| {
            if let Test::Matches(field, pattern) = test
                && pattern.is_regex()
            {
                let patterns = fields.entry(field.clone()).or_default();
                if !patterns.iter().any(|known| Arc::ptr_eq(known, pattern)) {
                    patterns.push(Arc::clone(pattern));
                }
            }
        });
    }
    let mut places: HashMap<(Operand, usize), (Arc<Group>, u32)> = HashMap::new();
    for (field, patterns) in fields {
        for patterns in patterns.chunks(MOST).filter(|patterns| patterns.len() >= FEWEST) {
            let group = Group::new(patterns.into());
            for (pattern, place) in patterns.iter().zip(0..) {
                places.insert((field.clone(), Arc::as_ptr(pattern).addr()), (Arc::clone(&group), place));
            }
        }
    }
    for test in tests {
        test.each_match(&mut |test| {
            if let Test::Matches(field, pattern) = test
                && let Some((group, place)) = places.get(&(field.clone(), Arc::as_ptr(pattern).addr()))
            {
                *test = Test::Grouped(field.clone(), Arc::clone(group), *place);
            }
        });
    }
}
