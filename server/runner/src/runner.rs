use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::place::{Class, Overloaded, Place, Places, Stage};
use crate::workers::{Stray, Told, WorkerSettings, Workers};
use crate::{Command, End, Finished, Limits, process};

/// How long [`Runner::shutdown`] waits for killed groups to be gone.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// How many programs may be alive at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Children of [`Runner::run`], and as many [`Workers`] besides, idle ones included. A quarter (rounded down) of each
    /// is kept for [`Class::Central`]. Zero counts as one.
    pub children: usize,
    /// Runs that may wait for one of those places; a quarter (rounded down) is kept for [`Class::Central`] too.
    pub queue: usize,
    /// Children of [`Runner::run_background`], counted apart.
    pub background: usize,
}

impl Default for Capacity {
    /// 64 children, 256 waiting, 256 in the background.
    fn default() -> Self {
        Self { children: 64, queue: 256, background: 256 }
    }
}

/// Runs programs under one common cap. Cheap to clone; all clones share the cap.
#[derive(Debug, Clone)]
pub struct Runner {
    places: Arc<Places>,
}

impl Runner {
    /// A runner with nothing running.
    #[must_use]
    pub fn new(capacity: Capacity) -> Self {
        Self { places: Arc::new(Places::new(capacity)) }
    }

    /// Runs one program to its end and says how it ended.
    ///
    /// Waits for a place if all are taken. `deadline` bounds everything, the wait included; [`Limits::timeout`] counts
    /// from the start of the program. No place by the deadline is [`End::TimedOut`]. Dropping the future ends the program
    /// and its group. Needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`Overloaded`], at once, if the queue is full.
    pub async fn run(
        &self,
        class: Class,
        command: Command,
        limits: Limits,
        deadline: Instant,
    ) -> Result<Finished, Overloaded> {
        let asked = Instant::now();
        let place = match self.place(class, deadline).await? {
            Ok(place) => place,
            Err(end) => return Ok(Finished::unstarted(end, asked.elapsed())),
        };
        // On the heap: callers hold many of these inside larger futures.
        Ok(Box::pin(process::run(command, limits, Some(deadline), place, asked.elapsed())).await)
    }

    /// Takes a place in the background at once and gives the run as a future to spawn. There is no queue and no deadline,
    /// only [`Limits::timeout`]. Dropping the future ends the program and its group, or gives the place back.
    ///
    /// # Errors
    /// [`Overloaded`] if all background places are taken.
    pub fn run_background(
        &self,
        command: Command,
        limits: Limits,
    ) -> Result<impl Future<Output = Finished> + Send + use<>, Overloaded> {
        let place = Places::try_background(&self.places)?;
        Ok(Box::pin(process::run(command, limits, None, place, Duration::ZERO)))
    }

    /// A pool of workers that run `command` (whose `stdin` is not used). None is started before the first call. `told` hears
    /// of idle ones that did what nobody had asked for, on their own tasks; what they wrote is whatever they were given.
    #[must_use]
    pub fn workers(
        &self,
        command: Command,
        settings: WorkerSettings,
        told: impl Fn(Stray) + Send + Sync + 'static,
    ) -> Workers {
        Workers::new(self.clone(), command, settings, Told::new(told))
    }

    /// Ends workers, for good: none is started any more, and each ends after the call that it is at, as [`Workers`] says.
    /// Returns when those with a place of their own are gone, at most after `limit`. Everything else goes on.
    pub async fn end_workers(&self, limit: Duration) {
        self.places.advance(Stage::Retiring);
        let _elapsed = timeout(limit, self.places.without_workers()).await;
    }

    /// How many places are taken by programs that run or whose group is not yet gone, background and idle workers
    /// included.
    #[must_use]
    pub fn live(&self) -> usize {
        self.places.live()
    }

    /// How many runs wait for a place.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.places.queued()
    }

    /// Waits until nothing runs and everything that was killed is reaped. Runs that start meanwhile are waited for too.
    pub async fn idle(&self) {
        self.places.idle().await;
    }

    /// Ends everything, for good: from now on each run, waiting, running or new, ends with [`End::Cancelled`]. Groups get
    /// SIGTERM now and SIGKILL after their own [`Limits::kill_grace`], or after `grace` if that is earlier. Returns when all
    /// are reaped, at most 5 s after `grace`, with how many are still there: 0 unless the kernel holds one back.
    pub async fn shutdown(&self, grace: Duration) -> usize {
        self.places.advance(Stage::Closing);
        if timeout(grace, self.idle()).await.is_err() {
            self.places.advance(Stage::Killing);
            // Nothing is left to do about those that outlive this; the caller learns their number.
            let _elapsed = timeout(REAP_LIMIT, self.idle()).await;
        }
        self.live()
    }

    /// Takes a child's place, or waits for one in the queue. The inner error says why there will be none.
    pub(crate) async fn place(&self, class: Class, deadline: Instant) -> Result<Result<Place, End>, Overloaded> {
        if let Some(place) = Places::try_child(&self.places, class) {
            return Ok(Ok(place));
        }
        let _waiting = self.places.try_queue(class)?;
        let mut stage = self.places.stage();
        Ok(tokio::select! {
            biased;
            () = stage.reached(Stage::Closing) => Err(End::Cancelled),
            place = Places::child(&self.places, class) => place.ok_or(End::Cancelled),
            () = sleep_until(deadline) => Err(End::TimedOut),
        })
    }

    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }
}
