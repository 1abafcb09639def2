//! One hookd of several, over one connection that all calls share.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::Shared};
use tokio::time::Instant;
use tonic::{Status, metadata::MetadataMap};

use crate::{
    Address, CallError,
    back_off::back_off,
    dial::{DialError, Dialer},
    transport::Connection,
};

/// How long a replica is left alone after it has failed once; it doubles with each further failure.
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(10);

/// One hookd. Its connection is made when it is first needed, and again whenever it is lost.
pub(crate) struct Replica {
    address: Arc<Address>,
    /// `None`: a unix socket.
    at: Option<SocketAddr>,
    name: String,
    state: Mutex<State>,
    /// Failures since it last gave an answer.
    failures: AtomicU32,
}

struct State {
    slot: Slot,
    /// It has failed: others have their turn until then.
    rests_until: Option<Instant>,
}

enum Slot {
    Empty,
    /// All who need the connection wait for the same attempt.
    Dialing(Dialing),
    Connected(Connection),
}

/// A connection that is being made. Goes on where nobody waits for it any more.
pub(crate) type Dialing = Shared<Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>>>;

impl Replica {
    pub(crate) fn new(address: Arc<Address>, at: Option<SocketAddr>) -> Self {
        let name = match at {
            Some(at) if address.is_name() => format!("{address} ({at})"),
            _ => address.to_string(),
        };
        let state = State { slot: Slot::Empty, rests_until: None };
        Self { address, at, name, state: Mutex::new(state), failures: AtomicU32::new(0) }
    }

    /// Whether it is the one that `address` stands for at this place.
    pub(crate) fn is(&self, address: &Arc<Address>, at: Option<SocketAddr>) -> bool {
        self.is_of(address) && self.at == at
    }

    /// Whether `address` stands for it, alone or among others.
    pub(crate) fn is_of(&self, address: &Arc<Address>) -> bool {
        Arc::ptr_eq(&self.address, address)
    }

    /// The address as it was written, and what it stands for where it is a name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its connection, if it has one and does not rest.
    pub(crate) fn ready(&self, now: Instant) -> Option<Connection> {
        let state = self.state();
        match &state.slot {
            Slot::Connected(connection) if !connection.is_closed() && !state.rests(now) => Some(connection.clone()),
            _ => None,
        }
    }

    /// Until when it rests. `None`: it does not.
    pub(crate) fn rests_until(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        state.rests_until.filter(|_| state.rests(now))
    }

    /// Begins to connect, unless it is connected, or is about to be, or rests. Whether it did.
    pub(crate) fn warm(self: &Arc<Self>, dialer: &Arc<Dialer>, now: Instant) -> bool {
        let is_lost = {
            let state = self.state();
            let is_lost = match &state.slot {
                Slot::Empty => true,
                Slot::Dialing(_) => false,
                Slot::Connected(connection) => connection.is_closed(),
            };
            is_lost && !state.rests(now)
        };
        if is_lost {
            drop(self.dial(dialer));
        }
        is_lost
    }

    /// The connection that calls share, made if there is none. Has to be called on a tokio runtime.
    pub(crate) fn dial(self: &Arc<Self>, dialer: &Arc<Dialer>) -> Dialing {
        let mut state = self.state();
        match &state.slot {
            Slot::Dialing(dialing) => return dialing.clone(),
            Slot::Connected(connection) if !connection.is_closed() => {
                let connection = connection.clone();
                return async move { Ok(connection) }.boxed().shared();
            }
            Slot::Connected(_) | Slot::Empty => {}
        }
        let (dialer, replica) = (Arc::clone(dialer), Arc::clone(self));
        let task = tokio::spawn(async move {
            let dialed = dialer.dial(&replica.address, replica.at).await;
            replica.settle(&dialed);
            dialed
        });
        let given_up = || DialError::Unreachable("the attempt to connect was given up".to_owned());
        let dialing = async move { task.await.unwrap_or_else(|_| Err(given_up())) }.boxed().shared();
        state.slot = Slot::Dialing(dialing.clone());
        dialing
    }

    fn settle(&self, dialed: &Result<Connection, DialError>) {
        let mut state = self.state();
        match dialed {
            Ok(connection) => *state = State { slot: Slot::Connected(connection.clone()), rests_until: None },
            Err(_) => *state = State { slot: Slot::Empty, rests_until: self.rest() },
        }
    }

    /// It gave an answer.
    pub(crate) fn has_answered(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// It gave none to a call over `connection`. One that was closed under the call may be made anew by the next call; otherwise
    /// the others have their turn.
    pub(crate) fn has_failed(&self, connection: &Connection) {
        if !connection.is_closed() {
            let rests_until = self.rest();
            self.state().rests_until = rests_until;
        }
    }

    /// It said nothing to a call over `connection` while there was time. It may be stuck: it gets no more calls until it
    /// has said something on a new connection. Calls that still wait for it go on waiting.
    pub(crate) fn was_silent(&self, connection: &Connection) {
        let mut state = self.state();
        if matches!(&state.slot, Slot::Connected(current) if current.is(connection)) {
            state.slot = Slot::Empty;
        }
    }

    /// When the rest ends that one more failure earns.
    fn rest(&self) -> Option<Instant> {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        Instant::now().checked_add(back_off(FIRST_REST, LONGEST_REST, before))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn error(&self, (status, headers): (Status, MetadataMap)) -> CallError {
        CallError::of_status(&status, &headers, &self.name)
    }
}

impl State {
    fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| until > now)
    }
}
