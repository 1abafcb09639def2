use std::io::{self, Write};

use hookd_rules::{Catalog, LoadSettings, Memory, Mode, Rule, Severity, SourceState, Timing};

use super::{Exit, StartError};
use crate::{
    door::{identity, tls},
    record::{Audit, Traces},
    run::{PoolError, check_authorities},
    settings::Settings,
};

/// Looks at the files besides rules that the settings name and without which a server would not start.
pub(super) fn files(settings: &Settings) -> Result<(), StartError> {
    settings.tls.as_ref().map(tls::check).transpose()?;
    identity::check(&settings.identity).map_err(StartError::Identity)?;
    let authorities = settings.http_handlers.ca.as_deref().map(check_authorities).transpose();
    authorities.map_err(PoolError::from)?;
    Audit::check(&settings.audit)?;
    Traces::check(&settings.traces)?;
    Ok(())
}

/// Loads everything and prints what would run, in evaluation order, and what is wrong.
pub(super) fn check(settings: &LoadSettings, out: &mut impl Write) -> io::Result<Exit> {
    let load = hookd_rules::load(settings, &mut Memory::default());
    for source in &load.sources {
        let state = match source.state {
            SourceState::Loaded => "loaded",
            SourceState::Absent => "not there, and optional",
            SourceState::Partial => "loaded in part",
            SourceState::Stale => "refused",
        };
        let (tier, path, rules) = (source.tier.name(), source.path.display(), source.rules);
        let callers = source.selector.as_ref().map(|selector| {
            format!(", for callers with {selector} (missing_label: {})", selector.missing_label().name())
        });
        writeln!(out, "source  {tier:<8} {path}: {state}, rules: {rules}{}", callers.unwrap_or_default())?;
    }
    if let Some(catalog) = &load.catalog {
        write_rules(catalog, out)?;
    }
    let mut exit = Exit::Done;
    for problem in &load.problems {
        writeln!(out, "{:<7} {problem}", problem.severity.name())?;
        if problem.severity == Severity::Error {
            exit = Exit::Failed;
        }
    }
    match &load.catalog {
        None => writeln!(out, "refused: a server with these rules would not start")?,
        Some(catalog) => writeln!(out, "revision {}", catalog.revision)?,
    }
    Ok(exit)
}

fn write_rules(catalog: &Catalog, out: &mut impl Write) -> io::Result<()> {
    let mut rows = vec![["TIER", "RULE", "EVENTS", "MATCHER", "HANDLER", "HOW"].map(str::to_owned)];
    rows.extend(catalog.rules.iter().map(|rule| row(rule)));
    for default in &catalog.defaults {
        let matcher = default.matcher.as_str();
        rows.push([
            default.tier.to_string(),
            "(default)".to_owned(),
            default.event.to_string(),
            if matcher.is_empty() { "*" } else { matcher }.to_owned(),
            default.verdict.to_string(),
            match default.mode {
                Mode::Enforce => "last outcome of its tier",
                Mode::Shadow => "shadow",
            }
            .to_owned(),
        ]);
    }
    if rows.len() == 1 {
        return Ok(());
    }
    let widths = (0..6).map(|column| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    });
    let widths = widths.collect::<Vec<_>>();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn row(rule: &Rule) -> [String; 6] {
    let matcher = rule.matcher.as_str();
    let mut how = vec![match rule.timing {
        Timing::Sync => "sync",
        Timing::Async => "async",
        Timing::AfterVerdict(_) => "after the verdict",
    }];
    if rule.mode == Mode::Shadow {
        how.push("shadow");
    }
    if rule.is_final {
        how.push("final");
    }
    if rule.must_decide {
        how.push("must decide");
    }
    if rule.concurrent {
        how.push("concurrent");
    }
    if rule.when.is_some() {
        how.push("condition");
    }
    [
        rule.tier.to_string(),
        rule.id.to_string(),
        rule.events.join(","),
        if matcher.is_empty() { "*" } else { matcher }.to_owned(),
        rule.handler.kind().to_owned(),
        how.join(", "),
    ]
}
