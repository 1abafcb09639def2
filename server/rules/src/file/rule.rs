//! One rule, or one default.

use std::sync::Arc;

use hookd_condition::{Condition, PermissionRule};
use hookd_json::{Node, Tree, Value};
use serde_json::json;

use super::{Context, DefaultDraft, RuleDraft, handler, mode};
use crate::{
    DefaultRule, EVENTS, Event, Handler, Matcher, Mode, OnError, Protocol, Rule, RunOn, Timing, UnknownEvent, Verdict,
    problem::{Issues, KeyPath, shown},
    revision::Meaning,
    shape::{DEFAULT, Fields, RULE, did_you_mean},
};

/// The rule at `node`, the `index`th of its file. `None` after an error, or if it is disabled.
pub(super) fn compile(
    node: &Node,
    index: usize,
    path: KeyPath<'_>,
    outer_mode: Mode,
    context: &mut Context<'_>,
    issues: &mut Issues,
) -> Option<RuleDraft> {
    let (from, before) = (issues.list.len(), issues.errors());
    if is_disabled(node) {
        return None;
    }
    let explicit_id = explicit_id(node);
    let id = explicit_id.map_or_else(|| format!("{}#{index}", context.file_name()), str::to_owned);
    let draft = RULE.check(node, path, issues).and_then(|fields| {
        let site = Site { node, path, fields };
        site.compile(id.as_str().into(), explicit_id, outer_mode, context, issues)
    });
    if issues.errors() == before {
        return draft.map(|(rule, meaning)| RuleDraft {
            rule: Arc::new(rule),
            index,
            key: path.to_string(),
            place: node.place,
            meaning,
        });
    }
    if !context.tier.is_central() {
        issues.leave_out(from, &id);
    }
    None
}

/// The defaults at `node`, one for each of its events.
pub(super) fn defaults(
    node: &Node,
    path: KeyPath<'_>,
    mode: Mode,
    context: &mut Context<'_>,
    issues: &mut Issues,
) -> Vec<DefaultDraft> {
    let before = issues.errors();
    let Some(fields) = DEFAULT.check(node, path, issues) else { return Vec::new() };
    let site = Site { node, path, fields };
    let events = site.events(issues);
    let matcher = site.matcher(&events, context, issues);
    let verdict = fields.text("verdict").and_then(Verdict::from_decision);
    let (Some(matcher), Some(verdict), true) = (matcher, verdict, issues.errors() == before) else { return Vec::new() };
    let reason = fields.text("reason").unwrap_or_default();
    let draft = |event: &str| DefaultDraft {
        meaning: Meaning::of(json!({
            "tier": context.tier.name(),
            "event": event,
            "matcher": matcher.as_str(),
            "verdict": verdict.name(),
            "reason": reason,
            "mode": mode.name(),
        })),
        rule: DefaultRule {
            tier: context.tier,
            file: Arc::clone(&context.file),
            event: event.into(),
            matcher: matcher.clone(),
            verdict,
            reason: reason.to_owned(),
            mode,
            selector: context.selector.clone(),
        },
    };
    events.into_iter().map(draft).collect()
}

fn is_disabled(node: &Node) -> bool {
    matches!(&node.value, Tree::Map(entries) if Fields::new(entries).flag("disabled"))
}

fn explicit_id(node: &Node) -> Option<&str> {
    match &node.value {
        Tree::Map(entries) => Fields::new(entries).text("id").filter(|id| !id.trim().is_empty()),
        _ => None,
    }
}

/// Where a rule or default stands.
struct Site<'n> {
    node: &'n Node,
    path: KeyPath<'n>,
    fields: Fields<'n>,
}

