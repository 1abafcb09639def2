//! One handler of a group: a command, or what http hooks have in common with it.

use std::{sync::Arc, time::Duration};

use hookd_condition::PermissionRule;
use hookd_json::{Node, Tree, Value};
use serde_json::json;

use super::{http, placeholder, switches::Switches, unknown_keys};
use crate::{
    CommandHandler, Event, Handler, Matcher, OnError, Program, Protocol, Rule, RunOn, Shell, Timing,
    file::{Context, meaning, millis},
    problem::{Issues, KeyPath, shown},
    revision::Meaning,
    shape::{Fields, did_you_mean},
};

/// Types of that agent's that hookd runs.
const TYPES: [&str; 2] = ["command", "http"];
const LATER_TYPES: [&str; 3] = ["mcp_tool", "prompt", "agent"];

/// Keys of all types. Those that only a screen would show, and notes, are not looked at.
const COMMON_KEYS: [&str; 9] =
    ["type", "if", "timeout", "statusMessage", "once", "onFailure", "description", "name", "comment"];
const COMMAND_KEYS: [&str; 7] = ["command", "args", "shell", "async", "asyncRewake", "rewakeMessage", "rewakeSummary"];
const HTTP_KEYS: [&str; 3] = ["url", "headers", "allowedEnvVars"];

/// The events on which a handler with `if` runs.
const IF_EVENTS: [&str; 5] =
    ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"];

/// A `timeout` from here on was mostly meant in milliseconds (case 57).
const LOOKS_LIKE_MILLIS: f64 = 1000.0;

/// Where a handler stands.
pub(super) struct Site<'n> {
    pub(super) node: &'n Node,
    pub(super) path: KeyPath<'n>,
    /// The name of its event.
    pub(super) name: &'n str,
    pub(super) event: &'static Event,
    pub(super) matcher: Matcher,
    /// It stands where a group should, with the group's keys.
    pub(super) is_flat: bool,
    pub(super) switches: &'n Switches,
}

/// The rule of one handler, by the name `id`. `None` after an error.
pub(super) fn compile(
    site: &Site<'_>,
    id: &str,
    context: &Context<'_>,
    issues: &mut Issues,
) -> Option<(Rule, Meaning)> {
    let Tree::Map(entries) = &site.node.value else {
        issues.error(site.node.place, site.path, format!("must be a handler, not {}", site.node));
        return None;
    };
    let fields = Fields::new(entries);
    let is_http = kind(site, fields, issues)? == "http";
    let (own, what) = if is_http { (&HTTP_KEYS[..], "an http hook") } else { (&COMMAND_KEYS[..], "a command hook") };
    let mut known = COMMON_KEYS.into_iter().chain(own.iter().copied()).collect::<Vec<_>>();
    if site.is_flat {
        known.push("matcher");
    }
    unknown_keys(entries, &known, what, site.path, context, issues);
    for key in ["asyncRewake", "once"] {
        if site.flag(fields, key, issues) {
            site.error(fields, key, issues, format!("`{key}` is not supported by this version of hookd"));
        }
    }
    let permission = site.permission(fields, issues);
    let (handler, handler_meaning) =
        if is_http { http::compile(site, fields, context, issues)? } else { site.command(fields, context, issues)? };
    let is_async = !is_http && site.flag(fields, "async", issues);
    if is_async && site.event.prevents() {
        let message = format!("an async hook never decides, so it cannot block `{}`", shown(site.name));
        site.warning(fields, "async", issues, message);
    }
    let rule = Rule {
        id: id.into(),
        tier: context.tier,
        file: Arc::clone(&context.file),
        line: site.node.place.line,
        events: vec![site.name.into()],
        matcher: site.matcher.clone(),
        when: None,
        permission,
        handler,
        timing: if is_async { Timing::Async } else { Timing::Sync },
        mode: context.tier_settings().mode,
        on_error: site.on_failure(fields, issues),
        tier_on_error: context.tier_settings().policy.on_error,
        is_final: false,
        must_decide: false,
        concurrent: false,
        description: fields.text("description").unwrap_or_default().to_owned(),
        protocol: Protocol::ClaudeCode,
        run_on: RunOn::Server,
        twins: None,
        bulkhead: crate::Attached::default(),
        selector: context.selector.clone(),
    };
    let meaning = Meaning::of(meaning(&rule, None, handler_meaning));
    Some((rule, meaning))
}

