//! Addresses where somebody comes and goes.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// An address of loopback that is held, so that nobody else gets it while nobody listens there.
#[derive(Debug)]
pub struct Place(TcpSocket);

impl Place {
    /// One that nobody has.
    #[must_use]
    pub fn free() -> Self {
        Self(bound(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Listens there.
    ///
    /// # Panics
    /// Somebody does already.
    #[must_use]
    pub fn listen(&self) -> TcpListener {
        bound(self.address()).listen(256).unwrap()
    }
}

/// Those that may be reused share an address as long as only one of them listens.
fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}
