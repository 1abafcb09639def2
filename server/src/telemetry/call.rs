//! What is known of a call before it is read: the door puts it into the request's extensions.

use std::{
    any::Any,
    fmt::Debug,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::{NoContext, Timestamp, Uuid, fmt::Hyphenated};

use crate::model::Identity;

/// What is known of a call before it is read.
#[derive(Debug, Clone)]
pub struct Call {
    /// Id of the decision, whatever comes of it: version 7, so that ids sort by time.
    pub decision_id: Uuid,
    /// When the request arrived: its deadline counts from here.
    pub arrived: Instant,
    /// The clock at that moment, in milliseconds since 1970.
    pub now_ms: i64,
    /// Who is at the other end.
    pub peer: Peer,
    /// Who that is, once it is proved. All that hold the call learn it: whoever records it may have taken it before.
    proved: Arc<OnceLock<Arc<Identity>>>,
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
    pub kept: Vec<Kept>,
    /// Says when it has to end at once.
    pub cutting: CancellationToken,
    /// What it has to pass when it is there whole. `None`: nothing.
    pub threshold: Option<Arc<dyn Threshold>>,
}

/// Stands beside an answer that is large, for the way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeAnswer;

/// Something that is given back when it is dropped.
pub type Kept = Arc<dyn Any + Send + Sync>;

/// What is between a call that arrives and the places of those that are evaluated.
pub trait Threshold: Debug + Send + Sync {
    /// Cancelled when the call has to make room for others before it is there whole. It is [`NoPlace::Shed`] then.
    fn gives_way(&self) -> &CancellationToken;

    /// The call is there whole and takes a place.
    ///
    /// # Errors
    /// [`NoPlace`]; counted.
    fn pass(&self) -> Result<Kept, NoPlace>;
}

/// Why a call gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// None was free.
    Shed,
    /// The caller's tenant made more calls than it may.
    RateLimited {
        /// What it may.
        calls_per_second: u32,
        /// When it may make the next one.
        retry_after: Duration,
    },
}

impl Peer {
    /// The network of a peer on another machine, of whose addresses whoever has one has all: an address of IPv4, the
    /// first half of one of IPv6.
    #[must_use]
    pub fn network(self) -> Option<IpAddr> {
        match self {
            Self::Local | Self::Remote(None) => None,
            Self::Remote(Some(IpAddr::V4(address))) => Some(address.into()),
            Self::Remote(Some(IpAddr::V6(address))) => {
                Some(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into())
            }
        }
    }
}

impl Call {
    /// A call that arrives now. Its caller has proved nothing yet.
    #[must_use]
    pub fn arriving(peer: Peer) -> Self {
        // A clock before 1970 counts as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Random within the millisecond. The library's own `now_v7` counts there, under a lock that all calls share.
        let timestamp = Timestamp::from_unix(NoContext, since.as_secs(), since.subsec_nanos());
        Self {
            decision_id: Uuid::new_v7(timestamp),
            arrived: Instant::now(),
            now_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            peer,
            proved: Arc::default(),
        }
    }

    /// Who is at the other end, as was proved; whoever has proved nothing is anonymous.
    #[must_use]
    pub fn identity(&self) -> Arc<Identity> {
        self.proved.get().map_or_else(Identity::anonymous, Arc::clone)
    }

    /// Has proved who they are. What was proved first stays.
    pub fn prove(&self, identity: Arc<Identity>) {
        let _first = self.proved.set(identity);
    }

    /// The id of the decision as it stands in answers and logs.
    #[must_use]
    pub fn decision_text(&self) -> String {
        self.decision_id.hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]).to_owned()
    }
}
