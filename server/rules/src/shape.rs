//! The keys of rule files and the shapes of their values: one table for the loader and for the JSON Schema.

use std::collections::HashSet;

use hookd_json::{Entry, Node, Tree};

use crate::problem::{Issues, KeyPath, one_line};

/// The keys that an object may have.
pub(crate) struct Object {
    /// What the object is, for messages: `a rule`.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [Key],
    /// Keys of the format that this version does not build yet.
    pub(crate) later: &'static [&'static str],
}

pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    /// What it does, for the schema.
    pub(crate) about: &'static str,
}

/// What a value must look like.
pub(crate) enum Shape {
    /// A string.
    Text,
    /// A string that is not empty.
    FullText,
    /// `true` or `false`.
    Flag,
    /// One of these words; the second list holds words that this version does not build yet.
    Word(&'static [&'static str], &'static [&'static str]),
    /// A list of these words, at least one, none twice.
    Words(&'static [&'static str]),
    /// A whole number of milliseconds, from 1 to [`MAX_MILLIS`].
    Millis,
    /// A whole number from the first of these to the second.
    Whole(u64, u64),
    /// A list of whole numbers, at least one, from the first of these to the second.
    Wholes(u64, u64),
    /// A list of strings, at least one.
    Texts,
    /// A string or a list of strings, at least one, none twice; none of them empty.
    Names,
    /// An object of strings.
    TextMap,
    /// An object of any values.
    AnyObject,
    /// Any value.
    Any,
    /// An object with these keys.
    Object(&'static Object),
    /// A list of objects with these keys. Its items are checked one by one.
    Objects(&'static Object),
    /// A handler, checked by its `type`.
    Handler,
}

/// The longest time that a rule file may name: a day. What is longer is a mistake and no wish.
pub(crate) const MAX_MILLIS: u64 = 86_400_000;

/// More programs than this for one rule are a mistake and no wish.
const MAX_POOL: u64 = 16;
/// More is never.
const MAX_CALLS: u64 = 1_000_000_000;

const MAX_PORT: u64 = 65_535;

const VERDICTS: &[&str] = &["allow", "ask", "defer", "block"];
const VERDICTS_AND_NONE: &[&str] = &["none", "allow", "ask", "defer", "block"];

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: false, shape, about }
}

const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: true, shape, about }
}

/// The top of a rule file.
pub(crate) static FILE: Object = Object {
    what: "a rule file",
    keys: &[
        key("$schema", Shape::Text, "The JSON Schema that an editor checks the file with. Not read."),
        key("description", Shape::Text, "What the file is for. No part of the revision."),
        key("metadata", Shape::Any, "Anything that other tools keep here. Not read."),
        key(
            "mode",
            MODE,
            "`shadow` makes every rule of the file a shadow rule: evaluated and recorded, never counted. Its `defaults` do not count either.",
        ),
        key("hooks", Shape::Objects(&RULE), "The rules, in evaluation order."),
        key(
            "defaults",
            Shape::Objects(&DEFAULT),
            "Last outcomes, in managed and team files only: the first that matches counts where no rule of the tier or of one above gave a verdict.",
        ),
    ],
    later: &[],
};

/// One rule.
pub(crate) static RULE: Object = Object {
    what: "a rule",
    keys: &[
        key(
            "id",
            Shape::FullText,
            "Unique in its source. Default: the name of the file and the position, counted from 0.",
        ),
        required("event", Shape::Names, "The event or events that the rule is for."),
        key(
            "matcher",
            Shape::Text,
            "A regular expression, searched anywhere in the event's subject. Absent, empty or `*` matches everything.",
        ),
        key("when", Shape::FullText, "A condition in CEL that must hold of the call at the rule's turn."),
        required("handler", Shape::Handler, "What the rule does."),
        key("async", Shape::Flag, "Queue the handler and go on: it never decides."),
        key(
            "onVerdict",
            Shape::Words(VERDICTS_AND_NONE),
            "Of an async rule: queue it once the verdict is known, if it is one of these.",
        ),
        key("onError", Shape::Word(&["allow", "block"], &[]), "What a failure of the handler counts as."),
        key(
            "final",
            Shape::Flag,
            "An explicit allow, ask or defer of this rule keeps the lower tiers from being asked.",
        ),
        key("mustDecide", Shape::Flag, "An answer without a decision is a failure."),
        key(
            "concurrent",
            Shape::Flag,
            "Run side by side with neighbouring rules that say so too, under the same budget. Such a rule may not rewrite.",
        ),
        key("mode", MODE, "`shadow`: evaluated and recorded, never counted."),
        key("customEvent", Shape::Flag, "Events that hookd does not know are meant as they are written."),
        key(
            "protocol",
            Shape::Word(&["native", "claude-code"], &[]),
            "What a command or http handler reads and writes. Default: `native`.",
        ),
        key(
            "runOn",
            Shape::Word(&["server", "agent"], &[]),
            "Where a command runs: on hookd's machine, or by the client on the caller's. Default: `server`.",
        ),
        key("disabled", Shape::Flag, "Leave the rule out."),
        key("description", Shape::Text, "What the rule is for. No part of the revision."),
        key("metadata", Shape::Any, "Anything that other tools keep here. Not read."),
    ],
    later: &[],
};

