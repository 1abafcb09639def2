//! Hook files of agents whose form is not Claude Code's, or whose words mean something else there.

use std::{path::Path, time::Duration};

use hookd_agents::Agent;
use hookd_json::{Kind, Map, Value, to_text};
use hookd_rules::{Event, UnknownEvent};
use serde_json::json;

use crate::import::{
    Imported,
    dialect::{is_heard, narrowed, speaks_claude_code, timeout},
};

/// As long as the id of a rule may be.
const LONGEST_ID: usize = 128;

/// Keys that say nothing about what runs.
const SILENT: [&str; 11] = [
    "type",
    "name",
    "description",
    "comment",
    "statusMessage",
    "show_output",
    "sequential",
    "hooks",
    "trigger",
    "action",
    "enabled",
];

/// A handler, and where it stands.
struct Site<'v> {
    agent: Agent,
    id: String,
    event: &'v str,
    matcher: Option<&'v Value>,
    handler: &'v Value,
}

/// The rules that the hooks in `file`, which is `agent`'s, are.
///
/// # Errors
/// One line: nothing can be made of it.
pub(super) fn import(agent: Agent, path: &Path, file: &Value) -> Result<Imported, String> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut imported = Imported::default();
    match file.get("hooks") {
        Some(Value::Object(events)) => {
            for (event, entries) in events {
                match entries {
                    Value::Array(entries) => {
                        for (index, entry) in entries.iter().enumerate() {
                            entry_of(agent, &format!("{name}#{event}.{index}"), event, entry, &mut imported);
                        }
                    }
                    other => {
                        let noun = Kind::of(other).noun();
                        imported.notes.push(format!("`hooks.{event}` is {noun}, no list of hooks, and is ignored"));
                    }
                }
            }
        }
        Some(Value::Array(entries)) => {
            for (index, entry) in entries.iter().enumerate() {
                let id = format!("{name}#{index}");
                match entry.get("trigger").and_then(Value::as_str) {
                    Some(event) => entry_of(agent, &id, event, entry, &mut imported),
                    None => imported.lost.push(format!("{id}: has no `trigger`")),
                }
            }
        }
        Some(other) => return Err(format!("`hooks` is {}, expected an object", Kind::of(other).noun())),
        None => return Err("it has no `hooks`".to_owned()),
    }
    Ok(imported)
}

/// One entry of a list: a handler, or a group of them.
fn entry_of(agent: Agent, id: &str, event: &str, entry: &Value, imported: &mut Imported) {
    let matcher = entry.get("matcher");
    let mut take = |id: String, handler: &Value| {
        let site = Site { agent, id: self::id(&id), event, matcher, handler };
        match site.rule(entry, &mut imported.notes) {
            Ok(rule) => {
                if rule.get("disabled") == Some(&json!(true)) {
                    imported.lost.push(format!("{}: {}", site.id, site.why_off()));
                }
                imported.rules.push(rule);
            }
            Err(why) => imported.lost.push(format!("{}: {why}", site.id)),
        }
    };
    match entry.get("hooks") {
        Some(Value::Array(handlers)) => {
            handlers.iter().enumerate().for_each(|(index, handler)| take(format!("{id}.{index}"), handler));
        }
        _ => take(id.to_owned(), entry.get("action").unwrap_or(entry)),
    }
}

/// `text` as the id of a rule.
pub(super) fn id(text: &str) -> String {
    let clean = text.chars().map(|char| if char.is_control() { '?' } else { char }).collect::<Vec<_>>();
    // What tells rules of one file apart stands at the end.
    clean.iter().skip(clean.len().saturating_sub(LONGEST_ID)).collect()
}

