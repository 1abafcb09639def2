use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Semaphore;

use crate::model::Identity;

/// After so many tenants those that have nothing are looked for.
const FEW: usize = 64;

/// What each tenant gets at a time of something that is everybody's. It waits for its own share before it waits with others,
/// so that its crowd is in nobody's way.
#[derive(Debug)]
pub(super) struct Shares {
    most: usize,
    of: Mutex<Tenants>,
}

#[derive(Debug)]
struct Tenants {
    shares: HashMap<String, Arc<Semaphore>>,
    /// How many there may be until those that have nothing are forgotten.
    until: usize,
}

impl Shares {
    /// So much for each, at least one.
    pub(super) fn new(most: usize) -> Self {
        let of = Mutex::new(Tenants { shares: HashMap::new(), until: FEW });
        Self { most: most.clamp(1, Semaphore::MAX_PERMITS), of }
    }

    /// How much each gets.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// That of the caller's tenant. `None`: it has none, and so no bound of its own.
    pub(super) fn of(&self, caller: &Identity) -> Option<Arc<Semaphore>> {
        let tenant = caller.tenant()?;
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = of.shares.get(tenant) {
            return Some(Arc::clone(share));
        }
        if of.shares.len() >= of.until {
            of.shares.retain(|_, share| Arc::strong_count(share) > 1);
            // Not again before there are twice as many: a look at each costs as much as there are.
            of.until = of.shares.len().saturating_mul(2).max(FEW);
        }
        let share = Arc::new(Semaphore::new(self.most));
        of.shares.insert(tenant.to_owned(), Arc::clone(&share));
        Some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::bulkheads::tests::caller;

    #[test]
    fn a_share_is_the_same_as_long_as_somebody_has_of_it_and_the_others_are_forgotten() {
        let shares = Shares::new(0);
        assert_eq!((shares.most(), shares.of(&caller("")).is_none()), (1, true));
        let held = shares.of(&caller("held")).unwrap();
        let permit = Arc::clone(&held).try_acquire_owned().unwrap();
        drop(held);
        for tenant in 0..10 * FEW {
            assert_eq!(shares.of(&caller(&tenant.to_string())).unwrap().available_permits(), 1);
        }
        let known = shares.of.lock().unwrap().shares.len();
        assert!(known <= FEW, "{known}");
        assert_eq!(shares.of(&caller("held")).unwrap().available_permits(), 0);
        drop(permit);
        assert_eq!(shares.of(&caller("held")).unwrap().available_permits(), 1);
    }
}
