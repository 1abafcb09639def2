//! What is known of a caller when its connection stands.

use super::tls::Chain;
use crate::telemetry::call::Peer;

/// What a connection has shown of its peer before the first call.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Where it came from.
    pub peer: Peer,
    /// The peer's certificates, its own first, then those that issued it, as it sent them. The first one is proved: it
    /// leads to the client CA of the settings, and the peer holds its key. `None`: the connection is plain, or the peer
    /// showed none.
    pub certificates: Option<Chain>,
}
