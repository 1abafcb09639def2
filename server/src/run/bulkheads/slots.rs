use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::model::{Failed, Failure, Identity};

/// Places for calls that wait for a handler, whoever runs it: fewer than there are places for calls, so that those which
/// are judged in process find one whatever handlers do.
#[derive(Debug)]
pub struct Slots {
    all: usize,
    of_tenant: usize,
    taken: Mutex<Taken>,
}

/// One of them. It is free again when it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    tenant: Option<String>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// By tenant; those that have none are not in it.
    by_tenant: HashMap<String, usize>,
}

impl Slots {
    /// So many in all, and so many of them for one tenant. Callers without the label `tenant` have no bound of their own.
    #[must_use]
    pub fn new(all: usize, of_tenant: usize) -> Self {
        Self { all, of_tenant, taken: Mutex::default() }
    }

    /// Takes one.
    ///
    /// # Errors
    /// `overloaded`: all of them are taken, or all that the caller's tenant gets.
    pub fn take(self: &Arc<Self>, caller: &Identity) -> Result<Slot, Failed> {
        let overloaded = |message| Err(Failed::new(Failure::Overloaded, message));
        let tenant = caller.tenant();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.all {
            return overloaded(format!("{} calls wait for handlers already", self.all));
        }
        if let Some(tenant) = tenant {
            let of_tenant = taken.by_tenant.get(tenant).copied().unwrap_or_default();
            if of_tenant >= self.of_tenant {
                return overloaded(format!("{of_tenant} calls of this tenant wait for handlers already"));
            }
            match taken.by_tenant.get_mut(tenant) {
                Some(count) => *count = count.saturating_add(1),
                None => drop(taken.by_tenant.insert(tenant.to_owned(), 1)),
            }
        }
        taken.all = taken.all.saturating_add(1);
        Ok(Slot { slots: Arc::clone(self), tenant: tenant.map(str::to_owned) })
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        let Some(tenant) = &self.tenant else { return };
        if let Some(count) = taken.by_tenant.get_mut(tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.by_tenant.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::bulkheads::tests::caller;

    #[test]
    fn of_tenants_that_have_none_nothing_is_kept() {
        let slots = Arc::new(Slots::new(4, 2));
        let both = [(); 2].map(|()| slots.take(&caller("a")).unwrap());
        let taken = || slots.taken.lock().unwrap().by_tenant.clone();
        assert_eq!(taken(), HashMap::from([("a".to_owned(), 2)]));
        drop(both);
        assert_eq!(taken(), HashMap::new());
    }
}
