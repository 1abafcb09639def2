//! The audit trail (issue 6, item 7): records leave by a thread of their own, which makes them, chains them and writes
//! them. What a record holds is its room's business; here it is a function that adds fields to a line.

mod file;
mod writer;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};
use tracing::{info, warn};

use super::otlp::{LogExporter, OtlpError};
use crate::settings::{Acknowledge, AuditSettings, OnFull};
use writer::Writer;

/// Adds what a record has to tell: `,"name":value` each. Called on the writer's thread.
pub type Fields = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// What a record weighs besides its texts, in bytes.
const RECORD_BYTES: usize = 1024;
/// A record that waits so long is worth a word: nothing may have failed, and nothing goes on.
const STALLED: Duration = Duration::from_secs(5);

/// Takes records. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Trail(Arc<Shared>);

/// A record to be.
pub struct Entry {
    kind: &'static str,
    time: SystemTime,
    bytes: usize,
    fields: Fields,
}

/// An answer that has to wait for its record.
#[derive(Debug)]
#[must_use = "the answer may leave only when it is known what became of its record"]
pub struct Held {
    trail: Trail,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// There is no place for it yet.
    Outside(Entry),
    /// It is the one of this number.
    Inside(u64),
}

/// What became of the record of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It is as far as the settings ask.
    Yes,
    /// It is in the queue and may be written yet.
    Late,
    /// It is not.
    No,
}

/// How records went so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditStats {
    /// Records that were written.
    pub written: u64,
    /// Records that found no place, or were left when the process ended.
    pub dropped: u64,
    /// Decisions that sampling left out.
    pub sampled_out: u64,
    /// Tries to write, to rotate or to sync that failed.
    pub errors: u64,
    /// Records that wait.
    pub waiting: usize,
    /// What they weigh, in bytes.
    pub waiting_bytes: usize,
    /// How long the oldest of those waits that are not as far as answers wait for.
    pub oldest: Duration,
    /// When the file was last brought to the disk. `None`: not yet.
    pub synced: Option<SystemTime>,
    /// What cannot be done with records now, for a person. Empty: nothing.
    pub trouble: Vec<String>,
}

/// Why the trail cannot begin: one line.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Its file.
    #[error("{}: cannot write the audit file: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Standard output.
    #[error("cannot write the audit trail to standard output: {0}")]
    Stdout(io::Error),
    /// Its threads.
    #[error("cannot start the thread of the audit trail: {0}")]
    Thread(io::Error),
    /// Its collector.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something waits, or the end has come.
    filled: Condvar,
    /// Told whenever there is more room, or more is acknowledged.
    progress: watch::Sender<Progress>,
    capacity: usize,
    on_full: OnFull,
    acknowledge: Acknowledge,
    counts: Counts,
    /// Takes a copy of each record.
    exporter: Option<LogExporter>,
    /// What cannot be done now, and why.
    trouble: Mutex<BTreeMap<&'static str, String>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Entry>,
    bytes: usize,
    /// How many records were ever taken.
    taken: u64,
    /// Since when the oldest one waits, those that are being written included. `None`: none does.
    since: Option<Instant>,
    is_closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    /// Up to which number records are acknowledged.
    acknowledged: u64,
    /// How often the queue was emptied.
    emptied: u64,
    /// The thread has ended.
    is_closed: bool,
    /// Before the last record was out.
    is_cut: bool,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    sampled_out: AtomicU64,
    errors: AtomicU64,
    /// Milliseconds since 1970. 0: not yet.
    synced: AtomicU64,
}

