//! The walk through `hooks`: events, their groups, and the handlers in these.

use std::sync::Arc;

use hookd_json::{Entry, Node, Tree};

use super::{
    doubtful,
    foreign::Marks,
    handler::{self, Site},
    is_comment, matcher,
    placeholder::{self, plugin_root},
    switches::Switches,
    unknown_keys,
};
use crate::{
    EVENTS, Event, Matcher, Rule, Subject, UnknownEvent,
    file::{Context, FileDraft, RuleDraft},
    problem::{Issues, KeyPath, shown},
    shape::{Fields, did_you_mean},
};

const GROUP_KEYS: [&str; 5] = ["matcher", "hooks", "description", "name", "comment"];

/// Keys of a handler that stands where a group should.
const FLAT_KEYS: [&str; 8] = ["type", "command", "url", "bash", "powershell", "exec", "prompt", "args"];

/// Where the handlers of a file are gathered.
pub(super) struct Walk<'w, 's> {
    marks: Marks,
    switches: &'w Switches,
    context: &'w mut Context<'s>,
    draft: &'w mut FileDraft,
    issues: &'w mut Issues,
    /// How many handlers there were so far, in force or not.
    handlers: usize,
    /// How many groups were another agent's.
    foreigners: usize,
    /// That no plugin's directory is known is said once for a file.
    has_told_of_root: bool,
}

/// The event of some groups.
#[derive(Clone, Copy)]
struct Groups<'n> {
    name: &'n str,
    event: &'static Event,
    path: KeyPath<'n>,
}

/// What the handlers of a group have in common.
struct Group<'n> {
    /// What their ids start with.
    id: String,
    of: Groups<'n>,
    path: KeyPath<'n>,
    matcher: Result<Matcher, Refusal<'n>>,
}

/// Why none of a group's handlers is in force.
struct Refusal<'n> {
    /// The matcher, where it is the reason.
    matcher: Option<&'n Node>,
    message: String,
}

impl<'w, 's> Walk<'w, 's> {
    pub(super) fn new(
        top: Fields<'_>,
        hooks: &[Entry],
        switches: &'w Switches,
        context: &'w mut Context<'s>,
        draft: &'w mut FileDraft,
        issues: &'w mut Issues,
    ) -> Self {
        let marks = Marks::of(top, hooks);
        Self { marks, switches, context, draft, issues, handlers: 0, foreigners: 0, has_told_of_root: false }
    }

    /// Compiles everything in `hooks`.
    pub(super) fn all(&mut self, hooks: &[Entry]) {
        let path = KeyPath::Key(&KeyPath::Top, "hooks");
        for entry in hooks {
            self.event(entry, KeyPath::Key(&path, &entry.key));
        }
    }

    fn event(&mut self, entry: &Entry, path: KeyPath<'_>) {
        let name = entry.key.as_str();
        let key = shown(name);
        let is_known = Event::known(name).is_some();
        let groups = match &entry.node.value {
            Tree::List(groups) => groups,
            Tree::Null if is_known => &Vec::new(),
            value if is_known || (matches!(value, Tree::Map(_)) && is_near(name)) => {
                let message = format!("must be a list of groups, not {}", entry.node);
                let id = format!("{}#{key}", self.context.file_name());
                return self.refuse(&id, &entry.node, path, &message);
            }
            Tree::String(_) if is_comment(name) => {
                return self.issues.warning(entry.place, path, format!("`{key}` is taken for a comment"));
            }
            _ => {
                let message = format!("`{key}` is {}, no list of groups, and is ignored", entry.node);
                return self.issues.warning(entry.place, path, message);
            }
        };
        if is_comment(name) || is_switched_off(name) {
            let message = format!("`{key}` is no event, what stands there is switched off");
            return self.issues.warning(entry.place, path, message);
        }
        let event = Event::known(name).unwrap_or(Event::unknown(true));
        let before = self.foreigners;
        for (index, node) in groups.iter().enumerate() {
            self.group(node, index, Groups { name, event, path });
        }
        let is_told = self.foreigners != before || UnknownEvent::check(name).is_err();
        if !is_known && !is_told && !groups.is_empty() {
            self.unknown_event(entry, path);
        }
    }

    /// An event that hookd does not know, and that no error speaks of: it is one of the author's own.
    fn unknown_event(&mut self, entry: &Entry, path: KeyPath<'_>) {
        let meant = did_you_mean(&entry.key, EVENTS.iter().map(|event| event.name));
        let message =
            format!("event `{}` is not known{meant}; its hooks run where a caller asks for it", shown(&entry.key));
        if meant.is_empty() {
            self.issues.warning(entry.place, path, message);
        } else {
            doubtful(entry, path, message, self.context, self.issues);
        }
    }

    fn group(&mut self, node: &Node, index: usize, of: Groups<'_>) {
        let path = KeyPath::Index(&of.path, index);
        let id = format!("{}#{}.{index}", self.context.file_name(), shown(of.name));
        let Tree::Map(entries) = &node.value else {
            return self.refuse(&id, node, path, &format!("must be a group of hooks, not {node}"));
        };
        let fields = Fields::new(entries);
        if fields.node("hooks").is_none() && entries.iter().any(|entry| FLAT_KEYS.contains(&entry.key.as_str())) {
            return self.flat(node, fields, of, path, id);
        }
        unknown_keys(entries, &GROUP_KEYS, "a group", path, self.context, self.issues);
        let hooks = KeyPath::Key(&path, "hooks");
        let Some(Tree::List(handlers)) = fields.node("hooks").map(|node| &node.value) else {
            let at = fields.node("hooks").unwrap_or(node);
            return self.refuse(&id, at, hooks, "a group needs `hooks`, a list of handlers");
        };
        let group = Group { matcher: self.matches(node, fields, of, path, false), id, of, path };
        for (index, node) in handlers.iter().enumerate() {
            self.handler(node, KeyPath::Index(&hooks, index), &format!("{}.{index}", group.id), &group, false);
        }
    }

