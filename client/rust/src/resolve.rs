//! From names to addresses.

use std::{io, net::SocketAddr, pin::Pin};

use tokio::net::lookup_host;

/// Looks up where the replicas behind a name are. Unless another one is set
/// ([`ClientBuilder::resolver`](crate::ClientBuilder::resolver)), the system is asked.
///
/// It is asked for names alone, never for IP addresses and sockets: before the first call, again every 30 s while there are
/// calls, and whenever a replica has been lost (at most once a second for these, and before each further round of a call
/// that nobody has answered).
pub trait Resolve: Send + Sync {
    /// The addresses behind `host`, each of them one replica. `port` is that of the address that is looked up.
    ///
    /// # Errors
    /// Why they are not known, which counts as a replica that cannot be reached. What was known before stays in use.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolved<'a>;
}

/// What [`Resolve::resolve`] gives.
pub type Resolved<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// The system's own look-up.
pub(crate) struct System;

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolved<'a> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}
