use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{record::Recorder, telemetry::call::Peer};

/// How many connections may be open, over all listeners.
#[derive(Debug)]
pub struct ConnectionLimit {
    all: usize,
    of_one_address: usize,
    open: Mutex<Open>,
    recorder: Arc<Recorder>,
}

/// One connection that counts, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    limit: Arc<ConnectionLimit>,
    address: Option<IpAddr>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    /// Of other machines, by [`Peer::network`].
    by_address: HashMap<IpAddr, usize>,
}

impl ConnectionLimit {
    /// So many in all, and so many of one address of another machine. Those of this machine are its owner's, so only the
    /// first counts for them.
    #[must_use]
    pub fn new(all: usize, of_one_address: usize, recorder: Arc<Recorder>) -> Self {
        Self { all, of_one_address, open: Mutex::default(), recorder }
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.held().all
    }

    /// Counts a connection of `peer`'s. `None`: there are too many already, which is counted too.
    pub(super) fn count(self: &Arc<Self>, peer: Peer) -> Option<Counted> {
        let address = peer.network();
        let mut open = self.held();
        let of_address = address.and_then(|address| open.by_address.get(&address)).copied().unwrap_or(0);
        let is_over = if open.all >= self.all {
            Some("all")
        } else {
            (address.is_some() && of_address >= self.of_one_address).then_some("address")
        };
        if let Some(limit) = is_over {
            drop(open);
            self.recorder.connection_refused(limit);
            return None;
        }
        open.all = open.all.saturating_add(1);
        if let Some(address) = address {
            open.by_address.insert(address, of_address.saturating_add(1));
        }
        Some(Counted { limit: Arc::clone(self), address })
    }

    fn held(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.limit.held();
        open.all = open.all.saturating_sub(1);
        if let Some(address) = self.address
            && let Some(count) = open.by_address.get_mut(&address)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::DecisionLog;

    #[test]
    fn connections_are_bounded_in_all_and_by_address() {
        let recorder = Arc::new(Recorder::new(DecisionLog::silent(), None));
        let limit = Arc::new(ConnectionLimit::new(4, 2, Arc::clone(&recorder)));
        let of = |last: u8| limit.count(Peer::Remote(Some(IpAddr::from([192, 0, 2, last]))));
        let mut held = vec![of(1).unwrap(), of(1).unwrap()];
        assert!(of(1).is_none());
        held.extend([of(2).unwrap(), limit.count(Peer::Local).unwrap()]);
        assert!(limit.count(Peer::Local).is_none() && of(3).is_none());
        assert_eq!(limit.open(), 4);
        held.remove(0);
        held.push(of(1).unwrap());
        let page = recorder.exposition();
        assert!(page.contains("hookd_refused_connections_total{limit=\"address\"} 1\n"), "{page}");
        assert!(page.contains("hookd_refused_connections_total{limit=\"all\"} 2\n"), "{page}");
        drop(held);
        assert_eq!((limit.open(), limit.held().by_address.len()), (0, 0));
    }
}
