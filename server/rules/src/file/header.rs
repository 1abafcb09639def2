//! Header values with `${env:NAME}` and `${file:PATH}` in them.

use std::path::{Component, Path};

use hookd_json::Entry;
use secrecy::ExposeSecret as _;

use super::Context;
use crate::{
    HeaderPart,
    problem::{Issues, KeyPath},
    shape::shown,
};

/// Headers that belong to the connection or to hookd itself.
const RESERVED: [&str; 11] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The header of this entry, its name in lowercase. Errors name templates, never what they stand for.
pub(super) fn header(
    entry: &Entry,
    value: &str,
    path: KeyPath<'_>,
    context: &Context<'_>,
    issues: &mut Issues,
) -> Option<(String, Vec<HeaderPart>)> {
    let before = issues.errors();
    let path = KeyPath::Key(&path, &entry.key);
    let name = header_name(&entry.key).unwrap_or_else(|message| {
        issues.error(entry.place, path, message);
        String::new()
    });
    if is_reserved_header(&name) {
        issues.error(entry.place, path, format!("the header `{name}` is set by hookd alone"));
    }
    let parts = parts(value, context).unwrap_or_else(|message| {
        issues.error(entry.node.place, path, message);
        Vec::new()
    });
    (issues.errors() == before).then_some((name, parts))
}

/// The name of a header that `text` is, in lowercase.
///
/// # Errors
/// It is none.
pub(crate) fn header_name(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_part) {
        return Err(format!("`{}` is not the name of a header", shown(text)));
    }
    Ok(text.to_ascii_lowercase())
}

/// Whether the header of this name, in lowercase, belongs to the connection or to hookd itself.
pub(crate) fn is_reserved_header(name: &str) -> bool {
    RESERVED.contains(&name)
}

fn parts(value: &str, context: &Context<'_>) -> Result<Vec<HeaderPart>, String> {
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((text, template)) = rest.split_once("${") {
        push_text(text, &mut parts)?;
        let (template, after) = template.split_once('}').ok_or("`${` has no end, write `${env:NAME}`")?;
        parts.push(match template.split_once(':') {
            Some(("env", name)) => variable(name, context)?,
            Some(("file", path)) => file(path, context)?,
            _ => {
                let template = shown(template);
                return Err(format!("`${{{template}}}` is not known, write `${{env:NAME}}` or `${{file:PATH}}`"));
            }
        });
        rest = after;
    }
    push_text(rest, &mut parts)?;
    Ok(parts)
}

fn push_text(text: &str, parts: &mut Vec<HeaderPart>) -> Result<(), String> {
    if !can_stand_in_a_header(text) {
        return Err("the value may hold printable ASCII characters only".to_owned());
    }
    if !text.is_empty() {
        parts.push(HeaderPart::Text(text.to_owned()));
    }
    Ok(())
}

fn variable(name: &str, context: &Context<'_>) -> Result<HeaderPart, String> {
    if !context.tier_settings().allow_env.iter().any(|allowed| allowed == name) {
        let (name, tier) = (shown(name), context.tier);
        return Err(format!("`${{env:{name}}}` is not in `tiers.{tier}.allow_env` of the settings"));
    }
    let Some(value) = context.settings.environment.get(name) else {
        return Err(format!("the variable `{}` is not set", shown(name)));
    };
    if !can_stand_in_a_header(value.expose_secret()) {
        return Err(format!("the variable `{}` holds more than printable ASCII characters", shown(name)));
    }
    Ok(HeaderPart::Env { name: name.to_owned(), value: value.clone() })
}

fn file(path: &str, context: &Context<'_>) -> Result<HeaderPart, String> {
    let absolute = context.directory().join(path);
    if path.is_empty() || Path::new(path).components().any(|part| part == Component::ParentDir) {
        return Err(format!("`${{file:{}}}` must name a file without `..`", shown(path)));
    }
    if !context.tier_settings().allows_file(&absolute) {
        let (path, tier) = (shown(path), context.tier);
        return Err(format!("`${{file:{path}}}` is not in `tiers.{tier}.allow_files` of the settings"));
    }
    Ok(HeaderPart::File(absolute))
}

/// Whether the text is printable ASCII.
pub(crate) fn can_stand_in_a_header(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}