/// One default.
pub(crate) static DEFAULT: Object = Object {
    what: "a default",
    keys: &[
        required("event", Shape::Names, "The event or events that the default is for."),
        key("matcher", Shape::Text, "As in a rule."),
        required("verdict", Shape::Word(VERDICTS, &[]), "The verdict."),
        key("reason", Shape::Text, "Why."),
        key("customEvent", Shape::Flag, "As in a rule."),
        key("description", Shape::Text, "What the default is for. No part of the revision."),
    ],
    later: &["when"],
};

/// The handlers by their `type`.
pub(crate) static HANDLERS: [(&str, &Object); 3] = [("command", &COMMAND), ("http", &HTTP), ("decide", &DECIDE)];

/// Types of handlers that this version does not build yet.
pub(crate) const LATER_HANDLERS: &[&str] = &["prompt", "agent", "grpc"];

static COMMAND: Object = Object {
    what: "a command handler",
    keys: &[
        required("type", Shape::Word(&["command"], &[]), "Runs a program."),
        key("command", Shape::FullText, "A line for a shell. Either this or `argv`."),
        key("argv", Shape::Texts, "A program and its arguments, without a shell. Either this or `command`."),
        key("shell", Shape::Word(&["sh", "bash"], &[]), "The shell for `command`. Default: `sh`."),
        key("timeout", Shape::Millis, "Time limit in milliseconds. Default: 10000."),
        key(
            "env",
            Shape::TextMap,
            "Variables added to the environment; `${env:NAME}` and `${file:PATH}` stand for what the settings allow the tier.",
        ),
        key("cwd", Shape::FullText, "The directory to run in; a relative one starts at the rule file."),
        key(
            "worker",
            Shape::Object(&WORKER),
            "Start the program once and keep it: it reads one line for each call and writes one line back, an object or nothing.",
        ),
        key(
            "allow",
            Shape::Object(&ALLOW),
            "Files and TCP ports that it may reach on the server, besides the system's programs and libraries and the rule file's directory; everything else is denied.",
        ),
    ],
    later: &[],
};

/// How the workers of a command handler are kept.
static WORKER: Object = Object {
    what: "a worker",
    keys: &[
        key("pool", Shape::Whole(1, MAX_POOL), "Calls at a time, and so programs. Default: 1."),
        key("maxCalls", Shape::Whole(1, MAX_CALLS), "Answers after which a program is replaced. Default: never."),
    ],
    later: &[],
};

/// What a command handler may reach.
static ALLOW: Object = Object {
    what: "an allow list",
    keys: &[
        key("read", Shape::Names, "Files and directories to read and execute; relative ones start at the rule file."),
        key(
            "write",
            Shape::Names,
            "Files and directories to read, make, change and remove; relative ones start at the rule file.",
        ),
        key("connect", Shape::Wholes(1, MAX_PORT), "TCP ports to connect to."),
        key("bind", Shape::Wholes(0, MAX_PORT), "TCP ports to listen on; 0 stands for a port that the system chooses."),
    ],
    later: &[],
};

static HTTP: Object = Object {
    what: "an http handler",
    keys: &[
        required("type", Shape::Word(&["http"], &[]), "Posts to a URL."),
        required("url", Shape::FullText, "An http or https URL without credentials."),
        key(
            "headers",
            Shape::TextMap,
            "Headers; `${env:NAME}` and `${file:PATH}` stand for what the settings allow the tier.",
        ),
        key("timeout", Shape::Millis, "Time limit in milliseconds. Default: 5000."),
    ],
    later: &[],
};

static DECIDE: Object = Object {
    what: "a decide handler",
    keys: &[
        required("type", Shape::Word(&["decide"], &[]), "Answers in process."),
        key("verdict", Shape::Word(VERDICTS, &[]), "The decision."),
        key("reason", Shape::Text, "Why."),
        key(
            "modifiedParams",
            Shape::AnyObject,
            "Parameters to run with instead; `{\"expr\": \"…\"}` inside stands for the value of that CEL expression.",
        ),
        key(
            "modifiedResult",
            Shape::Any,
            "The result to show instead; `{\"expr\": \"…\"}` inside as in `modifiedParams`.",
        ),
        key("additionalContext", Shape::Text, "Text for the model."),
        key("systemMessage", Shape::Text, "Text for the person."),
        key("halt", Shape::Flag, "Stop the agent."),
        key("haltReason", Shape::Text, "Why it is stopped."),
    ],
    later: &[],
};

