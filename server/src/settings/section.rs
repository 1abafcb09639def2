//! Typed reads from the merged layers. What is wrong is noted with its place, so that all of it is told at once.

pub(super) mod tables;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use config::{Map, Value, ValueKind};
use hookd_rules::SourceSettings;

use super::{SettingsError, read::PREFIX, selector::selector};

/// What every section of one reading shares.
#[derive(Debug)]
pub(super) struct Reading<'o> {
    /// The settings file as it is shown to people. Empty: there is none.
    pub(super) file: String,
    /// Where relative paths of the settings file start.
    pub(super) file_directory: &'o Path,
    /// Where relative paths of the environment start.
    pub(super) working_directory: &'o Path,
    /// What is wrong so far.
    pub(super) problems: RefCell<Vec<String>>,
}

/// One table of the settings.
pub(super) struct Section<'r, 'o> {
    reading: &'r Reading<'o>,
    /// Its key with a dot at the end; empty at the top.
    path: String,
    table: Map<String, Value>,
    asked: BTreeSet<&'static str>,
}

/// What a value is not, with an example of what would be right.
pub(super) type Expected = &'static str;

impl<'o> Reading<'o> {
    /// Everything that is wrong.
    pub(super) fn finish<T>(self, value: T) -> Result<T, SettingsError> {
        let problems = self.problems.into_inner();
        if problems.is_empty() { Ok(value) } else { Err(SettingsError::new(problems)) }
    }

    /// Notes what is wrong with the value at `key`.
    pub(super) fn refuse(&self, key: &str, value: Option<&Value>, message: &str) {
        let place = match value.and_then(origin) {
            Some("the environment") => {
                format!("environment {PREFIX}{}", key.to_uppercase().replace('.', "__"))
            }
            _ if self.file.is_empty() => key.to_owned(),
            _ => format!("{}: {key}", self.file),
        };
        self.problems.borrow_mut().push(format!("{place}: {message}"));
    }

    /// Where relative paths in `value` start.
    fn base(&self, value: &Value) -> &Path {
        if value.origin() == Some("the environment") { self.working_directory } else { self.file_directory }
    }
}

impl<'r, 'o> Section<'r, 'o> {
    pub(super) fn top(reading: &'r Reading<'o>, table: Map<String, Value>) -> Self {
        Self { reading, path: String::new(), table, asked: BTreeSet::new() }
    }

