//! Rule files of hookd: what they may say, and how they become a [`Catalog`].
//!
//! Shared by the server, which keeps a catalog in force, and by `hookctl check`. Read in this order: the words
//! ([`Tier`], [`Verdict`], the table of events), one [`Rule`], the whole [`Catalog`], then how files become one.

mod catalog;
mod event;
mod rule;
mod tier;
mod verdict;

pub use catalog::{
    AskFallback, Catalog, DefaultRule, DeferFallback, Fallbacks, ModifyFallback, Source, SourceState, TierPolicy,
};
pub use event::{Block, EVENTS, Event, Modifies, Subject, UnknownEvent};
pub use rule::{
    Answer, CommandHandler, Handler, HeaderPart, HttpHandler, Matcher, Mode, OnError, Program, Rule, Shell, Timing,
};
pub use tier::{PerTier, Tier};
pub use verdict::Verdict;
