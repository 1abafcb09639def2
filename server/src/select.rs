//! Which rules an event is for. Pure: no I/O, no clock.

use std::sync::Arc;

use hookd_rules::{Catalog, DefaultRule, Subject, Timing};

use crate::model::{Rule, Tier, Trigger};

/// The rules of one event that match, in evaluation order.
#[derive(Debug)]
pub struct Selected<'c> {
    /// How many rules the event has (law 12).
    pub considered: usize,
    /// Those that match.
    pub rules: Vec<&'c Arc<Rule>>,
}

/// Selects the rules of `trigger`'s event whose matcher matches.
#[must_use]
pub fn select<'c>(catalog: &'c Catalog, trigger: &Trigger) -> Selected<'c> {
    let rules = catalog.rules_of(&trigger.event_name);
    let subject = trigger.subject();
    Selected { considered: rules.len(), rules: rules.iter().filter(|rule| rule.matcher.matches(subject)).collect() }
}

/// The default of `tier` for this event, with its place in the catalog: the first that matches (law 12).
#[must_use]
pub fn default_of<'c>(catalog: &'c Catalog, tier: Tier, trigger: &Trigger) -> Option<(usize, &'c DefaultRule)> {
    let subject = trigger.subject();
    catalog.defaults.iter().enumerate().find(|(_, default)| {
        default.tier == tier && default.event == trigger.event_name && default.matcher.matches(subject)
    })
}

/// Whether one rule would run, and on what that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// It would be run if the chain gets to it.
    pub would_run: bool,
    /// The part that said no, with the values; otherwise what it matched on.
    pub because: String,
}

/// Explains `rule` for `trigger`, by the same code that selects.
#[must_use]
pub fn explain(rule: &Rule, trigger: &Trigger) -> Explanation {
    let subject = trigger.subject();
    let would_run = rule.matcher.matches(subject);
    let pattern = rule.matcher.as_str();
    let mut because = match (subject, pattern) {
        (_, "") => "no matcher: it matches everything".to_owned(),
        (None, _) if trigger.event.subject == Subject::None => {
            "the event has no subject: the matcher is ignored".to_owned()
        }
        (None, _) => "the call lacks the event's subject: it matches, so that no denial is lost".to_owned(),
        (Some(subject), pattern) if would_run => format!("matcher `{pattern}` is found in `{subject}`"),
        (Some(subject), pattern) => format!("matcher `{pattern}` is not found in `{subject}`"),
    };
    if would_run && !rule.decides() {
        because.push_str(match rule.timing {
            Timing::Sync => "; shadow: it is recorded and has no part in the verdict",
            Timing::Async => "; async: it runs in the background and has no part in the verdict",
            Timing::AfterVerdict(_) => "; async: it runs once the verdict is one of its `onVerdict`",
        });
    }
    Explanation { would_run, because }
}
