//! `audit`: where the record of each decision goes, and what stands in it (issue 6, item 7).

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use config::{Value, ValueKind};
use hookd_json::Value as Json;
use regex::Regex;
use serde_json::json;

use super::{
    OtlpSettings, otlp,
    print::{duration, size},
    section::{Expected, Section, absolute, text},
    words::{Words, word_of},
};

/// Where the record of each decision goes, and what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file.
    pub file: AuditFile,
    /// Also, or only, to standard output.
    pub stdout: bool,
    /// Also, or only, to a collector. No answer waits for that.
    pub otlp: OtlpSettings,
    /// How many of 1,000,000 decisions with the verdict NONE that change nothing are kept. Everything else always is.
    pub keep: u32,
    /// What is told of parameters, results, payloads and reasons.
    pub parameters: Parameters,
    /// What is masked, by JSON pointers into `{"params","result","payload"}`. A part that is `*` stands for any one key.
    pub mask_pointers: Vec<String>,
    /// What is masked in every text, by regular expressions.
    pub mask_patterns: Vec<String>,
    /// A file with the key of hashes. `None`: they have none.
    pub hash_key_file: Option<PathBuf>,
    /// What may wait to be written, in bytes.
    pub queue_bytes: usize,
    /// What becomes of an answer whose record finds no place.
    pub on_full: OnFull,
    /// How far a record has to be before its answer leaves.
    pub acknowledge: Acknowledge,
}

/// A file of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFile {
    /// Its path. `None`: there is none.
    pub path: Option<PathBuf>,
    /// The size from which it is rotated, in bytes.
    pub rotate_bytes: usize,
    /// The age of its first record from which it is rotated. Zero: never.
    pub rotate_age: Duration,
    /// How many rotated files are kept.
    pub keep: usize,
    /// How often it is brought to the disk where answers do not wait for that. Zero: that is left to the system.
    pub sync_interval: Duration,
}

/// What is told of parameters, results, payloads and reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameters {
    /// Nothing.
    Off,
    /// A hash of each.
    Hashed,
    /// All but what is masked.
    Masked,
    /// All.
    Full,
}

/// What becomes of an answer whose record finds no place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// It leaves; the record is counted as dropped.
    Drop,
    /// It waits, and where its time is over nothing is let through.
    Block,
}

/// How far a record has to be before its answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// In the queue: the end of the process can lose it.
    Queued,
    /// Written: only the end of the machine can lose it.
    Written,
    /// Brought to the disk.
    Synced,
}

/// All of [`AuditSettings::keep`].
pub const KEEP_ALL: u32 = 1_000_000;

const PARAMETERS: &Words<Parameters> = &[
    ("off", Parameters::Off),
    ("hashed", Parameters::Hashed),
    ("masked", Parameters::Masked),
    ("full", Parameters::Full),
];
const ON_FULL: &Words<OnFull> = &[("drop", OnFull::Drop), ("block", OnFull::Block)];
const ACKNOWLEDGE: &Words<Acknowledge> =
    &[("queued", Acknowledge::Queued), ("written", Acknowledge::Written), ("synced", Acknowledge::Synced)];
const MIB: usize = 1 << 20;

impl AuditSettings {
    /// Whether there is anything to record for.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_written() || self.otlp.endpoint.is_some()
    }

    /// Whether there is something that an answer can wait for.
    fn is_written(&self) -> bool {
        self.file.path.is_some() || self.stdout
    }
}

