//! Whose hook file it is: by the folder that it lies in, or else by what is in it.

use std::path::{Component, Path};

use hookd_agents::Agent;
use hookd_json::{Map, Value};

/// Folders by which a file is known.
const FOLDERS: [(&str, Agent); 16] = [
    (".agents", Agent::Goose),
    (".amazonq", Agent::AmazonQ),
    (".aws", Agent::AmazonQ),
    (".claude", Agent::ClaudeCode),
    (".claude-plugin", Agent::ClaudeCode),
    (".codeium", Agent::Windsurf),
    (".codex", Agent::Codex),
    (".copilot", Agent::CopilotCli),
    (".cursor", Agent::Cursor),
    (".factory", Agent::FactoryDroid),
    (".gemini", Agent::GeminiCli),
    (".github", Agent::CopilotCli),
    (".kiro", Agent::Kiro),
    (".qwen", Agent::QwenCode),
    (".windsurf", Agent::Windsurf),
    ("policy.d", Agent::CopilotCli),
];

/// So many folders around a file say whose it is: as far as goose's are above theirs.
const NEAR: usize = 4;

/// Keys of handlers that one agent alone has.
const KEYS: [(&str, Agent); 8] = [
    ("bash", Agent::CopilotCli),
    ("powershell", Agent::CopilotCli),
    ("timeoutSec", Agent::CopilotCli),
    ("failClosed", Agent::Cursor),
    ("loop_limit", Agent::Cursor),
    ("timeout_ms", Agent::AmazonQ),
    ("on_failure", Agent::Goose),
    ("failMode", Agent::QwenCode),
];

/// The agent whose hook file `file` at `path` is.
///
/// # Errors
/// One line: it is none's, or could be that of several.
pub(super) fn of(path: &Path, file: &Value) -> Result<Agent, String> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folders = absolute.components().rev().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let near = folders.skip(1).take(NEAR);
    let by_folder = near.filter_map(|name| FOLDERS.iter().find(|(folder, _)| *folder == name)).next();
    if let Some((_, agent)) = by_folder {
        return Ok(*agent);
    }
    match file.get("hooks") {
        Some(Value::Array(hooks)) if hooks.iter().any(|hook| hook.get("trigger").is_some()) => Ok(Agent::Kiro),
        Some(Value::Array(_)) => Err("it is a file of native rules already, or no agent's that is known".to_owned()),
        Some(Value::Object(hooks)) => by_hooks(hooks, file.get("version").is_some()),
        _ => Err("it has no `hooks`".to_owned()),
    }
}

fn by_hooks(hooks: &Map<String, Value>, has_version: bool) -> Result<Agent, String> {
    let entries = hooks.values().filter_map(Value::as_array).flatten().collect::<Vec<_>>();
    let inner = entries.iter().filter_map(|entry| entry.get("hooks")?.as_array()).flatten();
    for (key, agent) in KEYS {
        if entries.iter().copied().chain(inner.clone()).any(|handler| handler.get(key).is_some()) {
            return Ok(agent);
        }
    }
    let flat = !entries.is_empty() && entries.iter().all(|entry| entry.get("hooks").is_none());
    let candidates = if flat && has_version {
        vec![Agent::Cursor, Agent::CopilotCli]
    } else if flat {
        vec![Agent::Windsurf, Agent::AmazonQ, Agent::Cursor, Agent::ClaudeCode, Agent::CopilotCli]
    } else {
        vec![Agent::ClaudeCode, Agent::GeminiCli]
    };
    let events = hooks.iter().filter(|(_, value)| value.is_array()).map(|(event, _)| event).collect::<Vec<_>>();
    let known = |agent: &Agent| events.iter().filter(|event| agent.event(event).is_some()).count();
    let most = candidates.iter().map(known).max().unwrap_or_default();
    let mut best = candidates.iter().copied().filter(|agent| known(agent) == most);
    match (best.next(), best.next()) {
        // What nobody knows may still be of Claude Code, whose events grow in number.
        (Some(agent), None) => Ok(agent),
        (Some(Agent::ClaudeCode), Some(_)) if !flat => Ok(Agent::ClaudeCode),
        (Some(one), Some(other)) => {
            Err(format!("it may be of {} or of {}, say whose it is with `--agent`", one.name(), other.name()))
        }
        (None, _) => Err("it is of no agent that is known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_known_by_its_folder_or_its_form() {
        let of = |path: &str, file: Value| of(Path::new(path), &file);
        assert_eq!(of("/p/.gemini/settings.json", json!({})), Ok(Agent::GeminiCli));
        assert_eq!(of("/home/.cursor/p/.claude/settings.json", json!({})), Ok(Agent::ClaudeCode));
        assert_eq!(of("/p/.agents/plugins/x/hooks/hooks.json", json!({})), Ok(Agent::Goose));
        assert!(of("/p/.cursor/a/b/c/d/x.json", json!({})).is_err());
        let hooks = |hooks: Value| json!({ "hooks": hooks });
        let versioned = |hooks: Value| json!({ "version": 1, "hooks": hooks });
        let handler = || json!([{ "command": "x" }]);
        let group = || json!([{ "hooks": [{ "type": "command", "command": "x" }] }]);
        for (file, agent) in [
            (hooks(json!({ "PreToolUse": group() })), Agent::ClaudeCode),
            (hooks(json!({ "BeforeTool": group(), "enabled": true })), Agent::GeminiCli),
            (hooks(json!({ "pre_run_command": handler() })), Agent::Windsurf),
            (hooks(json!({ "agentSpawn": handler() })), Agent::AmazonQ),
            (hooks(json!([{ "trigger": "Stop" }])), Agent::Kiro),
            (versioned(json!({ "preToolUse": handler(), "beforeReadFile": handler() })), Agent::Cursor),
            (versioned(json!({ "PreToolUse": handler() })), Agent::CopilotCli),
            (versioned(json!({ "preToolUse": [{ "bash": "x" }] })), Agent::CopilotCli),
            (hooks(json!({ "Stop": [{ "hooks": [{ "command": "x", "on_failure": "block" }] }] })), Agent::Goose),
        ] {
            assert_eq!(of("/p/x.json", file.clone()), Ok(agent), "{file}");
        }
        for (file, why) in [
            (json!({}), "it has no `hooks`"),
            (hooks(json!([])), "it is a file of native rules already, or no agent's that is known"),
            (
                versioned(json!({ "preToolUse": handler() })),
                "it may be of cursor or of copilot-cli, say whose it is with `--agent`",
            ),
        ] {
            assert_eq!(of("/p/x.json", file), Err(why.to_owned()));
        }
    }
}
