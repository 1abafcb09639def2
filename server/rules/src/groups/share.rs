//! What all the groups that apply to a caller come to.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::{EventIndex, Matching};

/// How many subjects of an event are remembered for the callers of one share. One that comes after them is looked up
/// each time.
const MAX_REMEMBERED: usize = 256;
/// What a list of rules takes beside the rules themselves and its subject, in bytes.
const LIST: usize = 128;

/// The rules that are for some callers alone, with those that are for everyone on the same events.
#[derive(Debug)]
pub(crate) struct Share {
    /// The events on which more rules apply than those for everyone.
    events: HashMap<Arc<str>, Merged>,
    /// Places of the defaults that apply, in order.
    defaults: Box<[u32]>,
}

/// What a [`Share`] is made of.
pub(super) struct Sources<'g> {
    /// The rules for everyone.
    pub(super) common: &'g HashMap<Arc<str>, Arc<EventIndex>>,
    /// The rules of each group.
    pub(super) own: Vec<&'g HashMap<Arc<str>, Arc<EventIndex>>>,
    /// Places of the defaults of all of them.
    pub(super) defaults: Vec<u32>,
    pub(super) room: &'g Arc<Room>,
}

/// How many bytes merged lists may still take.
#[derive(Debug)]
pub(super) struct Room(AtomicUsize);

/// The rules of one event from several indexes.
#[derive(Debug)]
struct Merged {
    indexes: Box<[Arc<EventIndex>]>,
    considered: usize,
    /// The rules for a call that lacks its event's subject.
    all: ArcSwapOption<Matching>,
    remembered: ArcSwap<HashMap<Box<str>, Arc<Matching>>>,
    room: Arc<Room>,
    /// What it took of the room.
    taken: AtomicUsize,
}

impl Share {
    pub(super) fn new(sources: Sources<'_>) -> Self {
        let Sources { common, own, mut defaults, room } = sources;
        let mut indexes = HashMap::<&Arc<str>, Vec<Arc<EventIndex>>>::new();
        for (event, index) in own.into_iter().flatten() {
            indexes.entry(event).or_default().push(Arc::clone(index));
        }
        let merged = |(event, mut own): (&Arc<str>, Vec<_>)| {
            own.extend(common.get(event).cloned());
            (Arc::clone(event), Merged::new(own, room))
        };
        defaults.sort_unstable();
        Self { events: indexes.into_iter().map(merged).collect(), defaults: defaults.into() }
    }

    /// How many rules for `event` apply, and those that match `subject`, as [`EventIndex::matching`] has it. `None`: only
    /// rules for everyone do.
    pub(crate) fn matching(&self, event: &str, subject: Option<&str>) -> Option<(usize, Arc<Matching>)> {
        let merged = self.events.get(event)?;
        Some((merged.considered, merged.matching(subject)))
    }

    /// Places of the defaults that apply, in order.
    pub(crate) fn defaults(&self) -> &[u32] {
        &self.defaults
    }
}

impl Room {
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

impl Default for Room {
    /// That of one catalog.
    fn default() -> Self {
        Self(AtomicUsize::new(64 << 20))
    }
}

impl Merged {
    fn new(indexes: Vec<Arc<EventIndex>>, room: &Arc<Room>) -> Self {
        let considered = indexes.iter().map(|index| index.rules().len()).sum();
        Self {
            indexes: indexes.into(),
            considered,
            all: ArcSwapOption::empty(),
            remembered: ArcSwap::default(),
            room: Arc::clone(room),
            taken: AtomicUsize::new(0),
        }
    }

    fn matching(&self, subject: Option<&str>) -> Arc<Matching> {
        let Some(subject) = subject else {
            if let Some(all) = self.all.load_full() {
                return all;
            }
            let all = self.find(None);
            if self.take(&all, "") {
                self.all.store(Some(Arc::clone(&all)));
            }
            return all;
        };
        let remembered = self.remembered.load();
        if let Some(known) = remembered.get(subject) {
            return Arc::clone(known);
        }
        let found = self.find(Some(subject));
        if remembered.len() >= MAX_REMEMBERED || !self.take(&found, subject) {
            return found;
        }
        self.remembered.rcu(|remembered| {
            let mut more = HashMap::clone(remembered);
            more.insert(subject.into(), Arc::clone(&found));
            more
        });
        found
    }

    /// The rules of all indexes that match, in evaluation order (law 1).
    fn find(&self, subject: Option<&str>) -> Arc<Matching> {
        let mut rules = self.indexes.iter().flat_map(|index| index.look_up(subject)).collect::<Vec<_>>();
        // Each index gives its own in order, and a stable sort merges runs.
        rules.sort_by_key(|(place, _)| *place);
        Arc::new(Matching { rules: rules.into_iter().map(|(_, rule)| rule).collect() })
    }

    /// Takes room for a list that is to be remembered. `false`: there is none.
    fn take(&self, list: &Matching, subject: &str) -> bool {
        let rules = size_of_val(&*list.rules);
        let bytes = LIST.saturating_add(subject.len()).saturating_add(rules);
        let is_room = self.room.take(bytes);
        if is_room {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        is_room
    }
}

impl Drop for Merged {
    fn drop(&mut self) {
        self.room.0.fetch_add(*self.taken.get_mut(), Ordering::Relaxed);
    }
}