impl Trail {
    /// Begins the trail of this process, in whose first record `fields` stand. It goes on after what is in the file.
    ///
    /// # Errors
    /// The file cannot be written, no thread can be had, or a file for the collector cannot be used.
    pub fn begin(settings: &AuditSettings, fields: Fields) -> Result<Self, AuditError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            filled: Condvar::new(),
            progress: watch::Sender::default(),
            capacity: settings.queue_bytes,
            on_full: settings.on_full,
            acknowledge: settings.acknowledge,
            counts: Counts::default(),
            exporter: LogExporter::begin(&settings.otlp)?,
            trouble: Mutex::default(),
        });
        let writer = Writer::begin(settings, Arc::clone(&shared), fields)?;
        let run = move || writer.run();
        thread::Builder::new().name("audit".to_owned()).spawn(run).map_err(AuditError::Thread)?;
        Ok(Self(shared))
    }

    /// Whether a trail could begin. Nothing is written or made.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn check(settings: &AuditSettings) -> Result<(), AuditError> {
        if let Some(path) = settings.file.path.clone() {
            file::Lines::check(&path).map_err(|error| AuditError::File { path, error })?;
        }
        Ok(LogExporter::check(&settings.otlp)?)
    }

    /// Takes the record of a decision. `None`: its answer may leave now.
    #[must_use]
    pub fn decided(&self, entry: Entry) -> Option<Held> {
        let stage = match (self.0.take(entry, self.0.capacity), self.0.on_full) {
            (Ok(_), _) if self.0.acknowledge == Acknowledge::Queued => return None,
            (Ok(number), _) => Stage::Inside(number),
            (Err(_), OnFull::Drop) => {
                self.0.drop_one();
                return None;
            }
            (Err(entry), OnFull::Block) => Stage::Outside(entry),
        };
        Some(Held { trail: self.clone(), stage })
    }

    /// Takes a record of what became of an answer whose own record came too late. Where there is no place, it is dropped.
    pub fn late(&self, entry: Entry) {
        // Room of its own, so that what is said of answers that found none is not lost for the same reason.
        self.add(entry, self.0.capacity.saturating_mul(2));
    }

    /// Takes the record of a refusal, for which nobody waits. Where there is no place, it is dropped.
    pub fn refused(&self, entry: Entry) {
        // Half of the room: whoever is not even let in must not keep the records of decisions out.
        self.add(entry, self.0.capacity / 2);
    }

    fn add(&self, entry: Entry, capacity: usize) {
        if self.0.take(entry, capacity).is_err() {
            self.0.drop_one();
        }
    }

    /// Counts a decision that sampling left out.
    pub fn left_out(&self) {
        self.0.counts.sampled_out.fetch_add(1, Ordering::Relaxed);
    }

    /// How records went so far.
    #[must_use]
    pub fn stats(&self) -> AuditStats {
        let (waiting, waiting_bytes, oldest) = {
            let state = self.0.state();
            (state.waiting.len(), state.bytes, state.since.map(|since| since.elapsed()).unwrap_or_default())
        };
        let mut trouble = self.0.troubles().values().cloned().collect::<Vec<_>>();
        if trouble.is_empty() && oldest >= STALLED {
            trouble.push(format!("audit records have waited to be written for {} s", oldest.as_secs()));
        }
        let Counts { written, dropped, sampled_out, errors, synced } = &self.0.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let synced = Some(count(synced)).filter(|millis| *millis > 0);
        AuditStats {
            written: count(written),
            dropped: count(dropped),
            sampled_out: count(sampled_out),
            errors: count(errors),
            waiting,
            waiting_bytes,
            oldest,
            synced: synced.and_then(|millis| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))),
            trouble,
        }
    }

    /// Where copies of records go. `None`: nowhere.
    #[must_use]
    pub fn exporter(&self) -> Option<&LogExporter> {
        self.0.exporter.as_ref()
    }

    /// Ends the trail: what waits is written, then the last record. Whether that was done within `limit`.
    pub async fn close(&self, limit: Duration) -> bool {
        let mut progress = self.0.progress.subscribe();
        self.0.state().is_closing = true;
        self.0.filled.notify_one();
        timeout(limit, progress.wait_for(|progress| progress.is_closed))
            .await
            .is_ok_and(|closed| closed.is_ok_and(|progress| !progress.is_cut))
    }
}

impl Held {
    /// Waits until the record is as far as the settings ask, or `end` has come.
    pub async fn recorded(self, end: Instant) -> Recorded {
        let Self { trail: Trail(shared), mut stage } = self;
        let mut progress = shared.progress.subscribe();
        loop {
            progress.mark_unchanged();
            match stage {
                Stage::Outside(entry) => match shared.take(entry, shared.capacity) {
                    Ok(_) if shared.acknowledge == Acknowledge::Queued => return Recorded::Yes,
                    Ok(number) => {
                        stage = Stage::Inside(number);
                        continue;
                    }
                    Err(entry) => stage = Stage::Outside(entry),
                },
                Stage::Inside(number) if progress.borrow().acknowledged >= number => return Recorded::Yes,
                Stage::Inside(_) => {}
            }
            if !matches!(timeout_at(end, progress.changed()).await, Ok(Ok(()))) {
                return match stage {
                    Stage::Inside(_) => Recorded::Late,
                    Stage::Outside(_) => {
                        shared.drop_one();
                        Recorded::No
                    }
                };
            }
        }
    }
}

impl Entry {
    /// A record of this kind, of something that happens now, with `text_bytes` of text.
    #[must_use]
    pub fn new(kind: &'static str, text_bytes: usize, fields: Fields) -> Self {
        Self { kind, time: SystemTime::now(), bytes: text_bytes.saturating_add(RECORD_BYTES), fields }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("kind", &self.kind).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record if `capacity` has a place for it: its number. One that is larger than that has one alone.
    fn take(&self, entry: Entry, capacity: usize) -> Result<u64, Entry> {
        let mut state = self.state();
        let bytes = state.bytes.saturating_add(entry.bytes);
        if state.is_closing || (bytes > capacity && !state.waiting.is_empty()) {
            return Err(entry);
        }
        let was_empty = state.waiting.is_empty();
        state.since.get_or_insert_with(Instant::now);
        state.bytes = bytes;
        state.waiting.push(entry);
        state.taken = state.taken.saturating_add(1);
        let number = state.taken;
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Ok(number)
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `what` cannot be done with records, which `message` says.
    fn trouble(&self, what: &'static str, message: String) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        let mut troubles = self.troubles();
        if troubles.get(what) != Some(&message) {
            warn!("{message}");
            troubles.insert(what, message);
        }
    }

    fn no_trouble(&self, what: &'static str) {
        if self.troubles().remove(what).is_some() {
            info!("audit records can be {what} again");
        }
    }

    fn drop_one(&self) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// All that was taken to be written is as far as answers wait for.
    fn done(&mut self) {
        // Those that came meanwhile wait from now on, near enough.
        self.since = if self.waiting.is_empty() { None } else { Some(Instant::now()) };
    }
}

#[cfg(test)]
mod tests;
