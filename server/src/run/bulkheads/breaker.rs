use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use tracing::{info, warn};

use crate::model::{Failed, Failure, Ran, Rule, Tier};

/// So many probes in a row have to be answered before a handler is asked by everyone again.
const PROBES: usize = 3;

/// When a handler is let be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Opens where so many of a hundred runs were not answered.
    pub failure_percent: u32,
    /// The runs that are looked at: the last ones; before there were so many it does not open.
    pub runs: usize,
    /// How long the handler is not asked then. After that one call at a time finds out whether it answers again.
    pub open_for: Duration,
}

/// A circuit breaker of one handler: everybody's, a tenant's, or that of all callers without one.
///
/// Only what says that nobody answers counts against it: no connection, a 5xx, no answer within the handler's *own* timeout, a
/// program that does not start. What a caller could bring about by what it sends, or by the time that it leaves (an exit
/// code, a crash, bad output, a 4xx, a directory that is not there, its own short deadline), does not: or one caller could
/// switch off a guard whose failures are forgiven for all others.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    rule: Arc<str>,
    tier: Tier,
    /// Whose it is. `None`: everybody's, or that of those who have none.
    tenant: Option<String>,
    state: Mutex<State>,
    /// How many breakers are not closed.
    open: Arc<AtomicUsize>,
}

/// Leave to run the handler once.
#[derive(Debug)]
pub(super) struct Pass {
    breaker: Arc<Breaker>,
    of: Of,
    /// This run finds out whether the handler answers again, and it has not been told yet.
    is_probe: bool,
}

#[derive(Debug)]
enum State {
    Closed(Window),
    Open { until: Instant },
    HalfOpen { answered: usize, is_probed: bool },
}

/// Whose run it is, by a hash of the tenant. `None`: that does not count.
type Of = Option<u64>;

/// The last runs, of one tenant no more than what cannot open it alone.
#[derive(Debug, Default)]
struct Window(VecDeque<Seen>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    failed: bool,
    of: Of,
}

/// What a run says of its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Answers,
    IsBroken,
    /// Nothing, for it did not come to that.
    None,
}

impl Breaker {
    /// Everybody's, of the handler of `rule`. How many breakers are not closed is counted in `open`.
    pub(super) fn new(settings: BreakerSettings, rule: &Rule, open: Arc<AtomicUsize>) -> Self {
        let state = Mutex::new(State::Closed(Window::default()));
        Self { settings, rule: Arc::clone(&rule.id), tier: rule.tier, tenant: None, state, open }
    }

    /// That of the same handler for one tenant, or for callers that have none.
    pub(super) fn for_tenant(&self, tenant: Option<&str>) -> Self {
        let state = Mutex::new(State::Closed(Window::default()));
        let (rule, open) = (Arc::clone(&self.rule), Arc::clone(&self.open));
        Self { settings: self.settings, rule, tier: self.tier, tenant: tenant.map(str::to_owned), state, open }
    }

