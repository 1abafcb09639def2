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
//! With the feature `agent-commands` a client can offer rule files of its own, and runs their commands on this machine:
//! `Client::trigger_with_commands`.

mod address;
mod call_error;
mod client;
#[cfg(feature = "agent-commands")]
mod commands;
mod event;
mod gate;
mod session;
mod transport;

pub use address::{Address, AddressError};
pub use call_error::{CallError, CallErrorKind};
pub use client::{Client, ClientBuilder};
#[cfg(feature = "agent-commands")]
pub use commands::{AgentCommands, AgentProgram, AgentSide, Detached, OfferTier, OfferedCommand, OfferedRules};
pub use gate::{Decision, Gate, OnUnavailable};
pub use hookd_proto::v1 as proto;
pub use session::Session;
pub use tonic::Code;
