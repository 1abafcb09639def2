//! Files that callers offered, by caller and hash: the only thing that outlives a call. What it forgets is asked for
//! again.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use hookd_rules::{LoadSettings, Offered, Tier};

use crate::{model::Identity, telemetry::call::Peer};

/// How much all files of all callers may take, and those of one caller, by the estimate of [`Offered::weight`].
const MAX_WEIGHT: usize = 256 << 20;
const MAX_WEIGHT_OF_PEER: usize = 32 << 20;

/// How many files all callers may have here, and one caller.
const MAX_FILES: usize = 4096;
const MAX_FILES_OF_PEER: usize = 512;

/// In how many ways one content is kept compiled (paths and tiers differ).
const MAX_READINGS: usize = 4;

/// The hash of a content.
pub(super) type Hash = [u8; 32];

/// Whose a file is: of the callers behind one address, of which there can be many, each has its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) peer: Peer,
    pub(super) identity: Arc<Identity>,
}

/// What came of compiling a file: refusals are kept as well, since they cost as much.
pub(super) type Compiled = Result<Arc<Offered>, Arc<str>>;

/// How a content is read.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) tier: Tier,
    pub(super) path: PathBuf,
    pub(super) format: String,
    /// What it is compiled with.
    pub(super) settings: Arc<LoadSettings>,
}

#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    by_hash: HashMap<(Owner, Hash), File>,
    /// Counts uses: the file with the lowest is the one that goes.
    clock: u64,
}

#[derive(Debug)]
struct File {
    content: Arc<[u8]>,
    readings: Vec<(Reading, Compiled)>,
    used: u64,
}

impl Cache {
    /// The content with this hash, if this caller sent it.
    pub(super) fn content(&self, owner: &Owner, hash: Hash) -> Option<Arc<[u8]>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.touch(owner, hash).map(|file| Arc::clone(&file.content))
    }

    /// What came of reading it so before.
    pub(super) fn compiled(&self, owner: &Owner, hash: Hash, reading: &Reading) -> Option<Compiled> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let file = files.touch(owner, hash)?;
        file.readings.iter().find(|(there, _)| there.is(reading)).map(|(_, compiled)| compiled.clone())
    }

    /// Keeps a content that this caller sent; `hash` is what was computed of it.
    pub(super) fn put(&self, owner: &Owner, hash: Hash, content: Arc<[u8]>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = files.tick();
        files.by_hash.entry((owner.clone(), hash)).or_insert(File { content, readings: Vec::new(), used });
        files.make_room(owner);
    }

    /// Keeps what came of reading it, if it is still here.
    pub(super) fn put_compiled(&self, owner: &Owner, hash: Hash, reading: Reading, compiled: Compiled) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = files.touch(owner, hash) else { return };
        file.readings.retain(|(there, _)| !there.is(&reading));
        if file.readings.len() >= MAX_READINGS {
            drop(file.readings.remove(0));
        }
        file.readings.push((reading, compiled));
        files.make_room(owner);
    }
}

impl Reading {
    fn is(&self, other: &Self) -> bool {
        self.tier == other.tier
            && self.path == other.path
            && self.format == other.format
            && Arc::ptr_eq(&self.settings, &other.settings)
    }
}

