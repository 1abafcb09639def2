//! Room for what takes memory and no place: calls that are not there whole, and answers that are not read. Whoever has much
//! of it takes nobody else's.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::telemetry::call::Call;

/// Room for so many of a kind, apart from the places of calls that are evaluated.
///
/// Where there is none left, the oldest of the caller that has the most gives way, so that no caller keeps another's out,
/// and that what stands still cannot keep out what comes in one go. A caller is an identity at an address; this machine is
/// one address.
#[derive(Debug)]
pub struct Room<G> {
    size: usize,
    held: Mutex<Held<G>>,
    hasher: RandomState,
}

/// What can give way.
pub trait Guest: Clone + Debug {
    /// Gives what it holds back, or will do so soon.
    fn give_way(&self);
}

/// What a guest has in a room, until it is dropped.
#[derive(Debug)]
pub struct Seat<G: Guest> {
    room: Arc<Room<G>>,
    caller: u64,
    number: u64,
    guest: G,
}

#[derive(Debug)]
struct Held<G> {
    /// How many there were.
    begun: u64,
    count: usize,
    /// By caller and number, so the first of a caller is its oldest.
    callers: HashMap<u64, BTreeMap<u64, G>>,
}

impl Guest for CancellationToken {
    fn give_way(&self) {
        self.cancel();
    }
}

impl<G: Guest> Room<G> {
    /// Room for so many.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let held = Held { begun: 0, count: 0, callers: HashMap::new() };
        Self { size, held: Mutex::new(held), hasher: RandomState::new() }
    }

    /// Takes a guest of `call`'s in.
    #[must_use]
    pub fn enter(self: &Arc<Self>, call: &Call, guest: G) -> Seat<G> {
        let caller = self.hasher.hash_one((&call.identity().name, call.peer.network()));
        let mut held = self.held();
        let leaves = if held.count >= self.size { held.make_room(caller) } else { None };
        let number = held.begun;
        held.begun = number.wrapping_add(1);
        held.count = held.count.saturating_add(1);
        held.callers.entry(caller).or_default().insert(number, guest.clone());
        drop(held);
        // Not under the lock: whatever it is may hold seats here.
        if let Some(leaves) = leaves {
            leaves.give_way();
        }
        Seat { room: Arc::clone(self), caller, number, guest }
    }

    /// How many are here.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held().count
    }

    fn held(&self) -> MutexGuard<'_, Held<G>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G: Guest> Seat<G> {
    /// Whose it is.
    #[must_use]
    pub fn guest(&self) -> &G {
        &self.guest
    }
}

impl<G: Guest> Drop for Seat<G> {
    fn drop(&mut self) {
        let removed = self.room.held().remove(self.caller, self.number);
        drop(removed);
    }
}

impl<G> Held<G> {
    /// Takes out the oldest of the caller with the most; where `newcomer` has as many, one of its own.
    fn make_room(&mut self, newcomer: u64) -> Option<G> {
        let own = self.callers.get(&newcomer).map_or(0, BTreeMap::len);
        let most = self.callers.iter().max_by_key(|(_, guests)| guests.len());
        let most = most.filter(|(_, guests)| guests.len() > own).map_or(newcomer, |(caller, _)| *caller);
        let number = *self.callers.get(&most)?.keys().next()?;
        self.remove(most, number)
    }

    fn remove(&mut self, caller: u64, number: u64) -> Option<G> {
        let guests = self.callers.get_mut(&caller)?;
        let removed = guests.remove(&number);
        if removed.is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if guests.is_empty() {
            self.callers.remove(&caller);
        }
        removed
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
        let call = Call::arriving(peer);
        call.prove(Arc::new(identity));
        call
    }

    fn gave_way(seats: &[Seat<CancellationToken>]) -> Vec<bool> {
        seats.iter().map(|seat| seat.guest().is_cancelled()).collect()
    }

    #[test]
    fn who_has_the_most_gives_way_to_who_has_less() {
        let room = Arc::new(Room::new(4));
        let enter = |call: Call| room.enter(&call, CancellationToken::new());
        let mut greedy = (0..4).map(|_| enter(call("a", 1))).collect::<Vec<_>>();
        let other = enter(call("b", 1));
        let elsewhere = enter(call("a", 2));
        assert_eq!(gave_way(&greedy), [true, true, false, false], "the oldest first");
        assert_eq!(room.count(), 4);
        drop(greedy.drain(..2));
        assert_eq!(room.count(), 4, "they are gone already");
        greedy.push(enter(call("a", 1)));
        assert_eq!(gave_way(&greedy), [true, false, false], "its own");
        let third = enter(call("c", 3));
        assert_eq!(gave_way(&greedy), [true, true, false]);
        let others = [other, elsewhere, third];
        assert_eq!(gave_way(&others), [false; 3]);
        drop((greedy, others));
        assert_eq!((room.count(), room.held().callers.len()), (0, 0));
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
