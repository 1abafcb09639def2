//! `TriggerStream`: what a caller offers, runs and answers, by hand (`caller`) and through the real client. What it does
//! wrong costs only what it would have run itself.

mod by_client;
mod caller;
mod hostile;
mod misbehaviour;
mod rules;
