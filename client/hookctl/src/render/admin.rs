//! What hookd has loaded.

use std::time::SystemTime;

use hookd_agents::plain::word_of;
use hookd_client::proto::{
    ExplainResponse, GetStatusResponse, ListRulesResponse, ReloadResponse, RuleSummary, SourceState, SourceStatus,
    TierStatus, TriggerRequest,
};

use super::{Ink, LONGEST_CELL, Paint, Table, counted, plain, tier};

pub(crate) fn rules(answer: &ListRulesResponse, event: &str, paint: Paint) -> String {
    let mut table = Table::new(&["TIER", "RULE", "EVENTS", "MATCHER", "HANDLER", "MARKS", "FILE", "DESCRIPTION"]);
    for rule in &answer.rules {
        table.row([
            (tier(rule.tier), Ink::Plain),
            (rule.rule_id.clone(), Ink::Strong),
            (rule.events.join(", "), Ink::Plain),
            (rule.matcher.clone(), Ink::Plain),
            (rule.handler.clone(), Ink::Plain),
            (marks(rule), Ink::Warn),
            (file(rule), Ink::Dim),
            (rule.description.clone(), Ink::Plain),
        ]);
    }
    let mut text = table.text(paint);
    let of_event = if event.is_empty() { String::new() } else { format!(" for {}", plain(event)) };
    text.push_str(&format!("{}{of_event}\n", paint.with(Ink::Strong, &counted(answer.rules.len(), "rule"))));
    text.push_str(&revision(&answer.policy_revision, paint));
    text
}

pub(crate) fn explanation(request: &TriggerRequest, answer: &ExplainResponse, paint: Paint) -> String {
    let would_run = answer.rules.iter().filter(|rule| rule.would_run).count();
    let tool = request.tool_call.as_ref().map(|call| format!(" {}", plain(&call.tool))).unwrap_or_default();
    let head = format!("{would_run} of {} would run", counted(answer.rules.len(), "rule"));
    let mut text = format!("{}  {}{tool}\n", paint.with(Ink::Strong, &head), plain(&request.event));
    text.push_str(&format!("  a block means: {}\n", plain(&answer.block_means)));
    if !answer.refused.is_empty() {
        let refused = format!("refused: {}", plain(&answer.refused));
        text.push_str(&format!("  {}\n", paint.with(Ink::Bad, &refused)));
    }
    text.push('\n');
    let mut table = Table::new(&["RUNS", "TIER", "RULE", "HANDLER", "MARKS", "FILE", "BECAUSE"]);
    for explained in &answer.rules {
        let rule = explained.rule.clone().unwrap_or_default();
        let (runs, ink) = if explained.would_run { ("yes", Ink::Good) } else { ("no", Ink::Dim) };
        table.row([
            (runs.to_owned(), ink),
            (tier(rule.tier), Ink::Plain),
            (rule.rule_id.clone(), Ink::Strong),
            (rule.handler.clone(), Ink::Plain),
            (marks(&rule), Ink::Warn),
            (file(&rule), Ink::Dim),
            (explained.because.clone(), Ink::Plain),
        ]);
    }
    text.push_str(&table.text(paint));
    text.push_str(&revision(&answer.policy_revision, paint));
    text
}

pub(crate) fn status(answer: &GetStatusResponse, paint: Paint) -> String {
    let (word, ink) = if answer.waiting_for.is_empty() { ("READY", Ink::Good) } else { ("NOT READY", Ink::Bad) };
    let mut text = format!("{}  hookd {}\n", paint.with(ink, word), plain(&answer.version));
    for part in &answer.waiting_for {
        text.push_str(&format!("  waiting for {}\n", plain(part)));
    }
    if let Some(time) = answer.started_at {
        text.push_str(&format!("  started {}\n", moment(time)));
    }
    if let Some(time) = answer.loaded_at {
        text.push_str(&format!("  rules loaded {}\n", moment(time)));
    }
    let rules = usize::try_from(answer.rules).unwrap_or(usize::MAX);
    text.push_str(&format!("  {} in force\n", counted(rules, "rule")));
    for status in &answer.tiers {
        text.push_str(&not_enforced(status, paint));
    }
    text.push('\n');
    text.push_str(&sources(&answer.sources, &answer.warnings, paint));
    text.push_str(&revision(&answer.policy_revision, paint));
    text
}

