//! `hookctl install`: writes the entries that ask hookd into an agent's own settings, or takes them out again.
//!
//! Nothing is written without `--write`. What else is in a file stays as it is, byte by byte; a file that cannot be
//! understood whole is refused and not touched. A second run finds nothing to do.
//!
//! Read in this order: `agents` (the table of agents), `entry` (what is written for an event), `target` (the file), then
//! how each form of file is changed: `settings` with `text` (JSON), `requirements` (TOML), `programs` (Cline).

mod agents;
mod entry;
mod programs;
mod requirements;
mod settings;
mod target;
mod text;

use std::{
    env, fs,
    net::IpAddr,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

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
    args::{Global, InstallArgs, OnUnavailable, Output, Scope},
    json, relay,
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
    let wish = wish(global, args, &place, &mut notes)?;
    let within = (args.scope == Scope::Project && args.file.is_none()).then(target::project).transpose();
    let within = within.map_err(Failure::failed)?;
    let steps = match wish.form {
        Form::Programs => programs(&wish, args, &place, within.as_deref()),
        _ => one_file(&wish, args, &place, within.as_deref()).map(|step| vec![step]),
    };
    let steps = steps.map_err(Failure::failed)?;
    if !args.remove {
        notes.extend(elsewhere(args, &place));
        notes.extend(read_too(args));
        notes.extend((args.scope == Scope::Managed).then(|| who_can_write(&wish.program)).flatten());
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

/// What is to stand in the file at `place`.
fn wish(global: &Global, args: &InstallArgs, place: &Path, notes: &mut Vec<String>) -> Result<Wish, Failure> {
    let agent = args.agent;
    let folder = place.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let is_toml = place.extension().is_some_and(|extension| extension == "toml");
    let form = match agents::form(agent, args.scope, folder.is_some_and(|name| name.ends_with("agents"))) {
        Form::Toml if !is_toml => Form::Groups,
        Form::Groups if is_toml && agent == Agent::Codex => Form::Toml,
        form => form,
    };
    let events = events(args, form).map_err(Failure::usage)?;
    let url = if args.http { Some(url(global, args)?) } else { None };
    if url.is_some() && !args.remove {
        for event in &events {
            notes.extend(agents::why_no_http(agent, event).map(|why| format!("a command asks on `{event}`: {why}")));
        }
    }
    Ok(Wish {
        agent,
        form,
        program: program(args).map_err(Failure::usage)?,
        events,
        url,
        options: options(global, args)?,
        deadline: args.deadline,
        is_fail_closed: args.on_unavailable != Some(OnUnavailable::Allow),
    })
}

/// The agent's own names of the events on which hookd is to be asked.
fn events(args: &InstallArgs, form: Form) -> Result<Vec<&'static str>, String> {
    let agent = args.agent;
    let usual = agents::events(agent, form);
    if args.events.is_empty() {
        return Ok(usual);
    }
    let mut chosen = Vec::new();
    for name in &args.events {
        let own = agent.events().find(|event| event == name && agents::has(agent, form, event));
        let found = match own {
            Some(own) => vec![own],
            None => usual.iter().copied().filter(|event| agent.event(event) == Some(name)).collect(),
        };
        if found.is_empty() {
            let known = agent.events().filter(|event| agents::has(agent, form, event)).collect::<Vec<_>>().join(", ");
            return Err(format!("{} has no event `{name}`, it has {known}", agent.name()));
        }
        chosen.extend(found);
    }
    // In the table's order, each once.
    let chosen = agent.events().filter(|event| chosen.contains(event)).collect::<Vec<_>>();
    match chosen.iter().find_map(|event| Some((event, agents::twin(agent, event).filter(|it| chosen.contains(it))?))) {
        Some((event, twin)) => Err(format!(
            "`{event}` and `{twin}` are fired for the same call, which would be asked about twice; take one"
        )),
        None => Ok(chosen),
    }
}

fn url(global: &Global, args: &InstallArgs) -> Result<String, Failure> {
    let agent = args.agent;
    if !agent.has_http_hooks() {
        return Err(Failure::usage(format!("{} has no http hooks", agent.name())));
    }
    let addresses = global.addresses()?.iter().map(ToString::to_string).collect::<Vec<_>>();
    let [address] = addresses.as_slice() else {
        return Err(Failure::usage("an http hook posts to one address, `--address` names several"));
    };
    let place = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    if place.starts_with("unix:") {
        return Err(Failure::usage(format!("an http hook cannot post to `{address}`, expected `host:port`")));
    }
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host).trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if agent == Agent::CopilotCli && !is_here {
        let message = format!("{} posts without TLS to this machine alone, not to `{place}`", agent.name());
        return Err(Failure::usage(message));
    }
    Ok(format!("http://{place}/v1/hooks/{}", agent.name()))
}

