//! `hookctl check`: rule files, without a server.

use std::{ffi::OsString, path::PathBuf};

use hookd_json::Value;
use hookd_rules::{
    Environment, Load, LoadSettings, LoadedFile, Memory, Problem, Severity, SourceSettings, Tier, check_paths, load,
};
use serde_json::json;

use crate::{
    args::{CheckArgs, Global, Output},
    json,
    render::{Ink, Paint, Table, counted},
    report::{FAILED, OK, Report},
};

/// Where hookd looks for rules without a configuration.
const DEFAULT_SOURCES: [(Tier, &str); 3] = [
    (Tier::Managed, "/etc/hookd/managed"),
    (Tier::Local, ".ling/hooks.local.json"),
    (Tier::Shared, ".ling/hooks.json"),
];

pub(crate) fn run(global: &Global, args: &CheckArgs, paint: Paint) -> Report {
    let load = checked(args);
    let text = match global.output {
        Output::Human => picture(&load, paint),
        Output::Json => json::line(&machine(&load)),
    };
    Report { text, exit: if load.has_errors() { FAILED } else { OK } }
}

fn checked(args: &CheckArgs) -> Load {
    // A variable that is not UTF-8 is not one that a rule file can mean.
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let environment = std::env::vars_os().filter_map(text).collect::<Environment>();
    let mut settings = LoadSettings { environment, ..LoadSettings::default() };
    if !args.paths.is_empty() {
        return check_paths(&args.paths, args.tier, &settings);
    }
    for (tier, path) in DEFAULT_SOURCES {
        let path = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        settings.tiers.get_mut(tier).sources.push(SourceSettings { path, optional: true, selector: None });
    }
    load(&settings, &mut Memory::default())
}

fn picture(load: &Load, paint: Paint) -> String {
    let mut text = String::new();
    for problem in &load.problems {
        let ink = if problem.severity == Severity::Error { Ink::Bad } else { Ink::Warn };
        text.push_str(&format!("{} {problem}\n", paint.with(ink, &format!("{}:", problem.severity.name()))));
    }
    if !load.problems.is_empty() && !load.files.is_empty() {
        text.push('\n');
    }
    let mut table = Table::new(&["TIER", "RULES", "REFUSED", "DEFAULTS", "ERRORS", "WARNINGS", "FILE"]);
    for file in &load.files {
        let ink = |count: usize, ink| if count > 0 { ink } else { Ink::Good };
        let (errors, warnings) = (count(load, file, Severity::Error), count(load, file, Severity::Warning));
        table.row([
            (file.tier.name().to_owned(), Ink::Plain),
            (file.rules.to_string(), Ink::Plain),
            (file.refused.to_string(), ink(file.refused, Ink::Bad)),
            (file.defaults.to_string(), Ink::Plain),
            (errors.to_string(), ink(errors, Ink::Bad)),
            (warnings.to_string(), ink(warnings, Ink::Warn)),
            (file.path.display().to_string(), Ink::Plain),
        ]);
    }
    text.push_str(&table.text(paint));
    let errors = load.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let warnings = load.problems.len().saturating_sub(errors);
    let rules = load.files.iter().map(|file| file.rules).sum::<usize>();
    let refused = load.files.iter().map(|file| file.refused).sum::<usize>();
    let (verdict, ink) = if load.has_errors() { ("NOT IN ORDER", Ink::Bad) } else { ("IN ORDER", Ink::Good) };
    let mut counts = vec![counted(load.files.len(), "file"), counted(rules, "rule")];
    if refused > 0 {
        counts.push(format!("{refused} refused"));
    }
    counts.extend([counted(errors, "error"), counted(warnings, "warning")]);
    text.push_str(&format!("{}  {}\n", paint.with(ink, verdict), counts.join(", ")));
    text
}

fn machine(load: &Load) -> Value {
    json!({
        "ok": !load.has_errors(),
        "problems": load.problems.iter().map(problem).collect::<Vec<_>>(),
        "files": load.files.iter().map(|file| json!({
            "tier": file.tier.name(),
            "path": file.path.display().to_string(),
            "rules": file.rules,
            "refused": file.refused,
            "defaults": file.defaults,
            "errors": count(load, file, Severity::Error),
            "warnings": count(load, file, Severity::Warning),
        })).collect::<Vec<_>>(),
    })
}

fn problem(problem: &Problem) -> Value {
    json!({
        "severity": problem.severity.name(),
        "tier": problem.tier.map(Tier::name),
        "file": problem.file.display().to_string(),
        "line": problem.place.map(|place| place.line),
        "column": problem.place.map(|place| place.column),
        "key": problem.key,
        "rule": problem.rule,
        "message": problem.message,
    })
}

/// How many problems of this severity the file has.
fn count(load: &Load, file: &LoadedFile, severity: Severity) -> usize {
    let of_file = |problem: &&Problem| problem.severity == severity && problem.file == file.path;
    load.problems.iter().filter(of_file).count()
}
