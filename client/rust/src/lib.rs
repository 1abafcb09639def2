//! The Rust client of hookd.
//!
//! An agent asks at every point of its life whether anyone wants to step in, and does what the [`Gate`] says:
//!
//! ```no_run
//! use hookd_client::{Client, Gate, OnUnavailable};
//!
//! # async fn run_tool(params: &str) {}
//! # async fn example() -> Result<(), hookd_client::AddressError> {
//! // Where hookd cannot be asked, nothing runs but the tools that only read.
//! let client = Client::connect_lazy("127.0.0.1:50051", OnUnavailable::block_except(["read_file", "grep"]))?;
//! let session = client.session("session-1").cwd("/home/me/project");
//!
//! let params = r#"{"command":"ls"}"#;
//! match session.pre_tool_use("bash", params).await {
//!     Gate::Run { params: changed, approved, .. } => {
//!         // `approved`: do not ask the person again. Otherwise the agent's own permission prompt comes next.
//!         run_tool(changed.as_deref().unwrap_or(params)).await;
//!     }
//!     Gate::Ask { reason, .. } => { /* ask the person, showing `reason` */ }
//!     Gate::Suspend { reason, .. } => { /* put the call aside until someone decides; never run it */ }
//!     Gate::Refuse { reason, .. } => { /* tell the model `reason` instead of running the tool */ }
//!     Gate::Continue { .. } => { /* only on Stop-like events */ }
//!     Gate::Halt { reason, .. } => { /* stop the agent */ }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Read in this order: [`Gate`], which is what an agent acts on; [`OnUnavailable`], which says what happens where hookd
//! cannot be asked; [`Client`] and [`Session`]; [`CallError`].
//!
//! # The way to hookd
//!
//! The same for the clients of all languages, for `hookctl` and (but for the environment) for `hookctl relay`.
//!
//! **Addresses** ([`Address`]): `host:port` and `http://host:port` are plain text, `https://host:port` is TLS, `unix:/path` a
//! socket; several with commas between them.
//!
//! **Files** ([`Credentials`], [`ClientBuilder::credentials`]): a token, the CAs that may have signed hookd's certificate, a
//! client certificate and its key.
//!
//! **Environment** ([`Client::from_environment`], [`variables`]): `HOOKD_ADDRESS` (not set: `127.0.0.1:50051`),
//! `HOOKD_TOKEN_FILE`, `HOOKD_CA_FILE`, `HOOKD_CLIENT_CERT_FILE`, `HOOKD_CLIENT_KEY_FILE`. Set to nothing is not set. The
//! library reads it only where it is told to.
//!
//! - *Nothing in the clear.* A token, a CA file or a client certificate beside an address that is neither TLS nor on this
//!   machine (unix socket, `localhost`, 127.0.0.0/8, `::1`) is an error when the client is built, by the name of the
//!   address; so is a certificate without its key. With a plain address on this machine, CA and certificate are of no use
//!   and of no harm. A `localhost` that leads to another machine is not asked.
//! - *TLS* is 1.3 or 1.2, with HTTP/2 by ALPN. hookd's certificate must be valid now, for the host of the address (or
//!   [`Credentials::server_name`]), and by a CA of the CA file; without one, by a CA that the system trusts. No session is
//!   resumed, so each connection looks at the certificate.
//! - *Files are read again when they change*, renamed over or by a swapped link: the token before each call, the others
//!   before each new connection. Connections that stand are left alone. A certificate and a key are read at one moment.
//! - *What is wrong there blocks* ([`CallErrorKind::NotTrusted`], one line with the file or what is wrong with the
//!   certificate): a file that is missing, empty or broken; a certificate of hookd's that has expired, is by another CA or for
//!   another name; a hookd that does not take this client's in the handshake. [`OnUnavailable`] is not asked: who can break
//!   trust must not get an allow by it. Other addresses are tried first, at none of which anything has been judged; a hookd
//!   that is away beside one that is not trusted is still a block. `UNAUTHENTICATED` and `PERMISSION_DENIED` block too
//!   ([`CallErrorKind::Refused`]) and are not tried again.
//! - *Secrets* are in no `Debug` and no error: those name files alone.
//!
//! # A fleet
//!
//! The addresses of a client are replicas of one hookd, with the same rules. A name stands for as many of them as it has
//! addresses ([`Resolve`]); an IP address and a socket are one each.
//!
//! - *Whose turn it is.* Calls go round all replicas that are connected and have not just failed, each client from another
//!   one on. The share of one that is not ready goes to all others evenly, and comes back with it. One connection for each
//!   replica, made when its turn comes; the first call takes the first that connects, the next candidate having its try after
//!   250 ms or as soon as one has failed.
//! - *Connected* is a replica that has said its first word of HTTP/2 (for TLS: after the handshake), within 5 s. So one that is
//!   paused, or refuses a client's certificate, is none.
//! - *Lost* is a connection that breaks, that the other end gives up by GOAWAY (its age, a drain), or on which no sign of life
//!   comes in time ([`ClientBuilder::keep_alive`], 10 s and 5 s). It is made anew in the background, calls go to the others
//!   meanwhile. A replica that cannot be connected to, or answers `UNAVAILABLE`, rests 100 ms, and twice as long after each
//!   further failure, up to 10 s (less a random part); where all rest, they are tried all the same. One that lets a call's whole
//!   deadline pass in silence has to connect anew before it is asked again.
//! - *Names* are looked up before the first call, again when what is known is 30 s old, when a replica is lost (at most each
//!   second), and before each further round. Where that fails, those stay in use that were known.
//! - *Tried again* is a call that got no answer: `UNAVAILABLE`, or a status of the transport's (`INTERNAL`, `UNKNOWN`,
//!   `CANCELLED` without `hookd-decision-id`). It goes to each replica once a round, for
//!   [`ClientBuilder::rounds`], and only within its deadline. Any other status, a shed call included, is the answer.
//!   With commands, only while none has been run here.
//! - *The error* of a call that nobody answered is that of its last attempt, with the address it met it at, and the list of
//!   those that were tried; or that somebody is not trusted, where somebody is not.
//!
//! With the feature `agent-commands` a client can offer rule files of its own, and runs their commands on this machine:
//! `Client::trigger_with_commands`.

mod address;
mod back_off;
mod call_error;
mod client;
#[cfg(feature = "agent-commands")]
mod commands;
mod credentials;
mod dial;
mod event;
mod failures;
mod files;
mod fleet;
mod gate;
mod one_line;
mod replica;
mod resolve;
mod session;
mod tls;
mod transport;

pub use address::{Address, AddressError};
pub use call_error::{CallError, CallErrorKind};
pub use client::{Client, ClientBuilder};
#[cfg(feature = "agent-commands")]
pub use commands::{AgentCommands, AgentProgram, AgentSide, Detached, OfferTier, OfferedCommand, OfferedRules};
pub use credentials::{Credentials, variables};
pub use gate::{Decision, Gate, OnUnavailable};
pub use hookd_proto::v1 as proto;
pub use resolve::{Resolve, Resolved};
pub use session::Session;
pub use tonic::Code;
