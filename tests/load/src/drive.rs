//! Drives calls in a closed or an open loop.
//!
//! Closed: a fixed number of callers, each sending its next call when the last was answered. Open: calls become due at
//! a fixed rate, whatever the server does; each is timed from the moment at which it was *due*, so a server (or a
//! generator) that stalls shows in the latency of every call that it held up. No call is left out to keep up.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{self, Instant},
};

use crate::tally::{Refusal, Reply, Tally};

/// Something that can be called again and again.
pub(crate) trait Call: Clone + Send + 'static {
    /// Makes call number `turn`.
    fn call(&mut self, turn: u64) -> impl Future<Output = Result<Reply, Refusal>> + Send;
}

/// What to drive, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// Calls in flight at a time: exactly in closed loop, at most in open loop.
    pub(crate) in_flight: usize,
    /// Load without measuring, at first.
    pub(crate) warm_up: Duration,
    /// How long calls are started after that.
    pub(crate) duration: Duration,
    /// Calls at most.
    pub(crate) count: u64,
    /// How long to wait for answers after the end. What is not there then is counted as unfinished.
    pub(crate) grace: Duration,
}

/// When the next call starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// When the one before was answered.
    Closed,
    /// At a fixed rate, in calls a second.
    Open { rate: u32 },
}

/// The moments at which the calls of an open loop are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    start: Instant,
    rate: u32,
    /// How many calls there are.
    total: u64,
}

