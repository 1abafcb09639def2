//! The laws, each with tests of its name, on rules whose handlers are scripted; and properties over
//! random rule sets, against a plain model.

mod event_output;
mod laws;
mod permission;
mod properties;
mod support;
mod tenants;