pub(super) fn audit(mut section: Section<'_, '_>) -> AuditSettings {
    let settings = AuditSettings {
        file: file(section.section("file")),
        stdout: section.yes_or_no("stdout", false),
        otlp: otlp::otlp(section.section("otlp"), "/v1/logs"),
        keep: section.read("keep", ratio, "a ratio from 0 to 1, such as 0.1").unwrap_or(KEEP_ALL),
        parameters: section.word("parameters", PARAMETERS, Parameters::Off),
        mask_pointers: section
            .strings("mask_pointers", "a list of JSON pointers, such as [/params/password, /payload/*/token]")
            .unwrap_or_default(),
        mask_patterns: patterns(&mut section),
        hash_key_file: path(&mut section, "hash_key_file", "a path, such as /etc/hookd/audit.key"),
        queue_bytes: section.size("queue_bytes", 64 * MIB),
        on_full: section.word("on_full", ON_FULL, OnFull::Drop),
        acknowledge: section.word("acknowledge", ACKNOWLEDGE, Acknowledge::Queued),
    };
    for pointer in &settings.mask_pointers {
        let beginnings = ["/params", "/result", "/payload"];
        if !beginnings.iter().any(|beginning| {
            pointer.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }) {
            section.problem(
                "mask_pointers",
                None,
                &format!("{pointer:?} is not a JSON pointer that begins with /params, /result or /payload"),
            );
        }
    }
    if settings.acknowledge != Acknowledge::Queued && settings.on_full == OnFull::Drop {
        section.problem(
            "acknowledge",
            None,
            "needs `on_full: block`: a record that may be dropped acknowledges nothing",
        );
    }
    if settings.acknowledge == Acknowledge::Synced && settings.file.path.is_none() {
        section.problem("acknowledge", None, "`synced` needs `audit.file.path`: nothing else can be brought to a disk");
    }
    if settings.on_full == OnFull::Block && settings.is_on() && !settings.is_written() {
        section.problem(
            "on_full",
            None,
            "`block` needs `audit.file.path` or `audit.stdout`: no answer waits for a collector",
        );
    }
    section.end();
    settings
}

fn file(mut section: Section<'_, '_>) -> AuditFile {
    let file = AuditFile {
        path: path(&mut section, "path", "a path, such as /var/log/hookd/audit.jsonl"),
        rotate_bytes: section.size("rotate_bytes", 64 * MIB),
        rotate_age: section.duration_or_zero("rotate_age", Duration::ZERO),
        keep: section.count("keep", 16),
        sync_interval: section.duration_or_zero("sync_interval", Duration::from_secs(1)),
    };
    section.end();
    file
}

fn path(section: &mut Section<'_, '_>, key: &'static str, expected: Expected) -> Option<PathBuf> {
    let base = section.peek(key).map_or(Path::new("/"), |value| section.base(value));
    section.read(key, |value| text(value).filter(|path| !path.is_empty()).map(|path| absolute(base, path)), expected)
}

/// Not separated by commas, which patterns have.
fn patterns(section: &mut Section<'_, '_>) -> Vec<String> {
    const EXPECTED: &str = "a regular expression or a list of them, such as [\"(?i)bearer [a-z0-9._-]+\"]";
    let parse = |value: &Value| match &value.kind {
        ValueKind::Array(items) => items.iter().map(|item| text(item).map(str::to_owned)).collect(),
        _ => text(value).map(|text| vec![text.to_owned()]),
    };
    let patterns: Vec<String> = section.read("mask_patterns", parse, EXPECTED).unwrap_or_default();
    for pattern in &patterns {
        let why = match Regex::new(pattern) {
            Ok(compiled) if compiled.is_match("") => "matches the empty text".to_owned(),
            Ok(_) => continue,
            Err(error) => error.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        };
        section.problem("mask_patterns", None, &format!("{pattern:?} is not {EXPECTED}: {why}"));
    }
    patterns
}

/// In millionths.
pub(super) fn ratio(value: &Value) -> Option<u32> {
    let ratio = match &value.kind {
        ValueKind::Float(ratio) => *ratio,
        ValueKind::I64(whole @ 0..=1) => {
            if *whole == 0 {
                0.0
            } else {
                1.0
            }
        }
        ValueKind::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a whole number in this range")]
    (0.0..=1.0).contains(&ratio).then(|| (ratio * f64::from(KEEP_ALL)).round() as u32)
}

pub(super) fn tree(settings: &AuditSettings) -> Json {
    let AuditSettings { file, stdout, otlp, keep, parameters, mask_pointers, mask_patterns, .. } = settings;
    json!({
        "file": {
            "path": file.path,
            "rotate_bytes": size(file.rotate_bytes),
            "rotate_age": duration(file.rotate_age),
            "keep": file.keep,
            "sync_interval": duration(file.sync_interval),
        },
        "stdout": stdout,
        "otlp": otlp::tree(otlp),
        "keep": f64::from(*keep) / f64::from(KEEP_ALL),
        "parameters": word_of(PARAMETERS, *parameters),
        "mask_pointers": mask_pointers,
        "mask_patterns": mask_patterns,
        "hash_key_file": settings.hash_key_file,
        "queue_bytes": size(settings.queue_bytes),
        "on_full": word_of(ON_FULL, settings.on_full),
        "acknowledge": word_of(ACKNOWLEDGE, settings.acknowledge),
    })
}
