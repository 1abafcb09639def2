//! What that agent makes of a `matcher`.

use std::sync::Arc;

use regex_syntax::hir::{Hir, HirKind};

use super::{javascript, tools};
use crate::{
    Event, Matcher, Pattern, Subject,
    file::{Patterns, reason},
    matcher::{Reading, Standing, Words},
    problem::shown,
};

/// The events whose matchers are lists only if they hold nothing but letters, digits, `_` and `|`.
const NARROW: [&str; 2] = ["FileChanged", "StopFailure"];

/// The matcher that `text` is on `event`, whose name is `name`. Nothing at all on an event without a subject.
///
/// # Errors
/// Why it cannot be used, on one line.
pub(crate) fn read(text: &str, name: &str, event: &Event, patterns: &mut Patterns) -> Result<Matcher, String> {
    if text.is_empty() || text == "*" || event.subject == Subject::None {
        return Ok(Matcher::Any);
    }
    let reading = if event.subject == Subject::Tool { Reading::ClaudeTool } else { Reading::Claude };
    let is_narrow = NARROW.contains(&name);
    patterns.claude(text, reading, is_narrow, || {
        if is_list(text, is_narrow) { Ok(list(text, reading)) } else { pattern(text, reading) }
    })
}

/// What `text` may not have been meant for on a tool event: it matches no tool.
pub(super) fn dead(text: &str, matcher: &Matcher) -> Option<String> {
    match matcher {
        Matcher::Any => None,
        Matcher::Words(words) if is_list(text, false) => {
            let is_server = |name: &&str| name.strip_prefix("mcp__").is_some_and(|rest| !rest.contains("__"));
            let names = text.split(['|', ',']).map(str::trim);
            if let Some(server) = names.clone().find(is_server) {
                let server = shown(server);
                let message = format!("`{server}` is a whole name and matches no tool, a server's are `{server}__.*`");
                return Some(message);
            }
            if let Some(name) = names.clone().find(|name| name.contains(' ')) {
                return Some(format!("`{}` is a whole name and matches no tool", shown(name)));
            }
            words.words.is_empty().then(|| format!("`{}` names no tool", shown(text)))
        }
        _ => {
            let hir = regex_syntax::parse(&javascript::translate(text).ok()?).ok()?;
            if needs_space(&hir) {
                return Some(format!("`{}` matches no tool: no tool has a space in its name", shown(text)));
            }
            let is_rule = text.ends_with(')')
                && text.split_once('(').is_some_and(|(tool, _)| tools::known().any(|known| known == tool))
                && !tools::known().any(|tool| matcher.matches(Some(tool)));
            is_rule.then(|| {
                let text = shown(text);
                format!("`{text}` is read as a pattern and matches no tool, a permission rule goes into `if`")
            })
        }
    }
}

fn is_list(text: &str, is_narrow: bool) -> bool {
    let wide = |char| matches!(char, '-' | ' ' | ',') && !is_narrow;
    text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '|') || wide(char))
}

fn list(text: &str, reading: Reading) -> Matcher {
    let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
    let words = with_other_names(names, reading);
    Matcher::Words(Arc::new(Words { text: text.into(), reading, standing: Standing::Whole, words }))
}

fn pattern(text: &str, reading: Reading) -> Result<Matcher, String> {
    let source = javascript::translate(text)?;
    Ok(match Words::of(&source) {
        Some(Words { standing: Standing::Whole, words, .. }) => {
            let words = with_other_names(words.iter().map(|word| &**word), reading);
            Matcher::Words(Arc::new(Words { text: text.into(), reading, standing: Standing::Whole, words }))
        }
        Some(words) => Matcher::Words(Arc::new(Words { text: text.into(), reading, ..words })),
        None => {
            let pattern = Pattern::read(text, &source, reading).map_err(|error| reason(&error))?;
            Matcher::Pattern(Arc::new(pattern))
        }
    })
}

/// The names, and those of all other tools that answer to them.
fn with_other_names<'n>(names: impl Iterator<Item = &'n str>, reading: Reading) -> Box<[Arc<str>]> {
    let mut words = Vec::<Arc<str>>::new();
    for name in names {
        let others = if reading == Reading::ClaudeTool { tools::answering(name) } else { Vec::new() };
        for name in std::iter::once(name).chain(others) {
            if !words.iter().any(|word| **word == *name) {
                words.push(name.into());
            }
        }
    }
    words.into()
}

/// Whether everything that it matches holds a space.
fn needs_space(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.contains(&b' '),
        HirKind::Capture(capture) => needs_space(&capture.sub),
        HirKind::Repetition(repetition) => repetition.min > 0 && needs_space(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().any(needs_space),
        HirKind::Alternation(branches) => branches.iter().all(needs_space),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

#[cfg(test)]
mod tests;
