//! What coding agents say through their own hook mechanisms, in hookd's words, and hookd's answers in theirs: one
//! module per agent, native JSON in → [`TriggerRequest`](v1::TriggerRequest), [`TriggerResponse`](v1::TriggerResponse)
//! → native answer. Pure: no I/O, no clock, no async. The server (`POST /v1/hooks/{agent}`) and `hookctl relay` share it.
//!
//! Three rules hold for every agent, and no module can break them:
//! - What an agent can carry out on an event stands in one table ([`Agent::can`]) and goes with the request, so that
//!   the server downgrades by its `fallbacks`. Where an answer asks for what cannot be said all the same, is not
//!   understood, or is not there at all, the event's safe side is taken (law 11): block, or on stop-like events let the
//!   agent stop.
//! - What has a field of its own in the request goes there; every other key of the native input stands in
//!   `payload_json` as it came, numbers with their digits. Where hookd's event has another name than the agent's, the
//!   payload's `native_event` has the agent's.
//! - The text of a block or question ends with `(rule, decision id)`.

mod agent;
mod answer;
mod derived_id;
mod fields;
mod kind;
mod notice;
mod read;
mod table;
mod told;

mod amazon_q;
mod claude_code;
mod cline;
mod codex;
mod copilot_cli;
mod cursor;
mod factory_droid;
mod gemini_cli;
mod goose;
mod kiro;
mod qwen_code;
mod vscode;
mod windsurf;

pub mod plain;

pub use agent::Agent;
pub use answer::{Answer, OnUnavailable, answer, unanswered};
pub use hookd_proto::v1;
pub use read::{Call, Native, ReadError, Transport, read};

pub(crate) use fields::{Fields, Problem};
pub(crate) use read::Draft;
pub(crate) use told::{Told, Verdict};
