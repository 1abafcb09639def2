//! How the programs of command handlers are run on the server (issue 6).

use std::time::Duration;

use config::{Value, ValueKind};
use hookd_json::Value as Json;
use serde_json::json;

use super::{
    print,
    section::{Expected, Section, bytes, duration, text, whole_number},
    words::{Words, word_of},
};

/// The word for a limit that is not set, and for nobody else to run as.
const NONE: &str = "none";

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// How programs of command handlers are run. The default holds them in by nothing but `no_new_privileges`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// Their `PATH`: absolute directories, separated by colons.
    pub path: String,
    /// The user that they run as, by name or number. `None`: hookd's own.
    pub user: Option<String>,
    /// The group that they run as, by name or number. `None`: the user's.
    pub group: Option<String>,
    /// They get no privileges by starting other programs (setuid bits, file capabilities).
    pub no_new_privileges: bool,
    /// What each may use up.
    pub limits: CommandLimits,
    /// Where they run.
    pub working_directory: WorkingDirectory,
    /// How strictly Landlock holds them to what they are allowed.
    pub landlock: LandlockUse,
    /// Which of them it holds.
    pub landlock_for: LandlockFor,
}

/// What the program of a command handler may use up. `None`: no limit but that which hookd has itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandLimits {
    /// Memory of one process, in bytes of addresses; from 16 MiB.
    pub address_space: Option<u64>,
    /// Processor time of one process; whole seconds, rounded up.
    pub cpu_time: Option<Duration>,
    /// Files that one process has open; at least 16.
    pub open_files: Option<u64>,
    /// Processes and threads of the user that commands run as, whoever started them. Never holds for root.
    pub processes: Option<u64>,
    /// Size of one file that is written, in bytes.
    pub file_size: Option<u64>,
}

/// Where programs of command handlers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkingDirectory {
    /// Where the rule says, or its tier.
    Rule,
    /// Unless the rule says where: in an empty directory of their own, that is removed afterwards.
    Empty,
}

/// How strictly Landlock holds commands to what they are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandlockUse {
    /// Not at all.
    Off,
    /// As far as the kernel can.
    BestEffort,
    /// Wholly, or the command does not run.
    Required,
}

/// Which commands Landlock holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandlockFor {
    /// Those with a list of what they are allowed.
    Listed,
    /// All: those without a list reach what every program needs, and nothing else.
    All,
}

const WORKING_DIRECTORIES: &Words<WorkingDirectory> =
    &[("rule", WorkingDirectory::Rule), ("empty", WorkingDirectory::Empty)];
const LANDLOCK: &Words<LandlockUse> =
    &[("off", LandlockUse::Off), ("best_effort", LandlockUse::BestEffort), ("required", LandlockUse::Required)];
const LANDLOCK_FOR: &Words<LandlockFor> = &[("listed", LandlockFor::Listed), ("all", LandlockFor::All)];

impl WorkingDirectory {
    /// The word in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        word_of(WORKING_DIRECTORIES, self)
    }
}

impl LandlockUse {
    /// The word in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        word_of(LANDLOCK, self)
    }
}

impl LandlockFor {
    /// The word in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        word_of(LANDLOCK_FOR, self)
    }
}

pub(super) fn commands(mut section: Section<'_, '_>) -> CommandSettings {
    let path = section.read(
        "path",
        search_path,
        "absolute directories with colons between them, such as /usr/local/bin:/usr/bin:/bin",
    );
    let settings = CommandSettings {
        path: path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned()),
        user: or_none(&mut section, "user", account, "the name or number of a user, or none"),
        group: or_none(&mut section, "group", account, "the name or number of a group, or none"),
        no_new_privileges: section.yes_or_no("no_new_privileges", true),
        limits: limits(section.section("limits")),
        working_directory: section.word("working_directory", WORKING_DIRECTORIES, WorkingDirectory::Rule),
        landlock: section.word("landlock", LANDLOCK, LandlockUse::Required),
        landlock_for: section.word("landlock_for", LANDLOCK_FOR, LandlockFor::Listed),
    };
    section.end();
    settings
}

fn limits(mut section: Section<'_, '_>) -> CommandLimits {
    let size = |least: u64| move |value: &Value| bytes(value).filter(|bytes| (least..=TIB).contains(bytes));
    let count = |least: u64| move |value: &Value| whole_number(value).filter(|n| (least..=1_000_000).contains(n));
    let seconds = |value: &Value| {
        let time = duration(value).filter(|time| !time.is_zero())?;
        Some(Duration::from_secs(time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))))
    };
    let limits = CommandLimits {
        address_space: or_none(
            &mut section,
            "address_space",
            size(16 * MIB),
            "a size from 16MiB to 1024GiB, such as 2GiB, or none",
        ),
        cpu_time: or_none(
            &mut section,
            "cpu_time",
            seconds,
            "a duration with its unit, over 0 and at most 24h, such as 5s, or none",
        ),
        open_files: or_none(
            &mut section,
            "open_files",
            count(16),
            "a whole number from 16 to 1000000, such as 256, or none",
        ),
        processes: or_none(
            &mut section,
            "processes",
            count(1),
            "a whole number from 1 to 1000000, such as 64, or none",
        ),
        file_size: or_none(
            &mut section,
            "file_size",
            size(1),
            "a size over 0 and at most 1024GiB, such as 64MiB, or none",
        ),
    };
    section.end();
    limits
}

/// The value at `key`; `None` where it is absent, wrong or the word for that.
fn or_none<T>(
    section: &mut Section<'_, '_>,
    key: &'static str,
    parse: impl FnOnce(&Value) -> Option<T>,
    expected: Expected,
) -> Option<T> {
    let parse = |value: &Value| if text(value) == Some(NONE) { Some(None) } else { parse(value).map(Some) };
    section.read(key, parse, expected).flatten()
}

fn account(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::String(name) if !name.is_empty() && !name.contains([':', '\n', '\0']) => Some(name.clone()),
        ValueKind::String(_) => None,
        _ => whole_number(value).filter(|number| *number < u32::MAX.into()).map(|number| number.to_string()),
    }
}

pub(super) fn tree(settings: &CommandSettings) -> Json {
    let size = |bytes: Option<u64>| shown(bytes.map(|bytes| print::size(usize::try_from(bytes).unwrap_or(usize::MAX))));
    json!({
        "path": settings.path,
        "user": shown(settings.user.as_ref()),
        "group": shown(settings.group.as_ref()),
        "no_new_privileges": settings.no_new_privileges,
        "limits": {
            "address_space": size(settings.limits.address_space),
            "cpu_time": shown(settings.limits.cpu_time.map(print::duration)),
            "open_files": shown(settings.limits.open_files),
            "processes": shown(settings.limits.processes),
            "file_size": size(settings.limits.file_size),
        },
        "working_directory": settings.working_directory.name(),
        "landlock": settings.landlock.name(),
        "landlock_for": settings.landlock_for.name(),
    })
}

/// A value, or the word for none.
fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn search_path(value: &Value) -> Option<String> {
    text(value).filter(|path| path.split(':').all(|entry| entry.starts_with('/'))).map(str::to_owned)
}
