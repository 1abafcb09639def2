//! Makes one decision of what the rules gave. Pure: no I/O, no clock.

mod decision;
mod downgrade;
mod forms;
mod oversized;
mod unrecorded;
mod verdict;
mod withheld;

pub use decision::{Walked, decide};
pub use downgrade::{Asks, Downgraded, downgrade};
pub use forms::{FormId, Forms};
pub use oversized::oversized;
pub use unrecorded::unrecorded;
pub use verdict::{Halt, Settled, Vote, Voter, settle};
