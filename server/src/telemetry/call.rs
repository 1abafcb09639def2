//! What is known of a call before it is read: the door puts it into the request's extensions.

use std::{any::Any, net::IpAddr, sync::Arc};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What is known of a call before it is read.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Id of the decision, whatever comes of it.
    pub decision_id: Uuid,
    /// When the request arrived: its deadline counts from here.
    pub arrived: Instant,
    /// Who is at the other end.
    pub peer: Peer,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// This machine: loopback or a unix socket.
    Local,
    /// Another machine, by its address where that can be told.
    Remote(Option<IpAddr>),
}

/// What a call takes along that goes on after its headers, to keep it until its end.
#[derive(Debug, Clone, Default)]
pub struct Lasting {
    /// Its places, counts and the like: given back when they are dropped.
    pub kept: Vec<Arc<dyn Any + Send + Sync>>,
    /// Says when it has to end at once.
    pub cutting: CancellationToken,
}

impl Call {
    /// A call that arrives now.
    #[must_use]
    pub fn arriving(peer: Peer) -> Self {
        Self { decision_id: Uuid::now_v7(), arrived: Instant::now(), peer }
    }
}
