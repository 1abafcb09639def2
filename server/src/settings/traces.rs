//! `traces`: which calls have spans, and where these go (issue 6, item 7).

use hookd_json::Value as Json;
use serde_json::json;

use super::{KEEP_ALL, OtlpSettings, audit::ratio, otlp, section::Section};

/// Which calls have spans, and where these go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSettings {
    /// Where they go. Without an endpoint there are none.
    pub otlp: OtlpSettings,
    /// Of how many of 1,000,000 calls that come without a `traceparent`. The others say it themselves.
    pub sample_ratio: u32,
}

pub(super) fn traces(mut section: Section<'_, '_>) -> TraceSettings {
    let settings = TraceSettings {
        otlp: otlp::otlp(section.section("otlp"), "/v1/traces"),
        sample_ratio: section.read("sample_ratio", ratio, "a ratio from 0 to 1, such as 0.1").unwrap_or(KEEP_ALL),
    };
    section.end();
    settings
}

pub(super) fn tree(settings: &TraceSettings) -> Json {
    let TraceSettings { otlp, sample_ratio } = settings;
    json!({ "otlp": otlp::tree(otlp), "sample_ratio": f64::from(*sample_ratio) / f64::from(KEEP_ALL) })
}