/// What the relay is told.
fn options(global: &Global, args: &InstallArgs) -> Result<Vec<String>, Failure> {
    let mut options = Vec::new();
    let mut put = |name: &str, value: String| options.extend([name.to_owned(), value]);
    // With neither the command nor a file saying it, HOOKD_ADDRESS would, and a repository can set that.
    let is_filed = global.address.is_none() && relay::names_addresses().map_err(Failure::failed)?;
    if !is_filed {
        let addresses = global.addresses()?.iter().map(ToString::to_string).collect::<Vec<_>>();
        put("--address", addresses.join(","));
    }
    match args.on_unavailable {
        Some(OnUnavailable::Allow) => put("--on-unavailable", "allow".to_owned()),
        Some(OnUnavailable::Block) => put("--on-unavailable", "block".to_owned()),
        None => {}
    }
    if args.take_over {
        takes_over(args).map_err(Failure::usage)?;
        put("--offer", "project,user,plugins".to_owned());
    }
    Ok(options)
}

/// # Errors
/// One line: the agent runs its other hook files itself, so hookd must not run them as well.
fn takes_over(args: &InstallArgs) -> Result<(), String> {
    let name = args.agent.name();
    if !relay::can_offer(args.agent) {
        return Err(format!("hookd does not read hook files of {name}, so it cannot run them in its place"));
    }
    if args.scope != Scope::Managed {
        return Err(format!(
            "{name} can leave its other hook files to hookd only in its managed settings (`--scope managed`, by \
             `{TAKES_OVER}`): what switches them off elsewhere (`disableAllHooks`) switches this entry off too"
        ));
    }
    if args.http {
        return Err("files of the caller's own are offered by `hookctl relay` alone, not by http hooks".to_owned());
    }
    Ok(())
}

/// The absolute path of the program that the entries start.
fn program(args: &InstallArgs) -> Result<String, String> {
    let path = match &args.program {
        Some(path) if path.is_absolute() => path.clone(),
        Some(path) => return Err(format!("`--program` is `{}`, expected an absolute path", path.display())),
        None => env::current_exe().map_err(|error| format!("where hookctl is is not known: {}", reason(&error)))?,
    };
    match path.to_str().filter(|text| !text.contains(char::is_control)) {
        Some(text) => Ok(text.to_owned()),
        None => {
            Err(format!("{path:?}: a path with such characters cannot stand in settings, name another by `--program`"))
        }
    }
}

/// Other files of the agent that ask hookd as well: hooks of all of them run, so each call would be asked about twice.
fn elsewhere(args: &InstallArgs, place: &Path) -> Vec<String> {
    let others = [Scope::Managed, Scope::User, Scope::Project].into_iter().filter(|scope| *scope != args.scope);
    let others = others.filter_map(|scope| target::place(args.agent, scope).ok()).filter(|other| other != place);
    others
        .filter(|other| asks(args.agent, other))
        .map(|other| format!("{} asks hookd too: with both, each call is asked about twice", other.display()))
        .collect()
}

/// Files of Claude Code that ask hookd and that this agent reads as well: it would ask as that agent too.
fn read_too(args: &InstallArgs) -> Vec<String> {
    let scopes: &[Scope] = match args.agent {
        Agent::CopilotCli => &[Scope::Project],
        Agent::VsCode => &[Scope::Project, Scope::User],
        _ => &[],
    };
    let files = scopes.iter().filter_map(|scope| target::place(Agent::ClaudeCode, *scope).ok());
    let name = args.agent.name();
    let note = |file: PathBuf| {
        let file = file.display();
        format!("{file} asks hookd as claude-code, and {name} runs those hooks too: keep the entries in one of the two")
    };
    files.filter(|file| asks(Agent::ClaudeCode, file)).map(note).collect()
}

fn asks(agent: Agent, file: &Path) -> bool {
    let files = if agent == Agent::Cline { vec![file.join("PreToolUse")] } else { vec![file.to_owned()] };
    let texts = files.iter().filter_map(|file| String::from_utf8(relay::read_any(file).ok()??.bytes).ok());
    texts.into_iter().any(|text| match hookd_json::parse(text.trim_start_matches('\u{feff}')) {
        Ok(settings) => {
            let mut found = Vec::new();
            settings::all_of(&settings, &mut found);
            found.contains(&agent)
        }
        Err(_) => text.lines().any(|line| line.contains(&format!("relay --agent {}", agent.name()))),
    })
}

/// Who can change the program of a hook decides what the hook says.
fn who_can_write(program: &str) -> Option<String> {
    let path = PathBuf::from(program);
    let places = [Some(path.as_path()), path.parent()].into_iter().flatten();
    let by_root = |path: &Path| match fs::metadata(path) {
        Ok(found) => found.uid() == 0 && found.mode() & 0o022 == 0,
        Err(_) => false,
    };
    let odd = places.into_iter().find(|place| !by_root(place))?;
    let odd = odd.display();
    Some(format!("{odd} is not there, or others than root can write it: whoever does decides what this hook says"))
}
