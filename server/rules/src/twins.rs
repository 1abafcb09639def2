//! Equal handlers of one source run once: the rule of Claude Code, for the rules that speak its protocol. Equal handlers
//! of different sources stay apart: they are equal by chance.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Handler, Program, Protocol, Rule};

/// The number that the next twins get.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Gives the rules among `rules` (all those of one source, held by nobody else) that do the same for the same events a
/// number in common: [`Rule::twins`]. What they run is compared as it is after everything was put in, and time limits
/// do not count.
pub(crate) fn mark<'r>(rules: impl IntoIterator<Item = &'r mut Arc<Rule>>) {
    let mut groups = HashMap::<String, Vec<&mut Rule>>::new();
    for rule in rules.into_iter().filter_map(Arc::get_mut) {
        if let Some(key) = key(rule) {
            groups.entry(key).or_default().push(rule);
        }
    }
    for twins in groups.into_values().filter(|group| group.len() > 1) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        for rule in twins {
            rule.twins = Some(number);
        }
    }
}

/// What is equal in twins; `None` where a rule has none.
fn key(rule: &Rule) -> Option<String> {
    if rule.protocol != Protocol::ClaudeCode {
        return None;
    }
    let does = match &rule.handler {
        Handler::Command(command) => {
            let program: &Program = &command.program;
            format!("{program:?} {:?} {:?}", command.env, command.cwd)
        }
        Handler::Http(http) => format!("{:?} {:?}", http.url, http.headers),
        Handler::Decide(_) => return None,
    };
    let Rule { events, timing, mode, on_error, is_final, must_decide, run_on, .. } = rule;
    Some(format!("{events:?} {timing:?} {mode:?} {on_error:?} {is_final} {must_decide} {run_on:?} {does}"))
}
