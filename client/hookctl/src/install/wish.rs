//! From the command line to what is to stand in the file.

use std::{env, net::IpAddr, path::Path};

use hookd_agents::Agent;
use hookd_json::Value;

use crate::{
    args::{Global, InstallArgs, OnUnavailable, Scope, by_option},
    install::{
        agents::{self, Form},
        entry::Wish,
        settings::TAKES_OVER,
    },
    owned, relay,
    report::{Failure, reason},
};

/// What is to stand in the file at `place`.
pub(super) fn wish(
    global: &Global,
    args: &InstallArgs,
    place: &Path,
    notes: &mut Vec<String>,
) -> Result<Wish, Failure> {
    let agent = args.agent;
    let folder = place.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let is_toml = place.extension().is_some_and(|extension| extension == "toml");
    let form = match agents::form(agent, args.scope, folder.is_some_and(|name| name.ends_with("agents"))) {
        Form::Toml if !is_toml => Form::Groups,
        Form::Groups if is_toml && agent == Agent::Codex => Form::Toml,
        form => form,
    };
    let events = events(args, form).map_err(Failure::usage)?;
    let url = if args.http { Some(url(global, args, notes)?) } else { None };
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
        options: options(global, args, place, notes)?,
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

fn url(global: &Global, args: &InstallArgs, notes: &mut Vec<String>) -> Result<String, Failure> {
    let agent = args.agent;
    if !agent.has_http_hooks() {
        return Err(Failure::usage(format!("{} has no http hooks", agent.name())));
    }
    let addresses = global.addresses()?.iter().map(ToString::to_string).collect::<Vec<_>>();
    let [address] = addresses.as_slice() else {
        return Err(Failure::usage("an http hook posts to one address, `--address` names several"));
    };
    if let Some((option, _)) = by_option(&global.credentials.or_environment()).next().filter(|_| !args.remove) {
        let message = format!(
            "an http hook shows hookd no credentials, but `{option}` or its variable is set; leave out `--http`"
        );
        return Err(Failure::usage(message));
    }
    let place = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    if place.starts_with("unix:") || place.starts_with("https:") {
        return Err(Failure::usage(format!("an http hook cannot post to `{address}`, expected `host:port`")));
    }
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host).trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if agent == Agent::CopilotCli && !is_here {
        let message = format!("{} posts without TLS to this machine alone, not to `{place}`", agent.name());
        return Err(Failure::usage(message));
    }
    if !is_here && !args.remove {
        notes.push(format!("hookd answers under the name `{host}` only where it listens on that address or its setting `hosts` names it"));
    }
    let policy = match args.on_unavailable {
        Some(OnUnavailable::Allow) => "?on_unavailable=allow",
        Some(OnUnavailable::Block) => "?on_unavailable=block",
        None => "",
    };
    Ok(format!("http://{place}/v1/hooks/{}{policy}", agent.name()))
}

/// What the relay is told.
fn options(global: &Global, args: &InstallArgs, place: &Path, notes: &mut Vec<String>) -> Result<Vec<String>, Failure> {
    let mut options = Vec::new();
    let mut put = |name: &str, value: String| options.extend([name.to_owned(), value]);
    // With neither the command nor a file saying it, HOOKD_ADDRESS would, and a repository can set that.
    let is_filed = global.address.is_none() && relay::names_addresses().map_err(Failure::failed)?;
    if !is_filed {
        let addresses = global.addresses()?.iter().map(ToString::to_string).collect::<Vec<_>>();
        put("--address", addresses.join(","));
    }
    let credentials = global.credentials_of_entry(is_filed);
    if !is_filed {
        credentials.check(&global.addresses()?).map_err(|error| Failure::usage(error.to_string()))?;
    }
    for (option, file) in by_option(&credentials) {
        put(option, absolute(file).map_err(Failure::usage)?);
    }
    match args.on_unavailable {
        Some(OnUnavailable::Allow) => put("--on-unavailable", "allow".to_owned()),
        Some(OnUnavailable::Block) => put("--on-unavailable", "block".to_owned()),
        None => {}
    }
    if args.take_over {
        takes_over(args).map_err(Failure::usage)?;
        let forces = forces_plugins(place);
        if forces && !args.remove {
            notes.push(
                "plugins' hooks are not offered: `enabledPlugins` of this file lets the agent run some itself"
                    .to_owned(),
            );
        }
        put("--offer", if forces { "project,user" } else { "project,user,plugins" }.to_owned());
    }
    Ok(options)
}

/// The path of a file as it can stand in settings, wherever the agent runs.
fn absolute(file: &Path) -> Result<String, String> {
    let path = std::path::absolute(file).map_err(|error| format!("{}: {}", file.display(), reason(&error)))?;
    match path.to_str().filter(|text| !text.contains(char::is_control)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("{path:?}: a path with such characters cannot stand in settings")),
    }
}

/// Whether the managed settings at `place` switch plugins on: the agent runs the hooks of these in any case.
fn forces_plugins(place: &Path) -> bool {
    let text = owned::read_any(place).ok().flatten().and_then(|read| String::from_utf8(read.bytes).ok());
    let settings = text.and_then(|text| hookd_json::parse(text.trim_start_matches('\u{feff}')).ok());
    let plugins = settings.as_ref().and_then(|settings| settings.get("enabledPlugins"));
    plugins.and_then(Value::as_object).is_some_and(|plugins| plugins.values().any(|on| *on != Value::Bool(false)))
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
