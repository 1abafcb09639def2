//! What is known of a call before it is read: the door puts it into the request's extensions.

use tokio::time::Instant;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// This machine: loopback or a unix socket.
    Local,
    /// Another machine, or one that cannot be told.
    Remote,
}

impl Call {
    /// A call that arrives now.
    #[must_use]
    pub fn arriving(peer: Peer) -> Self {
        Self { decision_id: Uuid::now_v7(), arrived: Instant::now(), peer }
    }
}
