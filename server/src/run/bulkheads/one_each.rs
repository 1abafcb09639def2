use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// After so many those that are not needed are looked for.
const FEW: usize = 64;

/// Something that each tenant, or whoever is told apart by a name, has one of for as long as it is needed.
#[derive(Debug)]
pub struct OneEach<T>(Mutex<Known<T>>);

#[derive(Debug)]
struct Known<T> {
    of: HashMap<String, Arc<T>>,
    /// How many there may be until those that are not needed are forgotten.
    until: usize,
}

impl<T> OneEach<T> {
    /// That of whoever has this name, made if there is none. Others may be forgotten then that nobody holds and that are
    /// `idle`.
    pub fn of(&self, name: &str, idle: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = known.of.get(name) {
            return Arc::clone(own);
        }
        if known.of.len() >= known.until {
            known.of.retain(|_, own| Arc::strong_count(own) > 1 || !idle(own));
            // Not again before there are twice as many: a look at each costs as much as there are.
            known.until = known.of.len().saturating_mul(2).max(FEW);
        }
        let own = Arc::new(make());
        known.of.insert(name.to_owned(), Arc::clone(&own));
        own
    }
}

impl<T> Default for OneEach<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { of: HashMap::new(), until: FEW }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_as_long_as_it_is_held_or_needed_and_the_others_are_forgotten() {
        let all = OneEach::default();
        let held = all.of("held", |_| true, || 1);
        all.of("needed", |_| true, || 2);
        for name in 0..10 * FEW {
            assert_eq!(*all.of(&name.to_string(), |own| *own != 2, || 3), 3);
        }
        let known = all.0.lock().unwrap().of.len();
        assert!(known <= FEW, "{known}");
        assert_eq!((*all.of("held", |_| true, || 4), *all.of("needed", |_| true, || 4)), (1, 2));
        drop(held);
    }
}
