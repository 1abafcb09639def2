//! What stands in an agent's file for hookd: one entry per event.

use std::time::Duration;

use hookd_agents::Agent;
use hookd_json::{Map, Value};
use serde_json::json;

use crate::install::agents::{self, Form, Handler, Program, Unit};

/// What is to stand in the file.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) agent: Agent,
    pub(super) form: Form,
    /// Absolute path of `hookctl`.
    pub(super) program: String,
    /// The agent's own names.
    pub(super) events: Vec<&'static str>,
    /// Where http hooks post to. `None`: all hooks are commands.
    pub(super) url: Option<String>,
    /// What follows `relay --agent NAME --event NAME`.
    pub(super) options: Vec<String>,
    /// `--deadline`, with how it was written.
    pub(super) deadline: Option<Duration>,
    /// A hook that fails blocks, where the agent has a switch for it.
    pub(super) is_fail_closed: bool,
}

/// Events with a shorter limit than this keep the relay's own deadline: the agent gives them no more.
const SHORT: Duration = Duration::from_secs(10);

impl Wish {
    /// The entries, with their events.
    pub(super) fn entries(&self) -> Vec<(&'static str, Value)> {
        self.events.iter().map(|event| (*event, self.entry(event))).collect()
    }

    /// The words of the command that asks on `event`. They name it: not every input does, and of one that is late or broken
    /// nothing else tells what its safe side is.
    pub(super) fn words(&self, event: &str) -> Vec<String> {
        let mut words = ["relay", "--agent", self.agent.name(), "--event", event].map(str::to_owned).to_vec();
        words.extend(self.options.iter().cloned());
        if let Some(deadline) = self.deadline.filter(|_| self.agent.time_limit(event) >= SHORT) {
            words.extend(["--deadline".to_owned(), humantime::format_duration(deadline).to_string().replace(' ', "")]);
        }
        words
    }

    /// The command that asks on `event`, for a shell.
    pub(super) fn line(&self, event: &str) -> String {
        let words = std::iter::once(self.program.clone()).chain(self.words(event));
        words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
    }

    fn entry(&self, event: &str) -> Value {
        let shape = agents::handler(self.agent, self.form);
        let mut handler = self.handler(shape, event);
        let is_of_a_tool = shape.has_matcher && agents::is_of_a_tool(self.agent, event);
        match self.form {
            Form::Groups | Form::Toml => {
                let mut group = Map::new();
                if is_of_a_tool {
                    group.insert("matcher".to_owned(), json!("*"));
                }
                group.insert("hooks".to_owned(), json!([handler]));
                group.into()
            }
            Form::Triggers => {
                let timeout = handler.remove("timeout").unwrap_or_default();
                json!({
                    "name": format!("hookd-{event}"),
                    "trigger": event,
                    "action": handler,
                    "timeout": timeout,
                    "enabled": true,
                })
            }
            Form::Handlers | Form::Programs if is_of_a_tool => {
                let mut all = Map::from_iter([("matcher".to_owned(), json!("*"))]);
                all.extend(handler);
                all.into()
            }
            Form::Handlers | Form::Programs => handler.into(),
        }
    }

    fn handler(&self, shape: Handler, event: &str) -> Map<String, Value> {
        let mut handler = Map::new();
        let mut put = |key: &str, value: Value| handler.insert(key.to_owned(), value);
        let url = self.url.as_ref().filter(|_| agents::why_no_http(self.agent, event).is_none());
        if shape.has_type {
            put("type", json!(if url.is_some() { "http" } else { "command" }));
        }
        match (url, shape.program) {
            (Some(url), _) => {
                let more = if url.contains('?') { '&' } else { '?' };
                put("url", json!(format!("{url}{more}event={event}")));
            }
            (None, Program::Line) => {
                put("command", json!(self.line(event)));
            }
            (None, Program::Words(key)) => {
                put(key, json!(self.program));
                put("args", json!(self.words(event)));
            }
        }
        if let Some((key, unit)) = shape.timeout {
            // Qwen Code counts those of http hooks in seconds, whatever it counts those of commands in.
            let unit = if url.is_some() { Unit::Seconds } else { unit };
            put(key, self.timeout(event, unit));
        }
        let has_switch = |only: Option<&str>| only.is_none_or(|only| only == event);
        let is_guard = self.is_fail_closed && agents::is_guard(self.agent, event);
        if let Some((key, value, _)) = shape.fail_closed.filter(|(.., only)| is_guard && has_switch(*only)) {
            put(key, hookd_json::parse(value).unwrap_or_default());
        }
        handler
    }

    /// The agent's own limit, written down: the relay's deadline is four fifths of it at most, whatever its file says.
    /// More where the command names a deadline that needs it.
    fn timeout(&self, event: &str, unit: Unit) -> Value {
        let limit = self.agent.time_limit(event);
        let deadline = self.deadline.filter(|_| limit >= SHORT).unwrap_or_default();
        let needed = deadline.saturating_add(deadline.checked_div(4).unwrap_or_default());
        let limit = limit.max(needed);
        let seconds = if limit.subsec_nanos() > 0 { limit.as_secs().saturating_add(1) } else { limit.as_secs() };
        match unit {
            Unit::Seconds => json!(seconds),
            Unit::Millis => json!(seconds.saturating_mul(1000)),
        }
    }
}

