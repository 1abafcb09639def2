use std::{path::Path, sync::Arc};

use hookd_json::{Map, Value};
use hookd_rules::{Rule, Tier, Verdict};

use super::{Capability, RuleResult};

/// The answer to one event.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The verdict (law 3).
    pub verdict: Verdict,
    /// Why. Empty: no reason was given.
    pub reason: String,
    /// What gave the verdict. `None`: it is NONE and nothing failed.
    pub decided_by: Option<DecidedBy>,
    /// The parameters to run with, where they were rewritten and the call may run.
    pub modified_params: Option<Arc<str>>,
    /// The result to show, where it was rewritten.
    pub modified_result: Option<Arc<str>>,
    /// Texts for the model.
    pub additional_context: Vec<Note>,
    /// Texts for the person.
    pub system_messages: Vec<Note>,
    /// The agent has to stop, with this reason (it may be empty).
    pub halt: Option<String>,
    /// Outputs of the event that have no field of their own.
    pub event_output: Map<String, Value>,
    /// What each rule that matched gave, in evaluation order; then the extra pass, and last what waits for the verdict.
    pub results: Vec<RuleResult>,
    /// Every rewrite in the order in which they were made.
    pub rewrites: Vec<Rewrite>,
    /// A failure was forgiven.
    pub degraded: bool,
    /// What the caller could not carry out.
    pub downgrades: Vec<Downgrade>,
    /// Revision of the catalog that judged.
    pub revision: Arc<str>,
    /// How many rules of the event are for the caller.
    pub considered: usize,
    /// How many of them matched.
    pub matched: usize,
}

/// A text with the rule that gave it.
#[derive(Debug, Clone)]
pub struct Note {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The text.
    pub text: String,
}

/// One change of the form.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// The rule that made it.
    pub rule: Arc<Rule>,
    /// What was changed.
    pub target: RewriteTarget,
    /// The change as a JSON Patch (RFC 6902).
    pub patch: String,
    /// Made in the extra pass.
    pub recheck: bool,
}

/// What a rewrite changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteTarget {
    /// The parameters.
    Params,
    /// The result.
    Result,
}

/// What gave the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedBy {
    /// The kind of cause.
    pub cause: Cause,
    /// The rule's id. Empty where no rule was the cause.
    pub rule_id: Arc<str>,
    /// The tier of the rule or default.
    pub tier: Option<Tier>,
    /// The file of the rule or default.
    pub file: Option<Arc<Path>>,
}

/// The kind of cause of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A rule's answer.
    Rule,
    /// A rule's failure: it blocked, or (with NONE) was forgiven.
    FailurePolicy,
    /// A default (law 12).
    Default,
    /// A lack of the caller's.
    Capability,
}

/// Something that the caller could not carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downgrade {
    /// What it lacks.
    pub missing: Capability,
    /// The verdict before.
    pub from: Verdict,
    /// The verdict after; equal where the lack is only reported.
    pub to: Verdict,
}
