//! The words of the domain: what is asked, what handlers give, what is decided. No wire, no I/O, no clock.

mod capabilities;
mod decision;
mod failure;
mod form;
mod identity;
mod permission;
mod result;
mod tool_kind;
mod trigger;
mod unproven;

pub use capabilities::{Capabilities, Capability};
pub use decision::{Cause, DecidedBy, Decision, Downgrade, Note, Rewrite, RewriteTarget};
pub use failure::{Failed, Failure};
pub use form::Form;
pub use hookd_rules::{Answer, Block, Event, Modifies, OnError, Protocol, Rule, Subject, Tier, Verdict};
pub use identity::{Identity, Labels};
pub use permission::{Grant, Permission, Permissions};
pub use result::{Outcome, Ran, RuleResult};
pub use tool_kind::{mcp_server, tool_kind};
pub use trigger::{Caller, Session, ToolCall, Trigger};
pub use unproven::Unproven;
