//! Files of Claude Code's shape, which hookd's loader reads as that agent does: what it makes of them, written down as
//! native rules.

use std::path::Path;

use hookd_json::{Map, Value};
use hookd_rules::{
    CommandHandler, Environment, Event, Handler, HttpHandler, LoadSettings, OnError, Program, Protocol, Rule, Severity,
    Shell, Tier, Timing, ValuePart, check_paths, plugin_root,
};
use serde_json::json;

use crate::import::Imported;

/// The variable that a command of a plugin counts on.
const ROOT: &str = "CLAUDE_PLUGIN_ROOT";

/// The rules that the loader makes of the file at `path`, whose text is `text`.
///
/// # Errors
/// One line: nothing can be made of it.
pub(super) fn import(path: &Path, text: &str) -> Result<Imported, String> {
    // Lenient, as the loader is with files that are not central: what is wrong there is one handler's matter.
    let tier = Tier::Shared;
    let mut settings = LoadSettings::default();
    let names = variables(text);
    // Any value will do: only the names are written down.
    settings.environment = names.iter().map(|name| (name.clone(), "x")).collect::<Environment>();
    settings.tiers.get_mut(tier).allow_env = names;
    let load = check_paths(&[path.to_owned()], tier, &settings);
    let mut imported = Imported::default();
    // What is not about the file is about a server that has no other.
    for problem in load.problems.iter().filter(|problem| !problem.file.as_os_str().is_empty()) {
        match (problem.severity, &problem.rule) {
            (Severity::Error, None) => return Err(problem.message.clone()),
            (Severity::Error, Some(_)) => imported.lost.push(problem.to_string()),
            (Severity::Warning, _) => imported.notes.push(problem.to_string()),
        }
    }
    let catalog = load.catalog.ok_or("hookd's loader refuses it")?;
    for rule in &catalog.rules {
        imported.notes.extend(needs(rule).map(|name| {
            format!("{}: `${{env:{name}}}` counts where the settings name it in `tiers.<tier>.allow_env`", rule.id)
        }));
        match native(rule) {
            Ok(rule) => imported.rules.push(rule),
            Err(why) => imported.lost.push(format!("{}: {why}", rule.id)),
        }
    }
    Ok(imported)
}

/// The variables that the headers of a rule name.
fn needs(rule: &Rule) -> impl Iterator<Item = &str> {
    let headers = match &rule.handler {
        Handler::Http(http) => http.headers.as_slice(),
        _ => &[],
    };
    headers.iter().flat_map(|(_, parts)| parts).filter_map(|part| match part {
        ValuePart::Env { name, .. } => Some(name.as_str()),
        _ => None,
    })
}

/// Every name that the file lets its headers name.
fn variables(text: &str) -> Vec<String> {
    fn gather(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| gather(item, names)),
            Value::Object(members) => {
                let allowed = members.get("allowedEnvVars").and_then(Value::as_array);
                names.extend(allowed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| gather(value, names));
            }
            _ => {}
        }
    }
    let mut names = Vec::new();
    gather(&hookd_json::parse(text.trim_start_matches('\u{feff}')).unwrap_or_default(), &mut names);
    names
}

/// # Errors
/// What a native rule cannot say.
fn native(rule: &Rule) -> Result<Value, String> {
    if let Some(permission) = &rule.permission {
        return Err(format!("`if` (`{}`) cannot be said in a native rule; say it in `when`", permission.as_str()));
    }
    let mut native = Map::new();
    let mut put = |key: &str, value: Value| native.insert(key.to_owned(), value);
    put("id", json!(super::walk::id(&rule.id)));
    let event = rule.events.first().map_or("", |event| event);
    put("event", json!(event));
    if Event::known(event).is_none() {
        put("customEvent", json!(true));
    }
    let matcher = rule.matcher.to_native();
    if !matcher.is_empty() {
        put("matcher", json!(matcher));
    }
    put(
        "handler",
        match &rule.handler {
            Handler::Command(command) => command_handler(rule, command),
            Handler::Http(http) => http_handler(http)?,
            Handler::Decide(_) => return Err("a handler that no agent has".to_owned()),
        },
    );
    if rule.protocol == Protocol::ClaudeCode {
        put("protocol", json!("claude-code"));
    }
    if rule.timing != Timing::Sync {
        put("async", json!(true));
    }
    match rule.on_error {
        Some(OnError::Block) => drop(put("onError", json!("block"))),
        Some(OnError::Allow) => drop(put("onError", json!("allow"))),
        None => {}
    }
    if !rule.description.is_empty() {
        put("description", json!(rule.description));
    }
    Ok(native.into())
}

/// A plugin's root is known by where its file lies, and a native file lies elsewhere: it is written down.
fn command_handler(rule: &Rule, command: &CommandHandler) -> Value {
    let root = plugin_root(rule.tier, &rule.file).and_then(Path::to_str);
    let mut handler = Map::from_iter([("type".to_owned(), json!("command"))]);
    match &command.program {
        Program::Shell(shell, line) => {
            handler.insert("command".to_owned(), json!(line));
            if *shell == Shell::Bash {
                handler.insert("shell".to_owned(), json!("bash"));
            }
            if let Some(root) = root.filter(|_| line.contains(ROOT)) {
                handler.insert("env".to_owned(), json!({ ROOT: root }));
            }
        }
        Program::Argv(words) => {
            let placeholder = format!("${{{ROOT}}}");
            let filled =
                words.iter().map(|word| root.map_or_else(|| word.clone(), |root| word.replace(&placeholder, root)));
            handler.insert("argv".to_owned(), json!(filled.collect::<Vec<_>>()));
        }
    }
    handler.insert("timeout".to_owned(), json!(super::walk::millis(command.timeout)));
    handler.into()
}

fn http_handler(http: &HttpHandler) -> Result<Value, String> {
    let mut headers = Map::new();
    for (name, parts) in &http.headers {
        let mut value = String::new();
        for part in parts {
            match part {
                ValuePart::Text(text) if text.contains("${") => {
                    return Err(format!("the header `{name}` holds `${{`, where a native rule reads a name"));
                }
                ValuePart::Text(text) => value.push_str(text),
                ValuePart::Env { name, .. } => value.push_str(&format!("${{env:{name}}}")),
                ValuePart::File(_) => return Err(format!("the header `{name}` holds a file")),
            }
        }
        headers.insert(name.clone(), json!(value));
    }
    let mut handler = Map::from_iter([("type".to_owned(), json!("http")), ("url".to_owned(), json!(http.url))]);
    if !headers.is_empty() {
        handler.insert("headers".to_owned(), headers.into());
    }
    handler.insert("timeout".to_owned(), json!(super::walk::millis(http.timeout)));
    Ok(handler.into())
}
