//! The server of hookd: evaluates the hooks of AI agents for a whole fleet, over gRPC.
//!
//! The modules are the rooms that a request walks through, in this order, and `use crate::` points only to a later
//! room or to a corridor (a test reads the sources and holds this):
//!
//! `main → app → door → rpc::trigger → rpc::parse → evaluate → select → run → combine → record → rpc::reply`
//!
//! Corridors, which every room may use and which use no room: [`model`], [`condition`], [`settings`], [`catalog`], [`telemetry`],
//! [`drain`].

pub mod app;
pub mod door;
pub mod rpc;
pub mod evaluate;
pub mod select;
pub mod run;
pub mod combine;
pub mod record;
pub mod model;
pub mod condition;
pub mod settings;
pub mod catalog;
pub mod telemetry;
pub mod drain;
