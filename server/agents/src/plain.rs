//! hookd's own JSON: the reference engine's context in, the whole answer out. What `POST /v1/trigger` and
//! `hookctl trigger` share.

mod context;
mod response;

pub use context::request;
pub use response::{Names, answer, tier, word, word_of};