/// Drives `calls` (one for each connection) as planned. `at_edge` is called when the measurement begins and when it
/// has ended.
///
/// # Errors
/// The pacing thread cannot be started, or `at_edge` failed.
pub(crate) async fn drive<C: Call>(
    calls: &[C],
    plan: &Plan,
    at_edge: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Tally> {
    let start = Instant::now();
    match plan.mode {
        Mode::Closed => collect(calls, plan, start, Closed, at_edge).await,
        Mode::Open { rate } => {
            let schedule = Schedule::new(start, rate, plan);
            let due = Arc::new(Semaphore::new(0));
            let paced = Arc::clone(&due);
            thread::Builder::new()
                .name("pace".to_owned())
                .spawn(move || pace(&schedule, &paced))
                .context("the pacing thread did not start")?;
            let tally = collect(calls, plan, start, Open { schedule, due: Arc::clone(&due) }, at_edge).await;
            due.close();
            tally
        }
    }
}

impl Schedule {
    fn new(start: Instant, rate: u32, plan: &Plan) -> Self {
        let span = plan.warm_up.saturating_add(plan.duration).as_nanos();
        let total = span.saturating_mul(u128::from(rate)).div_ceil(NANOS_PER_SECOND);
        Self { start, rate, total: u64::try_from(total).unwrap_or(u64::MAX).min(plan.count) }
    }

    /// When call `turn`, counted from 0, is due.
    fn due(&self, turn: u64) -> Instant {
        let nanos = u128::from(turn).saturating_mul(NANOS_PER_SECOND).checked_div(u128::from(self.rate));
        let offset = Duration::from_nanos(nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(u64::MAX));
        after(self.start, offset)
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Who says when a caller may send its next call, and since when that call has been due.
trait Pace: Clone + Send + 'static {
    /// The next call's number and due time; `None`: no more calls.
    fn next(&self, turns: &AtomicU64) -> impl Future<Output = Option<(u64, Instant)>> + Send;

    /// How many calls there have to be. `None`: as many as there is time for.
    fn total(&self) -> Option<u64>;
}

#[derive(Clone)]
struct Closed;

impl Pace for Closed {
    async fn next(&self, turns: &AtomicU64) -> Option<(u64, Instant)> {
        Some((turns.fetch_add(1, Ordering::Relaxed), Instant::now()))
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

#[derive(Clone)]
struct Open {
    schedule: Schedule,
    /// One permit for each call that has become due and that no caller has taken yet.
    due: Arc<Semaphore>,
}

impl Pace for Open {
    async fn next(&self, turns: &AtomicU64) -> Option<(u64, Instant)> {
        self.due.acquire().await.ok()?.forget();
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        if turn.saturating_add(1) >= self.schedule.total {
            // The last call is taken: the callers that wait need not wait any longer.
            self.due.close();
        }
        Some((turn, self.schedule.due(turn)))
    }

    fn total(&self) -> Option<u64> {
        Some(self.schedule.total)
    }
}

/// Adds a permit to `due` for each call of the schedule when its time has come. It has a thread of its own because the
/// runtime's timers have a resolution of a millisecond.
fn pace(schedule: &Schedule, due: &Semaphore) {
    let mut turn = 0;
    while turn < schedule.total && !due.is_closed() {
        let now = Instant::now();
        let mut ready = 0_usize;
        while turn < schedule.total && schedule.due(turn) <= now {
            turn = turn.saturating_add(1);
            ready = ready.saturating_add(1);
        }
        due.add_permits(ready);
        let wait = schedule.due(turn).saturating_duration_since(now).min(Duration::from_millis(100));
        #[expect(clippy::disallowed_methods, reason = "this thread is not one of the runtime's")]
        thread::sleep(wait);
    }
}

/// What the callers of one run share.
struct Shared {
    /// Calls taken so far.
    turns: AtomicU64,
    /// Calls sent so far.
    sent: AtomicU64,
    tally: Mutex<Tally>,
}

/// Lets the callers run and waits for them.
async fn collect<C: Call>(
    calls: &[C],
    plan: &Plan,
    start: Instant,
    pace: impl Pace,
    at_edge: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Tally> {
    let from = after(start, plan.warm_up);
    let to = after(from, plan.duration);
    let tally = Mutex::new(Tally::new(from)?);
    let shared = Arc::new(Shared { turns: AtomicU64::new(0), sent: AtomicU64::new(0), tally });
    let mut callers = JoinSet::new();
    for call in calls.iter().cycle().take(plan.in_flight) {
        callers.spawn(caller(call.clone(), pace.clone(), Arc::clone(&shared), plan.count, to));
    }
    time::sleep_until(from).await;
    at_edge()?;
    let all = async { while callers.join_next().await.is_some() {} };
    // An error says that the grace is over; the calls that are still open then are dropped and counted below.
    let _ = time::timeout_at(after(to, plan.grace), all).await;
    at_edge()?;
    callers.shutdown().await;
    let shared = Arc::into_inner(shared).context("a caller outlived its run")?;
    let mut tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sent = shared.sent.into_inner();
    tally.unfinished = sent.saturating_sub(tally.finished);
    tally.unsent = pace.total().map_or(0, |total| total.saturating_sub(sent));
    // A run that stopped at its count ends with its last answer, any other not before its time.
    tally.end = if sent >= plan.count { tally.end } else { tally.end.max(to) };
    Ok(tally)
}

async fn caller<C: Call>(mut call: C, pace: impl Pace, shared: Arc<Shared>, count: u64, to: Instant) {
    while let Some((turn, due)) = pace.next(&shared.turns).await {
        if turn >= count || due >= to {
            break;
        }
        let sent = Instant::now();
        shared.sent.fetch_add(1, Ordering::Relaxed);
        let answer = call.call(turn).await;
        let answered = Instant::now();
        shared.tally.lock().unwrap_or_else(PoisonError::into_inner).record(due, sent, answered, answer);
    }
}

/// `start` plus `span`; a span that no clock can express counts as none.
fn after(start: Instant, span: Duration) -> Instant {
    start.checked_add(span).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a millisecond, but call number `stalls_at` takes a second.
    #[derive(Clone)]
    struct Stalls {
        stalls_at: u64,
    }

    impl Call for Stalls {
        async fn call(&mut self, turn: u64) -> Result<Reply, Refusal> {
            time::sleep(Duration::from_millis(if turn == self.stalls_at { 1000 } else { 1 })).await;
            Ok(Reply { bytes: 10, as_expected: true })
        }
    }

    fn plan(mode: Mode, in_flight: usize) -> Plan {
        Plan {
            mode,
            in_flight,
            warm_up: Duration::from_millis(500),
            duration: Duration::from_secs(2),
            count: 1_000_000,
            grace: Duration::from_secs(5),
        }
    }

    /// As [`pace`], on the runtime's clock, which a test can pause.
    async fn pace_by_timer(schedule: Schedule, due: Arc<Semaphore>) {
        for turn in 0..schedule.total {
            time::sleep_until(schedule.due(turn)).await;
            due.add_permits(1);
        }
    }

    async fn open(plan: &Plan, rate: u32, stalls_at: u64) -> Tally {
        let start = Instant::now();
        let schedule = Schedule::new(start, rate, plan);
        let due = Arc::new(Semaphore::new(0));
        tokio::spawn(pace_by_timer(schedule, Arc::clone(&due)));
        collect(&[Stalls { stalls_at }], plan, start, Open { schedule, due }, &mut || Ok(())).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_due_at_a_fixed_rate() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 2000, &plan(Mode::Open { rate: 2000 }, 1));
        assert_eq!(schedule.total, 5000);
        assert_eq!(schedule.due(0), start);
        assert_eq!(schedule.due(3), start + Duration::from_micros(1500));
        assert_eq!(schedule.due(4999) - start, Duration::from_micros(2_499_500));
        let thirds = Schedule::new(start, 3, &plan(Mode::Open { rate: 3 }, 1));
        assert_eq!((thirds.total, thirds.due(2) - start), (8, Duration::from_nanos(666_666_666)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_loop_times_every_call_that_a_stall_held_up() {
        // One in flight and 100 calls a second: the stall at 1 s holds up the 100 calls that become due behind it, and
        // the 1 ms that each takes afterwards lets them catch up slowly.
        let tally = open(&plan(Mode::Open { rate: 100 }, 1), 100, 100).await;
        assert_eq!((tally.finished, tally.unsent, tally.unfinished), (250, 0, 0));
        assert_eq!(tally.latency.len(), 200);
        let slow = tally.latency.count_between(100_000_000, u64::MAX);
        assert!((95..=101).contains(&slow), "{slow} calls over 100 ms");
        assert!(tally.lag.max() >= 980_000_000, "{}", tally.lag.max());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_never_got_their_turn_are_counted() {
        let plan = Plan { grace: Duration::from_millis(100), ..plan(Mode::Open { rate: 10_000 }, 1) };
        let tally = open(&plan, 10_000, u64::MAX).await;
        assert_eq!(tally.finished + tally.unsent + tally.unfinished, 25_000);
        assert!(tally.unsent > 20_000, "{}", tally.unsent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_keeps_its_calls_in_flight() {
        let mut edges = Vec::new();
        let start = Instant::now();
        let mut at_edge = || {
            edges.push(start.elapsed().as_millis());
            Ok(())
        };
        let calls = [Stalls { stalls_at: u64::MAX }];
        let tally = drive(&calls, &plan(Mode::Closed, 8), &mut at_edge).await.unwrap();
        assert_eq!(tally.latency.len(), 8 * 2000);
        assert_eq!(tally.finished, 8 * 2500);
        assert_eq!(tally.seconds(), 2.0);
        assert_eq!(edges, [500, 2500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_stops_at_its_count_and_at_its_grace() {
        let calls = [Stalls { stalls_at: u64::MAX }];
        let short = Plan { count: 100, warm_up: Duration::ZERO, ..plan(Mode::Closed, 4) };
        let tally = drive(&calls, &short, &mut || Ok(())).await.unwrap();
        assert_eq!((tally.finished, tally.unfinished, tally.seconds()), (100, 0, 0.025));
        let impatient = Plan { grace: Duration::from_millis(10), ..plan(Mode::Closed, 2) };
        let tally = drive(&[Stalls { stalls_at: 4990 }], &impatient, &mut || Ok(())).await.unwrap();
        assert_eq!(tally.unfinished, 1);
    }
}
