//! `Edit(src/**)`: files by gitignore patterns.
//!
//! `//x` starts at the root of the file system, `~/x` at a home directory, `/x` at the directory that the settings
//! belong to, `x` and `./x` at the agent's working directory. A name without a `/` before its end is meant at any
//! depth. What matches a directory matches all in it, capital letters or not. `{a,b}` is either, which gitignore does
//! not have: many write it, and a hook that is not run would be the worse mistake.
//!
//! No file is looked at. Whose home `~` is nobody says, so it is any directory.

use std::sync::Arc;

use hookd_json::Json;

use crate::{
    functions::{class, literal},
    pattern::Pattern,
};

/// A pattern over paths.
#[derive(Debug)]
pub(super) struct PathPattern {
    start: Start,
    /// How many directories above the start it begins.
    up: usize,
    /// Over the path below the start, without a `/` at its start.
    below: Arc<Pattern>,
    /// The names that it begins with as they are: nothing outside of that directory matches.
    fixed: Vec<String>,
}

/// Where a pattern starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Root,
    Home,
    Settings,
    Cwd,
}

/// Parameters that name a file or directory.
const KEYS: [&str; 5] = ["file_path", "notebook_path", "path", "filePath", "notebookPath"];

/// Tools that look through a directory, which without a parameter is the working directory.
const SEARCHING: [&str; 4] = ["Grep", "Glob", "LS", "LSP"];

impl PathPattern {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.starts_with('!') {
            return Err("a pattern that begins with `!` names no file".to_owned());
        }
        let (start, anchored, rest) = match text.strip_prefix("~/").or((text == "~").then_some("")) {
            Some(rest) => (Start::Home, true, rest),
            None => match (text.strip_prefix("//"), text.strip_prefix('/')) {
                (Some(rest), _) => (Start::Root, true, rest),
                (None, Some(rest)) => (Start::Settings, true, rest),
                (None, None) => (Start::Cwd, false, text),
            },
        };
        // `./x` is `x` here.
        let (mut up, mut rest) = (0_usize, rest.trim_start_matches("./"));
        while let Some(after) = rest.strip_prefix("../").or((rest == "..").then_some("")) {
            (up, rest) = (up.saturating_add(1), after.trim_start_matches("./"));
        }
        let rest = if matches!(rest, "" | ".") { "**" } else { rest };
        let is_path = rest.trim_end_matches('/').contains('/');
        let regex = regex(rest, anchored || is_path || up > 0)?;
        let is_wild = |name: &&str| name.contains(['*', '?', '[', '\\', '{']);
        let fixed = if anchored || is_path || up > 0 {
            rest.trim_end_matches('/').split('/').take_while(|name| !is_wild(name)).map(str::to_lowercase).collect()
        } else {
            Vec::new()
        };
        Ok(Self { start, up, below: Pattern::new(&regex)?, fixed })
    }

    /// Whether the hook runs for a call of `tool`.
    pub(super) fn runs(&self, tool: &str, params: &Json<'_>, cwd: Option<&str>, root: Option<&str>) -> bool {
        let searching = SEARCHING.contains(&tool);
        let named = KEYS.iter().filter_map(|key| params.get(key));
        let mut named = named.filter(|value| **value != Json::Null).peekable();
        if named.peek().is_none() {
            return if searching { self.may_lie_in("", cwd, root) } else { true };
        }
        named.any(|value| match value.as_str() {
            Some(path) => self.matches(path, cwd, root) || (searching && self.may_lie_in(path, cwd, root)),
            None => true,
        })
    }

    fn matches(&self, path: &str, cwd: Option<&str>, root: Option<&str>) -> bool {
        // Agents that write `~` mean a home that is not known here.
        let Some(names) = names(path, cwd) else { return true };
        match self.directory(cwd, root) {
            Some(directory) => starts_with(&names, &directory).is_some_and(|below| self.is_match(&below.join("/"))),
            None => (0..names.len()).any(|at| self.is_match(&names.get(at..).unwrap_or_default().join("/"))),
        }
    }

    /// Whether something that matches may lie in the directory `path`.
    fn may_lie_in(&self, path: &str, cwd: Option<&str>, root: Option<&str>) -> bool {
        let (Some(names), Some(mut fixed)) = (names(path, cwd), self.directory(cwd, root)) else { return true };
        fixed.extend(self.fixed.iter().cloned());
        names.iter().zip(&fixed).all(|(name, fixed)| name.to_lowercase() == fixed.to_lowercase())
    }

    fn is_match(&self, below: &str) -> bool {
        self.below.is_match(below).unwrap_or(true)
    }

    /// The directory that the pattern starts at. `None`: it is not known.
    fn directory(&self, cwd: Option<&str>, root: Option<&str>) -> Option<Vec<String>> {
        let mut names = match self.start {
            Start::Root => Vec::new(),
            Start::Home => return None,
            Start::Settings => names(root?, None)?,
            Start::Cwd => names(cwd?, None)?,
        };
        names.truncate(names.len().saturating_sub(self.up));
        Some(names)
    }
}