    /// The table at `key`; empty where it is absent.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'r, 'o> {
        let table = self.take(key).and_then(|value| match value.kind {
            ValueKind::Table(table) => Some(table),
            _ => {
                self.refuse(key, &value, "a table of keys");
                None
            }
        });
        Section {
            reading: self.reading,
            path: format!("{}{key}.", self.path),
            table: table.unwrap_or_default(),
            asked: BTreeSet::new(),
        }
    }

    /// The value at `key` as `parse` understands it; `None` where it is absent or wrong.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Value) -> Option<T>,
        expected: &str,
    ) -> Option<T> {
        let value = self.take(key)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.refuse(key, &value, expected);
        }
        parsed
    }

    pub(super) fn duration(&mut self, key: &'static str, default: Duration) -> Duration {
        let parse = |value: &Value| duration(value).filter(|duration| !duration.is_zero());
        self.read(key, parse, "a duration with its unit, over 0 and at most 24h, such as 30s or 500ms")
            .unwrap_or(default)
    }

    pub(super) fn duration_or_zero(&mut self, key: &'static str, default: Duration) -> Duration {
        self.read(key, duration, "a duration with its unit, at most 24h, such as 1s or 0s").unwrap_or(default)
    }

    pub(super) fn size(&mut self, key: &'static str, default: usize) -> usize {
        self.read(key, size, "a size over 0 and at most 1GiB, such as 4MiB or 65536").unwrap_or(default)
    }

    /// A size that also holds an answer which has nothing left to leave out.
    pub(super) fn message_size(&mut self, key: &'static str, default: usize) -> usize {
        let parse = |value: &Value| size(value).filter(|bytes| *bytes >= 16 << 10);
        self.read(key, parse, "a size from 16KiB to 1GiB, such as 4MiB or 65536").unwrap_or(default)
    }

    pub(super) fn count(&mut self, key: &'static str, default: usize) -> usize {
        let parse = |value: &Value| whole_number(value).filter(|count| (1..=1_000_000).contains(count));
        let count = self.read(key, parse, "a whole number from 1 to 1000000, such as 64");
        count.and_then(|count| usize::try_from(count).ok()).unwrap_or(default)
    }

    pub(super) fn yes_or_no(&mut self, key: &'static str, default: bool) -> bool {
        let parse = |value: &Value| match &value.kind {
            ValueKind::Boolean(yes) => Some(*yes),
            ValueKind::String(text) => text.parse().ok(),
            _ => None,
        };
        self.read(key, parse, "true or false").unwrap_or(default)
    }

    /// A string, or several that stand in a list or with commas between them.
    pub(super) fn strings(&mut self, key: &'static str, expected: Expected) -> Option<Vec<String>> {
        self.read(key, strings, expected)
    }

    /// A list of strings, any of which may be empty or hold commas.
    pub(super) fn texts(&mut self, key: &'static str, expected: Expected) -> Option<Vec<String>> {
        let parse = |value: &Value| match &value.kind {
            ValueKind::Array(items) => items.iter().map(|item| text(item).map(str::to_owned)).collect(),
            _ => None,
        };
        self.read(key, parse, expected)
    }

    /// As [`Self::strings`], made absolute.
    pub(super) fn paths(&mut self, key: &'static str) -> Option<Vec<PathBuf>> {
        let reading = self.reading;
        let parse = |value: &Value| {
            let base = reading.base(value);
            let paths = strings(value)?;
            let good = paths.iter().all(|path| is_path(path));
            good.then(|| paths.iter().map(|path| absolute(base, path)).collect())
        };
        self.read(key, parse, "a list of paths, such as [/etc/hookd/token]")
    }

    /// One path, made absolute.
    pub(super) fn path(&mut self, key: &'static str, expected: Expected) -> Option<PathBuf> {
        let reading = self.reading;
        let parse = |value: &Value| path_text(value).map(|path| absolute(reading.base(value), path));
        self.read(key, parse, expected)
    }

    /// As [`Self::strings`], where a list may also hold tables `{path, optional, selector, missing_label}`.
    pub(super) fn sources(&mut self, key: &'static str) -> Option<Vec<SourceSettings>> {
        let value = self.take(key)?;
        let items = match &value.kind {
            ValueKind::Array(items) => items.clone(),
            _ => strings(&value)
                .unwrap_or_default()
                .into_iter()
                .map(|path| Value::new(value.origin().map(str::to_owned).as_ref(), path))
                .collect(),
        };
        if items.is_empty() && !matches!(&value.kind, ValueKind::Array(_)) && text(&value).is_none() {
            self.refuse(key, &value, "a list of sources, such as [ { path: rules, optional: true } ]");
            return None;
        }
        Some(items.into_iter().enumerate().filter_map(|(index, item)| self.source(key, index, item)).collect())
    }

    /// Notes something about the value at `key`.
    pub(super) fn problem(&self, key: &str, value: Option<&Value>, message: &str) {
        self.reading.refuse(&format!("{}{key}", self.path), value, message);
    }

    /// The value at `key`, where it is given, without taking it.
    pub(super) fn peek(&self, key: &str) -> Option<&Value> {
        self.table.get(key)
    }

    /// Notes a null at `key`, which is what a template leaves of a value that it did not get: elsewhere that is as good as
    /// not given, here it would let more through than any value.
    pub(super) fn refuse_null(&self, key: &str, message: &str) {
        if self.peek(key).is_some_and(|value| value.kind == ValueKind::Nil) {
            self.problem(key, None, message);
        }
    }

    /// Where relative paths in `value` start.
    pub(super) fn base(&self, value: &Value) -> &'r Path {
        self.reading.base(value)
    }

    /// Notes every key that nobody asked for.
    pub(super) fn end(self) {
        for (key, value) in self.table.iter().collect::<BTreeMap<_, _>>() {
            let near = self
                .asked
                .iter()
                .map(|known| (strsim::damerau_levenshtein(known, key), known))
                .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
                .min();
            let message = match near {
                Some((_, known)) => format!("unknown key, did you mean `{known}`"),
                None => {
                    let known = self.asked.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                    format!("unknown key, known here: {known}")
                }
            };
            self.problem(key, Some(value), &message);
        }
    }

    fn source(&self, key: &'static str, index: usize, item: Value) -> Option<SourceSettings> {
        let base = self.base(&item);
        if let Some(path) = path_text(&item) {
            return Some(SourceSettings { path: absolute(base, path), optional: false, selector: None });
        }
        let mut section = self.item(key, index, item, "a source, such as { path: rules, optional: true }")?;
        let parse = |value: &Value| path_text(value).map(|path| absolute(base, path));
        let given = section.peek("path").is_some();
        let path = section.read("path", parse, "a path, such as /etc/hookd/managed");
        if !given {
            section.problem("path", None, "is missing, such as /etc/hookd/managed");
        }
        let optional = section.yes_or_no("optional", false);
        let selector = selector(&mut section);
        section.end();
        path.map(|path| SourceSettings { path, optional, selector })
    }

    /// The table that is the item at `index` of the list at `key`.
    fn item(&self, key: &str, index: usize, item: Value, expected: Expected) -> Option<Section<'r, 'o>> {
        let here = format!("{key}[{index}]");
        let ValueKind::Table(table) = item.kind.clone() else {
            self.refuse(&here, &item, expected);
            return None;
        };
        Some(Section { reading: self.reading, path: format!("{}{here}.", self.path), table, asked: BTreeSet::new() })
    }

    /// Takes the value at `key` out, so that [`Self::end`] finds only what nobody asked for. Null is absent.
    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.asked.insert(key);
        self.table.remove(key).filter(|value| value.kind != ValueKind::Nil)
    }

    fn refuse(&self, key: &str, value: &Value, expected: &str) {
        self.problem(key, Some(value), &format!("{} is not {expected}", shown(value)));
    }
}

