//! What the parts of other agents' handlers mean in native rules.

use std::time::Duration;

use hookd_agents::{Agent, v1::Capability};
use hookd_json::{Value, to_text};
use hookd_rules::javascript_pattern;

/// To which calls an event and a matcher narrow a rule.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Narrowed {
    /// A native matcher. Empty: all.
    pub(super) matcher: String,
    /// A native condition. Empty: none.
    pub(super) when: String,
    /// What the agent does otherwise than the file looks. Empty: nothing.
    pub(super) note: &'static str,
}

/// The kind of tool that an event of its own is about, at agents that have such events.
fn kinds(agent: Agent, event: &str) -> &'static [&'static str] {
    match (agent, event) {
        (Agent::Cursor, "beforeShellExecution" | "afterShellExecution")
        | (Agent::Windsurf, "pre_run_command" | "post_run_command") => &["shell"],
        (Agent::Cursor, "beforeMCPExecution" | "afterMCPExecution")
        | (Agent::Windsurf, "pre_mcp_tool_use" | "post_mcp_tool_use") => &["mcp"],
        (Agent::Cursor, "beforeReadFile" | "beforeTabFileRead")
        | (Agent::Windsurf, "pre_read_code" | "post_read_code") => &["read"],
        (Agent::Cursor, "afterFileEdit" | "afterTabFileEdit")
        | (Agent::Windsurf, "pre_write_code" | "post_write_code") => &["edit", "write"],
        _ => &[],
    }
}

/// The calls that a handler under `event` with `matcher` is for.
///
/// # Errors
/// Why a native rule cannot say it, or why the agent itself never runs such a handler.
pub(super) fn narrowed(agent: Agent, event: &str, matcher: Option<&Value>) -> Result<Narrowed, String> {
    let kinds = kinds(agent, event).iter().map(|kind| format!("toolKind == '{kind}'")).collect::<Vec<_>>();
    let mut narrowed = Narrowed { when: kinds.join(" || "), ..Narrowed::default() };
    let text = match matcher {
        None | Some(Value::Null) => return Ok(narrowed),
        Some(Value::String(text)) => text.as_str(),
        Some(other) => return Err(format!("`matcher` is {}, expected a string", to_text(other))),
    };
    let translated = || javascript_pattern(text).map_err(|why| format!("the matcher `{text}`: {why}"));
    match agent {
        Agent::Windsurf => {}
        Agent::VsCode => narrowed.note = "its matcher is not carried over: VS Code ignores it",
        Agent::Goose if text == "*" => {
            return Err("goose never runs it: its matcher `*` is no pattern there".to_owned());
        }
        Agent::Goose => text.clone_into(&mut narrowed.matcher),
        _ if matches!(text, "" | "*" | ".*") => {}
        Agent::CopilotCli => narrowed.matcher = format!("^(?:{})$", translated()?),
        Agent::GeminiCli | Agent::QwenCode if is_exact(agent, event) => {
            narrowed.matcher = format!("^{}$", escaped(text));
        }
        Agent::Cursor if kinds.first().is_some_and(|kind| kind.contains("shell")) => {
            let pattern = to_text(&Value::from(translated()?));
            narrowed.when = format!("{} && params.command.matches({pattern})", narrowed.when);
        }
        Agent::Cursor if !kinds.is_empty() => {
            return Err(format!("what the matcher `{text}` is tested on at `{event}` is not known"));
        }
        Agent::AmazonQ | Agent::Kiro if event.starts_with(|first: char| first.is_ascii_lowercase()) => {
            narrowed.matcher = glob(text)?;
        }
        _ => narrowed.matcher = translated()?,
    }
    Ok(narrowed)
}

/// Matchers of this event are whole texts, no patterns.
fn is_exact(agent: Agent, event: &str) -> bool {
    match agent {
        Agent::GeminiCli => !matches!(event, "BeforeTool" | "AfterTool"),
        _ => matches!(event, "Notification" | "PreCompact" | "PostCompact"),
    }
}

