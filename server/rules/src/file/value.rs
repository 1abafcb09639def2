//! Values with `${env:NAME}` and `${file:PATH}` in them: of headers, and of the variables of commands.

use std::path::{Component, Path};

use secrecy::ExposeSecret as _;

use super::Context;
use crate::{ValuePart, problem::shown};

/// What a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A header: printable ASCII, and never a request with a literal `${…}`.
    Header,
    /// A variable of a command: any text, and any other `${…}` is the command's own.
    Variable,
}

/// The pieces of `value`. Errors name templates, never what they stand for.
pub(super) fn parts(value: &str, holder: Holder, context: &Context<'_>) -> Result<Vec<ValuePart>, String> {
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((text, template)) = rest.split_once("${") {
        push_text(text, holder, &mut parts)?;
        let part = match template.split_once('}') {
            Some((template, after)) => part(template, holder, context)?.map(|part| (part, after)),
            None if holder == Holder::Variable => None,
            None => return Err("`${` has no end, write `${env:NAME}`".to_owned()),
        };
        rest = match part {
            Some((part, after)) => {
                parts.push(part);
                after
            }
            None => {
                push_text("${", holder, &mut parts)?;
                template
            }
        };
    }
    push_text(rest, holder, &mut parts)?;
    Ok(parts)
}

fn part(template: &str, holder: Holder, context: &Context<'_>) -> Result<Option<ValuePart>, String> {
    match template.split_once(':') {
        Some(("env", name)) => variable(name, holder, context).map(Some),
        Some(("file", path)) => file(path, context).map(Some),
        _ if holder == Holder::Variable => Ok(None),
        _ => {
            let template = shown(template);
            Err(format!("`${{{template}}}` is not known, write `${{env:NAME}}` or `${{file:PATH}}`"))
        }
    }
}

/// Adds `text`; beside other text it becomes one piece with it.
fn push_text(text: &str, holder: Holder, parts: &mut Vec<ValuePart>) -> Result<(), String> {
    if holder == Holder::Header && !can_stand_in_a_header(text) {
        return Err("the value may hold printable ASCII characters only".to_owned());
    }
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(ValuePart::Text(before)) => before.push_str(text),
        _ => parts.push(ValuePart::Text(text.to_owned())),
    }
    Ok(())
}

fn variable(name: &str, holder: Holder, context: &Context<'_>) -> Result<ValuePart, String> {
    if !context.tier_settings().allow_env.iter().any(|allowed| allowed == name) {
        let (name, tier) = (shown(name), context.tier);
        return Err(format!("`${{env:{name}}}` is not in `tiers.{tier}.allow_env` of the settings"));
    }
    let Some(value) = context.settings.environment.get(name) else {
        return Err(format!("the variable `{}` is not set", shown(name)));
    };
    if holder == Holder::Header && !can_stand_in_a_header(value.expose_secret()) {
        return Err(format!("the variable `{}` holds more than printable ASCII characters", shown(name)));
    }
    Ok(ValuePart::Env { name: name.to_owned(), value: value.clone() })
}

fn file(path: &str, context: &Context<'_>) -> Result<ValuePart, String> {
    let absolute = context.directory().join(path);
    if path.is_empty() || Path::new(path).components().any(|part| part == Component::ParentDir) {
        return Err(format!("`${{file:{}}}` must name a file without `..`", shown(path)));
    }
    if !context.tier_settings().allows_file(&absolute) {
        let (path, tier) = (shown(path), context.tier);
        return Err(format!("`${{file:{path}}}` is not in `tiers.{tier}.allow_files` of the settings"));
    }
    Ok(ValuePart::File(absolute))
}

/// Whether the text is printable ASCII.
pub(crate) fn can_stand_in_a_header(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}
