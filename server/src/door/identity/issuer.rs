//! An issuer of tokens and its keys, which are kept up to date beside the calls: no call waits for a key that is known.

mod cache;
mod fetch;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use hookd_json::Json;
use hookd_rules::read_small_text;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use self::{cache::Cache, fetch::fetch};
use super::{
    keys::KeySet,
    token::{self, Said},
};
use crate::{
    catalog::{Watch, WatchTimes},
    model::{Identity, Unproven},
    record::Recorder,
    settings::{IssuerSettings, KeyServer, KeySource},
};

/// Least time between two fetches that unknown keys cause: a flood of them must not become a flood of fetches.
const BETWEEN_ASKED: Duration = Duration::from_secs(10);
/// How long a call with an unknown key waits for the issuer's answer.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Pause after the first fetch that failed; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// An issuer and its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) settings: IssuerSettings,
    keys: Arc<Keys>,
    /// `None`: its keys come from a file, which is watched.
    server: Option<Asking>,
    _keeping: AbortOnDropHandle<()>,
}

/// A token whose signature and claims hold.
#[derive(Debug)]
pub(super) struct Proved {
    pub(super) identity: Arc<Identity>,
    /// Until when, in seconds since 1970.
    pub(super) until_s: i64,
    /// Of which keys.
    pub(super) generation: u64,
}

/// The keys in force, shared with the task that keeps them up to date.
#[derive(Debug)]
struct Keys {
    issuer: String,
    in_force: ArcSwap<KeySet>,
    /// Why there are no newer ones, where they could not be had the last time.
    refusal: ArcSwapOption<String>,
    recorder: Arc<Recorder>,
}

/// How calls ask the task that fetches keys.
#[derive(Debug)]
struct Asking {
    wanted: Arc<Notify>,
    /// How many fetches have ended.
    fetched: watch::Receiver<u64>,
    /// When a call asked last, and at which count of fetches.
    asked: Mutex<Option<(Instant, u64)>>,
}

impl Issuer {
    /// Has its keys by then: from the file, from the first answer of the server, or, where that does not come in time, from
    /// the cache.
    ///
    /// # Errors
    /// What is wrong with a file of keys. A server that does not answer is asked again later.
    pub(super) async fn start(settings: IssuerSettings, recorder: Arc<Recorder>) -> Result<Self, String> {
        let keys = Keys {
            issuer: settings.name.clone(),
            in_force: ArcSwap::default(),
            refusal: ArcSwapOption::empty(),
            recorder,
        };
        let keys = Arc::new(keys);
        match settings.keys.clone() {
            KeySource::File(path) => {
                let watch = Watch::start(vec![path.clone()], WatchTimes::default()).await;
                keys.take(read_file(path.clone()).await)?;
                let keeping = AbortOnDropHandle::new(tokio::spawn(keep_file(Arc::clone(&keys), path, watch)));
                Ok(Self { settings, keys, server: None, _keeping: keeping })
            }
            KeySource::Server(server) => {
                let cache = server.cache.as_ref().map(|directory| {
                    let of = [settings.issuer.clone(), server.url.to_string()];
                    Cache::new(directory, &settings.name, of)
                });
                match read(cache.as_ref()).await {
                    Ok(Some(cached)) => keys.in_force.store(Arc::new(cached.following(&KeySet::default()))),
                    Ok(None) => {}
                    Err(why) => {
                        warn!(issuer = settings.name, why, "the keys that were kept of an issuer are not taken")
                    }
                }
                let wanted = Arc::new(Notify::new());
                let (sender, mut fetched) = watch::channel(0);
                let keeper = Keeper { keys: Arc::clone(&keys), server, cache, wanted: Arc::clone(&wanted), sender };
                let keeping = AbortOnDropHandle::new(tokio::spawn(keeper.keep()));
                // INVARIANT: a key that was taken back while hookd was away counts for no call, unless the server cannot
                // be asked.
                let _gone = fetched.changed().await;
                let asking = Asking { wanted, fetched, asked: Mutex::default() };
                Ok(Self { settings, keys, server: Some(asking), _keeping: keeping })
            }
        }
    }

    /// Says whether a server could start with these settings. Nobody is asked for keys.
    ///
    /// # Errors
    /// What is wrong with a file of keys.
    pub(super) fn check_settings(settings: &IssuerSettings) -> Result<(), String> {
        match &settings.keys {
            KeySource::File(path) => read_file_now(path).map(|_| ()),
            KeySource::Server(_) => Ok(()),
        }
    }

    /// Whom the token is about, if this issuer signed it for hookd.
    ///
    /// # Errors
    /// [`Unproven::UnknownKey`] or [`Unproven::NoKeys`] where newer keys may help; otherwise what does not hold.
    pub(super) fn check(&self, token: &str, said: &Said, claims: &Json<'_>, now_s: i64) -> Result<Proved, Unproven> {
        if !self.settings.algorithms.contains(&said.algorithm) {
            return Err(Unproven::Algorithm);
        }
        let keys = self.keys.in_force.load_full();
        if keys.is_empty() {
            return Err(Unproven::NoKeys);
        }
        let mut candidates = keys.candidates(said.algorithm, said.kid.as_deref())?;
        if !candidates.any(|key| token::is_signed(token, said.algorithm, &key)) {
            return Err(Unproven::Signature);
        }
        let (identity, until_s) = token::proved(claims, &self.settings, now_s)?;
        Ok(Proved { identity: Arc::new(identity), until_s, generation: keys.generation })
    }