/// What of a tier does not count. Empty: all of it does.
fn not_enforced(status: &TierStatus, paint: Paint) -> String {
    if status.shadow == 0 && !status.shadow_by_settings {
        return String::new();
    }
    let word =
        if status.enforced == 0 { paint.with(Ink::Bad, "NOT ENFORCED") } else { paint.with(Ink::Warn, "not enforced") };
    let all = status.enforced.saturating_add(status.shadow);
    let by = if status.shadow_by_settings { " by the settings" } else { "" };
    let (tier, shadow) = (tier(status.tier), status.shadow);
    format!("  {word}: {tier}, {shadow} of {all} rules and defaults in shadow mode{by}\n")
}

pub(crate) fn reload(answer: &ReloadResponse, paint: Paint) -> String {
    let (word, ink) = if answer.ok { ("RELOADED", Ink::Good) } else { ("NOT IN ORDER", Ink::Bad) };
    let changed = if answer.changed { "other rules are in force now" } else { "the rules in force are the same" };
    let mut text = format!("{}  {changed}\n\n", paint.with(ink, word));
    text.push_str(&sources(&answer.sources, &answer.warnings, paint));
    text.push_str(&revision(&answer.policy_revision, paint));
    text
}

fn sources(sources: &[SourceStatus], warnings: &[String], paint: Paint) -> String {
    let mut table = Table::new(&["TIER", "STATE", "RULES", "SOURCE"]);
    for source in sources {
        let state = SourceState::try_from(source.state).unwrap_or(SourceState::Unspecified);
        let ink = match state {
            SourceState::Loaded => Ink::Good,
            SourceState::Absent => Ink::Dim,
            SourceState::Partial => Ink::Warn,
            SourceState::Stale | SourceState::Unspecified => Ink::Bad,
        };
        let word = word_of(state.as_str_name()).unwrap_or_else(|| format!("state {}", source.state));
        let path = match source.selector.as_str() {
            "" => source.path.clone(),
            selector => format!("{} for {selector}", source.path),
        };
        table.row([
            (tier(source.tier), Ink::Plain),
            (word, ink),
            (source.rules.to_string(), Ink::Plain),
            (path, Ink::Plain),
        ]);
    }
    let mut text = table.text(paint);
    let errors = sources.iter().flat_map(|source| &source.errors);
    let mut said = String::new();
    for error in errors {
        said.push_str(&format!("{} {}\n", paint.with(Ink::Bad, "error:"), plain(error)));
    }
    for warning in warnings {
        said.push_str(&format!("{} {}\n", paint.with(Ink::Warn, "warning:"), plain(warning)));
    }
    if !said.is_empty() {
        said.push('\n');
    }
    text.push_str(&said);
    text
}

/// What is special about a rule, in few words.
fn marks(rule: &RuleSummary) -> String {
    let marks = [
        (rule.shadow, "shadow"),
        (rule.r#async, "async"),
        (rule.r#final, "final"),
        (rule.must_decide, "must decide"),
        (rule.concurrent, "concurrent"),
        (!rule.when.is_empty() || !rule.permission.is_empty(), "condition"),
        (rule.failure_blocks, "failure blocks"),
    ];
    let mut marks = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| (*mark).to_owned()).collect::<Vec<_>>();
    if !rule.selector.is_empty() {
        marks.push(format!("for {}", rule.selector));
    }
    marks.join(", ")
}

/// Where a rule stands. Of a long path the end is what tells it from others.
fn file(rule: &RuleSummary) -> String {
    let place = if rule.line == 0 { rule.source.clone() } else { format!("{}:{}", rule.source, rule.line) };
    let skipped = place.chars().count().saturating_sub(LONGEST_CELL);
    if skipped == 0 {
        place
    } else {
        ['…'].into_iter().chain(place.chars().skip(skipped.saturating_add(1))).collect()
    }
}

fn moment(time: prost_types::Timestamp) -> String {
    match SystemTime::try_from(time) {
        Ok(time) => humantime::format_rfc3339_seconds(time).to_string(),
        Err(_) => time.to_string(),
    }
}

fn revision(revision: &str, paint: Paint) -> String {
    format!("{}\n", paint.with(Ink::Dim, &format!("revision {}", plain(revision))))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn pictures_of_what_is_loaded() {
        let paint = Paint::new(false);
        insta::assert_snapshot!("rules", rules(&sample::rules(), "PreToolUse", paint));
        insta::assert_snapshot!("explanation", explanation(&sample::request(), &sample::explanation(), paint));
        insta::assert_snapshot!("status", status(&sample::status(), paint));
        insta::assert_snapshot!("reload", reload(&sample::reload(), paint));
    }
}
