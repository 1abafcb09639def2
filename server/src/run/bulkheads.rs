//! What keeps one handler, or one tenant, from taking everybody's places: slots for all calls that wait for a handler,
//! places for each handler with a short queue before them, and a breaker that lets a handler be that does not answer.
//! Answers in process pass none of them.

mod breaker;
mod slots;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hookd_rules::Handler;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use self::breaker::{Breaker, Pass};
pub use self::{
    breaker::BreakerSettings,
    slots::{Slot, Slots},
};
use crate::model::{Failed, Failure, Identity, Ran, Rule, Tier};

/// How wide the bulkheads are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkheadSettings {
    /// Calls that wait for a handler, at a time: of all handlers together.
    pub slots: usize,
    /// As many of them as one tenant gets.
    pub tenant_slots: usize,
    /// Runs of one http handler at a time.
    pub http_runs: usize,
    /// Runs of one command handler at a time.
    pub command_runs: usize,
    /// Runs of one handler at a time whose answer nobody waits for.
    pub background_runs: usize,
    /// Calls that wait until a handler has a place. For a managed one there is no bound but the slots: it is everybody's
    /// guard, and a crowd before it must not become a failure for those who come next.
    pub queue: usize,
    /// When a handler is let be. `None`: never.
    pub breaker: Option<BreakerSettings>,
}

/// All bulkheads. Those of a handler belong to its rule, and begin anew where the rule is loaded anew.
#[derive(Debug)]
pub(super) struct Bulkheads {
    settings: BulkheadSettings,
    slots: Arc<Slots>,
    open_breakers: Arc<AtomicUsize>,
}

/// A run that got through: it gives back what it took when it is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    pass: Option<Pass>,
    _slot: Option<Slot>,
    _place: OwnedSemaphorePermit,
    /// It had to wait in the queue.
    pub(super) waited: bool,
}

/// What belongs to one handler.
#[derive(Debug)]
struct Guard {
    places: Arc<Semaphore>,
    runs: usize,
    waiting: AtomicUsize,
    breaker: Option<Arc<Breaker>>,
}

/// One call in the queue of a handler.
struct Waiting<'g>(&'g AtomicUsize);

impl Bulkheads {
    pub(super) fn new(settings: BulkheadSettings) -> Self {
        let slots = Arc::new(Slots::new(settings.slots, settings.tenant_slots));
        Self { settings, slots, open_breakers: Arc::default() }
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// How many handlers are let be right now.
    pub(super) fn open_breakers(&self) -> usize {
        self.open_breakers.load(Ordering::Relaxed)
    }

    /// Lets a run in whose answer is waited for, at the latest by `until`.
    ///
    /// # Errors
    /// `overloaded` at once where the breaker is open, no slot is free or the queue is full; `timed_out` after `granted`.
    pub(super) async fn enter(
        &self,
        rule: &Rule,
        caller: &Identity,
        until: Instant,
        granted: Duration,
    ) -> Result<Entered, Failed> {
        let guard = self.guard(rule)?;
        let pass = guard.breaker.as_ref().map(Breaker::ask).transpose()?;
        let slot = Some(self.slots.take(caller)?);
        if let Ok(place) = Arc::clone(&guard.places).try_acquire_owned() {
            return Ok(Entered { pass, _slot: slot, _place: place, waited: false });
        }
        let longest = if rule.tier == Tier::Managed { self.settings.slots } else { self.settings.queue };
        let _waiting = Waiting::in_queue_of(guard, longest)?;
        let place = timeout_at(until, Arc::clone(&guard.places).acquire_owned()).await;
        let place = place.map_err(|_| Failed::timed_out(granted))?.map_err(|_| super::cancelled())?;
        Ok(Entered { pass, _slot: slot, _place: place, waited: true })
    }

    /// Lets a run in the background in, which waits for nothing.
    ///
    /// # Errors
    /// `overloaded` where the breaker is open or all places of the handler are taken.
    pub(super) fn enter_background(&self, rule: &Rule) -> Result<Entered, Failed> {
        let guard = self.guard(rule)?;
        let pass = guard.breaker.as_ref().map(Breaker::ask).transpose()?;
        let place = Arc::clone(&guard.places).try_acquire_owned().map_err(|_| guard.full())?;
        Ok(Entered { pass, _slot: None, _place: place, waited: false })
    }

    fn guard<'r>(&self, rule: &'r Rule) -> Result<&'r Guard, Failed> {
        let make = || {
            let runs = match rule.handler {
                _ if !rule.decides() => self.settings.background_runs,
                Handler::Command(_) => self.settings.command_runs,
                Handler::Http(_) | Handler::Decide(_) => self.settings.http_runs,
            };
            Guard {
                places: Arc::new(Semaphore::new(runs.min(Semaphore::MAX_PERMITS))),
                runs,
                waiting: AtomicUsize::new(0),
                breaker: self
                    .settings
                    .breaker
                    .map(|settings| Arc::new(Breaker::new(settings, rule, Arc::clone(&self.open_breakers)))),
            }
        };
        rule.bulkhead.get_or_attach(make).ok_or_else(|| Failed::new(Failure::Internal, "another bulkhead is here"))
    }
}

impl Entered {
    /// The run has ended; `is_whole` is whether it was granted the handler's own timeout.
    pub(super) fn ended(self, ran: &Ran, is_whole: bool) {
        if let Some(pass) = self.pass {
            pass.ended(ran, is_whole);
        }
    }
}

impl Guard {
    fn full(&self) -> Failed {
        Failed::new(Failure::Overloaded, format!("all {} places of this handler are taken", self.runs))
    }
}

impl<'g> Waiting<'g> {
    fn in_queue_of(guard: &'g Guard, longest: usize) -> Result<Self, Failed> {
        let waiting = Self(&guard.waiting);
        if guard.waiting.fetch_add(1, Ordering::Relaxed) >= longest {
            let full = guard.full();
            return Err(Failed::new(full.kind, format!("{}, and {longest} calls wait for one already", full.message)));
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
