//! What a person should know besides the difference.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use hookd_agents::Agent;

use crate::{
    args::{InstallArgs, Scope},
    install::{settings, target},
    owned,
};

/// Other files of the agent that ask hookd as well: hooks of all of them run, so each call would be asked about twice.
pub(super) fn elsewhere(args: &InstallArgs, place: &Path) -> Vec<String> {
    let others = [Scope::Managed, Scope::User, Scope::Project].into_iter().filter(|scope| *scope != args.scope);
    let others = others.filter_map(|scope| target::place(args.agent, scope).ok()).filter(|other| other != place);
    others
        .filter(|other| asks(args.agent, other))
        .map(|other| format!("{} asks hookd too: with both, each call is asked about twice", other.display()))
        .collect()
}

/// Files of Claude Code that ask hookd and that this agent reads as well: it would ask as that agent too.
pub(super) fn read_too(args: &InstallArgs) -> Vec<String> {
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
    let texts = files.iter().filter_map(|file| String::from_utf8(owned::read_any(file).ok()??.bytes).ok());
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
pub(super) fn who_can_write(program: &str) -> Option<String> {
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
