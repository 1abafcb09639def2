//! `hookctl import`: an agent's hook file as native rules. What they cannot say is named and left out, or kept switched
//! off where it would look like a guard and be none.
//!
//! Read in this order: `whose` (which agent's file it is), `loaded` (files that hookd's loader reads as the agent does),
//! `walk` with `dialect` (all others), `yaml` (the output).

mod dialect;
mod loaded;
mod walk;
mod whose;
mod yaml;

use std::{
    io::{self, Write as _},
    path::Path,
};

use hookd_agents::Agent;
use hookd_json::Value;
use serde_json::json;

use crate::{
    args::{Global, ImportArgs, Output},
    json,
    owned::read_any,
    render::counted,
    report::{FAILED, Failure, OK, Report},
};

/// What comes of a file.
#[derive(Debug, Default)]
struct Imported {
    /// Native rules.
    rules: Vec<Value>,
    /// What is not in force of it, one line each.
    lost: Vec<String>,
    /// What is in force and may not be what was meant, one line each.
    notes: Vec<String>,
}

pub(crate) fn run(global: &Global, args: &ImportArgs) -> Result<Report, Failure> {
    let shown = args.file.display();
    if args.file.extension().is_some_and(|extension| extension == "toml") {
        let why = "hooks in TOML are not read, only those in JSON; Codex reads them from `hooks.json` too";
        return Err(Failure::failed(format!("{shown}: {why}")));
    }
    let text = text(&args.file).map_err(Failure::failed)?;
    let file = hookd_json::parse(text.trim_start_matches('\u{feff}'));
    let file = file.map_err(|error| Failure::failed(format!("{shown}: not valid JSON: {error}")))?;
    let agent = match args.agent {
        Some(agent) => agent,
        None => whose::of(&args.file, &file).map_err(|why| Failure::failed(format!("{shown}: {why}")))?,
    };
    let imported = match agent {
        Agent::ClaudeCode | Agent::Codex | Agent::FactoryDroid => loaded::import(&args.file, &text),
        Agent::Cline => Err("Cline has no hook file, its hooks are programs".to_owned()),
        _ => walk::import(agent, &args.file, &file),
    };
    let mut imported = imported.map_err(|why| Failure::failed(format!("{shown}: {why}")))?;
    if args.tier.is_central() {
        imported.notes.extend(of_a_central_tier(&imported.rules, args));
    }
    let all = json!({ "hooks": imported.rules });
    let text = match global.output {
        Output::Human => yaml::text(&all, &format!("Made by `hookctl import` of {shown} ({}).", agent.name())),
        Output::Json => json::line(&all),
    };
    tell(&imported);
    Ok(Report { text, exit: if imported.lost.is_empty() { OK } else { FAILED } })
}

fn text(path: &Path) -> Result<String, String> {
    let read = read_any(path)?.ok_or_else(|| format!("{} is not there", path.display()))?;
    String::from_utf8(read.bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// What a command finds otherwise in a managed or team file.
fn of_a_central_tier(rules: &[Value], args: &ImportArgs) -> Option<String> {
    let is_command = |rule: &Value| rule.pointer("/handler/type") == Some(&json!("command"));
    let commands = rules.iter().filter(|rule| is_command(rule)).count();
    (commands > 0).then(|| {
        format!(
            "{} of tier {} will run on hookd's machine, in the folder of the rule file, not where the agent works",
            counted(commands, "command"),
            args.tier.name()
        )
    })
}

fn tell(imported: &Imported) {
    let mut text = String::new();
    for line in &imported.lost {
        text.push_str(&format!("left out: {}\n", crate::render::harmless(line)));
    }
    for line in &imported.notes {
        text.push_str(&format!("note: {}\n", crate::render::harmless(line)));
    }
    let is_off = |rule: &&Value| rule.get("disabled") == Some(&json!(true));
    let off = imported.rules.iter().filter(is_off).count();
    text.push_str(&format!("{}, {off} of them switched off", counted(imported.rules.len(), "rule")));
    text.push_str(&format!("; {} left out\n", imported.lost.len().saturating_sub(off)));
    // Nobody is left to tell where that fails.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
