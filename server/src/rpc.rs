//! The gRPC side: messages in, messages out, and the one place where failures to judge become statuses.

pub mod admin;
pub mod health;
pub mod parse;
pub mod reply;
pub mod status;
pub mod trigger;
