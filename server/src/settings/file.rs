//! The settings file, as the layer between defaults and environment.

use std::path::Path;

use config::{FileFormat, FileSourceString};
use hookd_json::Value;
use hookd_rules::{Format, read_small_text};

/// What is merged.
pub(super) type Layer = config::File<FileSourceString, FileFormat>;

/// Reads the file at `path`. `None`: it holds comments alone. The error is one line.
///
/// An empty file is refused: it is mostly one that is being written, and would put the default sources in the place of
/// those in force.
///
/// JSON and YAML are parsed here and not by the layer's own parsers, which take keys twice and numbers without bounds,
/// and let a few lines of aliases grow to more than there is memory: the file is read again while hookd serves.
pub(super) fn layer(path: &Path) -> Result<Option<Layer>, String> {
    let at = path.display();
    let text = read_small_text(path).map_err(|why| format!("{at}: cannot read the settings: {why}"))?;
    if text.trim().is_empty() {
        return Err(format!("{at}: is empty, write a comment if that is meant"));
    }
    let Some(format) = Format::of(path) else {
        return if path.extension().is_some_and(|extension| extension == "toml") {
            Ok(Some(Layer::from_str(&text, FileFormat::Toml)))
        } else {
            Err(format!("{at}: the extension is not .yaml, .yml, .json or .toml"))
        };
    };
    let value =
        format.value(&text).map_err(|error| format!("{at}:{}:{}: {}", error.line, error.column, error.message))?;
    if let Some(number) = endless_number(&value) {
        return Err(format!("{at}: the number {number} is too large"));
    }
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(Layer::from_str(&hookd_json::to_text(&value), FileFormat::Json))),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(format!("{at}: is {}, expected a table of keys, such as `listen: 127.0.0.1:50051`", kind(&value)))
        }
    }
}

/// What the TOML parser says over several lines, in one that begins as those of the other formats do: with line, column
/// and what is wrong there.
pub(super) fn toml_error(text: &str) -> Option<String> {
    let (line, rest) = text.strip_prefix("TOML parse error at line ")?.split_once(", column ")?;
    let (column, rest) = rest.split_once('\n')?;
    let wrong = rest.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(format!("{line}:{column}: {}", wrong.trim()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

fn endless_number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) if number.as_f64().is_none_or(f64::is_infinite) => Some(number.to_string()),
        Value::Array(items) => items.iter().find_map(endless_number),
        Value::Object(table) => table.values().find_map(endless_number),
        _ => None,
    }
}
