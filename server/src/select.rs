//! Which rules an event is for. Pure: no I/O, no clock.

use std::sync::Arc;

use hookd_rules::{DefaultRule, Fit, Matching, MissingLabel, Mode, Policy, RunOn, Subject, Timing};

use crate::{
    condition,
    model::{Rule, Tier, Trigger},
};

/// The rules of one event that match, in evaluation order.
#[derive(Debug)]
pub struct Selected {
    /// How many rules of the event are for this caller (law 12).
    pub considered: usize,
    /// Those that match. `None`: there are none.
    matching: Option<Arc<Matching>>,
}

impl Selected {
    /// Those that match.
    #[must_use]
    pub fn rules(&self) -> &[Arc<Rule>] {
        self.matching.as_ref().map_or(&[], |matching| &matching.rules)
    }

    /// The same with those of a caller's own rules that are for this event and match, each after all of its tier that
    /// are here. `offered` stand in evaluation order.
    #[must_use]
    pub fn with_offered(self, offered: &[Arc<Rule>], trigger: &Trigger) -> Self {
        let of_event = offered.iter().filter(|rule| rule.events.contains(&trigger.event_name)).collect::<Vec<_>>();
        let subject = trigger.subject();
        let mut rules = self.rules().to_vec();
        for rule in of_event.iter().filter(|rule| rule.matcher.matches(subject)) {
            let place = rules.partition_point(|there| there.tier >= rule.tier);
            rules.insert(place, Arc::clone(rule));
        }
        let considered = self.considered.saturating_add(of_event.len());
        Self { considered, matching: Some(Arc::new(Matching { rules: rules.into() })) }
    }
}

/// Selects the rules of `trigger`'s event whose matcher matches, of those that `policy` has for its caller. For a subject
/// that was seen before this allocates nothing.
#[must_use]
pub fn select(policy: &Policy, trigger: &Trigger) -> Selected {
    match policy.matching(&trigger.event_name, trigger.subject()) {
        Some((considered, matching)) => Selected { considered, matching: Some(matching) },
        None => Selected { considered: 0, matching: None },
    }
}

/// The default of `tier` for this event, with its place in the catalog: the first that matches (law 12) and is not in
/// shadow mode.
#[must_use]
pub fn default_of<'p>(policy: &'p Policy, tier: Tier, trigger: &Trigger) -> Option<(usize, &'p DefaultRule)> {
    let subject = trigger.subject();
    policy.defaults().find(|(_, default)| {
        default.tier == tier
            && default.mode == Mode::Enforce
            && default.event == trigger.event_name
            && default.matcher.matches(subject)
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

/// Explains `rule` for `trigger` as it arrived, by the same code that selects.
#[must_use]
pub fn explain(rule: &Rule, trigger: &Trigger) -> Explanation {
    if let Some(because) = is_for_others(rule, trigger) {
        return Explanation { would_run: false, because };
    }
    let subject = trigger.subject();
    let mut would_run = rule.matcher.matches(subject);
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
    if let Some(permission) = rule.permission.as_ref().filter(|_| would_run) {
        let facts = condition::facts(trigger, &trigger.form);
        let text = permission.as_str();
        if !permission.runs(&facts, condition::settings_root(rule, facts.call().cwd)) {
            would_run = false;
            because = format!("its `if` `{text}` does not match the call");
        } else if let Some(doubt) = permission.doubt(&facts) {
            because = format!("{because}; its `if` `{text}` cannot be tested, so it runs: {doubt}");
        } else {
            because = format!("{because}; its `if` `{text}` matches");
        }
    }
    if let Some(when) = rule.when.as_ref().filter(|_| would_run) {
        match when.evaluate(&mut condition::facts(trigger, &trigger.form)) {
            Ok(true) => because.push_str("; its condition holds"),
            Ok(false) => {
                would_run = false;
                because = format!("condition `{}` does not hold", when.text());
            }
            Err(error) => {
                would_run = false;
                because = format!("condition `{}` fails, which is a failure of the rule: {error}", when.text());
            }
        }
    }
    if would_run && rule.twins.is_some() {
        because.push_str("; of the rules of its source with the same handler one runs");
    }
    if would_run && rule.run_on == RunOn::Agent {
        because.push_str("; it runs on the agent's side, so on `Trigger` it fails as `unsupported`");
    }
    if would_run && !rule.decides() {
        because.push_str(match rule.timing {
            Timing::Sync => "; shadow: it is recorded and has no part in the verdict",
            Timing::Async => "; async: it runs in the background and has no part in the verdict",
            Timing::AfterVerdict(_) => "; async: it runs once the verdict is one of its `onVerdict`",
        });
    }
    Explanation { would_run, because }
}

/// Why the selector of `rule`'s source does not let it apply to the caller. `None`: it applies.
fn is_for_others(rule: &Rule, trigger: &Trigger) -> Option<String> {
    let selector = rule.selector.as_ref()?;
    let labels = &trigger.identity.labels;
    match selector.fit(labels.as_slice()) {
        Fit::Applies => None,
        Fit::Differs(requirement) => {
            let (key, value) = (&requirement.key, labels.get(&requirement.key).unwrap_or_default());
            Some(format!("it is for callers with `{selector}`, and this caller's `{key}` is `{value}`"))
        }
        Fit::Lacks(requirement) => {
            let then = match selector.missing_label() {
                MissingLabel::Deny => "refused (missing_label: deny)",
                MissingLabel::Skip => "judged without it (missing_label: skip)",
            };
            let key = &requirement.key;
            Some(format!("it is for callers with `{selector}`, and this caller lacks `{key}`, so the call is {then}"))
        }
    }
}