impl Files {
    fn tick(&mut self) -> u64 {
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    fn touch(&mut self, owner: &Owner, hash: Hash) -> Option<&mut File> {
        let used = self.tick();
        let file = self.by_hash.get_mut(&(owner.clone(), hash))?;
        file.used = used;
        Some(file)
    }

    /// First the caller's own bound, so that one who sends much drives out its own files before those of others.
    fn make_room(&mut self, owner: &Owner) {
        while self.is_over(Some(owner), MAX_FILES_OF_PEER, MAX_WEIGHT_OF_PEER) && self.forget_oldest(Some(owner)) {}
        while self.is_over(None, MAX_FILES, MAX_WEIGHT) && self.forget_oldest(None) {}
    }

    fn is_over(&self, owner: Option<&Owner>, max_files: usize, max_weight: usize) -> bool {
        let of_peer = self.by_hash.iter().filter(|((there, _), _)| owner.is_none_or(|owner| there == owner));
        let (files, weight) = of_peer.fold((0_usize, 0_usize), |(files, weight), (_, file)| {
            (files.saturating_add(1), weight.saturating_add(file.weight()))
        });
        files > max_files || weight > max_weight
    }

    fn forget_oldest(&mut self, owner: Option<&Owner>) -> bool {
        let of_peer = self.by_hash.iter().filter(|((there, _), _)| owner.is_none_or(|owner| there == owner));
        let oldest = of_peer.min_by_key(|(_, file)| file.used).map(|(key, _)| key.clone());
        oldest.is_some_and(|key| self.by_hash.remove(&key).is_some())
    }
}

impl File {
    fn weight(&self) -> usize {
        let compiled = |(_, compiled): &(Reading, Compiled)| compiled.as_ref().map_or(0, |offered| offered.weight());
        self.readings.iter().map(compiled).fold(self.content.len(), usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, path::Path};

    use hookd_rules::OfferedFile;

    use super::*;

    fn owner(peer: Peer, name: &str) -> Owner {
        let identity = Identity { name: name.to_owned(), ..Identity::default() };
        Owner { peer, identity: Arc::new(identity) }
    }

    fn local() -> Owner {
        owner(Peer::Local, "")
    }

    fn reading(path: &str, settings: &Arc<LoadSettings>) -> Reading {
        let (path, settings) = (PathBuf::from(path), Arc::clone(settings));
        Reading { tier: Tier::Shared, path, format: String::new(), settings }
    }

    #[test]
    fn a_file_is_known_to_the_caller_that_sent_it_alone() {
        let cache = Cache::default();
        let other = owner(Peer::Remote(Some(IpAddr::from([192, 0, 2, 1]))), "");
        cache.put(&local(), [1; 32], Arc::from(*b"{}"));
        assert_eq!(cache.content(&local(), [1; 32]).as_deref(), Some(&b"{}"[..]));
        assert_eq!(cache.content(&local(), [2; 32]), None);
        assert_eq!(cache.content(&other, [1; 32]), None);
        assert_eq!(cache.content(&owner(Peer::Remote(None), ""), [1; 32]), None);
        assert_eq!(cache.content(&owner(Peer::Local, "somebody"), [1; 32]), None);
    }

    #[test]
    fn one_content_is_compiled_once_for_each_way_to_read_it() {
        let cache = Cache::default();
        let (settings, newer) = (Arc::<LoadSettings>::default(), Arc::<LoadSettings>::default());
        cache.put(&local(), [1; 32], Arc::from(*b"{}"));
        let refused = |why: &str| Compiled::Err(Arc::from(why));
        let shown = |reading: &Reading| cache.compiled(&local(), [1; 32], reading).map(|compiled| compiled.err());
        for place in 0..6 {
            let reading = reading(&format!("/{place}"), &settings);
            cache.put_compiled(&local(), [1; 32], reading, refused(&place.to_string()));
        }
        assert_eq!(shown(&reading("/0", &settings)), None, "the oldest makes room");
        assert_eq!(shown(&reading("/5", &settings)), Some(Some(Arc::from("5"))));
        assert_eq!(shown(&reading("/5", &newer)), None, "other settings, other rules");
        cache.put_compiled(&local(), [2; 32], reading("/", &settings), refused("unknown"));
        assert_eq!(cache.0.lock().unwrap().by_hash.len(), 1);
    }

    #[test]
    fn what_one_caller_sends_drives_out_its_own() {
        let cache = Cache::default();
        let hash = |n: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_le_bytes());
            hash
        };
        let other = owner(Peer::Remote(None), "");
        cache.put(&other, hash(0), Arc::from(*b"{}"));
        for n in 0..MAX_FILES_OF_PEER {
            cache.put(&local(), hash(n), Arc::from(*b"{}"));
        }
        assert!(cache.content(&local(), hash(0)).is_some());
        cache.put(&local(), hash(MAX_FILES_OF_PEER), Arc::from(*b"{}"));
        assert!(cache.content(&local(), hash(0)).is_some(), "used since");
        assert!(cache.content(&local(), hash(1)).is_none(), "the one that was used longest ago");
        assert!(cache.content(&other, hash(0)).is_some());

        let large: Arc<[u8]> = vec![0; MAX_WEIGHT_OF_PEER / 4].into();
        for n in 1000..1010 {
            cache.put(&local(), hash(n), Arc::clone(&large));
        }
        let kept = (1000..1010).filter(|n| cache.content(&local(), hash(*n)).is_some()).count();
        assert_eq!(kept, 4);
        assert!(cache.content(&other, hash(0)).is_some());
    }

    #[test]
    fn compiled_rules_weigh_too() {
        let content = br#"{"hooks":[{"event":"Stop","matcher":"a.b","handler":{"type":"decide","verdict":"ask"}}]}"#;
        let file = OfferedFile { tier: Tier::Shared, path: Path::new("/r.json"), format: "" };
        let offered = Offered::compile(content, file, &LoadSettings::default()).unwrap();
        assert!(offered.weight() > content.len());
    }
}
