use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, atomic::AtomicUsize},
};

use super::{
    breaker::{Breaker, BreakerSettings, Pass, Sign, sign},
    one_each::OneEach,
};
use crate::model::{Failed, Identity, Ran, Rule};

/// The breakers of one handler: one for everybody, one for each tenant, and one for all callers that have none. What a tenant sends can be why a handler gives a
/// 5xx or no answer, and that must not keep the others from being asked for: of everybody's a tenant has a small part, and its
/// own opens first.
#[derive(Debug)]
pub(super) struct Breakers {
    all: Arc<Breaker>,
    own: OneEach<Breaker>,
    hasher: RandomState,
}

/// Leave to run the handler once.
#[derive(Debug)]
pub(super) struct Passes {
    own: Pass,
    all: Pass,
}

impl Breakers {
    /// Those of the handler of `rule`. How many are not closed is counted in `open`.
    pub(super) fn new(settings: BreakerSettings, rule: &Rule, open: Arc<AtomicUsize>) -> Self {
        let all = Arc::new(Breaker::new(settings, rule, open));
        Self { all, own: OneEach::default(), hasher: RandomState::new() }
    }

    /// Leave for `caller` to have the handler run.
    pub(super) fn ask(&self, caller: &Identity) -> Result<Passes, Failed> {
        let tenant = caller.tenant();
        let own =
            self.own.of(tenant.unwrap_or_default(), Breaker::is_idle, || self.all.for_tenant(tenant)).ask(None)?;
        Ok(Passes { own, all: self.all.ask(Some(self.hasher.hash_one(tenant)))? })
    }
}

impl Passes {
    /// The run has ended; `is_whole` is whether it was granted the handler's own timeout.
    pub(super) fn ended(self, ran: &Ran, is_whole: bool) {
        let sign = sign(ran, is_whole);
        // That a tenant whom it does not answer is still not answered says nothing new to others.
        let known = sign == Sign::IsBroken && self.own.is_probe();
        self.all.ended(if known { Sign::None } else { sign });
        self.own.ended(sign);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering, time::Duration};

    use super::*;
    use crate::{
        model::{Failure, Tier, Verdict},
        run::{
            bulkheads::tests::caller,
            testing::{decide, failed},
        },
    };

    const RUNS: usize = 8;

    fn breakers() -> (Breakers, Arc<AtomicUsize>) {
        let settings = BreakerSettings { failure_percent: 50, runs: RUNS, open_for: Duration::from_secs(1) };
        let open = Arc::new(AtomicUsize::new(0));
        (Breakers::new(settings, &decide(Tier::Managed, Verdict::None), Arc::clone(&open)), open)
    }

    /// Whether it was asked.
    fn runs(breakers: &Breakers, tenant: &str, answers: bool) -> bool {
        let Ok(passes) = breakers.ask(&caller(tenant)) else { return false };
        let bad = || failed(Failure::Connection, "no answer");
        passes.ended(&if answers { Ran::said(Ok(Arc::default())) } else { bad() }, true);
        true
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_tenant_has_fail_keeps_nobody_elses_calls_from_a_handler() {
        let (breakers, open) = breakers();
        let failed = (0..100).filter(|_| runs(&breakers, "a", false)).count();
        assert_eq!((failed, open.load(Ordering::Relaxed)), (RUNS, 1));
        assert!((0..100).all(|_| runs(&breakers, "b", true) && runs(&breakers, "", true)));
        // Nor once it is asked for it again, and fails again.
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(runs(&breakers, "a", false) && !runs(&breakers, "a", false) && runs(&breakers, "b", true));
        assert_eq!(open.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_answers_nobody_is_let_be_for_all() {
        let (breakers, open) = breakers();
        for tenant in ["a", "b", "c", "d"].repeat(2) {
            assert!(runs(&breakers, tenant, false));
        }
        assert_eq!(open.load(Ordering::Relaxed), 1, "everybody's, and nobody's own");
        assert!(!runs(&breakers, "e", true));
        tokio::time::advance(Duration::from_secs(1)).await;
        for tenant in ["a", "e", "a"] {
            assert!(runs(&breakers, tenant, true));
        }
        assert_eq!(open.load(Ordering::Relaxed), 0);

        let (breakers, open) = self::breakers();
        assert!((0..RUNS).all(|_| runs(&breakers, "", false)));
        assert!(!runs(&breakers, "", true) && runs(&breakers, "a", true), "those without a tenant are as one");
        assert_eq!(open.load(Ordering::Relaxed), 1);
    }
}
