//! All rules of all sources, checked and compiled: what a request is judged by (law 9).

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{EventIndex, Groups, LoadSettings, Matcher, Mode, OnError, PerTier, Rule, Selector, Tier, Verdict};

/// Immutable; swapped whole.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Hash of the meaning of rules, defaults and the settings that change verdicts; lowercase hex (law 9).
    pub revision: Arc<str>,
    /// Every rule in evaluation order (law 1).
    pub rules: Vec<Arc<Rule>>,
    /// The rules of each event that are for everyone, in evaluation order.
    pub by_event: HashMap<Arc<str>, Arc<EventIndex>>,
    /// The rules that are for some callers: [`crate::Policy`] has those of one caller.
    pub groups: Groups,
    /// The last outcomes of managed and team, in evaluation order (law 12).
    pub defaults: Vec<DefaultRule>,
    /// What each tier may do.
    pub tiers: PerTier<TierPolicy>,
    /// What takes the place of a decision that a caller cannot carry out.
    pub fallbacks: Fallbacks,
    /// Every source, in evaluation order.
    pub sources: Vec<Source>,
    /// What it was loaded with, for rules that a caller brings while it is in force.
    pub settings: Arc<LoadSettings>,
}

/// A default of a managed or team file: that tier's last outcome on an event (law 12).
#[derive(Debug)]
pub struct DefaultRule {
    /// Its tier: managed or team.
    pub tier: Tier,
    /// The file that it stands in, absolute.
    pub file: Arc<Path>,
    /// The event.
    pub event: Arc<str>,
    /// What the subject must look like.
    pub matcher: Matcher,
    /// The verdict; never [`Verdict::None`].
    pub verdict: Verdict,
    /// Why. Empty: not said.
    pub reason: String,
    /// Whether it counts: in a file or tier in shadow mode it does not.
    pub mode: Mode,
    /// Which callers it is for. `None`: everyone.
    pub selector: Option<Arc<Selector>>,
}

/// What the settings let one tier do; it has a part in the revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierPolicy {
    /// Its ALLOW counts (law 3).
    pub may_allow: bool,
    /// What its failures count as where a rule does not say (law 7).
    pub on_error: OnError,
}

/// What takes the place of a decision that a caller cannot carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fallbacks {
    /// Instead of ASK.
    pub ask: AskFallback,
    /// Instead of DEFER.
    pub defer: DeferFallback,
    /// Instead of a rewrite.
    pub modify: ModifyFallback,
}

/// Instead of ASK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskFallback {
    /// BLOCK.
    #[default]
    Block,
    /// ALLOW.
    Allow,
}

/// Instead of DEFER.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeferFallback {
    /// BLOCK.
    #[default]
    Block,
    /// ASK, or what takes its place.
    Ask,
}

/// Instead of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModifyFallback {
    /// BLOCK.
    #[default]
    Block,
}

/// A place that rules come from, and what came of loading it.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its tier.
    pub tier: Tier,
    /// Its path, absolute.
    pub path: PathBuf,
    /// The paths of its rule files at the last load: as they are found from its own, and where they lead, every link
    /// followed.
    pub files: BTreeSet<PathBuf>,
    /// What came of the last load.
    pub state: SourceState,
    /// How many rules of it are in force.
    pub rules: usize,
    /// Errors of the last load, one line each.
    pub errors: Vec<String>,
    /// Which callers it is for. `None`: everyone.
    pub selector: Option<Arc<Selector>>,
}

/// What came of loading a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// Everything in it is in force.
    Loaded,
    /// It is optional and not there.
    Absent,
    /// Rules or files of it were left out.
    Partial,
    /// The last load of it, or of one of its files, was refused; what was in force before, if anything, still is.
    Stale,
}

impl Default for TierPolicy {
    fn default() -> Self {
        Self { may_allow: false, on_error: OnError::Allow }
    }
}

impl Catalog {
    /// The rules of the event of this name, in evaluation order, whoever they are for.
    pub fn rules_of(&self, event: &str) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter().filter(move |rule| rule.events.iter().any(|name| **name == *event))
    }

    /// How many rules and defaults of `tier` are in `mode`. Those in [`Mode::Shadow`] are not enforced.
    #[must_use]
    pub fn count_in(&self, tier: Tier, mode: Mode) -> usize {
        let rules = self.rules.iter().filter(|rule| rule.tier == tier && rule.mode == mode).count();
        let defaults = self.defaults.iter().filter(|default| default.tier == tier && default.mode == mode).count();
        rules.saturating_add(defaults)
    }
}

impl Fallbacks {
    /// The names in the settings: for ask, defer and modify.
    #[must_use]
    pub fn names(&self) -> [&'static str; 3] {
        let ask = match self.ask {
            AskFallback::Block => "block",
            AskFallback::Allow => "allow",
        };
        let defer = match self.defer {
            DeferFallback::Block => "block",
            DeferFallback::Ask => "ask",
        };
        let modify = match self.modify {
            ModifyFallback::Block => "block",
        };
        [ask, defer, modify]
    }
}