    /// Nothing is known of the handler but that it answers.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*state, State::Closed(window) if window.failed() == 0)
    }

    /// Leave to run the handler.
    pub(super) fn ask(self: &Arc<Self>, of: Of) -> Result<Pass, Failed> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_probe = match &mut *state {
            State::Closed(_) => false,
            State::Open { until } if now < *until => {
                let message = "it did not answer lately and is not asked for a while";
                return Err(Failed::new(Failure::Overloaded, message));
            }
            State::HalfOpen { is_probed: true, .. } => {
                let message = "it did not answer lately, and another call finds out whether it does again";
                return Err(Failed::new(Failure::Overloaded, message));
            }
            State::Open { .. } => {
                *state = State::HalfOpen { answered: 0, is_probed: true };
                true
            }
            State::HalfOpen { is_probed, .. } => {
                *is_probed = true;
                true
            }
        };
        Ok(Pass { breaker: Arc::clone(self), of, is_probe })
    }

    fn told(&self, sign: Sign, of: Of, is_probe: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Closed(window) => {
                if sign == Sign::None {
                    return;
                }
                window.add(Seen { failed: sign == Sign::IsBroken, of }, self.settings);
                if window.is_over(self.settings) {
                    self.open.fetch_add(1, Ordering::Relaxed);
                    self.opens(&mut state);
                }
            }
            // Runs from before it opened.
            State::Open { .. } => {}
            State::HalfOpen { answered, is_probed } if is_probe => {
                *is_probed = false;
                match sign {
                    Sign::None => {}
                    Sign::IsBroken => self.opens(&mut state),
                    Sign::Answers => {
                        *answered = answered.saturating_add(1);
                        if *answered >= PROBES {
                            self.open.fetch_sub(1, Ordering::Relaxed);
                            *state = State::Closed(Window::default());
                            let tenant = self.tenant.as_deref();
                            info!(rule = &*self.rule, tier = self.tier.name(), tenant, "a handler answers again");
                        }
                    }
                }
            }
            State::HalfOpen { .. } => {}
        }
    }

    fn opens(&self, state: &mut State) {
        let open_for = self.settings.open_for;
        warn!(
            rule = &*self.rule,
            tier = self.tier.name(),
            tenant = self.tenant.as_deref(),
            open_for_ms = u64::try_from(open_for.as_millis()).unwrap_or(u64::MAX),
            "a handler does not answer and is not asked for a while",
        );
        let now = Instant::now();
        *state = State::Open { until: now.checked_add(open_for).unwrap_or(now) };
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !matches!(state, State::Closed(_)) {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Pass {
    /// Whether the run finds out whether the handler answers again.
    pub(super) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// The run has ended, and this is what it says.
    pub(super) fn ended(mut self, sign: Sign) {
        let is_probe = std::mem::take(&mut self.is_probe);
        self.breaker.told(sign, self.of, is_probe);
    }
}

impl Drop for Pass {
    /// A probe whose caller went away has found out nothing.
    fn drop(&mut self) {
        if self.is_probe {
            self.breaker.told(Sign::None, self.of, true);
        }
    }
}

impl Window {
    fn add(&mut self, seen: Seen, settings: BreakerSettings) {
        let of_one = |one: &Seen| seen.of.is_some() && one.of == seen.of;
        if self.0.iter().filter(|one| of_one(one)).count() >= settings.most_of_one()
            && let Some(oldest) = self.0.iter().position(of_one)
        {
            self.0.remove(oldest);
        }
        self.0.push_back(seen);
        if self.0.len() > settings.runs {
            self.0.pop_front();
        }
    }

    fn failed(&self) -> usize {
        self.0.iter().filter(|seen| seen.failed).count()
    }

    fn is_over(&self, settings: BreakerSettings) -> bool {
        let is_bad = self.failed().saturating_mul(100) >= self.0.len().saturating_mul(settings.percent());
        is_bad && self.0.len() >= settings.runs && !self.is_of_one()
    }

    /// Whether all that failed is one tenant's.
    fn is_of_one(&self) -> bool {
        let mut of = self.0.iter().filter(|seen| seen.failed).map(|seen| seen.of);
        of.next().flatten().is_some_and(|first| of.all(|of| of == Some(first)))
    }
}

impl BreakerSettings {
    fn percent(self) -> usize {
        usize::try_from(self.failure_percent).unwrap_or(usize::MAX)
    }

    /// How many of the runs that are looked at may be one tenant's: a quarter, and fewer than would open it.
    fn most_of_one(self) -> usize {
        let opens = self.runs.saturating_mul(self.percent()).div_ceil(100);
        opens.saturating_sub(1).min(self.runs.div_ceil(4)).max(1)
    }
}

/// What a run says of its handler; `is_whole` is whether it was granted the handler's own timeout.
pub(super) fn sign(ran: &Ran, is_whole: bool) -> Sign {
    let Err(failed) = &ran.said else { return Sign::Answers };
    match failed.kind {
        Failure::DidNotStart if ran.kept_by_caller => Sign::None,
        Failure::Connection | Failure::DidNotStart => Sign::IsBroken,
        Failure::HttpStatus if ran.http_status.is_some_and(|status| status < 500) => Sign::Answers,
        Failure::HttpStatus => Sign::IsBroken,
        Failure::TimedOut if is_whole => Sign::IsBroken,
        Failure::Killed | Failure::Exited | Failure::BadOutput | Failure::TooLarge => Sign::Answers,
        Failure::TimedOut
        | Failure::Expression
        | Failure::Overloaded
        | Failure::Cancelled
        | Failure::NotPermitted
        | Failure::Unsupported
        | Failure::CallerGone
        | Failure::Internal => Sign::None,
    }
}

#[cfg(test)]
mod tests;
