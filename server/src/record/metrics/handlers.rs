//! How handlers fared.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use hookd_rules::Tier;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::seconds;
use crate::model::{Outcome, Ran, Rule, Verdict};

/// How many managed rules are named; the others are `other`.
const NAMED_RULES: usize = 500;

pub(in crate::record) struct HandlerMetrics {
    handlers: Family<Handled, Counter>,
    handler_seconds: Family<Kind, Histogram, fn() -> Histogram>,
    forgiven: Family<Forgiven, Counter>,
    rules: Family<OfRule, Counter>,
    named_rules: RwLock<HashMap<Arc<str>, PerOutcome>>,
}

/// The counters of one rule that are in use, by the place of the outcome in [`place`].
type PerOutcome = [OnceLock<Counter>; 7];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handled {
    kind: &'static str,
    tier: &'static str,
    mode: &'static str,
    outcome: &'static str,
    failure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Forgiven {
    tier: &'static str,
    failure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRule {
    rule: Arc<str>,
    outcome: &'static str,
}

impl Default for HandlerMetrics {
    fn default() -> Self {
        Self {
            handlers: Family::default(),
            handler_seconds: Family::new_with_constructor(seconds),
            forgiven: Family::default(),
            rules: Family::default(),
            named_rules: RwLock::default(),
        }
    }
}

impl HandlerMetrics {
    /// Handlers that ran for one call, each with its rule and its `mode`. Those beside each other that have the same labels,
    /// as most have, are counted at once.
    pub(in crate::record) fn ran<'r>(&self, all: impl IntoIterator<Item = (&'r Rule, Outcome, &'r Ran, &'static str)>) {
        let mut same: Option<(Handled, u64)> = None;
        let count = |(labels, count): (Handled, u64)| self.handlers.get_or_create(&labels).inc_by(count);
        for (rule, outcome, ran, mode) in all {
            let kind = rule.handler.kind();
            let labels = Handled { kind, tier: rule.tier.name(), mode, outcome: outcome.name(), failure: failure(ran) };
            match &mut same {
                Some((known, count)) if *known == labels => *count = count.saturating_add(1),
                _ => {
                    same.replace((labels, 1)).map(count);
                }
            }
            if let Some(elapsed) = ran.elapsed {
                self.handler_seconds.get_or_create(&Kind { kind }).observe(elapsed.as_secs_f64());
            }
            if rule.tier == Tier::Managed {
                self.managed(&rule.id, outcome);
            }
        }
        same.map(count);
    }

    pub(in crate::record) fn forgiven(&self, rule: &Rule, ran: &Ran) {
        self.forgiven.get_or_create(&Forgiven { tier: rule.tier.name(), failure: failure(ran) }).inc();
    }

    /// An outcome of a managed rule. The first [`NAMED_RULES`] rules are named.
    fn managed(&self, id: &Arc<str>, outcome: Outcome) {
        let counter = |rule: &Arc<str>| {
            let labels = OfRule { rule: Arc::clone(rule), outcome: outcome.name() };
            self.rules.get_or_create(&labels).clone()
        };
        let count = |rule: &PerOutcome| {
            if let Some(place) = rule.get(place(outcome)) {
                place.get_or_init(|| counter(id)).inc();
            }
        };
        let named = self.named_rules.read().unwrap_or_else(PoisonError::into_inner);
        match named.get(id) {
            Some(rule) => return count(rule),
            None if named.len() >= NAMED_RULES => return self.other(outcome),
            None => drop(named),
        }
        let mut named = self.named_rules.write().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= NAMED_RULES && !named.contains_key(id) {
            return self.other(outcome);
        }
        count(named.entry(Arc::clone(id)).or_default());
    }

    fn other(&self, outcome: Outcome) {
        self.rules.get_or_create(&OfRule { rule: Arc::from("other"), outcome: outcome.name() }).inc();
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register("forgiven_failures", "Failures of handlers that were counted as no opinion", self.forgiven.clone());
        r.register("handler_runs", "Runs of handlers by kind, tier, mode, outcome and failure", self.handlers.clone());
        r.register("handler_duration_seconds", "How long handlers ran", self.handler_seconds.clone());
        r.register("managed_rule_outcomes", "Outcomes of managed rules by rule id", self.rules.clone());
    }
}

fn place(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Gave(Verdict::None) => 0,
        Outcome::Gave(Verdict::Allow) => 1,
        Outcome::Gave(Verdict::Ask) => 2,
        Outcome::Gave(Verdict::Defer) => 3,
        Outcome::Gave(Verdict::Block) => 4,
        Outcome::Failed => 5,
        Outcome::Queued => 6,
    }
}

fn failure(ran: &Ran) -> &'static str {
    ran.said.as_ref().err().map_or("", |failed| failed.kind.name())
}
