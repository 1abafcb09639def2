//! The pages under `deploy/agents/`: what they tell people to write is what the agents and the translators know.

#![allow(missing_docs, reason = "a test")]

use std::{fs, path::Path};

use hookd_agents::Agent;
use hookd_json::Value;

/// The fenced blocks of an agent's page: language and text.
fn blocks(agent: Agent) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/agents/{}.md", agent.name()));
    let page = fs::read_to_string(&path).unwrap_or_default();
    let mut parts = page.split("```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap_or_default();
        blocks.push((language.to_owned(), text.to_owned()));
    }
    blocks
}

/// Every text in a JSON value, those of a list of arguments joined.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) if items.iter().all(Value::is_string) => {
            vec![items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")]
        }
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(map) => map.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The words after `option` in a command.
fn option<'a>(command: &'a str, option: &str) -> Option<&'a str> {
    let mut words = command.split_whitespace();
    words.find(|word| *word == option).and(words.next())
}

fn check_command(agent: Agent, command: &str, event: Option<&str>) {
    assert_eq!(option(command, "--agent"), Some(agent.name()), "{}: {command}", agent.name());
    let said = option(command, "--event").unwrap_or_default();
    assert!(agent.event(said).is_some(), "{} has no event {said:?}: {command}", agent.name());
    assert!(event.is_none_or(|event| said == event), "{}: {command} under {event:?}", agent.name());
}

#[test]
fn every_agent_has_a_page_with_settings() {
    for agent in Agent::ALL {
        let blocks = blocks(agent);
        assert!(!blocks.is_empty(), "{} has no page, or no settings on it", agent.name());
        for (language, _) in &blocks {
            assert!(["json", "toml", "sh"].contains(&language.as_str()), "{}: a block in {language:?}", agent.name());
        }
    }
}

#[test]
fn settings_name_their_own_agent_and_its_events() {
    for agent in Agent::ALL {
        for (language, text) in blocks(agent) {
            if language != "json" {
                for line in text.lines().filter(|line| line.contains("relay ")) {
                    check_command(agent, &line.replace('"', " "), None);
                }
                continue;
            }
            let settings = hookd_json::parse(&text).unwrap();
            let hooks = settings.get("hooks").unwrap();
            let entries = match hooks {
                Value::Object(events) => {
                    events.iter().map(|(event, entry)| (event.as_str(), entry)).collect::<Vec<_>>()
                }
                Value::Array(hooks) => {
                    hooks.iter().map(|hook| (hook.get("trigger").and_then(Value::as_str).unwrap(), hook)).collect()
                }
                other => vec![("no hooks", other)],
            };
            for (event, entry) in entries {
                let texts = texts(entry);
                let commands = texts.iter().filter(|text| text.contains("relay "));
                let urls = texts.iter().filter(|text| text.contains("://"));
                let mut calls = 0;
                for command in commands {
                    check_command(agent, command, Some(event));
                    calls += 1;
                }
                for url in urls {
                    assert!(agent.has_http_hooks(), "{} has no http hooks", agent.name());
                    assert_eq!(*url, format!("http://127.0.0.1:50051/v1/hooks/{}?event={event}", agent.name()));
                    assert!(agent.event(event).is_some(), "{} has no event {event}", agent.name());
                    calls += 1;
                }
                assert_eq!(calls, 1, "{} {event}: {texts:?}", agent.name());
            }
        }
    }
}
