//! `TriggerStream`: what a caller offers, runs and answers, by hand (`caller`) and through the real client. What it does
//! wrong costs only what it would have run itself.

mod by_client;
pub(crate) mod caller;
mod hostile;
mod misbehaviour;
mod rules;
