//! `hookctl install`: writes the entries that ask hookd into an agent's own settings, or takes them out again.
//!
//! Nothing is written without `--write`. What else is in a file stays as it is, byte by byte; a file that cannot be
//! understood whole is refused and not touched. A second run finds nothing to do.
//!
//! Read in this order: `agents` (the table of agents), `wish` and `entry` (what is written for an event), `target` (the
//! file), `notes`, then how each form of file is changed: `settings` with `text` (JSON), `requirements` (TOML), `programs`
//! (Cline).

mod agents;
mod entry;
mod notes;
mod programs;
mod requirements;
mod settings;
mod target;
mod text;
mod wish;

use std::path::Path;

use hookd_agents::Agent;
use serde_json::json;
use similar::TextDiff;

use self::{
    agents::Form,
    entry::Wish,
    settings::{Change, TAKES_OVER},
    target::Target,
};
use crate::{
    args::{Global, InstallArgs, Output, Scope},
    json,
    render::{Ink, Paint, harmless},
    report::{Failure, Report, reason},
};

/// The mode of a new settings file.
const SETTINGS_MODE: u32 = 0o644;
/// The mode of a new program.
const PROGRAM_MODE: u32 = 0o755;

/// What becomes of one file.
struct Step {
    target: Target,
    /// `None`: it goes.
    after: Option<String>,
    mode: u32,
}

/// Where the files are, and what they shall hold.
struct Plan {
    steps: Vec<Step>,
    notes: Vec<String>,
}

pub(crate) fn run(global: &Global, args: &InstallArgs, paint: Paint) -> Result<Report, Failure> {
    let plan = plan(global, args)?;
    let steps = plan.steps.into_iter().filter(Step::changes).collect::<Vec<_>>();
    if args.write {
        for step in &steps {
            match &step.after {
                Some(text) => step.target.write(text, step.mode),
                None => step.target.delete(),
            }
            .map_err(Failure::failed)?;
        }
    }
    let text = match global.output {
        Output::Human => picture(&steps, &plan.notes, args, paint),
        Output::Json => json::line(&json!({
            "agent": args.agent.name(),
            "written": args.write && !steps.is_empty(),
            "files": steps.iter().map(|step| json!({
                "path": step.target.path.display().to_string(),
                "change": step.word(),
                "diff": step.diff(),
            })).collect::<Vec<_>>(),
            "notes": plan.notes,
        })),
    };
    Ok(Report::ok(text))
}

impl Step {
    fn changes(&self) -> bool {
        self.after != self.target.before
    }

    fn word(&self) -> &'static str {
        match (&self.target.before, &self.after) {
            (None, _) => "made",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "removed",
        }
    }

    /// As `patch` reads it.
    fn diff(&self) -> String {
        let path = self.target.path.display().to_string();
        let name = |text: &Option<String>| if text.is_some() { path.clone() } else { "/dev/null".to_owned() };
        let (before, after) = (self.target.before.as_deref(), self.after.as_deref());
        let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
        diff.unified_diff().header(&name(&self.target.before), &name(&self.after)).to_string()
    }
}

fn picture(steps: &[Step], notes: &[String], args: &InstallArgs, paint: Paint) -> String {
    let mut text = String::new();
    for step in steps {
        if args.write {
            text.push_str(&format!("{} {}\n", step.word(), step.target.path.display()));
            continue;
        }
        for line in step.diff().lines() {
            let ink = match line.chars().next() {
                Some('+') => Ink::Good,
                Some('-') => Ink::Bad,
                Some('@') => Ink::Dim,
                _ => Ink::Plain,
            };
            text.push_str(&paint.with(ink, &harmless(line)));
            text.push('\n');
        }
    }
    if steps.is_empty() {
        text.push_str("nothing to do\n");
    }
    for note in notes {
        text.push_str(&format!("{} {note}\n", paint.with(Ink::Warn, "note:")));
    }
    if !steps.is_empty() && !args.write {
        text.push_str("nothing is written yet, `--write` does so\n");
    }
    text
}

