use std::future::pending;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::Capacity;

/// Whose program it is: a quarter of the places and of the queue is kept for the central ones (law 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The organisation's: may take every place.
    Central,
    /// Everyone else's: may take three quarters.
    Other,
}

/// No place, and none to wait for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Overloaded {
    /// As many runs wait for a place as may.
    #[error("too many commands at once: {children} children are alive and the queue of {queue} is full")]
    Queue {
        /// The cap on live children.
        children: usize,
        /// The cap on waiting runs.
        queue: usize,
    },
    /// All background places are taken.
    #[error("too many background commands at once: all {background} places are taken")]
    Background {
        /// The cap on children in the background.
        background: usize,
    },
}

/// How far the shutdown has come; it only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Open,
    /// Workers end after the call that they are at, and none is started any more.
    Retiring,
    /// What runs is ended, with its grace; nothing starts any more.
    Closing,
    /// The graces are over.
    Killing,
}

/// Watches for the shutdown.
#[derive(Debug)]
pub(crate) struct StageWatch(watch::Receiver<Stage>);

impl StageWatch {
    /// Returns once the shutdown has come this far.
    pub(crate) async fn reached(&mut self, stage: Stage) {
        if self.0.wait_for(|now| *now >= stage).await.is_err() {
            // No runner is left that could shut down.
            pending::<()>().await;
        }
    }
}

/// All places of one runner.
#[derive(Debug)]
pub(crate) struct Places {
    children: Shares,
    queue: Shares,
    background: Arc<Semaphore>,
    background_total: usize,
    workers: Shares,
    live: watch::Sender<usize>,
    stage: watch::Sender<Stage>,
}

/// One live program's place under the cap. Given back when it is dropped, which is when the program's group is gone.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    _permits: Permits,
}

/// A place in the queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    _permits: Permits,
}

impl Places {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let background_total = capacity.background.min(Semaphore::MAX_PERMITS);
        Self {
            children: Shares::new(capacity.children.max(1)),
            queue: Shares::new(capacity.queue),
            background: Arc::new(Semaphore::new(background_total)),
            background_total,
            workers: Shares::new(capacity.children.max(1)),
            live: watch::Sender::new(0),
            stage: watch::Sender::new(Stage::Open),
        }
    }

    pub(crate) fn try_child(this: &Arc<Self>, class: Class) -> Option<Place> {
        this.children.try_take(class).map(|permits| Place::new(this, permits))
    }

    /// Waits for a child's place, first come first served. None if there never will be one.
    pub(crate) async fn child(this: &Arc<Self>, class: Class) -> Option<Place> {
        this.children.take(class).await.map(|permits| Place::new(this, permits))
    }

    pub(crate) fn try_queue(&self, class: Class) -> Result<Waiting, Overloaded> {
        let full = Overloaded::Queue { children: self.children.total, queue: self.queue.total };
        self.queue.try_take(class).map(|permits| Waiting { _permits: permits }).ok_or(full)
    }

    pub(crate) fn try_background(this: &Arc<Self>) -> Result<Place, Overloaded> {
        match Arc::clone(&this.background).try_acquire_owned() {
            Ok(permit) => Ok(Place::new(this, Permits { _all: permit, _other: None })),
            Err(_) => Err(Overloaded::Background { background: this.background_total }),
        }
    }

    /// A place that is held while the worker is idle too.
    pub(crate) fn try_worker(this: &Arc<Self>, class: Class) -> Option<Place> {
        this.workers.try_take(class).map(|permits| Place::new(this, permits))
    }

    /// Waits until no worker has a place of its own.
    pub(crate) async fn without_workers(&self) {
        let all = u32::try_from(self.workers.total).unwrap_or(u32::MAX);
        let _all = self.workers.all.acquire_many(all).await;
    }

    pub(crate) fn live(&self) -> usize {
        *self.live.borrow()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.total.saturating_sub(self.queue.all.available_permits())
    }

    pub(crate) async fn idle(&self) {
        // Fails only if the sender is gone, and `self` owns it.
        let mut live = self.live.subscribe();
        let _none = live.wait_for(|live| *live == 0).await;
    }

    pub(crate) fn stage(&self) -> StageWatch {
        StageWatch(self.stage.subscribe())
    }

    pub(crate) fn advance(&self, to: Stage) {
        self.stage.send_if_modified(|stage| {
            let forward = *stage < to;
            if forward {
                *stage = to;
            }
            forward
        });
    }
}

impl Place {
    fn new(places: &Arc<Places>, permits: Permits) -> Self {
        places.live.send_modify(|live| *live = live.saturating_add(1));
        Self { places: Arc::clone(places), _permits: permits }
    }

    pub(crate) fn stage(&self) -> StageWatch {
        self.places.stage()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.live.send_modify(|live| *live = live.saturating_sub(1));
    }
}

/// A number of places of which everyone but the central class can have three quarters.
///
/// INVARIANT: every holder has a permit of `all`, and those of the other class first got one of `other`, which has fewer. So
/// a central run finds `all` empty only while central runs hold their quarter or more.
#[derive(Debug)]
struct Shares {
    total: usize,
    all: Arc<Semaphore>,
    other: Arc<Semaphore>,
}

#[derive(Debug)]
struct Permits {
    _all: OwnedSemaphorePermit,
    _other: Option<OwnedSemaphorePermit>,
}

impl Shares {
    fn new(total: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS);
        Self {
            total,
            all: Arc::new(Semaphore::new(total)),
            other: Arc::new(Semaphore::new(total.saturating_sub(total / 4))),
        }
    }

    fn try_take(&self, class: Class) -> Option<Permits> {
        let other = match class {
            Class::Central => None,
            Class::Other => Some(Arc::clone(&self.other).try_acquire_owned().ok()?),
        };
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Permits { _all: all, _other: other })
    }

    async fn take(&self, class: Class) -> Option<Permits> {
        let other = match class {
            Class::Central => None,
            Class::Other => Some(Arc::clone(&self.other).acquire_owned().await.ok()?),
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Permits { _all: all, _other: other })
    }
}
