//! An http hook.

use std::collections::HashSet;

use hookd_json::{Entry, Tree, Value};
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::handler::Site;
use crate::{
    Handler, HttpHandler, ValuePart,
    file::{Context, can_stand_in_a_header, header_name, is_reserved_header, millis, object, public_only, url},
    problem::{Issues, KeyPath, shown},
    shape::Fields,
};

/// Events on which that agent runs no http hooks.
const WITHOUT_HTTP: [&str; 2] = ["SessionStart", "Setup"];

/// The handler and what of it counts for the revision. `None` after an error.
pub(super) fn compile(
    site: &Site<'_>,
    fields: Fields<'_>,
    context: &Context<'_>,
    issues: &mut Issues,
) -> Option<(Handler, Value)> {
    if WITHOUT_HTTP.contains(&site.name) {
        let message = format!("there are no http hooks on `{}`: that agent runs only commands there", site.name);
        site.error(fields, "type", issues, message);
    }
    let timeout = site.timeout(fields, context, issues);
    let url = match url(site.needed(fields, "url", issues)?) {
        Ok(url) => url,
        Err(message) => {
            site.error(fields, "url", issues, message);
            return None;
        }
    };
    let public_only = match public_only(&url, context) {
        Ok(public_only) => public_only,
        Err(message) => {
            site.error(fields, "url", issues, message);
            return None;
        }
    };
    if !site.switches.permits_url(&url) {
        site.error(fields, "url", issues, "is not in `allowedHttpHookUrls` of this file");
    }
    let names = site.texts(fields, "allowedEnvVars", issues)?.unwrap_or_default();
    let mut headers =
        Headers { names: &names, site, context, seen: HashSet::new(), list: Vec::new(), meant: Vec::new() };
    match fields.node("headers").map(|node| (node, &node.value)) {
        None => {}
        Some((_, Tree::Map(entries))) => entries.iter().for_each(|entry| headers.add(entry, issues)),
        Some((node, _)) => site.error(fields, "headers", issues, format!("must be an object of strings, not {node}")),
    }
    let meaning = json!({
        "type": "http",
        "url": url,
        "headers": object(headers.meant.iter().map(|(name, text)| (name.as_str(), json!(text)))),
        "timeout": millis(timeout),
    });
    Some((Handler::Http(HttpHandler { url, headers: headers.list, timeout, public_only }), meaning))
}

/// The headers of one hook.
struct Headers<'h> {
    /// The variables that the hook itself says may be put in.
    names: &'h [String],
    site: &'h Site<'h>,
    context: &'h Context<'h>,
    seen: HashSet<String>,
    list: Vec<(String, Vec<ValuePart>)>,
    /// Names and values as written, less what nothing is put in for.
    meant: Vec<(String, String)>,
}

impl Headers<'_> {
    fn add(&mut self, entry: &Entry, issues: &mut Issues) {
        let path = KeyPath::Key(&self.site.path, "headers");
        let path = KeyPath::Key(&path, &entry.key);
        let Tree::String(text) = &entry.node.value else {
            return issues.error(entry.node.place, path, format!("must be a string, not {}", entry.node));
        };
        let name = match header_name(&entry.key) {
            Ok(name) => name,
            Err(message) => return issues.error(entry.place, path, message),
        };
        if is_reserved_header(&name) {
            let message = format!("the header `{name}` is set by hookd alone, this one is ignored");
            return issues.warning(entry.place, path, message);
        }
        if !self.seen.insert(name.clone()) {
            return issues.error(entry.place, path, format!("the header `{name}` stands here twice"));
        }
        let (mut parts, mut meant) = (Vec::new(), String::new());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) if !can_stand_in_a_header(text) => {
                    let message = "the value may hold printable ASCII characters only";
                    return issues.error(entry.node.place, path, message);
                }
                Piece::Text(text) => {
                    meant.push_str(text);
                    parts.push(ValuePart::Text(text.to_owned()));
                }
                Piece::Variable(variable) => match self.variable(variable) {
                    Ok(part) => {
                        meant.push_str(&format!("${{{variable}}}"));
                        parts.push(part);
                    }
                    Err(why) => {
                        let message = format!("`${}` is put in as empty text: {why}", shown(variable));
                        issues.warning(entry.node.place, path, message);
                    }
                },
            }
        }
        self.list.push((name.clone(), parts));
        self.meant.push((name, meant));
    }

    fn variable(&self, name: &str) -> Result<ValuePart, String> {
        if !self.names.iter().any(|allowed| allowed == name) {
            return Err("it is not in `allowedEnvVars`".to_owned());
        }
        if !self.site.switches.permits_variable(name) {
            return Err("it is not in `httpHookAllowedEnvVars` of this file".to_owned());
        }
        let tier = self.context.tier;
        if !self.context.tier_settings().allow_env.iter().any(|allowed| allowed == name) {
            return Err(format!("it is not in `tiers.{tier}.allow_env` of the settings"));
        }
        match self.context.settings.environment.get(name) {
            None => Err("it is not set".to_owned()),
            Some(value) if !can_stand_in_a_header(value.expose_secret()) => {
                Err("it holds more than printable ASCII characters".to_owned())
            }
            Some(value) => Ok(ValuePart::Env { name: name.to_owned(), value: value.clone() }),
        }
    }
}

/// A piece of the value of a header.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    /// `$NAME` or `${NAME}`.
    Variable(&'t str),
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    // What stands before the next variable, from the start of `rest`.
    let mut from = 0_usize;
    while let Some(at) = rest.get(from..).and_then(|tail| tail.find('$')).map(|found| found.saturating_add(from)) {
        let after = rest.get(at.saturating_add(1)..).unwrap_or_default();
        let Some((name, end)) = variable(after) else {
            from = at.saturating_add(1);
            continue;
        };
        if let Some(before) = rest.get(..at).filter(|before| !before.is_empty()) {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Variable(name));
        (rest, from) = (end, 0);
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// The name of the variable that `text` goes on with after a `$`, and what comes behind it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let (braces, text) = match text.strip_prefix('{') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let end = text.find(|char| !is_part(char)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
    let rest = if braces { rest.strip_prefix('}')? } else { rest };
    is_name.then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::{Piece::*, *};

    #[test]
    fn variables_are_told_from_text() {
        for (text, expected) in [
            ("Bearer $TOKEN", &[Text("Bearer "), Variable("TOKEN")][..]),
            ("${A}${B_1}x", &[Variable("A"), Variable("B_1"), Text("x")]),
            ("$A-$B", &[Variable("A"), Text("-"), Variable("B")]),
            ("5$ $1 ${x:y} $", &[Text("5$ $1 ${x:y} $")]),
            ("$$A", &[Text("$"), Variable("A")]),
            ("", &[]),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }
}