    /// The generation of the keys in force: what older ones have proved holds no more.
    pub(super) fn generation(&self) -> u64 {
        self.keys.in_force.load().generation
    }

    /// What is wrong with the keys, for people: that there are none, or that they may be out of date.
    pub(super) fn trouble(&self) -> Option<String> {
        let name = &self.settings.name;
        if self.keys.in_force.load().is_empty() {
            return Some(format!("no keys: issuer {name}, its tokens are refused"));
        }
        let refusal = self.keys.refusal.load();
        Some(format!("keys from before stay: issuer {name}, {}", refusal.as_ref()?))
    }

    /// Has the server asked for its keys now, unless that was done just before. The future ends when it has answered, or
    /// is not going to in time. `None`: there is nothing to wait for.
    pub(super) fn ask(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let server = self.server.as_ref()?;
        let mut fetched = server.fetched.clone();
        let count = *fetched.borrow_and_update();
        let mut asked = server.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match *asked {
            // Another call has asked, and the answer is not there yet.
            Some((_, at)) if at == count => {}
            Some((when, _)) if when.elapsed() < BETWEEN_ASKED => return None,
            _ => {
                *asked = Some((Instant::now(), count));
                server.wanted.notify_one();
            }
        }
        Some(async move {
            let _too_late = timeout(LONGEST_WAIT, fetched.changed()).await;
        })
    }
}

impl Keys {
    /// Puts newer keys in force, and says whether anything has changed.
    fn take(&self, keys: Result<KeySet, String>) -> Result<bool, String> {
        self.recorder.issuer_keys(&self.issuer, keys.is_ok());
        let old = self.in_force.load_full();
        let keys = keys?.following(&old);
        self.refusal.store(None);
        let changed = keys.generation != old.generation;
        if changed {
            info!(issuer = self.issuer, none = keys.is_empty(), "the keys of an issuer are new");
            self.in_force.store(Arc::new(keys));
        }
        Ok(changed)
    }

    fn refused(&self, why: &str) {
        self.refusal.store(Some(Arc::new(why.to_owned())));
        warn!(issuer = self.issuer, why, "the keys of an issuer could not be had, those from before stay");
    }
}

/// Asks a server for its keys again and again.
struct Keeper {
    keys: Arc<Keys>,
    server: KeyServer,
    cache: Option<Cache>,
    wanted: Arc<Notify>,
    sender: watch::Sender<u64>,
}

impl Keeper {
    async fn keep(self) {
        let (mut pause, mut is_kept) = (FIRST_PAUSE, false);
        loop {
            let fetched = fetch(&self.server).await;
            let text = fetched.as_ref().ok().cloned();
            let taken = fetched.and_then(|text| KeySet::parse(&text).map_err(|why| format!("the answer {why}")));
            let next = match self.keys.take(taken) {
                Ok(changed) => {
                    pause = FIRST_PAUSE;
                    if let (Some(cache), Some(text)) = (&self.cache, text)
                        && (changed || !is_kept)
                    {
                        is_kept = self.write(cache, text).await;
                    }
                    self.server.refresh
                }
                Err(why) => {
                    self.keys.refused(&why);
                    pause = pause.saturating_mul(2);
                    pause.min(self.server.refresh)
                }
            };
            self.sender.send_modify(|count| *count = count.saturating_add(1));
            tokio::select! {
                () = sleep(next) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    /// Whether that could be done.
    async fn write(&self, cache: &Cache, text: String) -> bool {
        let written = cache.write(text).await;
        if let Err(why) = &written {
            warn!(issuer = self.keys.issuer, why, "the keys of an issuer could not be kept for a restart");
        }
        written.is_ok()
    }
}

async fn read(cache: Option<&Cache>) -> Result<Option<KeySet>, String> {
    match cache {
        Some(cache) => cache.read().await,
        None => Ok(None),
    }
}

async fn keep_file(keys: Arc<Keys>, path: PathBuf, watch: Watch) {
    loop {
        watch.changed().await;
        if let Err(why) = keys.take(read_file(path.clone()).await) {
            keys.refused(&why);
        }
    }
}

async fn read_file(path: PathBuf) -> Result<KeySet, String> {
    let reading = tokio::task::spawn_blocking(move || read_file_now(&path));
    reading.await.map_err(|error| error.to_string())?
}

fn read_file_now(path: &Path) -> Result<KeySet, String> {
    let text = read_small_text(path).map_err(|why| format!("cannot be read: {why}"));
    text.and_then(|text| KeySet::parse(&text)).map_err(|why| format!("{}: {why}", path.display()))
}
