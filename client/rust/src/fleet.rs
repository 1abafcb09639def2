//! All replicas: who they are, whose turn it is, and how to get to one of them.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::Shared, stream::FuturesUnordered};
use tokio::time::{Instant, sleep};

use crate::{
    Address, CallError, Resolve,
    address::Place,
    back_off::random,
    dial::{DialError, Dialer},
    failures::Failures,
    files::reason,
    replica::Replica,
    transport::Connection,
};

/// How old what is known of names may be.
const RESOLVED_FOR: Duration = Duration::from_secs(30);
/// After the loss of a replica, names are looked up again where what is known is older than this.
const RESOLVED_FOR_AT_LEAST: Duration = Duration::from_secs(1);
/// How long a replica may take to connect before another one is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);

/// The replicas behind the addresses of a client.
pub(crate) struct Fleet {
    addresses: Vec<Arc<Address>>,
    has_names: bool,
    resolver: Arc<dyn Resolve>,
    dialer: Arc<Dialer>,
    known: RwLock<Arc<Known>>,
    resolving: Mutex<Option<Resolving>>,
    /// Counts on, modulo; starts somewhere.
    turn: AtomicUsize,
    /// Whose turn it is among the others where one cannot take its own.
    stand_in: AtomicUsize,
}

/// What is known of the replicas.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) replicas: Vec<Arc<Replica>>,
    /// What names, of which nothing is known, could not be looked up for.
    pub(crate) unresolved: Vec<CallError>,
    /// When the names were looked up, or rather when that was begun.
    resolved_at: Option<Instant>,
}

type Resolving = Shared<Pin<Box<dyn Future<Output = ()> + Send>>>;

impl Fleet {
    pub(crate) fn new(addresses: Vec<Address>, resolver: Arc<dyn Resolve>, dialer: Dialer) -> Self {
        let addresses = addresses.into_iter().map(Arc::new).collect::<Vec<_>>();
        let known = Known { replicas: addresses.iter().filter_map(without_look_up).collect(), ..Known::default() };
        let start = usize::try_from(random() >> 33).unwrap_or_default();
        Self {
            has_names: addresses.iter().any(|address| address.is_name()),
            addresses,
            resolver,
            dialer: Arc::new(dialer),
            known: RwLock::new(Arc::new(known)),
            resolving: Mutex::new(None),
            turn: AtomicUsize::new(start),
            stand_in: AtomicUsize::new(start),
        }
    }

    pub(crate) fn addresses(&self) -> &[Arc<Address>] {
        &self.addresses
    }

    /// What is known of the replicas; where there are names, by a look-up that was begun after `since`.
    pub(crate) async fn known(self: &Arc<Self>, since: Option<Instant>) -> Arc<Known> {
        let known = self.snapshot();
        match known.resolved_at {
            _ if !self.has_names => known,
            Some(at) if since.is_none_or(|since| at >= since) => {
                if at.elapsed() > RESOLVED_FOR {
                    drop(self.resolve());
                }
                known
            }
            _ => {
                self.resolve().await;
                self.snapshot()
            }
        }
    }

    /// A replica was lost: where it went may be known by now.
    pub(crate) fn has_lost(self: &Arc<Self>, known: &Known) {
        if self.has_names && known.resolved_at.is_none_or(|at| at.elapsed() > RESOLVED_FOR_AT_LEAST) {
            drop(self.resolve());
        }
    }

    /// A replica that is not among `tried`, with its connection: the next one of those that are ready, or else the first of
    /// the others that connects. Those that do not are put among `tried`. `None`: there is none left.
    pub(crate) async fn reach(
        self: &Arc<Self>,
        known: &Known,
        tried: &mut Vec<Arc<Replica>>,
        failures: &mut Failures,
    ) -> Option<(Arc<Replica>, Connection)> {
        if let Some(ready) = self.ready(known, tried) {
            return Some(ready);
        }
        let mut candidates = self.candidates(known, tried).into_iter().peekable();
        let mut dialing = FuturesUnordered::new();
        loop {
            match candidates.next() {
                Some(replica) => {
                    let dialed = replica.dial(&self.dialer);
                    dialing.push(async move { (replica, dialed.await) });
                }
                None if dialing.is_empty() => return None,
                None => {}
            }
            tokio::select! {
                biased;
                Some((replica, dialed)) = dialing.next() => match dialed {
                    Ok(connection) => return Some((replica, connection)),
                    Err(error) => {
                        failures.add(CallError::of_dial(&error, replica.name()));
                        tried.push(replica);
                    }
                },
                () = sleep(HEAD_START), if candidates.peek().is_some() => {}
            }
        }
    }

