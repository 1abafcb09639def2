use std::sync::Arc;

use tokio::sync::Semaphore;

use super::one_each::OneEach;
use crate::model::Identity;

/// What each tenant gets at a time of something that is everybody's. It waits for its own share before it waits with others,
/// so that its crowd is in nobody's way.
#[derive(Debug)]
pub(super) struct Shares {
    most: usize,
    of: OneEach<Semaphore>,
}

impl Shares {
    /// So much for each, at least one.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.clamp(1, Semaphore::MAX_PERMITS), of: OneEach::default() }
    }

    /// How much each gets.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// That of the caller's tenant. `None`: it has none, and so no bound of its own.
    pub(super) fn of(&self, caller: &Identity) -> Option<Arc<Semaphore>> {
        Some(self.of.of(caller.tenant()?, |_| true, || Semaphore::new(self.most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::bulkheads::tests::caller;

    #[test]
    fn a_share_is_the_same_as_long_as_somebody_has_of_it() {
        let shares = Shares::new(0);
        assert_eq!((shares.most(), shares.of(&caller("")).is_none()), (1, true));
        let permit = shares.of(&caller("held")).unwrap().try_acquire_owned().unwrap();
        for tenant in 0..1000 {
            assert_eq!(shares.of(&caller(&tenant.to_string())).unwrap().available_permits(), 1);
        }
        assert_eq!(shares.of(&caller("held")).unwrap().available_permits(), 0);
        drop(permit);
        assert_eq!(shares.of(&caller("held")).unwrap().available_permits(), 1);
    }
}