impl<'n> Site<'n> {
    fn compile(
        &self,
        id: Arc<str>,
        explicit_id: Option<&str>,
        outer_mode: Mode,
        context: &mut Context<'_>,
        issues: &mut Issues,
    ) -> Option<(Rule, Meaning)> {
        let fields = self.fields;
        if explicit_id.is_some_and(|id| id.chars().count() > 128 || id.chars().any(char::is_control)) {
            self.error("id", issues, "must be at most 128 characters, none of them a control character");
        }
        let events = self.events(issues);
        let matcher = self.matcher(&events, context, issues);
        let when = self.when(issues);
        let run_on = if fields.text("runOn") == Some("agent") { RunOn::Agent } else { RunOn::Server };
        let handler = fields.node("handler").and_then(|node| {
            handler::compile(node, KeyPath::Key(&self.path, "handler"), &events, run_on, context, issues)
        });
        let timing = self.timing(issues);
        let (matcher, (handler, handler_meaning)) = (matcher?, handler?);
        let rule = Rule {
            id,
            tier: context.tier,
            file: Arc::clone(&context.file),
            line: self.node.place.line,
            events: events.iter().map(|event| Arc::from(*event)).collect(),
            matcher,
            when,
            permission: None,
            handler,
            timing,
            mode: mode(fields).max(outer_mode),
            on_error: fields.text("onError").map(|word| if word == "block" { OnError::Block } else { OnError::Allow }),
            tier_on_error: context.tier_settings().policy.on_error,
            is_final: fields.flag("final"),
            must_decide: fields.flag("mustDecide"),
            concurrent: fields.flag("concurrent"),
            description: fields.text("description").unwrap_or_default().to_owned(),
            protocol: match fields.text("protocol") {
                Some("claude-code") => Protocol::ClaudeCode,
                _ => Protocol::Native,
            },
            run_on,
            twins: None,
            bulkhead: crate::Attached::default(),
            selector: context.selector.clone(),
        };
        self.check_handler(&rule, issues);
        self.warn(&rule, issues);
        let meaning = meaning(&rule, explicit_id, handler_meaning);
        Some((rule, Meaning::of(meaning)))
    }

    /// What its handler cannot do.
    fn check_handler(&self, rule: &Rule, issues: &mut Issues) {
        if let Handler::Decide(decide) = &rule.handler {
            if decide.answer.verdict == Verdict::None && rule.must_decide {
                self.error("mustDecide", issues, "this `decide` handler has no `verdict`, so it can never decide");
            }
            if decide.rewrites() && rule.concurrent {
                self.error("concurrent", issues, "this `decide` handler rewrites, which a concurrent rule may not");
            }
            if rule.protocol != Protocol::Native {
                self.error("protocol", issues, "a `decide` handler answers in process and has no protocol");
            }
        }
        let worker = matches!(&rule.handler, Handler::Command(command) if command.worker.is_some());
        if worker && rule.protocol != Protocol::Native {
            let message = "a worker reads and writes hookd's own form, `worker` goes with `native` alone";
            self.error("protocol", issues, message);
        }
        if rule.run_on == RunOn::Agent {
            if !matches!(rule.handler, Handler::Command(_)) {
                let message = format!("only commands run on the agent's side, not `{}` handlers", rule.handler.kind());
                self.error("runOn", issues, message);
            }
            if worker {
                self.error(
                    "runOn",
                    issues,
                    "a worker is kept on the server, on the agent's side each call starts a program",
                );
            }
        }
    }

