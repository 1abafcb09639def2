//! The one place where texts of callers and handlers enter a record: parameters, results, payloads, patches, reasons.

use std::{borrow::Cow, fmt::Write as _};

use hmac::{Hmac, KeyInit as _, Mac as _};
use hookd_audit::{Hash, text};
use hookd_json::{Map, Value};
use regex::Regex;
use secrecy::{ExposeSecret as _, SecretSlice};
use sha2::Sha256;

use crate::{
    settings::{AuditSettings, Parameters},
    telemetry::{Secrets, within_quotes},
};

/// What stands for something that is not told.
const MASKED: &str = "[masked]";
/// Values that were masked are masked in reasons as well, if they have so many bytes: shorter ones stand in any text.
const MIN_VALUE_BYTES: usize = 4;

/// What is told of texts.
#[derive(Debug)]
pub(super) struct Redaction {
    policy: Policy,
    /// What was handed to handlers is told under no policy.
    secrets: Secrets,
}

#[derive(Debug)]
enum Policy {
    Off,
    Hashed(Option<SecretSlice<u8>>),
    Masked { pointers: Vec<Vec<String>>, patterns: Vec<Regex> },
    Full,
}

/// The redaction of one record.
pub(super) struct Redactor<'r> {
    redaction: &'r Redaction,
    /// The values that pointers have masked so far.
    values: Vec<String>,
}

impl Redaction {
    pub(super) fn new(settings: &AuditSettings, key: Option<SecretSlice<u8>>, secrets: Secrets) -> Self {
        let policy = match settings.parameters {
            Parameters::Off => Policy::Off,
            Parameters::Hashed => Policy::Hashed(key),
            Parameters::Full => Policy::Full,
            Parameters::Masked => Policy::Masked {
                pointers: settings.mask_pointers.iter().map(|pointer| parts(pointer)).collect(),
                // Those that cannot be compiled are refused with the settings.
                patterns: settings.mask_patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect(),
            },
        };
        Self { policy, secrets }
    }

    /// Whether texts stand in its records, be it in part: not their hashes alone.
    pub(super) fn tells_whole_texts(&self) -> bool {
        matches!(self.policy, Policy::Masked { .. } | Policy::Full)
    }

    /// Tells hashes alone, without a key.
    pub(super) fn hashes() -> Self {
        Self { policy: Policy::Hashed(None), secrets: Secrets::default() }
    }

    /// Whether it tells anything of a text.
    pub(super) fn tells_texts(&self) -> bool {
        !matches!(self.policy, Policy::Off)
    }
}

impl<'r> Redactor<'r> {
    pub(super) fn new(redaction: &'r Redaction) -> Self {
        Self { redaction, values: Vec::new() }
    }

    /// Adds a text as the field `name`.
    pub(super) fn text(&self, out: &mut Vec<u8>, name: &str, given: &str) {
        match &self.redaction.policy {
            Policy::Off => {}
            Policy::Hashed(key) => hash(out, name, given, key.as_ref()),
            Policy::Full => text(out, name, &self.redaction.secrets.mask(given)),
            Policy::Masked { patterns, .. } => {
                let mut masked = masked_text(patterns, given);
                for value in &self.values {
                    if masked.contains(value.as_str()) {
                        masked = Cow::Owned(masked.replace(value.as_str(), MASKED));
                    }
                }
                text(out, name, &self.redaction.secrets.mask(&masked));
            }
        }
    }

    /// Adds the text of a JSON value as the field `name`, which pointers into it begin with.
    pub(super) fn json(&mut self, out: &mut Vec<u8>, name: &'static str, given: &str) {
        match &self.redaction.policy {
            Policy::Off => {}
            Policy::Hashed(key) => hash(out, name, given, key.as_ref()),
            Policy::Full => self.raw(out, name, given),
            Policy::Masked { pointers, patterns } => {
                let mut mask = Mask { pointers, patterns, by_place: false, values: &mut self.values };
                let value = hookd_json::parse(given).map(|value| mask.value(value, &mut vec![name.to_owned()]));
                let shown = value.as_ref().map_or_else(|_| format!("{MASKED:?}"), hookd_json::to_text);
                self.raw(out, name, &shown);
            }
        }
    }

    /// Adds a JSON Patch of what pointers begin with `target` for.
    pub(super) fn patch(&mut self, out: &mut Vec<u8>, target: &str, given: &str) {
        match &self.redaction.policy {
            Policy::Off => {}
            Policy::Hashed(key) => hash(out, "patch", given, key.as_ref()),
            Policy::Full => self.raw(out, "patch", given),
            Policy::Masked { pointers, patterns } => {
                // Places in lists move with what is put in before them.
                let mut mask = Mask { pointers, patterns, by_place: true, values: &mut self.values };
                let patch = match hookd_json::parse(given) {
                    Ok(Value::Array(steps)) => {
                        Value::Array(steps.into_iter().map(|step| mask.step(target, step)).collect())
                    }
                    _ => MASKED.into(),
                };
                self.raw(out, "patch", &hookd_json::to_text(&patch));
            }
        }
    }

