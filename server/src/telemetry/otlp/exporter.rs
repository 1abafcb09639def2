use std::{
    collections::VecDeque,
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::body::Bytes;
use tokio::{sync::Notify, task::spawn_blocking, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use uuid::Uuid;

use super::{
    OtlpError, OtlpStats,
    collector::{Collector, Posted},
};
use crate::settings::OtlpSettings;

/// How long is gathered for one request.
const GATHER: Duration = Duration::from_millis(50);
/// From so many bytes on a request is made at once, and holds no more.
const REQUEST_BYTES: usize = 2 << 20;
/// From so many items on.
const REQUEST_ITEMS: usize = 2048;
/// How long to wait until what failed is tried again; twice as long each time.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest wait.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// What is exported.
pub trait Signal: Sized + Send + 'static {
    /// The words for many of them.
    const MANY: &'static str;

    /// What it weighs, in bytes.
    fn bytes(&self) -> usize;

    /// How many records or spans it is.
    fn count(&self) -> u64;

    /// The body of the request with these.
    fn request(items: Vec<Self>) -> Vec<u8>;

    /// How many of them a collector that answers this did not take.
    fn rejected(answer: &[u8]) -> u64;
}

/// Takes what is to be exported. Cheap to clone.
pub struct Exporter<T>(Arc<Shared<T>>);

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    capacity: usize,
    /// Something waits.
    filled: Notify,
    closing: CancellationToken,
    task: TaskTracker,
    exported: AtomicU64,
    dropped: AtomicU64,
    errors: AtomicU64,
    trouble: Mutex<String>,
}

struct Queue<T> {
    waiting: VecDeque<T>,
    /// What waits, in bytes.
    bytes: usize,
    /// What is on its way, in bytes.
    leaving: usize,
}

impl<T: Signal> Exporter<T> {
    /// Begins to export to the collector that `settings` name. `None`: there is none.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn begin(settings: &OtlpSettings) -> Result<Option<Self>, OtlpError> {
        let Some(collector) = Collector::new(settings)? else { return Ok(None) };
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { waiting: VecDeque::new(), bytes: 0, leaving: 0 }),
            capacity: settings.queue_bytes,
            filled: Notify::new(),
            closing: CancellationToken::new(),
            task: TaskTracker::new(),
            exported: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            trouble: Mutex::default(),
        });
        let exporting = Arc::clone(&shared);
        shared.task.spawn(async move { exporting.run(collector).await });
        shared.task.close();
        Ok(Some(Self(shared)))
    }

    /// Says whether exporting could begin.
    ///
    /// # Errors
    /// A file for the collector cannot be used.
    pub fn check(settings: &OtlpSettings) -> Result<(), OtlpError> {
        Collector::new(settings).map(|_| ())
    }

    /// Takes something to export; where there is no place it is dropped.
    pub fn offer(&self, item: T) {
        let shared = &*self.0;
        let mut queue = shared.queue();
        let bytes = queue.bytes.saturating_add(item.bytes());
        if shared.closing.is_cancelled() || bytes.saturating_add(queue.leaving) > shared.capacity {
            drop(queue);
            shared.dropped.fetch_add(item.count(), Ordering::Relaxed);
            return;
        }
        let was_empty = queue.waiting.is_empty();
        queue.bytes = bytes;
        queue.waiting.push_back(item);
        drop(queue);
        if was_empty {
            shared.filled.notify_one();
        }
    }

    /// How exporting went so far.
    #[must_use]
    pub fn stats(&self) -> OtlpStats {
        let shared = &*self.0;
        let waiting_bytes = {
            let queue = shared.queue();
            queue.bytes.saturating_add(queue.leaving)
        };
        OtlpStats {
            exported: shared.exported.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            errors: shared.errors.load(Ordering::Relaxed),
            waiting_bytes,
            trouble: shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Ends: what waits is tried once more. Whether that was done within `limit`.
    pub async fn close(&self, limit: Duration) -> bool {
        self.0.closing.cancel();
        timeout(limit, self.0.task.wait()).await.is_ok()
    }
}

impl<T: Signal> Shared<T> {
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, mut collector: Collector) {
        while let Some(items) = self.next().await {
            let count = items.iter().map(T::count).fold(0, u64::saturating_add);
            // Not on a thread that calls need: it may be megabytes.
            match spawn_blocking(move || T::request(items)).await {
                Ok(request) => self.export(&mut collector, request.into(), count).await,
                Err(_) => self.lost(count),
            }
            self.queue().leaving = 0;
        }
    }

    /// Waits until there is something to export. `None`: the end has come and nothing is left.
    async fn next(&self) -> Option<Vec<T>> {
        loop {
            let is_closing = self.closing.is_cancelled();
            let (waiting, bytes) = {
                let queue = self.queue();
                (queue.waiting.len(), queue.bytes)
            };
            if waiting == 0 {
                if is_closing {
                    return None;
                }
                tokio::select! {
                    () = self.filled.notified() => {}
                    () = self.closing.cancelled() => {}
                }
                continue;
            }
            if !is_closing && waiting < REQUEST_ITEMS && bytes < REQUEST_BYTES {
                let _ = timeout(GATHER, self.closing.cancelled()).await;
            }
            return Some(self.take());
        }
    }

    fn take(&self) -> Vec<T> {
        let mut queue = self.queue();
        let (mut items, mut bytes) = (Vec::new(), 0_usize);
        while items.len() < REQUEST_ITEMS
            && bytes < REQUEST_BYTES
            && let Some(item) = queue.waiting.pop_front()
        {
            bytes = bytes.saturating_add(item.bytes());
            items.push(item);
        }
        queue.bytes = queue.bytes.saturating_sub(bytes);
        queue.leaving = bytes;
        items
    }

    /// Tries until the collector has taken or refused it, or the end has come.
    async fn export(&self, collector: &mut Collector, request: Bytes, count: u64) {
        let mut wait = FIRST_RETRY;
        loop {
            match collector.post(request.clone()).await {
                Posted::Taken(answer) => {
                    let rejected = T::rejected(&answer).min(count);
                    self.exported.fetch_add(count.saturating_sub(rejected), Ordering::Relaxed);
                    if rejected > 0 {
                        self.lost(rejected);
                        self.failed("the collector does not take some of them");
                    } else {
                        self.works();
                    }
                    return;
                }
                Posted::Refused(why) => {
                    self.lost(count);
                    return self.failed(&why);
                }
                Posted::NotNow { why, after } => {
                    self.failed(&why);
                    if self.closing.is_cancelled() {
                        return self.lost(count);
                    }
                    let _ = timeout(spread(wait).max(after).min(LAST_RETRY), self.closing.cancelled()).await;
                    wait = wait.saturating_mul(2).min(LAST_RETRY);
                }
            }
        }
    }

    fn lost(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn failed(&self, why: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let message = format!("{} cannot be exported: {why}", T::MANY);
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *trouble != message {
            warn!("{message}");
            *trouble = message;
        }
    }

    fn works(&self) {
        let trouble = mem::take(&mut *self.trouble.lock().unwrap_or_else(PoisonError::into_inner));
        if !trouble.is_empty() {
            info!("{} can be exported again", T::MANY);
        }
    }
}

impl<T> Clone for Exporter<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Exporter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// Half of `wait` to all of it, at random: the servers of a fleet must not all come at once.
fn spread(wait: Duration) -> Duration {
    let half = wait.checked_div(2).unwrap_or_default();
    let parts = u32::try_from(Uuid::new_v4().as_u128() & 0xff).unwrap_or_default();
    half.saturating_add(half.saturating_mul(parts).checked_div(0xff).unwrap_or_default())
}
