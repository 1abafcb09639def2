use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::group::Group;
use crate::place::{Class, Overloaded, Place, Places, Stage};
use crate::process::{self, Input};
use crate::worker::{Ask, Reply, Worker};
use crate::{Command, End, Limits, Runner};

/// The pause after the first end in a row that nobody asked for; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How much of a pause a call waits for. One that would have to wait longer has no place in the way of others.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// After so many askers that make workers end those whose pause is over are forgotten.
const MANY: usize = 1024;

/// How the workers of one pool are run.
#[derive(Debug, Clone, Copy)]
pub struct WorkerSettings {
    /// Calls at a time, and so workers. Zero counts as one.
    pub pool: usize,
    /// Answers after which a worker is replaced. `None`: never.
    pub max_calls: Option<u64>,
    /// `output_bytes` caps one line, `kill_grace` is also what a worker gets to end by itself once its stdin is closed;
    /// `timeout` is not used, calls have deadlines.
    pub limits: Limits,
    /// Whose they are.
    pub class: Class,
    /// Whether a line can be an answer at all. A worker that says another is replaced.
    pub accepts: fn(&[u8]) -> bool,
}

/// What one call of a worker came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// What the worker said, or how it ended instead.
    pub said: Said,
    /// The last lines that it wrote to stderr, where it ended instead of answering: at most 4 KiB, bytes as they came.
    pub stderr: Vec<u8>,
    /// How long the call waited for a worker, apart from `elapsed`. The start of a new one is not in it.
    pub queued: Duration,
    /// From the start or the question to this answer; zero if no worker was asked.
    pub elapsed: Duration,
}

/// What a worker said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// This line, without its line break.
    Line(Vec<u8>),
    /// More than so many bytes, [`Limits::output_bytes`], without a line break; it is being killed.
    TooLong(usize),
    /// This, which is not one line that [`WorkerSettings::accepts`]; it is being killed.
    Noise(Vec<u8>),
    /// Nothing: no worker was there in time, or it ended, or it is being killed.
    Ended(End),
    /// Nothing: what this asker asked has ended workers, and no new one is started for it yet. One line that says so.
    Paused(String),
}

/// What an idle worker did that nobody had asked it for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stray {
    /// It ended otherwise than by exit code 0.
    Ended {
        /// How.
        end: End,
        /// As [`Answered::stderr`].
        stderr: Vec<u8>,
    },
    /// It said something, or closed its stdout; it is being killed.
    Spoke,
}

/// Hears of strays.
#[derive(Clone)]
pub(crate) struct Told(Arc<dyn Fn(Stray) + Send + Sync>);

/// A pool of programs that stay: each reads one line from stdin, writes one line to stdout, and waits for the next.
///
/// - Started at the first call that finds none idle, and then asked again and again, by one call at a time.
/// - A worker whose call timed out or was dropped is killed like any program, so that a late answer can never be taken
///   for the next one's. So is one that says something when it was not asked.
/// - One that ends is replaced at the next call; if it did so unasked, after a pause that grows with each end in a row. What
///   one asks can be why it ends, so the pause is for that asker alone; a call does not wait for a long one.
/// - At the end (the pool is dropped, the runner ends its workers, its calls are used up) its stdin is closed; what is
///   still there after the grace is killed.
/// - Idle ones are watched and reaped, and hold a place under a cap of their own. A call that finds that full gets a
///   worker for itself alone in the place of an ordinary child.
#[derive(Debug)]
pub struct Workers {
    runner: Runner,
    command: Command,
    settings: WorkerSettings,
    slots: Semaphore,
    idle: Mutex<Vec<Line>>,
    health: Arc<Health>,
    told: Told,
}

/// The way to one worker. Dropping it ends the worker.
type Line = mpsc::Sender<Ask>;

/// A worker that is there for one call.
struct Ready<'a> {
    line: Line,
    /// It may be asked again after this call.
    keep: bool,
    /// When its start began, if it is new.
    since: Option<Instant>,
    _slot: SemaphorePermit<'a>,
}