    /// Adds JSON with the known secrets masked: all of it, where it is none any more without them.
    fn raw(&self, out: &mut Vec<u8>, name: &str, json: &str) {
        let shown = match self.redaction.secrets.mask(json) {
            Cow::Owned(masked) if hookd_json::check(&masked).is_err() => Cow::Owned(format!("{MASKED:?}")),
            shown => shown,
        };
        out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
        out.extend_from_slice(shown.as_bytes());
    }
}

struct Mask<'m> {
    pointers: &'m [Vec<String>],
    patterns: &'m [Regex],
    /// Every place in a list is taken for every other.
    by_place: bool,
    values: &'m mut Vec<String>,
}

impl Mask<'_> {
    /// `value` as it may be told; it stands at `path`.
    fn value(&mut self, value: Value, path: &mut Vec<String>) -> Value {
        if self.pointers.iter().any(|pointer| pointer.len() == path.len() && self.reaches(pointer, path)) {
            self.remember(&value);
            return MASKED.into();
        }
        match value {
            Value::String(given) => match masked_text(self.patterns, &given) {
                Cow::Borrowed(_) => Value::String(given),
                Cow::Owned(masked) => Value::String(masked),
            },
            Value::Number(number) => {
                let digits = number.to_string();
                let is_masked = self.patterns.iter().any(|pattern| pattern.is_match(&digits));
                if is_masked { MASKED.into() } else { Value::Number(number) }
            }
            Value::Array(items) => Value::Array(
                items.into_iter().enumerate().map(|(place, item)| self.below(place.to_string(), item, path)).collect(),
            ),
            Value::Object(members) => {
                let mut shown = Map::new();
                for (key, value) in members {
                    let mut name = masked_text(self.patterns, &key).into_owned();
                    while shown.contains_key(&name) {
                        name.push('*');
                    }
                    let value = self.below(key, value, path);
                    shown.insert(name, value);
                }
                Value::Object(shown)
            }
            other => other,
        }
    }

    fn below(&mut self, part: String, value: Value, path: &mut Vec<String>) -> Value {
        path.push(part);
        let shown = self.value(value, path);
        path.pop();
        shown
    }

    /// One step of a patch.
    fn step(&mut self, target: &str, step: Value) -> Value {
        let Value::Object(step) = step else { return MASKED.into() };
        let mut path = vec![target.to_owned()];
        path.extend(step.get("path").and_then(Value::as_str).map(parts).unwrap_or_default());
        let mut shown = Map::new();
        for (key, value) in step {
            let is_below = |pointer: &Vec<String>| pointer.len() <= path.len() && self.reaches(pointer, &path);
            let value = if key != "value" {
                value.as_str().map_or(Value::Null, |text| masked_text(self.patterns, text).into_owned().into())
            } else if self.pointers.iter().any(is_below) {
                self.remember(&value);
                MASKED.into()
            } else {
                self.value(value, &mut path.clone())
            };
            shown.insert(key, value);
        }
        Value::Object(shown)
    }

    /// Whether the pointer goes along the beginning of `path`, as far as it goes.
    fn reaches(&self, pointer: &[String], path: &[String]) -> bool {
        let is_place = |part: &str| part == "-" || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        pointer.iter().zip(path).all(|(wanted, part)| {
            wanted == part || wanted == "*" || (self.by_place && is_place(wanted) && is_place(part))
        })
    }

    /// Notes the texts in what is masked: a reason may quote them, as they are or as JSON.
    fn remember(&mut self, value: &Value) {
        match value {
            Value::String(text) if text.len() >= MIN_VALUE_BYTES => {
                let quoted = within_quotes(text);
                if quoted != *text {
                    self.values.push(quoted);
                }
                self.values.push(text.clone());
            }
            Value::Number(number) if number.as_str().len() >= MIN_VALUE_BYTES => self.values.push(number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.remember(item)),
            Value::Object(members) => members.values().for_each(|member| self.remember(member)),
            _ => {}
        }
    }
}

fn masked_text<'t>(patterns: &[Regex], text: &'t str) -> Cow<'t, str> {
    patterns.iter().fold(Cow::Borrowed(text), |text, pattern| {
        if !pattern.is_match(&text) {
            return text;
        }
        Cow::Owned(pattern.replace_all(&text, regex::NoExpand(MASKED)).into_owned())
    })
}

/// The parts of a JSON pointer.
fn parts(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

/// Adds the hash of a text: with the key, whoever does not have it cannot find the text by trying.
fn hash(out: &mut Vec<u8>, name: &str, given: &str, key: Option<&SecretSlice<u8>>) {
    let shown = match key.and_then(|key| Hmac::<Sha256>::new_from_slice(key.expose_secret()).ok()) {
        Some(mut keyed) => {
            keyed.update(given.as_bytes());
            keyed.finalize().into_bytes().iter().fold("hmac-sha256:".to_owned(), |mut shown, byte| {
                // Writing to a string does not fail.
                let _ = write!(shown, "{byte:02x}");
                shown
            })
        }
        None => format!("sha256:{}", Hash::of(given.as_bytes())),
    };
    text(out, &format!("{name}_hash"), &shown);
}