/// Whole milliseconds, as rules have them.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Site<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.handler.get(key)?.as_str().filter(|text| !text.trim().is_empty())
    }

    fn is_on(&self, key: &str) -> bool {
        self.handler.get(key) == Some(&Value::Bool(true))
    }

    /// Whether it would be taken for a guard and be none: what it says counts at its agent, in words that hookd does
    /// not know.
    fn is_unheard(&self) -> bool {
        !speaks_claude_code(self.agent) && is_heard(self.agent, self.event)
    }

    fn why_off(&self) -> String {
        let name = self.agent.name();
        if self.is_unheard() {
            format!(
                "is kept switched off (`disabled`): it reads and answers in {name}'s own form; leave it to the agent, or change it"
            )
        } else {
            format!("is kept switched off (`disabled`), as it is in {name}'s file")
        }
    }

    /// # Errors
    /// What a native rule cannot say.
    fn rule(&self, entry: &Value, notes: &mut Vec<String>) -> Result<Value, String> {
        if !self.handler.is_object() {
            return Err(format!("is {}, expected a handler", Kind::of(self.handler).noun()));
        }
        let event = self.agent.event(self.event).unwrap_or(self.event);
        let is_known = Event::known(event).is_some();
        if !is_known {
            UnknownEvent::check(event).map_err(|error| error.to_string())?;
        }
        let narrowed = narrowed(self.agent, self.event, self.matcher)?;
        if !narrowed.note.is_empty() {
            notes.push(format!("{}: {}", self.id, narrowed.note));
        }
        let mut rule = Map::new();
        let mut put = |key: &str, value: Value| rule.insert(key.to_owned(), value);
        put("id", json!(self.id));
        put("event", json!(event));
        if !is_known {
            put("customEvent", json!(true));
        }
        if !narrowed.matcher.is_empty() {
            put("matcher", json!(narrowed.matcher));
        }
        if !narrowed.when.is_empty() {
            put("when", json!(narrowed.when));
        }
        put("handler", self.handler(entry, notes)?);
        if speaks_claude_code(self.agent) {
            put("protocol", json!("claude-code"));
        }
        if self.is_on("async") {
            put("async", json!(true));
        }
        if self.is_fail_closed() {
            put("onError", json!("block"));
        }
        let is_off = entry.get("enabled") == Some(&Value::Bool(false));
        if is_off || self.is_unheard() {
            put("disabled", json!(true));
        }
        if let Some(description) = self.text("description").or_else(|| entry.get("name")?.as_str()) {
            put("description", json!(description));
        }
        Ok(rule.into())
    }

    /// The agent takes a failure of it for a block.
    fn is_fail_closed(&self) -> bool {
        let is = |key: &str, word: &str| self.text(key) == Some(word);
        match self.agent {
            Agent::Cursor => self.is_on("failClosed"),
            Agent::Goose => is("on_failure", "block"),
            Agent::QwenCode => is("failMode", "closed"),
            // By itself, and no other event.
            Agent::CopilotCli => self.event.eq_ignore_ascii_case("preToolUse") && !is("type", "http"),
            _ => false,
        }
    }

    fn handler(&self, entry: &Value, notes: &mut Vec<String>) -> Result<Value, String> {
        for key in ["asyncRewake", "once"] {
            if self.is_on(key) {
                return Err(format!("`{key}` cannot be said in a native rule"));
            }
        }
        let with_time = if self.handler.get("timeout").is_some() { self.handler } else { entry };
        let with_time = if self.agent == Agent::Kiro { with_time } else { self.handler };
        let timeout = timeout(self.agent, self.event, with_time)?;
        let kind = self.text("type").unwrap_or("command");
        let mut handler = match kind {
            "command" => self.command()?,
            "http" => self.http()?,
            other => return Err(format!("handlers of type `{other}` cannot be said in a native rule")),
        };
        handler.insert("timeout".to_owned(), json!(millis(timeout)));
        self.tell_of_unknown_keys(kind, notes);
        Ok(handler.into())
    }

    fn command(&self) -> Result<Map<String, Value>, String> {
        let mut command = Map::from_iter([("type".to_owned(), json!("command"))]);
        let folder = self.text("cwd").or_else(|| self.text("working_directory"));
        let keys: &[&str] = match self.agent {
            Agent::CopilotCli => &["bash", "command"],
            Agent::VsCode => &["linux", "command"],
            _ => &["command"],
        };
        let program = self.text("exec");
        match (keys.iter().find_map(|key| self.text(key)), program) {
            (Some(line), _) => {
                // A rule's own `cwd` starts at its file, this one where the agent works.
                let line = folder.map_or_else(
                    || line.to_owned(),
                    |folder| format!("cd -- '{}' || exit 1\n{line}", folder.replace('\'', r"'\''")),
                );
                command.insert("command".to_owned(), json!(line));
                command.insert("shell".to_owned(), json!("bash"));
            }
            (None, Some(_)) if folder.is_some() => {
                return Err("`cwd` beside `exec` cannot be said in a native rule".to_owned());
            }
            (None, Some(program)) => {
                let args = self.handler.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
                if !args.iter().all(Value::is_string) {
                    return Err("`args` holds more than strings".to_owned());
                }
                let words = std::iter::once(json!(program)).chain(args).collect::<Vec<_>>();
                command.insert("argv".to_owned(), words.into());
            }
            (None, None) if self.text("powershell").or_else(|| self.text("windows")).is_some() => {
                return Err("has a command for PowerShell alone".to_owned());
            }
            (None, None) => return Err("has no command".to_owned()),
        }
        match self.handler.get("env") {
            None => {}
            Some(Value::Object(env)) if env.values().all(Value::is_string) => {
                command.insert("env".to_owned(), json!(env));
            }
            Some(other) => return Err(format!("`env` is {}, expected an object of strings", to_text(other))),
        }
        Ok(command)
    }

    fn http(&self) -> Result<Map<String, Value>, String> {
        let url = self.text("url").ok_or("has no `url`")?;
        if self.handler.get("headers").is_some() {
            return Err("`headers` are not carried over; write them with `${env:NAME}`".to_owned());
        }
        Ok(Map::from_iter([("type".to_owned(), json!("http")), ("url".to_owned(), json!(url))]))
    }

    fn tell_of_unknown_keys(&self, kind: &str, notes: &mut Vec<String>) {
        const KNOWN: [&str; 21] = [
            "matcher",
            "command",
            "bash",
            "powershell",
            "linux",
            "osx",
            "windows",
            "exec",
            "args",
            "cwd",
            "working_directory",
            "env",
            "url",
            "timeout",
            "timeoutSec",
            "timeout_ms",
            "async",
            "failClosed",
            "on_failure",
            "failMode",
            "shell",
        ];
        let keys = self.handler.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        let odd = keys.filter(|key| !SILENT.contains(key) && !KNOWN.contains(key));
        notes.extend(odd.map(|key| format!("{}: `{key}` of the {kind} handler is not carried over", self.id)));
    }
}