/// The names on the way from the root to `path`. `None`: the path is relative to something that is not known.
fn names(path: &str, cwd: Option<&str>) -> Option<Vec<String>> {
    let path = posix(path);
    if path == "~" || path.starts_with("~/") {
        return None;
    }
    let start = if path.starts_with('/') { String::new() } else { posix(cwd?) };
    if !path.starts_with('/') && !start.starts_with('/') {
        return None;
    }
    let mut names = Vec::new();
    for name in start.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name.to_owned()),
        }
    }
    Some(names)
}

/// `C:\Users\ann` as `/c/Users/ann`.
fn posix(path: &str) -> String {
    let mut chars = path.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some(drive), Some(':'), Some('/' | '\\')) if drive.is_ascii_alphabetic() => {
            format!("/{}/{}", drive.to_ascii_lowercase(), chars.as_str().replace('\\', "/"))
        }
        (Some('\\'), Some('\\'), _) => path.replace('\\', "/"),
        _ => path.to_owned(),
    }
}

/// What of `names` follows `directory`.
fn starts_with<'n>(names: &'n [String], directory: &[String]) -> Option<&'n [String]> {
    let (start, below) = names.split_at_checked(directory.len())?;
    let same = start.iter().zip(directory).all(|(one, other)| one.to_lowercase() == other.to_lowercase());
    (same && !below.is_empty()).then_some(below)
}

/// The regular expression of the gitignore pattern `text`, over the path below its start.
fn regex(text: &str, anchored: bool) -> Result<String, String> {
    let (text, inside_only) = text.strip_suffix('/').map_or((text, false), |text| (text, true));
    let mut regex = String::from(if anchored { "(?is)^" } else { "(?is)^(?:.*/)?" });
    let mut open = 0_usize;
    let mut at_start = true;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let starts = std::mem::replace(&mut at_start, c == '/');
        match c {
            '*' if rest.peek() == Some(&'*') => {
                while rest.next_if_eq(&'*').is_some() {}
                match (starts, rest.peek()) {
                    (true, Some('/')) => {
                        rest.next();
                        at_start = true;
                        regex.push_str("(?:.*/)?");
                    }
                    (true, None) => regex.push_str(".+"),
                    _ => regex.push_str("[^/]*"),
                }
            }
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => regex.push_str(&class(&mut rest).ok_or("its `[` is not closed")?),
            '{' if alternatives(rest.clone()) => {
                open = open.saturating_add(1);
                regex.push_str("(?:");
            }
            ',' if open > 0 => regex.push('|'),
            '}' if open > 0 => {
                open = open.saturating_sub(1);
                regex.push(')');
            }
            '\\' => literal(&mut regex, rest.next().ok_or("nothing follows its `\\`")?),
            c => literal(&mut regex, c),
        }
    }
    regex.push_str(if inside_only { "/.*$" } else { "(?:/.*)?$" });
    Ok(regex)
}

/// Whether a `{` opens alternatives: there is a comma before the `}` that closes it.
fn alternatives(rest: impl Iterator<Item = char>) -> bool {
    let (mut depth, mut comma) = (0_usize, false);
    for c in rest {
        match c {
            '{' => depth = depth.saturating_add(1),
            ',' if depth == 0 => comma = true,
            '}' if depth == 0 => return comma,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
