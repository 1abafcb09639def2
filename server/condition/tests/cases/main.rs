//! The crate from outside.

mod functions;
mod language;
mod support;
