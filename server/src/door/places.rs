//! Places for calls that are evaluated, and how many calls a tenant may make.

use std::{
    hash::{BuildHasher as _, RandomState},
    num::NonZeroU32,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, MonotonicClock},
    middleware::NoOpMiddleware,
    state::keyed::DashMapStateStore,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use super::{
    leaving::{Ending, Leaving, Slot},
    room::{Room, Seat},
};
use crate::{
    model::Identity,
    record::Recorder,
    settings::TenantRate,
    telemetry::call::{Call, NoPlace},
};

/// After so many tenants those that have been quiet are forgotten.
const REMEMBERED: usize = 10_000;

/// A call that is not there whole. What it holds is cancelled when it has to make room for another.
pub type Arriving = Seat<CancellationToken>;

/// Places for calls that are evaluated, over all connections, and as much room for those that are not there whole, and for
/// large answers. A call that finds no place is shed at once.
#[derive(Debug)]
pub struct Places {
    all: usize,
    free: Arc<Semaphore>,
    arrivals: Arc<Room<CancellationToken>>,
    departures: Arc<Room<Weak<Slot>>>,
    rates: Option<Rates<MonotonicClock>>,
    recorder: Arc<Recorder>,
}

/// How many calls each tenant has made.
#[derive(Debug)]
struct Rates<C: Clock> {
    /// By a hash of the tenant's name, which needs no copy of it.
    limiter: RateLimiter<u64, DashMapStateStore<u64>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
    hasher: RandomState,
    rate: TenantRate,
    /// How many tenants there may be until those that have been quiet are forgotten.
    until: AtomicUsize,
}

impl Places {
    /// `all` places. `rate`: how many calls a tenant may make, where that is bounded.
    #[must_use]
    pub fn new(all: usize, rate: Option<TenantRate>, recorder: Arc<Recorder>) -> Self {
        Self {
            all,
            free: Arc::new(Semaphore::new(all)),
            arrivals: Arc::new(Room::new(all)),
            departures: Arc::new(Room::new(all)),
            rates: rate.map(|rate| Rates::new(rate, MonotonicClock)),
            recorder,
        }
    }

    /// Takes a place for `call`, which is there whole.
    ///
    /// # Errors
    /// [`NoPlace`]; counted.
    pub fn enter(&self, call: &Call) -> Result<OwnedSemaphorePermit, NoPlace> {
        if let Some(rates) = &self.rates {
            rates.count(&call.identity()).inspect_err(|_| self.recorder.rate_limited())?;
        }
        Arc::clone(&self.free).try_acquire_owned().map_err(|_| {
            self.recorder.shed();
            NoPlace::Shed
        })
    }

    /// Takes `call` into the room for those that are not there whole. It has to leave when it has to give way.
    #[must_use]
    pub fn arriving(&self, call: &Call) -> Arriving {
        self.arrivals.enter(call, CancellationToken::new())
    }

    /// The answer to `call`, which is large and whose place is given back: it has to give way where too many of those are
    /// not read.
    pub fn leaving(&self, call: &Call, body: Body) -> Leaving {
        Leaving::new(&self.departures, call, body)
    }

    /// Has the answer to a stream do so from when that is dropped.
    pub fn ending(&self, slot: &Arc<Slot>, call: Call) -> Ending {
        slot.at_the_end(&self.departures, call)
    }

    /// Waits in that room until `call` is there `whole`.
    ///
    /// # Errors
    /// [`NoPlace::Shed`] where it had to give way to another; counted.
    pub async fn arrive<T>(&self, call: &Call, whole: impl Future<Output = T>) -> Result<T, NoPlace> {
        let arriving = self.arriving(call);
        tokio::select! {
            biased;
            whole = whole => Ok(whole),
            () = arriving.guest().cancelled() => {
                self.recorder.shed();
                Err(NoPlace::Shed)
            }
        }
    }

    /// How many places are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.all.saturating_sub(self.free.available_permits())
    }

    /// How many calls are not there whole.
    #[must_use]
    pub fn count_arriving(&self) -> usize {
        self.arrivals.count()
    }

    /// How many large answers are not read yet.
    #[must_use]
    pub fn count_leaving(&self) -> usize {
        self.departures.count()
    }
}

impl<C: Clock + Clone> Rates<C> {
    fn new(rate: TenantRate, clock: C) -> Self {
        let whole = |count: u32| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(whole(rate.calls_per_second)).allow_burst(whole(rate.burst));
        let limiter = RateLimiter::new(quota, DashMapStateStore::default(), clock.clone());
        Self { limiter, clock, hasher: RandomState::new(), rate, until: AtomicUsize::new(REMEMBERED) }
    }

    fn count(&self, caller: &Identity) -> Result<(), NoPlace> {
        let Some(tenant) = caller.tenant() else { return Ok(()) };
        let counted = self.limiter.check_key(&self.hasher.hash_one(tenant));
        if self.limiter.len() > self.until.load(Ordering::Relaxed) {
            self.limiter.retain_recent();
            // Not again before there are twice as many: it looks at each, which calls of many tenants must not do each time.
            self.until.store(self.limiter.len().saturating_mul(2).max(REMEMBERED), Ordering::Relaxed);
        }
        counted.map_err(|not_until| NoPlace::RateLimited {
            calls_per_second: self.rate.calls_per_second,
            retry_after: not_until.wait_time_from(self.clock.now()).max(Duration::from_millis(1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn caller(tenant: Option<&str>) -> Identity {
        let labels = tenant.map(|tenant| ("tenant".to_owned(), tenant.to_owned())).into_iter().collect();
        Identity { name: "x".to_owned(), labels }
    }

    #[test]
    fn a_tenant_has_its_burst_and_its_rate_and_others_have_theirs() {
        let clock = FakeRelativeClock::default();
        let rates = Rates::new(TenantRate { calls_per_second: 2, burst: 3 }, clock.clone());
        let of_a = || rates.count(&caller(Some("a")));
        let refused = Err(NoPlace::RateLimited { calls_per_second: 2, retry_after: Duration::from_millis(500) });
        assert_eq!([of_a(), of_a(), of_a(), of_a()], [Ok(()), Ok(()), Ok(()), refused]);
        assert_eq!(rates.count(&caller(Some("b"))), Ok(()));
        assert!((0..10).all(|_| rates.count(&caller(None)) == Ok(())), "without a tenant there is no bound");
        clock.advance(Duration::from_millis(500));
        assert_eq!([of_a(), of_a()], [Ok(()), refused]);
    }

    #[test]
    fn quiet_tenants_are_forgotten() {
        let clock = FakeRelativeClock::default();
        let rates = Rates::new(TenantRate { calls_per_second: 1, burst: 1 }, clock.clone());
        for tenant in 0..REMEMBERED {
            assert_eq!(rates.count(&caller(Some(&tenant.to_string()))), Ok(()));
        }
        clock.advance(Duration::from_secs(10));
        assert_eq!(rates.count(&caller(Some("one more"))), Ok(()));
        assert_eq!(rates.limiter.len(), 1);
        // As long as all of them call, they are looked through only now and then.
        for tenant in 0..3 * REMEMBERED {
            assert_eq!(rates.count(&caller(Some(&tenant.to_string()))), Ok(()));
        }
        assert!(rates.until.load(Ordering::Relaxed) > 2 * REMEMBERED);
    }
}
