//! How the server leaves.

use std::time::Duration;

use hookd_json::Value as Json;
use serde_json::json;

use super::{Limits, print::duration, section::Section};

/// How the server leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainSettings {
    /// How long it still serves after readiness went off, so that balancers notice.
    pub min_delay: Duration,
    /// How long calls may take to finish after that.
    pub limit: Duration,
}

pub(super) fn drain(mut section: Section<'_, '_>, limits: &Limits) -> DrainSettings {
    let drain = DrainSettings {
        min_delay: section.duration_or_zero("min_delay", Duration::from_secs(1)),
        limit: section.duration("limit", Duration::from_secs(30).max(limits.default_deadline)),
    };
    if drain.limit < limits.default_deadline {
        section.problem(
            "limit",
            None,
            &format!(
                "{} is shorter than limits.default_deadline ({}), so calls would be cut, set it to at least that",
                humantime::format_duration(drain.limit),
                humantime::format_duration(limits.default_deadline),
            ),
        );
    }
    section.end();
    drain
}

pub(super) fn tree(drain: &DrainSettings) -> Json {
    json!({ "min_delay": duration(drain.min_delay), "limit": duration(drain.limit) })
}
