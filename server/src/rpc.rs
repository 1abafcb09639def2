//! Messages in, messages out, of gRPC and of plain HTTP, and the one place where failures to judge become statuses.

pub mod admin;
pub mod health;
pub mod hooks;
pub mod json;
pub mod parse;
pub mod reply;
pub mod status;
pub mod trigger;
