//! What keeps one handler, or one tenant, from taking everybody's places: slots for all calls that wait for a handler,
//! places for each handler with a short queue before them, a share for each tenant of these places, of the child processes
//! and of the background, and breakers that let a handler be that does not answer. Answers in process pass none of them.

mod breaker;
mod breakers;
mod one_each;
mod shares;
mod slots;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hookd_rules::{CommandHandler, Handler};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

pub use self::{
    breaker::BreakerSettings,
    one_each::OneEach,
    slots::{Slot, Slots},
};
use self::{
    breakers::{Breakers, Passes},
    shares::Shares,
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
    /// Runs of one command handler at a time, and no more than there are workers where its program stays.
    pub command_runs: usize,
    /// Runs of all command handlers together that one tenant gets at a time.
    pub tenant_commands: usize,
    /// Runs of one handler at a time whose answer nobody waits for.
    pub background_runs: usize,
    /// Runs in the background of all handlers together that one tenant gets at a time.
    pub tenant_background: usize,
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
    commands: Shares,
    background: Shares,
    open_breakers: Arc<AtomicUsize>,
}

/// A run that got through: it gives back what it took when it is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    passes: Option<Passes>,
    _slot: Option<Slot>,
    _places: Places,
    /// It had to wait in the queue.
    pub(super) waited: bool,
}

/// What a run takes besides a slot, in the order in which it is waited for: of its tenant's shares first.
type Places = Vec<OwnedSemaphorePermit>;

/// What belongs to one handler.
#[derive(Debug)]
struct Guard {
    places: Arc<Semaphore>,
    runs: usize,
    /// Half of the places for each tenant.
    shares: Shares,
    waiting: AtomicUsize,
    breakers: Option<Breakers>,
}

/// One call in the queue of a handler.
struct Waiting<'g>(&'g AtomicUsize);

impl Bulkheads {
    pub(super) fn new(settings: BulkheadSettings) -> Self {
        let slots = Arc::new(Slots::new(settings.slots, settings.tenant_slots));
        let (commands, background) = (Shares::new(settings.tenant_commands), Shares::new(settings.tenant_background));
        Self { settings, slots, commands, background, open_breakers: Arc::default() }
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
        let passes = guard.breakers.as_ref().map(|breakers| breakers.ask(caller)).transpose()?;
        let slot = Some(self.slots.take(caller)?);
        let of_commands = matches!(rule.handler, Handler::Command(_)).then(|| self.commands.of(caller)).flatten();
        let wanted = [of_commands, guard.shares.of(caller), Some(Arc::clone(&guard.places))];
        let wanted = wanted.into_iter().flatten().collect::<Vec<_>>();
        if let Ok(places) = wanted.iter().map(|wanted| Arc::clone(wanted).try_acquire_owned()).collect() {
            return Ok(Entered { passes, _slot: slot, _places: places, waited: false });
        }
        let longest = if rule.tier == Tier::Managed { self.settings.slots } else { self.settings.queue };
        let _waiting = Waiting::in_queue_of(guard, longest)?;
        let waiting = async {
            let mut places = Places::new();
            for wanted in wanted {
                places.push(wanted.acquire_owned().await.map_err(|_| super::cancelled())?);
            }
            Ok(places)
        };
        let places = timeout_at(until, waiting).await.map_err(|_| Failed::timed_out(granted))??;
        Ok(Entered { passes, _slot: slot, _places: places, waited: true })
    }

    /// Lets a run in the background in, which waits for nothing.
    ///
    /// # Errors
    /// `overloaded` where the breaker is open or all places of the handler, or all that the caller's tenant gets, are taken.
    pub(super) fn enter_background(&self, rule: &Rule, caller: &Identity) -> Result<Entered, Failed> {
        let guard = self.guard(rule)?;
        let passes = guard.breakers.as_ref().map(|breakers| breakers.ask(caller)).transpose()?;
        let mut places = vec![Arc::clone(&guard.places).try_acquire_owned().map_err(|_| guard.full())?];
        if let Some(share) = self.background.of(caller) {
            places.push(share.try_acquire_owned().map_err(|_| {
                let message =
                    format!("{} handlers of this tenant run in the background already", self.background.most());
                Failed::new(Failure::Overloaded, message)
            })?);
        }
        Ok(Entered { passes, _slot: None, _places: places, waited: false })
    }

    fn guard<'r>(&self, rule: &'r Rule) -> Result<&'r Guard, Failed> {
        let make = || {
            let runs = match &rule.handler {
                _ if !rule.decides() => self.settings.background_runs,
                // Those that wait for a worker wait here, where no tenant's crowd is in another's way.
                Handler::Command(CommandHandler { worker: Some(worker), .. }) => {
                    self.settings.command_runs.min(worker.pool)
                }
                Handler::Command(_) => self.settings.command_runs,
                Handler::Http(_) | Handler::Decide(_) => self.settings.http_runs,
            };
            Guard {
                places: Arc::new(Semaphore::new(runs.min(Semaphore::MAX_PERMITS))),
                runs,
                shares: Shares::new(runs.div_ceil(2)),
                waiting: AtomicUsize::new(0),
                breakers: self
                    .settings
                    .breaker
                    .map(|settings| Breakers::new(settings, rule, Arc::clone(&self.open_breakers))),
            }
        };
        rule.bulkhead.get_or_attach(make).ok_or_else(|| Failed::new(Failure::Internal, "another bulkhead is here"))
    }
}

impl Entered {
    /// The run has ended; `is_whole` is whether it was granted the handler's own timeout.
    pub(super) fn ended(self, ran: &Ran, is_whole: bool) {
        if let Some(passes) = self.passes {
            passes.ended(ran, is_whole);
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