const MODE: Shape = Shape::Word(&["enforce", "shadow"], &[]);

/// An object whose keys and shapes are checked.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'n>(&'n [Entry]);

impl Object {
    /// Checks that `node` is an object with these keys and that the values have their shapes. Errors go to `issues`;
    /// `None` where it is no object at all.
    pub(crate) fn check<'n>(&self, node: &'n Node, path: KeyPath<'_>, issues: &mut Issues) -> Option<Fields<'n>> {
        let Tree::Map(entries) = &node.value else {
            issues.error(node.place, path, format!("{} must be an object, not {node}", self.what));
            return None;
        };
        for entry in entries {
            let path = KeyPath::Key(&path, &entry.key);
            match self.keys.iter().find(|key| key.name == entry.key) {
                Some(key) => key.shape.check(&entry.node, path, issues),
                None => issues.error(entry.place, path, self.unknown(&entry.key)),
            }
        }
        for key in self.keys.iter().filter(|key| key.required) {
            if !entries.iter().any(|entry| entry.key == key.name) {
                issues.error(node.place, path, format!("{} needs the key `{}`", self.what, key.name));
            }
        }
        Some(Fields(entries))
    }

    fn unknown(&self, key: &str) -> String {
        if self.later.contains(&key) {
            return format!("`{key}` is not supported by this version of hookd");
        }
        let known = self.keys.iter().map(|key| key.name);
        let meant = did_you_mean(key, known.clone().chain(self.later.iter().copied()));
        let hint = if meant.is_empty() {
            format!(", {} has {}", self.what, known.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "))
        } else {
            meant
        };
        format!("unknown key `{}`{hint}", shown(key))
    }
}

impl Shape {
    fn check(&self, node: &Node, path: KeyPath<'_>, issues: &mut Issues) {
        let mut refuse = |right: &str| issues.error(node.place, path, format!("must be {right}, not {node}"));
        match (self, &node.value) {
            (Self::Text, Tree::String(_))
            | (Self::Flag, Tree::Bool(_))
            | (Self::Objects(_), Tree::List(_))
            | (Self::Handler, _) => {}
            (Self::FullText, Tree::String(text)) if !text.trim().is_empty() => {}
            (Self::Text, _) => refuse("a string"),
            (Self::FullText, _) => refuse("a string that is not empty"),
            (Self::Flag, _) => refuse("true or false"),
            (Self::Objects(_), _) => refuse("a list"),
            (Self::Word(words, later), _) => check_word(words, later, node, path, issues),
            (Self::Words(words), Tree::List(items)) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    check_word(words, &[], item, KeyPath::Index(&path, index), issues);
                }
                check_distinct(items, path, issues);
            }
            (Self::Words(_), _) => refuse("a list of at least one word"),
            (Self::Millis, Tree::Number(digits)) if digits.parse().is_ok_and(|n| (1..=MAX_MILLIS).contains(&n)) => {}
            (Self::Millis, _) => refuse(&format!("a whole number of milliseconds from 1 to {MAX_MILLIS}")),
            (Self::Whole(least, most), Tree::Number(digits))
                if digits.parse().is_ok_and(|n| (*least..=*most).contains(&n)) => {}
            (Self::Whole(least, most), _) => refuse(&format!("a whole number from {least} to {most}")),
            (Self::Wholes(least, most), Tree::List(items)) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    Self::Whole(*least, *most).check(item, KeyPath::Index(&path, index), issues);
                }
            }
            (Self::Wholes(least, most), _) => {
                refuse(&format!("a list of at least one whole number from {least} to {most}"));
            }
            (Self::Texts, Tree::List(items)) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    Self::Text.check(item, KeyPath::Index(&path, index), issues);
                }
            }
            (Self::Texts, _) => refuse("a list of at least one string"),
            (Self::Names, Tree::String(_)) => Self::FullText.check(node, path, issues),
            (Self::Names, Tree::List(items)) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    Self::FullText.check(item, KeyPath::Index(&path, index), issues);
                }
                check_distinct(items, path, issues);
            }
            (Self::Names, _) => refuse("a string or a list of at least one string"),
            (Self::TextMap, Tree::Map(entries)) => {
                for entry in entries {
                    Self::Text.check(&entry.node, KeyPath::Key(&path, &entry.key), issues);
                }
            }
            (Self::TextMap, _) => refuse("an object of strings"),
            (Self::Object(object), _) => {
                object.check(node, path, issues);
            }
            (Self::AnyObject, Tree::Map(_)) | (Self::Any, _) => check_value(node, path, issues),
            (Self::AnyObject, _) => refuse("an object"),
        }
    }
}

