//! Room for calls that have begun and are not there whole: whoever sends requests drop by drop takes nobody's place.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::telemetry::call::Call;

/// Room for calls that are not there whole, apart from the places of those that are evaluated.
///
/// Where there is none left, the oldest call of the caller that has the most of them gives way, so that no caller's calls
/// can keep another's out, and that what stands still cannot keep out what comes in one go. A caller is an identity at an
/// address; this machine is one address.
#[derive(Debug)]
pub struct Arrivals {
    room: usize,
    held: Mutex<Held>,
    hasher: RandomState,
}

/// A call in this room, until it is dropped.
#[derive(Debug)]
pub struct Arriving {
    arrivals: Arc<Arrivals>,
    caller: u64,
    number: u64,
    gives_way: CancellationToken,
}

#[derive(Debug, Default)]
struct Held {
    /// How many calls there were.
    begun: u64,
    count: usize,
    /// By caller and number, so the first of a caller is its oldest.
    callers: HashMap<u64, BTreeMap<u64, CancellationToken>>,
}

impl Arrivals {
    /// Room for so many calls.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room, held: Mutex::default(), hasher: RandomState::new() }
    }

    /// Takes `call` in.
    #[must_use]
    pub fn enter(self: &Arc<Self>, call: &Call) -> Arriving {
        let caller = self.hasher.hash_one((&call.identity.name, call.peer.network()));
        let mut held = self.held();
        if held.count >= self.room {
            held.make_room(caller);
        }
        let number = held.begun;
        held.begun = number.wrapping_add(1);
        held.count = held.count.saturating_add(1);
        let gives_way = CancellationToken::new();
        held.callers.entry(caller).or_default().insert(number, gives_way.clone());
        drop(held);
        Arriving { arrivals: Arc::clone(self), caller, number, gives_way }
    }

    /// How many calls are here.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held().count
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arriving {
    /// Cancelled when this call has to make room for another.
    #[must_use]
    pub fn gives_way(&self) -> &CancellationToken {
        &self.gives_way
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.arrivals.held().remove(self.caller, self.number);
    }
}

impl Held {
    /// Has the oldest call of the caller with the most give way; where `newcomer` has as many, one of its own.
    fn make_room(&mut self, newcomer: u64) {
        let own = self.callers.get(&newcomer).map_or(0, BTreeMap::len);
        let most = self.callers.iter().max_by_key(|(_, calls)| calls.len());
        let most = most.filter(|(_, calls)| calls.len() > own).map_or(newcomer, |(caller, _)| *caller);
        let Some((&number, gives_way)) = self.callers.get(&most).and_then(BTreeMap::first_key_value) else { return };
        gives_way.cancel();
        self.remove(most, number);
    }

    fn remove(&mut self, caller: u64, number: u64) {
        let Some(calls) = self.callers.get_mut(&caller) else { return };
        if calls.remove(&number).is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if calls.is_empty() {
            self.callers.remove(&caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;
    use crate::{
        model::{Identity, Labels},
        telemetry::call::Peer,
    };

    fn call(name: &str, last: u8) -> Call {
        let identity = Identity { name: name.to_owned(), labels: Labels::default() };
        let peer = Peer::Remote(Some(IpAddr::from([192, 0, 2, last])));
        Call { identity: Arc::new(identity), ..Call::arriving(peer) }
    }

    fn gave_way(calls: &[Arriving]) -> Vec<bool> {
        calls.iter().map(|call| call.gives_way().is_cancelled()).collect()
    }

    #[test]
    fn who_has_the_most_gives_way_to_who_has_less() {
        let arrivals = Arc::new(Arrivals::new(4));
        let mut greedy = (0..4).map(|_| arrivals.enter(&call("a", 1))).collect::<Vec<_>>();
        let other = arrivals.enter(&call("b", 1));
        let elsewhere = arrivals.enter(&call("a", 2));
        assert_eq!(gave_way(&greedy), [true, true, false, false], "the oldest first");
        assert_eq!(arrivals.count(), 4);
        drop(greedy.drain(..2));
        assert_eq!(arrivals.count(), 4, "they are gone already");
        greedy.push(arrivals.enter(&call("a", 1)));
        assert_eq!(gave_way(&greedy), [true, false, false], "its own");
        let third = arrivals.enter(&call("c", 3));
        assert_eq!(gave_way(&greedy), [true, true, false]);
        let others = [other, elsewhere, third];
        assert_eq!(gave_way(&others), [false; 3]);
        drop((greedy, others));
        assert_eq!((arrivals.count(), arrivals.held().callers.len()), (0, 0));
    }

    #[test]
    fn a_network_of_ipv6_is_one_caller() {
        let of = |last: u16, network: u16| {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, last);
            Peer::Remote(Some(IpAddr::V6(address))).network()
        };
        assert_eq!(of(1, 1), of(2, 1));
        assert_ne!(of(1, 1), of(1, 2));
        assert_ne!(of(1, 1), Peer::Local.network());
    }
}
