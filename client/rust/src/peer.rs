//! One hookd to ask, over one connection that all calls share.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt as _, future::Shared};
use tonic::{Status, metadata::MetadataMap};

use crate::{
    Address, CallError,
    dial::{DialError, Dialer},
    transport::Connection,
};

/// One hookd. Its connection is made when it is first needed, and again whenever it is lost.
pub(crate) struct Peer {
    address: Address,
    slot: Mutex<Slot>,
}

enum Slot {
    Empty,
    /// All who need the connection wait for the same attempt.
    Dialing(Dialing),
    Connected(Connection),
}

type Dialing = Shared<Pin<Box<dyn Future<Output = Result<Connection, DialError>> + Send>>>;

impl Peer {
    pub(crate) fn new(address: Address) -> Self {
        Self { address, slot: Mutex::new(Slot::Empty) }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The connection that calls share. Has to be called on a tokio runtime.
    pub(crate) async fn connection(&self, dialer: &Arc<Dialer>) -> Result<Connection, CallError> {
        let dialing = {
            let mut slot = self.slot();
            match &*slot {
                Slot::Connected(connection) if !connection.is_closed() => return Ok(connection.clone()),
                Slot::Dialing(dialing) => dialing.clone(),
                Slot::Connected(_) | Slot::Empty => {
                    let dialing = self.dial(dialer);
                    *slot = Slot::Dialing(dialing.clone());
                    dialing
                }
            }
        };
        let dialed = dialing.clone().await;
        let mut slot = self.slot();
        if matches!(&*slot, Slot::Dialing(current) if current.ptr_eq(&dialing)) {
            *slot = match &dialed {
                Ok(connection) => Slot::Connected(connection.clone()),
                Err(_) => Slot::Empty,
            };
        }
        dialed.map_err(|error| CallError::of_dial(&error, &self.address.to_string()))
    }

    /// Goes on where those who wait for it have no more time: the next ones may.
    fn dial(&self, dialer: &Arc<Dialer>) -> Dialing {
        let (dialer, address) = (Arc::clone(dialer), self.address.clone());
        let task = tokio::spawn(async move { dialer.dial(&address).await });
        let dialed = async move {
            task.await.unwrap_or_else(|_| Err(DialError::Unreachable("the attempt to connect was given up".to_owned())))
        };
        dialed.boxed().shared()
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn error(&self, (status, headers): (Status, MetadataMap)) -> CallError {
        CallError::of_status(&status, &headers, &self.address.to_string())
    }
}