    /// The replica whose turn it is, if it is ready; else one of the others that are, in turn: the share of one goes to all.
    fn ready(self: &Arc<Self>, known: &Known, tried: &[Arc<Replica>]) -> Option<(Arc<Replica>, Connection)> {
        let now = Instant::now();
        let at = self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(known.replicas.len())?;
        let in_turn = known.replicas.get(at)?;
        let is_tried = |replica: &Arc<Replica>| tried.iter().any(|tried| Arc::ptr_eq(tried, replica));
        if !is_tried(in_turn)
            && let Some(connection) = in_turn.ready(now)
        {
            return Some((Arc::clone(in_turn), connection));
        }
        let others = known.replicas.iter().filter(|replica| !is_tried(replica));
        let ready = others.filter_map(|replica| Some((replica, replica.ready(now)?))).collect::<Vec<_>>();
        let at = self.stand_in.fetch_add(1, Ordering::Relaxed).checked_rem(ready.len())?;
        // For its next turn.
        if !is_tried(in_turn) && in_turn.warm(&self.dialer, now) {
            self.has_lost(known);
        }
        let (replica, connection) = ready.into_iter().nth(at)?;
        Some((Arc::clone(replica), connection))
    }

    /// Those that are not among `tried`, each client from another one on; those that rest come last, the longest rest at the end.
    fn candidates(&self, known: &Known, tried: &[Arc<Replica>]) -> Vec<Arc<Replica>> {
        let now = Instant::now();
        let count = known.replicas.len();
        // Its turn has just been taken.
        let start = self.turn.load(Ordering::Relaxed).wrapping_sub(1).checked_rem(count).unwrap_or_default();
        let in_order = known.replicas.iter().cycle().skip(start).take(count);
        let left = in_order.filter(|replica| !tried.iter().any(|tried| Arc::ptr_eq(tried, replica)));
        let mut left = left.map(|replica| (replica.rests_until(now), Arc::clone(replica))).collect::<Vec<_>>();
        left.sort_by_key(|(rests_until, _)| *rests_until);
        left.into_iter().map(|(_, replica)| replica).collect()
    }

    fn snapshot(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks all names up; whoever wants it meanwhile waits for the same. Goes on where nobody waits for it any more.
    fn resolve(self: &Arc<Self>) -> Resolving {
        let mut resolving = self.resolving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(resolving) = &*resolving {
            return resolving.clone();
        }
        let fleet = Arc::clone(self);
        let task = tokio::spawn(async move {
            let looking = Arc::clone(&fleet);
            // In a task of its own: a resolver that panics must not be the last one.
            let _ = tokio::spawn(async move { looking.look_up().await }).await;
            *fleet.resolving.lock().unwrap_or_else(PoisonError::into_inner) = None;
        });
        let begun = async move { drop(task.await) }.boxed().shared();
        *resolving = Some(begun.clone());
        begun
    }

    async fn look_up(&self) {
        let before = self.snapshot();
        let mut known = Known { resolved_at: Some(Instant::now()), ..Known::default() };
        for address in &self.addresses {
            let (host, port) = match address.place() {
                Place::Tcp { host, port, .. } if address.is_name() => (host, *port),
                Place::Tcp { .. } | Place::Unix(_) => {
                    known.replicas.extend(before.of(address));
                    continue;
                }
            };
            let why = match self.resolver.resolve(host, port).await {
                Ok(places) if !places.is_empty() => {
                    for place in places {
                        if !known.replicas.iter().any(|replica| replica.is(address, Some(place))) {
                            let there = before.replicas.iter().find(|replica| replica.is(address, Some(place)));
                            let new = || Arc::new(Replica::new(Arc::clone(address), Some(place)));
                            known.replicas.push(there.map_or_else(new, Arc::clone));
                        }
                    }
                    continue;
                }
                Ok(_) => "the name has no address".to_owned(),
                Err(error) => format!("the name cannot be looked up: {}", reason(&error)),
            };
            // Better those that were there a moment ago than none.
            let there = known.replicas.len();
            known.replicas.extend(before.of(address));
            if known.replicas.len() == there {
                known.unresolved.push(CallError::of_dial(&DialError::Unreachable(why), &address.to_string()));
            }
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }
}

impl Known {
    /// The names of all replicas, and of the addresses that none is known of.
    pub(crate) fn names(&self, addresses: &[Arc<Address>]) -> Vec<String> {
        let of_none = |address: &&Arc<Address>| self.of(address).next().is_none();
        let names = self.replicas.iter().map(|replica| replica.name().to_owned());
        names.chain(addresses.iter().filter(of_none).map(ToString::to_string)).collect()
    }

    fn of(&self, address: &Arc<Address>) -> impl Iterator<Item = Arc<Replica>> {
        self.replicas.iter().filter(move |replica| replica.is_of(address)).map(Arc::clone)
    }
}

/// The one replica at an address that is no name.
fn without_look_up(address: &Arc<Address>) -> Option<Arc<Replica>> {
    let at = match address.place() {
        Place::Unix(_) => None,
        Place::Tcp { .. } => Some(address.socket_address()?),
    };
    Some(Arc::new(Replica::new(Arc::clone(address), at)))
}