/// The layer that a value comes from. Tables that variables of the environment make have none of their own.
fn origin(value: &Value) -> Option<&str> {
    value.origin().or_else(|| match &value.kind {
        ValueKind::Table(table) => table.values().find_map(origin),
        _ => None,
    })
}

/// The text of a value that is one.
pub(super) fn text(value: &Value) -> Option<&str> {
    match &value.kind {
        ValueKind::String(text) => Some(text),
        _ => None,
    }
}

/// The text of a value that is a path.
fn path_text(value: &Value) -> Option<&str> {
    text(value).filter(|path| is_path(path))
}

/// Paths stand in logs and pages, where they must not begin a line of their own.
fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// `path` from the top of the file system, `base` being where relative ones start.
pub(super) fn absolute(base: &Path, path: &str) -> PathBuf {
    base.join(path).components().collect()
}

fn strings(value: &Value) -> Option<Vec<String>> {
    match &value.kind {
        ValueKind::String(text) => {
            Some(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
        }
        ValueKind::Array(items) => {
            items.iter().map(|item| text(item).filter(|text| !text.is_empty()).map(str::to_owned)).collect()
        }
        _ => None,
    }
}

/// A time with its unit, at most a day.
pub(super) fn duration(value: &Value) -> Option<Duration> {
    let duration = humantime::parse_duration(text(value)?.trim()).ok()?;
    // Far from where adding one to a point in time could overflow.
    (duration <= Duration::from_secs(24 * 60 * 60)).then_some(duration)
}

fn size(value: &Value) -> Option<usize> {
    usize::try_from(bytes(value)?).ok().filter(|bytes| (1..=1 << 30).contains(bytes))
}

/// A number of bytes, with or without a unit.
pub(super) fn bytes(value: &Value) -> Option<u64> {
    match text(value) {
        None => whole_number(value),
        Some(text) => {
            let digits = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
            let unit: u64 = match text.trim().strip_prefix(digits)?.trim() {
                "" | "B" => 1,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                "kB" => 1_000,
                "MB" => 1_000_000,
                "GB" => 1_000_000_000,
                _ => return None,
            };
            digits.parse::<u64>().ok()?.checked_mul(unit)
        }
    }
}

/// A number without sign and fraction.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    match &value.kind {
        ValueKind::I64(number) => u64::try_from(*number).ok(),
        ValueKind::U64(number) => Some(*number),
        ValueKind::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    match &value.kind {
        ValueKind::Table(_) => "a table".to_owned(),
        ValueKind::Array(items) if items.is_empty() => "an empty list".to_owned(),
        ValueKind::Array(_) => "the list".to_owned(),
        ValueKind::String(text) => format!("{:?}", text.chars().take(100).collect::<String>()),
        _ => format!("`{value}`"),
    }
}
