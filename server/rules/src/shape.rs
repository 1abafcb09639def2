//! The shapes of values in rule files: how they are checked, and read once they are. What has which, `keys` says.

mod keys;

use std::collections::HashSet;

use hookd_json::{Entry, Node, Tree};

pub(crate) use self::keys::{DEFAULT, FILE, HANDLERS, LATER_HANDLERS, RULE};
use crate::problem::{Issues, KeyPath, shown};

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
    /// One of these words.
    Word(&'static [&'static str]),
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
            (Self::Word(words), _) => check_word(words, node, path, issues),
            (Self::Words(words), Tree::List(items)) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    check_word(words, item, KeyPath::Index(&path, index), issues);
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

fn as_text(node: &Node) -> Option<&str> {
    match &node.value {
        Tree::String(text) => Some(text),
        _ => None,
    }
}

fn check_word(words: &[&str], node: &Node, path: KeyPath<'_>, issues: &mut Issues) {
    match as_text(node) {
        Some(word) if words.contains(&word) => {}
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