/// The type, if it is one that hookd runs.
fn kind(site: &Site<'_>, fields: Fields<'_>, issues: &mut Issues) -> Option<&'static str> {
    let Some(node) = fields.node("type") else {
        issues.error(site.node.place, site.path, "a handler needs the key `type`: `command` or `http`");
        return None;
    };
    let name = fields.text("type").unwrap_or_default();
    let known = TYPES.into_iter().find(|known| *known == name);
    if known.is_none() {
        let message = if LATER_TYPES.contains(&name) {
            format!("hooks of type `{name}` are not supported by this version of hookd")
        } else {
            format!("must be `command` or `http`, not {node}{}", did_you_mean(name, TYPES.into_iter()))
        };
        site.error(fields, "type", issues, message);
    }
    known
}

impl Site<'_> {
    /// Reports an error at the value of `key`.
    pub(super) fn error(&self, fields: Fields<'_>, key: &str, issues: &mut Issues, message: impl Into<String>) {
        let place = fields.node(key).map_or(self.node.place, |node| node.place);
        issues.error(place, KeyPath::Key(&self.path, key), message);
    }

    /// Reports a warning at the value of `key`.
    pub(super) fn warning(&self, fields: Fields<'_>, key: &str, issues: &mut Issues, message: impl Into<String>) {
        let place = fields.node(key).map_or(self.node.place, |node| node.place);
        issues.warning(place, KeyPath::Key(&self.path, key), message);
    }

    /// The text of `key`, which the handler cannot do without.
    pub(super) fn needed<'f>(&self, fields: Fields<'f>, key: &str, issues: &mut Issues) -> Option<&'f str> {
        let text = fields.text(key).filter(|text| !text.trim().is_empty());
        if text.is_none() {
            let seen = fields.node(key).map(|node| format!(", not {node}")).unwrap_or_default();
            self.error(fields, key, issues, format!("must be a string that is not empty{seen}"));
        }
        text
    }

    /// The strings of the list of `key`. `None` after an error; `Some(None)` where there is no list.
    pub(super) fn texts(&self, fields: Fields<'_>, key: &str, issues: &mut Issues) -> Option<Option<Vec<String>>> {
        let Some(node) = fields.node(key) else { return Some(None) };
        let texts = fields.names(key).into_iter().map(|(text, _)| text.to_owned()).collect::<Vec<_>>();
        match &node.value {
            Tree::List(items) if items.len() == texts.len() => Some(Some(texts)),
            _ => {
                self.error(fields, key, issues, format!("must be a list of strings, not {node}"));
                None
            }
        }
    }

    /// How long the handler may run, from its `timeout` in seconds; under the settings' ceiling.
    pub(super) fn timeout(&self, fields: Fields<'_>, context: &Context<'_>, issues: &mut Issues) -> Duration {
        let (ceiling, limit) = context.tier_settings().max_timeout(context.tier, context.settings.max_handler_timeout);
        let default = default_timeout(self.name).min(ceiling);
        let Some(node) = fields.node("timeout") else { return default };
        let seconds = match &node.value {
            Tree::Number(digits) => digits.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0),
            _ => None,
        };
        let Some(seconds) = seconds else {
            let message = format!("must be a number of seconds above 0, not {node}; {} s count", default.as_secs_f64());
            self.warning(fields, "timeout", issues, message);
            return default;
        };
        let written = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let count = ceiling.as_secs_f64();
        if seconds >= LOOKS_LIKE_MILLIS {
            let message = format!("{seconds} are seconds, not milliseconds; {count} s count, the ceiling `{limit}`");
            self.warning(fields, "timeout", issues, message);
        } else if written > ceiling {
            let message = format!("{seconds} s are over `{limit}`, {count} s count");
            self.warning(fields, "timeout", issues, message);
        }
        written.clamp(Duration::from_millis(1), ceiling)
    }

    /// Whether `key` is `true`.
    fn flag(&self, fields: Fields<'_>, key: &str, issues: &mut Issues) -> bool {
        if let Some(node) = fields.node(key).filter(|node| !matches!(node.value, Tree::Bool(_))) {
            self.error(fields, key, issues, format!("must be true or false, not {node}"));
        }
        fields.flag(key)
    }

    fn permission(&self, fields: Fields<'_>, issues: &mut Issues) -> Option<PermissionRule> {
        fields.node("if")?;
        let text = self.needed(fields, "if", issues)?;
        if !IF_EVENTS.contains(&self.name) {
            let message = format!("a hook with `if` never runs on `{}`, which is no tool event", shown(self.name));
            self.error(fields, "if", issues, message);
        }
        match PermissionRule::parse(text) {
            Ok(rule) => Some(rule),
            Err(error) => {
                self.error(fields, "if", issues, error.to_string());
                None
            }
        }
    }

    fn on_failure(&self, fields: Fields<'_>, issues: &mut Issues) -> Option<OnError> {
        let node = fields.node("onFailure")?;
        let on_error = match fields.text("onFailure") {
            Some("continue") => OnError::Allow,
            Some("block") => OnError::Block,
            _ => {
                let message = format!("is `continue` or `block`, not {node}; `block` counts");
                self.warning(fields, "onFailure", issues, message);
                OnError::Block
            }
        };
        if on_error == OnError::Block && self.event.is_stop_like() {
            let message =
                format!("failures never block on `{}`: a broken hook must not keep an agent running", self.name);
            self.warning(fields, "onFailure", issues, message);
        }
        Some(on_error)
    }

    fn command(&self, fields: Fields<'_>, context: &Context<'_>, issues: &mut Issues) -> Option<(Handler, Value)> {
        if !context.tier_settings().server_commands {
            let tier = context.tier;
            let message = format!(
                "command hooks of tier {tier} may not run on this server, unless `tiers.{tier}.server_commands` is `allow`"
            );
            issues.error(self.node.place, self.path, message);
        }
        let timeout = self.timeout(fields, context, issues);
        let command = self.needed(fields, "command", issues)?;
        let program = match self.texts(fields, "args", issues)? {
            Some(args) => {
                let words = std::iter::once(command.to_owned()).chain(args).collect::<Vec<_>>();
                self.tell_of_placeholders(fields, &words, issues);
                Program::Argv(words)
            }
            None => Program::Shell(self.shell(fields, issues)?, command.to_owned()),
        };
        let (meant, words) = match &program {
            Program::Shell(_, line) => (json!({ "bash": line }), std::slice::from_ref(line)),
            Program::Argv(words) => (json!(words), words.as_slice()),
        };
        if words.iter().any(|word| word.contains('\0')) {
            self.error(fields, "command", issues, "must not hold a NUL character");
        }
        let meaning = json!({ "type": "command", "program": meant, "timeout": millis(timeout) });
        let command = CommandHandler { program, timeout, env: Vec::new(), cwd: None, worker: None, allow: None };
        Some((Handler::Command(command), meaning))
    }

    /// The shell of a command without `args`.
    fn shell(&self, fields: Fields<'_>, issues: &mut Issues) -> Option<Shell> {
        let node = fields.node("shell");
        match (node, fields.text("shell")) {
            (None, _) | (_, Some("bash")) => Some(Shell::Bash),
            (_, Some("powershell")) => {
                self.error(fields, "shell", issues, "`powershell` is not supported by this version of hookd");
                None
            }
            (Some(node), _) => {
                self.error(fields, "shell", issues, format!("must be `bash`, not {node}"));
                None
            }
        }
    }

    /// Says which `${…}` of a command without a shell stay as they are, and refuses what would stand for nothing.
    fn tell_of_placeholders(&self, fields: Fields<'_>, words: &[String], issues: &mut Issues) {
        for name in words.iter().flat_map(|word| placeholder::left(word)) {
            let shown = shown(name);
            if name.starts_with("user_config.") {
                let message = format!("`${{{shown}}}` stands in the agent's own settings, which hookd does not read");
                self.error(fields, "args", issues, message);
            } else {
                let message =
                    format!("`${{{shown}}}` stays as it is: with `args` there is no shell to put anything in");
                self.warning(fields, "args", issues, message);
            }
        }
    }
}

/// What that agent gives a command or http hook on the event of this name.
fn default_timeout(event: &str) -> Duration {
    match event {
        "UserPromptSubmit" | "PreModelSwitch" | "PostModelSwitch" => Duration::from_secs(30),
        "MessageDisplay" => Duration::from_secs(10),
        "SessionEnd" => Duration::from_millis(1500),
        _ => Duration::from_secs(600),
    }
}
