//! What the rules of one tier may be.

use std::time::Duration;

use config::ValueKind;
use hookd_rules::{EVENTS, Event, Permits, Tier, UnknownEvent};

use super::section::Section;

/// The kinds of handlers that there are.
const HANDLERS: [&str; 3] = ["command", "http", "decide"];

/// Reads the keys of `tier` that narrow it.
pub(super) fn permits(section: &mut Section<'_, '_>, tier: Tier, of_all: Duration) -> Permits {
    Permits {
        enabled: enabled(section, tier),
        handlers: names(section, "handlers", "a list of kinds, such as [command, http, decide]", |name| {
            let known = HANDLERS.contains(&name);
            if known { Ok(()) } else { Err("is not command, http or decide".to_owned()) }
        }),
        events: names(section, "events", "a list of events, such as [PreToolUse, Stop]", |name| {
            if Event::known(name).is_some() {
                return Ok(());
            }
            let near = |event: &&Event| strsim::damerau_levenshtein(event.name, name) <= 2;
            match (UnknownEvent::check(name), EVENTS.iter().find(near)) {
                (Err(error), _) => Err(format!("is no event: {error}")),
                (Ok(()), Some(event)) => Err(format!("is not known, did you mean `{}`", event.name)),
                (Ok(()), None) => Ok(()),
            }
        }),
        http_hosts: names(
            section,
            "http_hosts",
            "a list of hosts, such as [hooks.example.com, \"*.example.org\"]",
            |host| {
                let name = host.strip_prefix("*.").unwrap_or(host);
                let is_host =
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]:".contains(c));
                let has_port = !name.starts_with('[') && name.contains(':');
                let good = is_host && !has_port && !name.contains('*');
                if good {
                    Ok(())
                } else {
                    Err("is not a host alone, such as hooks.example.com or *.example.org".to_owned())
                }
            },
        )
        .map(|hosts| hosts.iter().map(|host| host.trim_end_matches('.').to_ascii_lowercase()).collect()),
        max_timeout: max_timeout(section, of_all),
    }
}

fn enabled(section: &mut Section<'_, '_>, tier: Tier) -> bool {
    let given = section.peek("enabled").cloned();
    let enabled = section.yes_or_no("enabled", true);
    if !enabled && tier == Tier::Managed {
        section.problem(
            "enabled",
            given.as_ref(),
            "the managed tier cannot be switched off, `mode: shadow` keeps its rules from counting",
        );
    }
    enabled
}

fn max_timeout(section: &mut Section<'_, '_>, of_all: Duration) -> Option<Duration> {
    let given = section.peek("max_timeout").cloned();
    let limit = section.duration("max_timeout", of_all);
    let given = given.filter(|value| value.kind != ValueKind::Nil)?;
    if limit > of_all {
        let message = format!(
            "{} is longer than limits.max_handler_timeout ({}), set it to at most that",
            humantime::format_duration(limit),
            humantime::format_duration(of_all),
        );
        section.problem("max_timeout", Some(&given), &message);
    }
    Some(limit)
}

/// The names at `key`, each one checked. `None`: the key is not there.
fn names(
    section: &mut Section<'_, '_>,
    key: &'static str,
    expected: &'static str,
    check: impl Fn(&str) -> Result<(), String>,
) -> Option<Vec<String>> {
    let given = section.peek(key).cloned();
    let names = section.strings(key, expected)?;
    for name in &names {
        if let Err(message) = check(name) {
            section.problem(key, given.as_ref(), &format!("{name:?} {message}"));
        }
    }
    Some(names)
}
