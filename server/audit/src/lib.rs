//! The audit trail of hookd (issue 6, item 7): JSON lines, each chained to the one before. hookd writes them, `hookctl`
//! verifies them.
//!
//! A record is one line: `{"seq":…,"run":…,"prev":…,"time":…,"kind":…`, what its kind has to tell, and `,"hash":"…"}`.
//! `hash` is the SHA-256 of the line's bytes before it, `prev` the hash of the record before (zeros where there is none),
//! `run` the process that wrote it, and `seq` counts its records from 1. So a record that is changed does not have its
//! own hash any more, and one that is removed, put in or moved breaks the chain.
//!
//! The first record of a run is of kind [`START`] and chained to the last one of the file that it goes on with, so that
//! nothing can be taken away between runs either. A line that was torn when a process died stays where it is; the
//! [`START`] record after it says how long it is and its hash. The first record of a file that was rotated in is of kind
//! [`ROTATED`].

mod chain;
mod hash;
mod order;
mod record;
mod tail;
mod verify;

pub use chain::{Chain, text};
pub use hash::{Hash, NotAHash};
pub use order::{Ends, order};
pub use record::{NotARecord, Record, Torn};
pub use tail::{Tail, first_record, tail};
pub use verify::{Problem, Report, Run, Verifier};

/// Kind of the first record of a run.
pub const START: &str = "start";
/// Kind of the last record of a run that ended in order.
pub const END: &str = "end";
/// Kind of the first record of a file that took the place of another one.
pub const ROTATED: &str = "rotated";
/// Kind of a record that says how many records were dropped before it.
pub const DROPPED: &str = "dropped";
/// Longest line that is taken for a record, in bytes. hookd writes none that is longer.
pub const MAX_LINE_BYTES: usize = 256 << 20;
