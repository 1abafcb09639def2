//! What is logged, and how.

use config::Value;
use hookd_json::Value as Json;
use serde_json::json;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::{
    section::{Section, text},
    words::{Words, word_of},
};

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The form.
    pub format: LogFormat,
    /// Directives such as `info` or `info,hookd=debug`.
    pub filter: String,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

const FORMATS: &Words<LogFormat> = &[("auto", LogFormat::Auto), ("human", LogFormat::Human), ("json", LogFormat::Json)];

pub(super) fn log(mut section: Section<'_, '_>) -> LogSettings {
    let log = LogSettings {
        format: section.word("format", FORMATS, LogFormat::Auto),
        filter: section
            .read("filter", log_filter, "a log filter, such as info or info,hookd=debug")
            .unwrap_or_else(|| "info".to_owned()),
    };
    section.end();
    log
}

pub(super) fn tree(log: &LogSettings) -> Json {
    json!({ "format": word_of(FORMATS, log.format), "filter": log.filter })
}

fn log_filter(value: &Value) -> Option<String> {
    // A word alone would be taken for a target, so that a mistyped level silences everything.
    let is_level = |directive: &str| directive.trim().parse::<LevelFilter>().is_ok();
    let is_meant = |filter: &&str| filter.split(',').all(|one| one.contains(['=', '[']) || is_level(one));
    text(value).filter(is_meant).filter(|filter| EnvFilter::try_new(filter).is_ok()).map(str::to_owned)
}
