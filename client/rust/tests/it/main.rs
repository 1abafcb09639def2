//! The client against real servers on real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    reason = "a test stops where something is not as it must be"
)]

#[cfg(feature = "agent-commands")]
mod commands;
mod failures;
mod fleet;
mod server;
mod tls;
mod verdicts;