/// A matcher of Amazon Q: a name with `*` in it.
fn glob(text: &str) -> Result<String, String> {
    if text == "@builtin" {
        return Err("its matcher `@builtin` means tools that hookd has no list of".to_owned());
    }
    let is_server = text.starts_with('@') && !text.contains('/');
    let parts = text.split('*').map(escaped).collect::<Vec<_>>().join(".*");
    Ok(format!("^{parts}{}$", if is_server { "/.*" } else { "" }))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if !char.is_alphanumeric() && char != '_' {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// What the agent's handlers read and say is what Claude Code's do.
pub(super) fn speaks_claude_code(agent: Agent) -> bool {
    matches!(agent, Agent::QwenCode | Agent::VsCode | Agent::Goose)
}

/// What a handler says on this event counts at the agent, be it a decision or a rewrite.
pub(super) fn is_heard(agent: Agent, event: &str) -> bool {
    let decides = |can: &Capability| {
        matches!(
            can,
            Capability::Block
                | Capability::Ask
                | Capability::ForceContinue
                | Capability::ModifyParams
                | Capability::ModifyResult
        )
    };
    agent.can(event).iter().any(decides)
}

/// How long a handler may run: as it says, or as the agent has it.
///
/// # Errors
/// It says no time.
pub(super) fn timeout(agent: Agent, event: &str, handler: &Value) -> Result<Duration, String> {
    let is_http = handler.get("type").and_then(Value::as_str) == Some("http");
    let keys: &[&str] = match agent {
        Agent::CopilotCli => &["timeoutSec", "timeout"],
        Agent::AmazonQ => &["timeout_ms"],
        Agent::Kiro => &["timeout_ms", "timeout"],
        _ => &["timeout"],
    };
    let Some((key, value)) = keys.iter().find_map(|key| Some((*key, handler.get(*key)?))) else {
        return Ok(agent.time_limit(event));
    };
    let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    let number = number.ok_or_else(|| format!("`{key}` is {}, expected a number above 0", to_text(value)))?;
    if agent == Agent::Kiro && number == 0.0 {
        // None at all; hookd has a ceiling of its own.
        return Ok(agent.time_limit(event));
    }
    let is_millis = key == "timeout_ms" || matches!(agent, Agent::GeminiCli | Agent::QwenCode) && !is_http;
    let seconds = if is_millis { number / 1000.0 } else { number };
    let longest = Duration::from_secs(86_400);
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(longest).min(longest);
    if time.is_zero() {
        return Err(format!("`{key}` is {}, expected a number above 0", to_text(value)));
    }
    Ok(time.max(Duration::from_millis(1)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_and_matchers_narrow_to_the_same_calls() {
        for (agent, event, matcher, expected, when) in [
            (Agent::CopilotCli, "preToolUse", Some("bash|edit"), "^(?:bash|edit)$", ""),
            (Agent::CopilotCli, "preToolUse", Some("*"), "", ""),
            (Agent::GeminiCli, "BeforeTool", Some("write_.*"), "write_.*", ""),
            (Agent::GeminiCli, "SessionStart", Some("a.b"), r"^a\.b$", ""),
            (Agent::QwenCode, "PreCompact", Some("auto"), "^auto$", ""),
            (Agent::Cursor, "preToolUse", Some("Shell"), "Shell", ""),
            (
                Agent::Cursor,
                "beforeShellExecution",
                Some("rm -rf \"x\""),
                "",
                r#"toolKind == 'shell' && params.command.matches("rm -rf \"x\"")"#,
            ),
            (Agent::Cursor, "afterFileEdit", None, "", "toolKind == 'edit' || toolKind == 'write'"),
            (Agent::Windsurf, "pre_mcp_tool_use", None, "", "toolKind == 'mcp'"),
            (Agent::Goose, "PreToolUse", Some("developer__shell"), "developer__shell", ""),
            (Agent::AmazonQ, "preToolUse", Some("fs_*"), "^fs_.*$", ""),
            (Agent::AmazonQ, "preToolUse", Some("@git"), r"^\@git/.*$", ""),
            (Agent::Kiro, "PreToolUse", Some(r"fs_\d"), "fs_[0-9]", ""),
        ] {
            let matcher = matcher.map(Value::from);
            let narrowed = narrowed(agent, event, matcher.as_ref()).unwrap();
            let found = (narrowed.matcher.as_str(), narrowed.when.as_str());
            assert_eq!(found, (expected, when), "{} {event} {matcher:?}", agent.name());
        }
        for (agent, event, matcher, why) in [
            (Agent::Goose, "PreToolUse", json!("*"), "goose never runs it: its matcher `*` is no pattern there"),
            (
                Agent::CopilotCli,
                "preToolUse",
                json!({ "toolName": "bash" }),
                "`matcher` is {\"toolName\":\"bash\"}, expected a string",
            ),
            (
                Agent::Cursor,
                "beforeReadFile",
                json!("x"),
                "what the matcher `x` is tested on at `beforeReadFile` is not known",
            ),
            (
                Agent::AmazonQ,
                "preToolUse",
                json!("@builtin"),
                "its matcher `@builtin` means tools that hookd has no list of",
            ),
        ] {
            assert_eq!(narrowed(agent, event, Some(&matcher)), Err(why.to_owned()));
        }
        assert!(narrowed(Agent::Cursor, "preToolUse", Some(&json!("(?!a)"))).unwrap_err().contains("look-around"));
    }

    #[test]
    fn times_are_in_the_agents_unit() {
        for (agent, handler, millis) in [
            (Agent::CopilotCli, json!({ "timeoutSec": 5 }), 5_000),
            (Agent::CopilotCli, json!({ "timeout": 15 }), 15_000),
            (Agent::GeminiCli, json!({ "timeout": 1500 }), 1_500),
            (Agent::QwenCode, json!({ "type": "command", "timeout": 1500 }), 1_500),
            (Agent::QwenCode, json!({ "type": "http", "timeout": 15 }), 15_000),
            (Agent::AmazonQ, json!({ "timeout_ms": 100 }), 100),
            (Agent::Kiro, json!({ "timeout": 0 }), 60_000),
            (Agent::Cursor, json!({}), 30_000),
            (Agent::Cursor, json!({ "timeout": 1e300 }), 86_400_000),
        ] {
            assert_eq!(timeout(agent, "X", &handler), Ok(Duration::from_millis(millis)), "{} {handler}", agent.name());
        }
        for value in [json!(0), json!(-1), json!("5")] {
            let why = format!("`timeout` is {value}, expected a number above 0");
            assert_eq!(timeout(Agent::Cursor, "X", &json!({ "timeout": value })), Err(why));
        }
    }
}
