//! Rule files of hookd: what they may say, and how they become a [`Catalog`].
//!
//! Shared by the server, which keeps a catalog in force, and by `hookctl check`. Read in this order: the words
//! ([`Tier`], [`Verdict`], the table of events), one [`Rule`], the whole [`Catalog`], then how files become one.

mod attached;
mod catalog;
mod claude;
mod event;
mod groups;
mod index;
mod matcher;
mod policy;
mod rule;
mod selector;
mod settings;
mod tier;
mod verdict;

mod problem;
mod program;

mod address;
mod disk;
mod file;
mod load;
mod offered;
mod revision;
mod schema;
mod shape;
mod small_file;
mod template;
mod twins;
mod yaml;

pub use address::is_public;
pub use attached::Attached;
pub use catalog::{
    AskFallback, Catalog, DefaultRule, DeferFallback, Fallbacks, ModifyFallback, Source, SourceState, TierPolicy,
};
pub use claude::{javascript_pattern, plugin_root};
pub use disk::fingerprint;
pub use event::{Block, EVENTS, Event, Modifies, Subject, UnknownEvent};
pub use file::Format;
pub use groups::{Groups, Lacking};
pub use hookd_json::Place;
pub use index::{EventIndex, Matching};
pub use load::{Load, LoadedFile, Memory, check_paths, load, parse_rules};
pub use matcher::{Matcher, Pattern, Words};
pub use offered::{
    MAX_OFFERED_BYTES, MAX_OFFERED_FILE_BYTES, MAX_OFFERED_FILES, MAX_OFFERED_RULES, Offered, OfferedFile, OfferedRule,
    OfferedTotal,
};
pub use policy::Policy;
pub use problem::{Problem, Severity, one_line};
pub use program::{CallFacts, CallVariables};
pub use rule::{
    Allow, Answer, CommandHandler, Decide, Handler, HttpHandler, Mode, OnError, Program, Protocol, Rule, RunOn, Shell,
    Timing, ValuePart, Worker,
};
pub use schema::schema;
pub use selector::{Fit, LabelPairs, MissingLabel, Operator, Requirement, Selector};
pub use settings::{Environment, LoadSettings, Permits, SourceSettings, TierSettings};
pub use small_file::{read_small_file, read_small_text};
pub use template::Template;
pub use tier::{PerTier, Tier};
pub use verdict::Verdict;
