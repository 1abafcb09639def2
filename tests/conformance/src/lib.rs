//! What every client of hookd has in common, as data: the table of behaviours (`table.json`), the gate of each golden
//! vector (`vectors.json`), and a server that does as the table says where hookd itself never would.
//!
//! The README beside it says what stands in the two files. Read in this order: [`of_answer`], the rule that the vectors'
//! gates come from; [`gates`], all of them; [`Server`], one scripted server; [`wire`], proto JSON as messages.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test stops where something is not as it must be"
)]

mod call;
mod gate;
mod server;
mod vectors;
pub mod wire;

pub use gate::of_answer;
pub use server::Server;
pub use vectors::{Vector, folder, gates, load};