    /// A handler that stands where a group should: it is taken for a group of its own.
    fn flat(&mut self, node: &Node, fields: Fields<'_>, of: Groups<'_>, path: KeyPath<'_>, id: String) {
        let group = Group { matcher: self.matches(node, fields, of, path, true), id, of, path };
        if group.matcher.is_ok() {
            let message = "a handler stands here without a group, and is taken for a group of its own";
            self.issues.warning(node.place, path, message);
        }
        self.handler(node, path, &group.id, &group, true);
    }

    /// What the group at `node` matches, or why nothing in it can be used.
    fn matches<'n>(
        &mut self,
        node: &Node,
        fields: Fields<'n>,
        of: Groups<'_>,
        path: KeyPath<'_>,
        is_flat: bool,
    ) -> Result<Matcher, Refusal<'n>> {
        if let Some(owner) = self.marks.owner(of.name, node, is_flat) {
            self.foreigners = self.foreigners.saturating_add(1);
            return Err(Refusal { matcher: None, message: owner.reason() });
        }
        if Event::known(of.name).is_none() {
            let refusal = |error: UnknownEvent| Refusal { matcher: None, message: error.to_string() };
            UnknownEvent::check(of.name).map_err(refusal)?;
        }
        let Some(node) = fields.node("matcher") else { return Ok(Matcher::Any) };
        let refusal = |message| Refusal { matcher: Some(node), message };
        let text = match &node.value {
            Tree::String(text) => text,
            Tree::Null => "",
            _ => return Err(refusal(format!("must be a string, not {node}"))),
        };
        let (event, pattern) = (shown(of.name), shown(text));
        let found = matcher::read(text, of.name, of.event, self.context.patterns)
            .map_err(|reason| refusal(format!("the pattern `{pattern}` for `{event}`: {}", shown(&reason))))?;
        let doubt = match of.event.subject {
            Subject::None if !matches!(text, "" | "*" | ".*") => {
                Some(format!("`{event}` has nothing that `{pattern}` could be tested on, it is ignored"))
            }
            Subject::Tool => matcher::dead(text, &found),
            _ => None,
        };
        if let Some(message) = doubt {
            self.issues.warning(node.place, KeyPath::Key(&path, "matcher"), message);
        }
        Ok(found)
    }

    fn handler(&mut self, node: &Node, path: KeyPath<'_>, id: &str, group: &Group<'_>, is_flat: bool) {
        let index = self.handlers;
        self.handlers = index.saturating_add(1);
        let matcher = match &group.matcher {
            Ok(matcher) => matcher.clone(),
            Err(Refusal { matcher: Some(node), message }) => {
                return self.refuse(id, node, KeyPath::Key(&group.path, "matcher"), message);
            }
            Err(Refusal { matcher: None, message }) => return self.refuse(id, node, path, message),
        };
        let (from, before) = (self.issues.list.len(), self.issues.errors());
        let Groups { name, event, .. } = group.of;
        let site = Site { node, path, name, event, matcher, is_flat, switches: self.switches };
        match handler::compile(&site, id, self.context, self.issues) {
            Some((rule, meaning)) if self.issues.errors() == before => {
                self.tell_of_root(&rule, &site);
                let key = path.to_string();
                self.draft.rules.push(RuleDraft { rule: Arc::new(rule), index, key, place: node.place, meaning });
            }
            _ => self.left_out(from, id),
        }
    }

    /// Says, once for a file, that a command counts on the directory of a plugin and that none is known.
    fn tell_of_root(&mut self, rule: &Rule, site: &Site<'_>) {
        let is_known = plugin_root(rule.tier, &rule.file).is_some();
        if self.has_told_of_root || is_known || !placeholder::needs_root(rule) {
            return;
        }
        self.has_told_of_root = true;
        let message = "`CLAUDE_PLUGIN_ROOT` stands for nothing here: it does in a plugin's `hooks/hooks.json` and in tier \
                       plugin";
        self.issues.warning(site.node.place, site.path, message);
    }

    /// Reports what keeps `id` from being in force.
    fn refuse(&mut self, id: &str, at: &Node, path: KeyPath<'_>, message: &str) {
        let from = self.issues.list.len();
        self.issues.error(at.place, path, message);
        self.left_out(from, id);
    }

    fn left_out(&mut self, from: usize, id: &str) {
        self.draft.refused = self.draft.refused.saturating_add(1);
        if !self.context.tier.is_central() {
            self.issues.leave_out(from, id);
        }
    }
}

/// Whether a key that is no event is one that somebody switched off by its name.
fn is_switched_off(key: &str) -> bool {
    let is_marked = key.starts_with(['_', '-', '!']) || key.starts_with("disabled") || key.ends_with("_disabled");
    is_marked && Event::known(key).is_none()
}

/// Whether a key may be an event, misspelt.
fn is_near(key: &str) -> bool {
    UnknownEvent::check(key).is_err() || !did_you_mean(key, EVENTS.iter().map(|event| event.name)).is_empty()
}