/// Whom a handler asks hookd as, if it is one that `hookctl install` writes.
pub(super) fn asks_as(handler: &Value) -> Option<Agent> {
    if let Some(url) = handler.get("url").and_then(Value::as_str) {
        let (place, name) = url.split_once("/v1/hooks/")?;
        let name = name.split('?').next().unwrap_or_default();
        return Agent::from_name(name).filter(|_| place.starts_with("http://"));
    }
    let args = handler.get("args").and_then(Value::as_array);
    if let Some(args) = args.filter(|_| handler.get("exec").or_else(|| handler.get("command")).is_some()) {
        let args = args.iter().map(Value::as_str).collect::<Option<Vec<_>>>()?;
        return of_words(&args);
    }
    let line = [handler, handler.get("action").unwrap_or(&Value::Null)].into_iter().find_map(|it| {
        let line = it.get("command").or_else(|| it.get("bash"))?;
        line.as_str()
    })?;
    of_line(line)
}

/// Whom a command line asks hookd as.
pub(super) fn of_line(line: &str) -> Option<Agent> {
    let mut quote = None;
    let mut is_escaped = false;
    let end = line.find(|char: char| {
        match (quote, char) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), close) if open == close => quote = None,
            (None, char) => return char.is_whitespace(),
            (Some(_), _) => {}
        }
        false
    })?;
    let words = line.get(end..)?.split_whitespace().collect::<Vec<_>>();
    of_words(&words)
}

fn of_words(words: &[&str]) -> Option<Agent> {
    match words {
        ["relay", "--agent", name, ..] => Agent::from_name(name),
        _ => None,
    }
}

/// A word that a POSIX shell reads as what it is.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_@%+=:,./-".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_install_writes_is_known_again_and_nothing_else_is() {
        for (handler, agent) in [
            (json!({ "command": "/usr/bin/hookctl relay --agent cursor --offer user" }), Some(Agent::Cursor)),
            (json!({ "bash": "hookctl relay --agent copilot-cli" }), Some(Agent::CopilotCli)),
            (json!({ "command": "'/a b/it'\\''s' relay --agent goose" }), Some(Agent::Goose)),
            (json!({ "command": "\"/a b/h\" relay --agent goose" }), Some(Agent::Goose)),
            (json!({ "command": "h", "args": ["relay", "--agent", "claude-code"] }), Some(Agent::ClaudeCode)),
            (json!({ "action": { "command": "h relay --agent kiro --event Stop" } }), Some(Agent::Kiro)),
            (json!({ "url": "http://h:1/v1/hooks/qwen-code" }), Some(Agent::QwenCode)),
            (json!({ "url": "http://h:1/v1/hooks/claude-code?on_unavailable=allow" }), Some(Agent::ClaudeCode)),
            (json!({ "url": "https://h:1/v1/hooks/qwen-code" }), None),
            (json!({ "url": "http://h:1/v1/hooks/qwen-code/x" }), None),
            (json!({ "command": "h relay --agent nobody" }), None),
            (json!({ "command": "cd x && h relay --agent cursor" }), None),
            (json!({ "command": "h", "args": ["check"] }), None),
            (json!({ "command": "hookctl check" }), None),
            (json!({ "command": ["relay"] }), None),
            (json!("h relay --agent cursor"), None),
        ] {
            assert_eq!(asks_as(&handler), agent, "{handler}");
        }
    }

    #[test]
    fn the_relay_has_answered_before_the_agents_limit() {
        for agent in Agent::ALL {
            for form in [Form::Groups, Form::Handlers, Form::Triggers] {
                for seconds in [None, Some(90)] {
                    let deadline = seconds.map(Duration::from_secs);
                    let wish = Wish {
                        agent,
                        form,
                        program: "/h".to_owned(),
                        events: agents::events(agent, form),
                        url: None,
                        options: Vec::new(),
                        deadline,
                        is_fail_closed: true,
                    };
                    let Some((key, unit)) = agents::handler(agent, form).timeout else { continue };
                    for event in &wish.events {
                        let limit = wish.handler(agents::handler(agent, form), event).remove(key).unwrap();
                        let limit = limit.as_u64().unwrap();
                        let limit = if unit == Unit::Millis { limit } else { limit * 1000 };
                        let is_named = wish.words(event).contains(&"--deadline".to_owned());
                        let own = agent.time_limit(event).as_millis() as u64 * 4 / 5;
                        let relay = if is_named { 90_000 } else { own };
                        assert!(limit * 4 / 5 >= relay, "{} {event}: {limit} ms for {relay} ms", agent.name());
                        assert_eq!(is_named, deadline.is_some() && own > 8_000 - 1, "{} {event}", agent.name());
                    }
                }
            }
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell_where_they_need_to_be() {
        for (word, shown) in [("/usr/bin/h-1", "/usr/bin/h-1"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")] {
            assert_eq!(quoted(word), shown);
        }
    }
}
