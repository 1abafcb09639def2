use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::cache::Owner;
use crate::run::OneEach;

/// Turns for what takes the processor: one at a time, so that what callers send does not take the machine from the calls that
/// it is there for. A tenant, or a caller that has none, waits with others for one of its turns only, so that whoever wants
/// many keeps nobody from theirs.
#[derive(Debug)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    own: OneEach<Semaphore>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(#[expect(dead_code, reason = "held")] [OwnedSemaphorePermit; 2]);

impl Turns {
    /// Waits for the turn of `owner`.
    pub(super) async fn take(&self, owner: &Owner) -> Result<Turn, AcquireError> {
        let name = match owner.identity.tenant() {
            Some(tenant) => format!("tenant {tenant}"),
            None => format!("{:?} {}", owner.peer.network(), owner.identity.name),
        };
        let own = self.own.of(&name, |_| true, || Semaphore::new(1)).acquire_owned().await?;
        Ok(Turn([own, Arc::clone(&self.all).acquire_owned().await?]))
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(1)), own: OneEach::default() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{model::Identity, telemetry::call::Peer};

    fn owner(name: &str, tenant: &str) -> Owner {
        let labels = [("tenant".to_owned(), tenant.to_owned())].into_iter().filter(|(_, tenant)| !tenant.is_empty());
        let identity = Identity { name: name.to_owned(), labels: labels.collect() };
        Owner { peer: Peer::Local, identity: Arc::new(identity) }
    }

    #[tokio::test]
    async fn whoever_wants_many_turns_keeps_nobody_from_theirs() {
        let turns = Turns::default();
        let first = turns.take(&owner("x", "a")).await.unwrap();
        let crowd = [owner("x", "a"), owner("y", "a"), owner("x", "a")];
        let mut crowd = crowd.iter().map(|of_a| Box::pin(turns.take(of_a))).collect::<Vec<_>>();
        assert!(crowd.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()), "it is one at a time");
        let others = [owner("x", "b"), owner("x", ""), owner("y", "")];
        let mut others = others.iter().map(|other| Box::pin(turns.take(other))).collect::<Vec<_>>();
        assert!(others.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()), "for all");
        drop(first);
        // The crowd asked before they did.
        for other in others {
            drop(other.await.unwrap());
        }
        for waiting in crowd {
            drop(waiting.await.unwrap());
        }
    }
}