impl Workers {
    pub(crate) fn new(runner: Runner, command: Command, settings: WorkerSettings, told: Told) -> Self {
        let slots = Semaphore::new(settings.pool.clamp(1, Semaphore::MAX_PERMITS));
        Self { runner, command, settings, slots, idle: Mutex::default(), health: Arc::default(), told }
    }

    /// Asks a worker: writes `line`, which must end with its only line break, and gives the line that comes back. `asker` is
    /// whoever asks, by any name; nobody in particular has the empty one.
    ///
    /// `deadline` bounds everything, the wait for a worker included. Dropping the future kills the worker that was asked.
    /// Needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`Overloaded`], at once, if neither a worker's nor a child's place is free and the queue is full.
    pub async fn call(&self, line: Vec<u8>, asker: &str, deadline: Instant) -> Result<Answered, Overloaded> {
        Box::pin(self.ask(line, asker, deadline, async || self.runner.place(self.settings.class, deadline).await)).await
    }

    /// As [`Self::call`], but what runs in the background takes no ordinary child's place.
    ///
    /// # Errors
    /// [`Overloaded`], at once, if neither a worker's place nor one in the background is free.
    pub async fn call_background(&self, line: Vec<u8>, asker: &str, deadline: Instant) -> Result<Answered, Overloaded> {
        Box::pin(self.ask(line, asker, deadline, async || Places::try_background(self.runner.places()).map(Ok))).await
    }

    async fn ask<P>(
        &self,
        line: Vec<u8>,
        asker: &str,
        deadline: Instant,
        place: impl Fn() -> P,
    ) -> Result<Answered, Overloaded>
    where
        P: Future<Output = Result<Result<Place, End>, Overloaded>>,
    {
        let asked = Instant::now();
        let (line, asker) = (Arc::from(line), Arc::from(asker));
        let mut stage = self.runner.places().stage();
        loop {
            let ready = tokio::select! {
                biased;
                () = stage.reached(Stage::Retiring) => Err(Said::Ended(End::Cancelled)),
                ready = self.ready(&asker, deadline, &place) => ready?,
                () = sleep_until(deadline) => Err(Said::Ended(End::TimedOut)),
            };
            let unasked =
                |said| Answered { said, stderr: Vec::new(), queued: asked.elapsed(), elapsed: Duration::ZERO };
            let ready = match ready {
                Ok(ready) => ready,
                Err(said) => return Ok(unasked(said)),
            };
            let since = ready.since.unwrap_or_else(Instant::now);
            let (reply, replied) = oneshot::channel();
            if ready.line.try_send(Ask { line: Arc::clone(&line), asker: Arc::clone(&asker), reply }).is_err() {
                continue;
            }
            let (said, stderr) = tokio::select! {
                biased;
                reply = replied => match reply {
                    Ok(Reply::Said { said, stderr, stays }) => {
                        if stays && ready.keep {
                            self.put_back(ready.line);
                        }
                        (said, stderr)
                    }
                    Ok(Reply::Gone) => continue,
                    // The runtime went away with the worker.
                    Err(_) => (Said::Ended(End::Cancelled), Vec::new()),
                },
                () = stage.reached(Stage::Closing) => (Said::Ended(End::Cancelled), Vec::new()),
                () = sleep_until(deadline) => (Said::Ended(End::TimedOut), Vec::new()),
            };
            let queued = since.saturating_duration_since(asked);
            return Ok(Answered { said, stderr, queued, elapsed: since.elapsed() });
        }
    }

    /// An idle worker or a new one, once one of the pool's calls at a time is free.
    async fn ready<P>(
        &self,
        asker: &str,
        deadline: Instant,
        place: impl Fn() -> P,
    ) -> Result<Result<Ready<'_>, Said>, Overloaded>
    where
        P: Future<Output = Result<Result<Place, End>, Overloaded>>,
    {
        let Ok(slot) = self.slots.acquire().await else { return Ok(Err(Said::Ended(End::Cancelled))) };
        if let Some(line) = self.take_idle() {
            return Ok(Ok(Ready { line, keep: true, since: None, _slot: slot }));
        }
        if let Err(said) = self.health.recovered(asker, deadline).await {
            return Ok(Err(said));
        }
        let (place, keep) = match Places::try_worker(self.runner.places(), self.settings.class) {
            Some(place) => (place, true),
            None => match place().await? {
                Ok(place) => (place, false),
                Err(end) => return Ok(Err(Said::Ended(end))),
            },
        };
        let since = Instant::now();
        let started = self.start(place, since).await;
        Ok(started.map(|line| Ready { line, keep, since: Some(since), _slot: slot }).map_err(|why| {
            self.health.did_not_start();
            Said::Ended(End::DidNotStart(why))
        }))
    }