impl<'n> Fields<'n> {
    /// Those of an object whose shape is not known yet.
    pub(crate) fn new(entries: &'n [Entry]) -> Self {
        Self(entries)
    }

    /// The value of `key`.
    pub(crate) fn node(self, key: &str) -> Option<&'n Node> {
        self.0.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The string of `key`.
    pub(crate) fn text(self, key: &str) -> Option<&'n str> {
        self.node(key).and_then(as_text)
    }

    /// Whether `key` is `true`.
    pub(crate) fn flag(self, key: &str) -> bool {
        self.node(key).is_some_and(|node| node.value == Tree::Bool(true))
    }

    /// The whole number of `key`.
    pub(crate) fn whole(self, key: &str) -> Option<u64> {
        match &self.node(key)?.value {
            Tree::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// The whole numbers of the list of `key`.
    pub(crate) fn wholes<N: std::str::FromStr>(self, key: &str) -> Vec<N> {
        let number = |node: &Node| match &node.value {
            Tree::Number(digits) => digits.parse().ok(),
            _ => None,
        };
        self.items(key).iter().filter_map(number).collect()
    }

    /// The object of `key`.
    pub(crate) fn object(self, key: &str) -> Option<Self> {
        match &self.node(key)?.value {
            Tree::Map(entries) => Some(Self(entries)),
            _ => None,
        }
    }

    /// The items of the list of `key`.
    pub(crate) fn items(self, key: &str) -> &'n [Node] {
        match self.node(key).map(|node| &node.value) {
            Some(Tree::List(items)) => items,
            _ => &[],
        }
    }

    /// The string of `key`, or the strings of its list, with their places.
    pub(crate) fn names(self, key: &str) -> Vec<(&'n str, &'n Node)> {
        let node = self.node(key);
        let nodes = match node.map(|node| &node.value) {
            Some(Tree::List(items)) => items.iter().collect(),
            _ => node.into_iter().collect::<Vec<_>>(),
        };
        nodes.into_iter().filter_map(|node| as_text(node).map(|text| (text, node))).collect()
    }

    /// The strings of the object of `key`, in the order of the text.
    pub(crate) fn text_map(self, key: &str) -> Vec<(&'n Entry, &'n str)> {
        match self.node(key).map(|node| &node.value) {
            Some(Tree::Map(entries)) => {
                entries.iter().filter_map(|entry| as_text(&entry.node).map(|text| (entry, text))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// ", did you mean `…`" with the known word that `word` is nearest to; empty where none is near.
pub(crate) fn did_you_mean<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> String {
    let far = word.chars().count().max(3) / 3;
    let nearest = known
        .map(|known| (strsim::damerau_levenshtein(&word.to_lowercase(), &known.to_lowercase()), known))
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, known)) if distance <= far => format!(", did you mean `{known}`"),
        _ => String::new(),
    }
}

/// `text` for a message: one line, and not too long.
pub(crate) fn shown(text: &str) -> String {
    let cut = text.char_indices().nth(128).map_or(text.len(), |(at, _)| at);
    let mut shown = one_line(text.get(..cut).unwrap_or(text));
    if text.chars().nth(128).is_some() {
        shown.push('…');
    }
    shown
}

fn as_text(node: &Node) -> Option<&str> {
    match &node.value {
        Tree::String(text) => Some(text),
        _ => None,
    }
}

fn check_word(words: &[&str], later: &[&str], node: &Node, path: KeyPath<'_>, issues: &mut Issues) {
    match as_text(node) {
        Some(word) if words.contains(&word) => {}
        Some(word) if later.contains(&word) => {
            issues.error(node.place, path, format!("`{word}` is not supported by this version of hookd"));
        }
        word => {
            let list = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
            let hint = word.map(|word| did_you_mean(word, words.iter().copied())).unwrap_or_default();
            let hint = if words.len() > 1 { hint } else { String::new() };
            issues.error(node.place, path, format!("must be {list}, not {node}{hint}"));
        }
    }
}

fn check_distinct(items: &[Node], path: KeyPath<'_>, issues: &mut Issues) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(text) = as_text(item)
            && !seen.insert(text)
        {
            issues.error(item.place, KeyPath::Index(&path, index), format!("`{}` stands here twice", shown(text)));
        }
    }
}

fn check_value(node: &Node, path: KeyPath<'_>, issues: &mut Issues) {
    if let Err(odd) = node.to_value() {
        issues.error(odd.place, path, format!("must hold values that JSON can hold, not {odd}"));
    }
}
