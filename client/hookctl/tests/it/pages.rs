//! The pages under `deploy/agents/`: what stands there is what `install` writes into an empty file.

use std::{fs, path::Path};

use hookd_agents::Agent;
use tempfile::TempDir;

use crate::hookctl;

/// The file, and what else is on the command line, for each block of an agent's page, in order. `None`: it is written by
/// hand, and the page says so.
fn blocks(agent: Agent) -> &'static [Option<(&'static str, &'static [&'static str])>] {
    match agent {
        Agent::ClaudeCode => &[
            Some(("settings.json", &["--scope", "managed"])),
            Some(("settings.json", &["--http", "--events", "UserPromptSubmit,PreToolUse,PostToolUse,Stop"])),
        ],
        Agent::Codex => &[Some(("requirements.toml", &["--scope", "managed"])), Some(("hooks.json", &[]))],
        // Keys in camelCase, whose payloads do not say their event.
        Agent::CopilotCli => {
            &[Some(("hookd.json", &[])), None, Some(("hookd.json", &["--http", "--events", "PostToolUse"]))]
        }
        Agent::QwenCode => {
            &[Some(("settings.json", &[])), Some(("settings.json", &["--http", "--events", "PostToolUse,Stop"]))]
        }
        Agent::GeminiCli | Agent::FactoryDroid => &[Some(("settings.json", &[]))],
        Agent::Cursor | Agent::Windsurf | Agent::Goose => &[Some(("hooks.json", &[]))],
        Agent::VsCode => &[Some(("hookd.json", &[]))],
        Agent::Cline => &[Some(("hooks/PreToolUse", &[])), Some(("hooks/PostToolUse", &[]))],
        Agent::AmazonQ => &[Some(("cli-agents/default.json", &[]))],
        Agent::Kiro => &[Some(("agents/default.json", &[])), Some(("hooks/hookd.json", &[]))],
    }
}

fn pages() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/agents"))
}

#[test]
fn pages_show_what_install_writes() {
    for agent in Agent::ALL {
        let page = fs::read_to_string(pages().join(format!("{}.md", agent.name()))).unwrap();
        let shown = page.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap().1);
        let shown = shown.collect::<Vec<_>>();
        assert_eq!(shown.len(), blocks(agent).len(), "blocks of {}", agent.name());
        for (shown, made) in shown.into_iter().zip(blocks(agent)) {
            let Some((file, args)) = made else { continue };
            let home = TempDir::new().unwrap();
            let file = home.path().join(file);
            let target = if agent == Agent::Cline { file.parent().unwrap() } else { &file };
            let target = target.to_str().unwrap();
            let program = ["install", agent.name(), "--program", "/usr/local/bin/hookctl", "--file", target, "--write"];
            let all = [&program[..], args].concat();
            let ran = hookctl(home.path(), &[("HOME", home.path().to_str().unwrap())], &all, "");
            assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{}", agent.name());
            assert_eq!(shown, fs::read_to_string(&file).unwrap(), "{} {args:?}", agent.name());
        }
    }
}

#[test]
fn every_page_stands_in_the_list() {
    let list = fs::read_to_string(pages().join("README.md")).unwrap();
    for agent in Agent::ALL {
        let link = format!("({}.md)", agent.name());
        assert_eq!(list.matches(&link).count(), 1, "{link}");
    }
    let beside = list.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let beside = beside.filter(|(link, _)| link.ends_with(".md") && !link.contains('/'));
    assert_eq!(beside.count(), Agent::ALL.len());
}