    async fn start(&self, place: Place, since: Instant) -> Result<Line, String> {
        let stage = place.stage();
        let spawned = process::spawn(&self.command, Input::Lines, since).await?;
        let mut group = Group::new(spawned, self.settings.limits.kill_grace, place);
        let pipes = group.pipes().map_err(|error| format!("cannot open its pipes: {error}"))?;
        let worker = Worker::new(group, pipes, self.settings, Arc::clone(&self.health), self.told.clone());
        let (line, asks) = mpsc::channel(1);
        tokio::spawn(worker.serve(asks, stage));
        Ok(line)
    }

    fn take_idle(&self) -> Option<Line> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|line| !line.is_closed())
    }

    fn put_back(&self, line: Line) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|line| !line.is_closed());
        idle.push(line);
    }
}

impl Told {
    pub(crate) fn new(told: impl Fn(Stray) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(crate) fn of(&self, stray: Stray) {
        (self.0)(stray);
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told(..)")
    }
}

/// How the workers of a pool have fared of late.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Illnesses>);

#[derive(Debug, Default)]
struct Illnesses {
    /// None could be started.
    of_all: Option<Illness>,
    /// Those that ended, by who had asked them last.
    by_asker: HashMap<Arc<str>, Illness>,
}

/// Ends in a row that nobody asked for.
#[derive(Debug, Clone, Copy)]
struct Illness {
    ends: u32,
    until: Instant,
}

impl Health {
    pub(crate) fn answered(&self, asker: &str) {
        let mut ill = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ill.of_all = None;
        ill.by_asker.remove(asker);
    }

    pub(crate) fn failed(&self, asker: &Arc<str>) {
        let mut ill = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ill.by_asker.len() >= MANY {
            let now = Instant::now();
            ill.by_asker.retain(|_, illness| illness.until > now);
        }
        let worse = Illness::after(ill.by_asker.get(asker));
        ill.by_asker.insert(Arc::clone(asker), worse);
    }

    fn did_not_start(&self) {
        let mut ill = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ill.of_all = Some(Illness::after(ill.of_all.as_ref()));
    }

    /// Waits for the end of the pause. If that lies behind the deadline or far away, says so at once.
    async fn recovered(&self, asker: &str, deadline: Instant) -> Result<(), Said> {
        let (of_all, own) = {
            let ill = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (ill.of_all, ill.by_asker.get(asker).copied())
        };
        let Some(Illness { ends, until }) = of_all.into_iter().chain(own).max_by_key(|illness| illness.until) else {
            return Ok(());
        };
        let rest = until.saturating_duration_since(Instant::now());
        if until < deadline && rest <= LONGEST_WAIT {
            sleep_until(until).await;
            return Ok(());
        }
        let rest = rest.as_millis();
        let times = if ends == 1 { "once".to_owned() } else { format!("{ends} times in a row") };
        Err(if of_all.is_some_and(|illness| illness.until == until) {
            Said::Ended(End::DidNotStart(format!("the worker did not start {times}; the next start is in {rest} ms")))
        } else {
            Said::Paused(format!("the worker ended {times} without being asked to; the next start is in {rest} ms"))
        })
    }
}

impl Illness {
    /// One end more, after these.
    fn after(before: Option<&Self>) -> Self {
        let ends = before.map_or(0, |illness| illness.ends);
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(ends)).min(LONGEST_PAUSE);
        let now = Instant::now();
        Self { ends: ends.saturating_add(1), until: now.checked_add(pause).unwrap_or(now) }
    }
}