    /// The names of the events. Those that cannot be meant are errors.
    fn events(&self, issues: &mut Issues) -> Vec<&'n str> {
        let custom = self.fields.flag("customEvent");
        let names = self.fields.names("event");
        for (name, node) in &names {
            if let Err(message) = check_event(name, custom) {
                issues.error(node.place, KeyPath::Key(&self.path, "event"), message);
            }
        }
        names.into_iter().map(|(name, _)| name).collect()
    }

    fn matcher(&self, events: &[&str], context: &mut Context<'_>, issues: &mut Issues) -> Option<Matcher> {
        let text = self.fields.text("matcher").unwrap_or_default();
        match context.patterns.matcher(text) {
            Ok(matcher) => Some(matcher),
            Err(reason) => {
                let events = events.iter().map(|event| format!("`{}`", shown(event))).collect::<Vec<_>>().join(", ");
                self.error(
                    "matcher",
                    issues,
                    format!("the pattern `{}` for {events}: {}", shown(text), shown(&reason)),
                );
                None
            }
        }
    }

    /// The condition; one that cannot be used is an error, so that the rule is not widened.
    fn when(&self, issues: &mut Issues) -> Option<Condition> {
        match Condition::compile(self.fields.text("when").filter(|text| !text.trim().is_empty())?) {
            Ok(condition) => Some(condition),
            Err(error) => {
                self.error("when", issues, error.to_string());
                None
            }
        }
    }

    fn timing(&self, issues: &mut Issues) -> Timing {
        let verdicts = self.fields.names("onVerdict");
        if self.fields.node("onVerdict").is_some() && !self.fields.flag("async") {
            self.error("onVerdict", issues, "`onVerdict` needs `async: true`");
        }
        if !self.fields.flag("async") {
            Timing::Sync
        } else if verdicts.is_empty() {
            Timing::Async
        } else {
            let verdict = |(name, _): (&str, _)| Verdict::from_decision(name).unwrap_or_default();
            Timing::AfterVerdict(verdicts.into_iter().map(verdict).collect())
        }
    }

    /// What is in force, but may not be what the author thinks.
    fn warn(&self, rule: &Rule, issues: &mut Issues) {
        let is_sync = rule.timing == Timing::Sync;
        let known = |event: &Arc<str>| Event::known(event).unwrap_or(Event::unknown(true));
        if !is_sync {
            if let Some(event) = rule.events.iter().find(|event| known(event).prevents()) {
                let message = format!("an async rule never decides, so it cannot block `{}`", shown(event));
                self.warning("async", issues, message);
            }
            for key in ["mustDecide", "final", "onError", "concurrent"] {
                self.warn_if_set(key, issues, "has no effect on an async rule, which never decides");
            }
        } else if mode(self.fields) == Mode::Shadow {
            for key in ["mustDecide", "final", "onError"] {
                self.warn_if_set(key, issues, "does not count while the rule is in shadow mode");
            }
        }
        if rule.is_forgeable() {
            let message = "the caller could forge what this rule gives: it never allows or rewrites";
            self.warning("runOn", issues, message);
            self.warn_if_set("final", issues, "has no effect on a central rule that runs on the agent's side");
        }
        if rule.on_error == Some(OnError::Block)
            && let Some(event) = rule.events.iter().find(|event| known(event).is_stop_like())
        {
            let message = format!("failures never block on `{event}`: a broken hook must not keep an agent running");
            self.warning("onError", issues, message);
        }
    }

    fn warn_if_set(&self, key: &str, issues: &mut Issues, effect: &str) {
        if self.fields.node(key).is_some_and(|node| node.value != Tree::Bool(false)) {
            self.warning(key, issues, format!("`{key}` {effect}"));
        }
    }

    fn error(&self, key: &str, issues: &mut Issues, message: impl Into<String>) {
        let place = self.fields.node(key).map_or(self.node.place, |node| node.place);
        issues.error(place, KeyPath::Key(&self.path, key), message);
    }

    fn warning(&self, key: &str, issues: &mut Issues, message: impl Into<String>) {
        let place = self.fields.node(key).map_or(self.node.place, |node| node.place);
        issues.warning(place, KeyPath::Key(&self.path, key), message);
    }
}

fn check_event(name: &str, custom: bool) -> Result<(), String> {
    if Event::known(name).is_some() {
        return Ok(());
    }
    UnknownEvent::check(name).map_err(|error| error.to_string())?;
    if custom {
        return Ok(());
    }
    let hint = did_you_mean(name, EVENTS.iter().map(|event| event.name));
    Err(format!("event `{}` is not known{hint}; an event of your own needs `customEvent: true`", shown(name)))
}

/// What of a rule counts for the revision: not where it stands, how it is written, or what it is called by default.
pub(crate) fn meaning(rule: &Rule, explicit_id: Option<&str>, handler: Value) -> Value {
    let mut events = rule.events.iter().map(AsRef::as_ref).collect::<Vec<&str>>();
    events.sort_unstable();
    let timing = match &rule.timing {
        Timing::Sync => json!("sync"),
        Timing::Async => json!("async"),
        Timing::AfterVerdict(verdicts) => {
            let mut verdicts = verdicts.clone();
            verdicts.sort_unstable();
            json!(verdicts.iter().map(|verdict| verdict.name()).collect::<Vec<_>>())
        }
    };
    json!({
        "tier": rule.tier.name(),
        "id": explicit_id,
        "events": events,
        "matcher": rule.matcher.meaning(),
        "if": rule.permission.as_ref().map(PermissionRule::as_str),
        "when": rule.when.as_ref().map(Condition::text),
        "handler": handler,
        "timing": timing,
        "mode": rule.mode.name(),
        "onError": rule.on_error.map(OnError::name),
        "final": rule.is_final,
        "mustDecide": rule.must_decide,
        "concurrent": rule.concurrent,
        "protocol": rule.protocol.name(),
        "runOn": rule.run_on.name(),
    })
}
