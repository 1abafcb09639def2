use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// After so many tenants those that are not needed are looked for.
const FEW: usize = 64;

/// Something that each tenant has one of, for as long as it is needed.
#[derive(Debug)]
pub(super) struct PerTenant<T>(Mutex<Tenants<T>>);

#[derive(Debug)]
struct Tenants<T> {
    of: HashMap<String, Arc<T>>,
    /// How many there may be until those that are not needed are forgotten.
    until: usize,
}

impl<T> PerTenant<T> {
    /// That of this tenant, made if it has none. Others may be forgotten then that nobody holds and that are `idle`.
    pub(super) fn of(&self, tenant: &str, idle: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.of.get(tenant) {
            return Arc::clone(own);
        }
        if tenants.of.len() >= tenants.until {
            tenants.of.retain(|_, own| Arc::strong_count(own) > 1 || !idle(own));
            // Not again before there are twice as many: a look at each costs as much as there are.
            tenants.until = tenants.of.len().saturating_mul(2).max(FEW);
        }
        let own = Arc::new(make());
        tenants.of.insert(tenant.to_owned(), Arc::clone(&own));
        own
    }
}

impl<T> Default for PerTenant<T> {
    fn default() -> Self {
        Self(Mutex::new(Tenants { of: HashMap::new(), until: FEW }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_as_long_as_it_is_held_or_needed_and_the_others_are_forgotten() {
        let all = PerTenant::default();
        let held = all.of("held", |_| true, || 1);
        all.of("needed", |_| true, || 2);
        for tenant in 0..10 * FEW {
            assert_eq!(*all.of(&tenant.to_string(), |own| *own != 2, || 3), 3);
        }
        let known = all.0.lock().unwrap().of.len();
        assert!(known <= FEW, "{known}");
        assert_eq!((*all.of("held", |_| true, || 4), *all.of("needed", |_| true, || 4)), (1, 2));
        drop(held);
    }
}