fn plan(global: &Global, args: &InstallArgs) -> Result<Plan, Failure> {
    let place = match &args.file {
        Some(file) => std::path::absolute(file).map_err(|error| Failure::failed(reason(&error)))?,
        None => target::place(args.agent, args.scope).map_err(Failure::usage)?,
    };
    let mut notes = Vec::new();
    let wish = wish::wish(global, args, &place, &mut notes)?;
    let within = (args.scope == Scope::Project && args.file.is_none()).then(target::project).transpose();
    let within = within.map_err(Failure::failed)?;
    let steps = match wish.form {
        Form::Programs => programs(&wish, args, &place, within.as_deref()),
        _ => one_file(&wish, args, &place, within.as_deref()).map(|step| vec![step]),
    };
    let steps = steps.map_err(Failure::failed)?;
    if !args.remove {
        notes.extend(notes::elsewhere(args, &place));
        notes.extend(notes::read_too(args));
        notes.extend((args.scope == Scope::Managed).then(|| notes::who_can_write(&wish.program)).flatten());
    } else if !args.take_over && args.agent == Agent::ClaudeCode {
        let has_switch = |step: &Step| step.after.as_deref().is_some_and(|text| text.contains(TAKES_OVER));
        if steps.iter().any(|step| step.changes() && has_switch(step)) {
            notes.push(format!(
                "`{TAKES_OVER}` stays, since it may have been there before: while it is true, no other file's hooks run; \
                 `--remove --take-over` takes it out too"
            ));
        }
    }
    Ok(Plan { steps, notes })
}

fn one_file(wish: &Wish, args: &InstallArgs, place: &Path, within: Option<&Path>) -> Result<Step, String> {
    let target = Target::find(place, within)?;
    let before = target.before.as_deref();
    let after = if before.is_none() && args.remove {
        None
    } else if wish.form == Form::Toml {
        requirements::changed(before, wish, args.remove).map_err(|why| format!("{}: {why}", place.display()))?
    } else {
        let name = place.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let change = Change { remove: args.remove, take_over: args.take_over };
        settings::changed(before, wish, change, name).map_err(|why| by_hand(wish, args, place, before, &why))?
    };
    Ok(Step { target, after, mode: SETTINGS_MODE })
}

/// Why the file is not touched; where comments are the reason, with what to add to it.
fn by_hand(wish: &Wish, args: &InstallArgs, place: &Path, before: Option<&str>, why: &str) -> String {
    let mut message = format!("{}: {why}; it is left as it is", place.display());
    if before.is_some_and(text::has_comments) && !args.remove {
        message
            .push_str(". A JSON file with comments is not changed, since they could be lost; put this under `hooks`:");
        for (event, entry) in wish.entries() {
            message.push_str(&format!("\n  {},", text::member(event, &json!([entry]))));
        }
    }
    message
}

fn programs(wish: &Wish, args: &InstallArgs, place: &Path, within: Option<&Path>) -> Result<Vec<Step>, String> {
    let events = wish.agent.events().filter(|event| agents::has(wish.agent, wish.form, event));
    let mut steps = Vec::new();
    for event in events {
        let target = Target::find(&place.join(event), within)?;
        let is_ours = target.before.as_deref().is_some_and(|text| programs::is_ours(wish, text));
        let is_wanted = !args.remove && wish.events.contains(&event);
        if is_wanted && target.before.is_some() && !is_ours {
            let (path, line) = (target.path.display(), wish.line(event));
            return Err(format!("{path} is there already and is left as it is; call `{line}` from it"));
        }
        if is_ours || is_wanted {
            let after = is_wanted.then(|| programs::program(wish, event));
            steps.push(Step { target, after, mode: PROGRAM_MODE });
        }
    }
    Ok(steps)
}
