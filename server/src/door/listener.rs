//! Sockets to listen on: TCP and unix.

mod unix;

use std::{fmt, io, net::SocketAddr, time::Duration};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tracing::warn;

use self::unix::SocketFile;
use crate::{
    drain::{Drain, Readiness},
    settings::Listen,
    telemetry::call::Peer,
};

/// Longest pause after the system refused to accept a connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A socket that is listened on. A unix socket's file goes with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Listen,
}

/// An accepted connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct BindError {
    address: String,
    cause: String,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix { listener: UnixListener, file: SocketFile },
}

impl Listener {
    /// Listens on `address`. The file of a unix socket that nobody answers on is replaced.
    ///
    /// # Errors
    /// [`BindError`] where the address is taken or not usable.
    pub async fn bind(address: &Listen) -> Result<Self, BindError> {
        let (socket, bound) = match address {
            Listen::Tcp(wanted) => {
                let (socket, bound) = bind_tcp(*wanted).await?;
                (Socket::Tcp(socket), Listen::Tcp(bound))
            }
            Listen::Unix(path) => {
                let (listener, file) = unix::bind(path).await.map_err(|cause| BindError::new(address, cause))?;
                (Socket::Unix { listener, file }, address.clone())
            }
        };
        Ok(Self { socket, address: bound })
    }

    /// Where it listens, with the port that was found for port 0.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Holds readiness off while the file of a unix socket is not where callers look for it: connections that are open go
    /// on, and nobody can make a new one. Ends when the server closes.
    pub fn watch(&self, readiness: Readiness, drain: Drain) -> impl Future<Output = ()> + Send + use<> {
        let place = match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix { file, .. } => Some(file.place()),
        };
        async move {
            if let Some(place) = place {
                place.watch(readiness, drain).await;
            }
        }
    }

    /// The next connection and who made it. Where the system has none to give (no file descriptor is free), waits a
    /// little longer each time.
    pub async fn accept(&self) -> (Stream, Peer) {
        let mut pause = Duration::from_millis(5);
        loop {
            let accepted = match &self.socket {
                Socket::Tcp(listener) => listener.accept().await.map(|(stream, peer)| {
                    // Answers are small and waited for.
                    let _ = stream.set_nodelay(true);
                    let address = peer.ip().to_canonical();
                    let local = address.is_loopback();
                    (Stream::Tcp(stream), if local { Peer::Local } else { Peer::Remote(Some(address)) })
                }),
                Socket::Unix { listener, .. } => {
                    listener.accept().await.map(|(stream, _)| (Stream::Unix(stream), Peer::Local))
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    warn!(address = %self.address, %error, "cannot accept a connection");
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// Listens on a TCP address; gives it back with the port that was found for port 0.
///
/// # Errors
/// [`BindError`] where the address is taken or not usable.
pub async fn bind_tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), BindError> {
    let refused = |error: io::Error| BindError::new(&address, error);
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    Ok((listener, bound))
}

/// Errors of a connection that was gone before it was accepted: the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

impl BindError {
    fn new(address: &impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self { address: address.to_string(), cause: cause.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[tokio::test]
    async fn a_socket_file_is_replaced_only_if_nobody_answers_and_goes_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.sock");
        let address = Listen::Unix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&address).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let taken = Listener::bind(&address).await.unwrap_err().to_string();
        assert_eq!(taken, format!("cannot listen on unix:{}: another process answers there", path.display()));
        drop(listener);
        assert!(!path.try_exists().unwrap());

        // Whoever cleans up may have taken the file away, and the next hookd have put its own there.
        let old = Listener::bind(&address).await.unwrap();
        fs::remove_file(&path).unwrap();
        let new = Listener::bind(&address).await.unwrap();
        drop(old);
        assert!(UnixStream::connect(&path).await.is_ok());
        drop(new);
        assert!(!path.try_exists().unwrap());

        let busy = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        let full = Listener::bind(&address).await.unwrap_err().to_string();
        assert_eq!(full, taken, "its queue is full, but it is there");
        drop((busy, waiting));
        fs::remove_file(&path).unwrap();

        fs::write(&path, "mine").unwrap();
        let file = Listener::bind(&address).await.unwrap_err().to_string();
        assert_eq!(file, format!("cannot listen on unix:{}: a file that is no socket is there", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[tokio::test]
    async fn loopback_is_this_machine_under_an_address_of_ipv6_too() {
        let all = Listen::Tcp((std::net::Ipv6Addr::UNSPECIFIED, 0).into());
        // A system without IPv6 has no such addresses.
        let Ok(listener) = Listener::bind(&all).await else { return };
        let Listen::Tcp(bound) = listener.address().clone() else { panic!() };
        for address in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(address.parse().unwrap(), bound.port());
            let (_client, (_, peer)) = tokio::join!(TcpStream::connect(address), listener.accept());
            assert_eq!(peer, Peer::Local, "{address}");
        }
    }

    #[tokio::test]
    async fn port_0_takes_a_free_port() {
        let listener = Listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).await.unwrap();
        let Listen::Tcp(bound) = listener.address().clone() else { panic!() };
        assert_ne!(bound.port(), 0);
        let taken = Listener::bind(&Listen::Tcp(bound)).await.unwrap_err().to_string();
        assert_eq!(taken, format!("cannot listen on {bound}: Address already in use (os error 98)"));
        let (_client, (_, peer)) = tokio::join!(TcpStream::connect(bound), listener.accept());
        assert_eq!(peer, Peer::Local);
    }
}
