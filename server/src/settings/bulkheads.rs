//! What keeps handlers and tenants from taking all places.

use std::time::Duration;

use config::Value;

use super::{
    Limits,
    section::{Section, whole_number},
};

/// What keeps one handler, or one tenant, from taking all places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkheadSettings {
    /// Runs of one http handler at a time.
    pub handler_in_flight: usize,
    /// Calls that wait until a handler has a place.
    pub handler_queue: usize,
    /// A handler of which so many of a hundred runs were not answered is let be. `None`: none ever is.
    pub breaker_failure_percent: Option<usize>,
    /// The last so many runs are looked at.
    pub breaker_runs: usize,
    /// How long it is let be before it is tried again.
    pub breaker_open_for: Duration,
    /// How many calls each tenant may make. `None`: as many as there are places.
    pub tenant_rate: Option<TenantRate>,
}

/// How many calls a tenant may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantRate {
    /// In the long run. At least 1.
    pub calls_per_second: u32,
    /// At once, after it was quiet. At least 1.
    pub burst: u32,
}

impl BulkheadSettings {
    /// Calls that wait for a handler, at a time: half of those that are evaluated.
    #[must_use]
    pub fn slots(limits: &Limits) -> usize {
        limits.in_flight.div_ceil(2)
    }

    /// As many of them as one tenant gets: a quarter.
    #[must_use]
    pub fn tenant_slots(limits: &Limits) -> usize {
        Self::slots(limits).div_ceil(4)
    }

    /// Runs of one command handler at a time: at most half of the children, so that others find some.
    #[must_use]
    pub fn command_in_flight(&self, limits: &Limits) -> usize {
        self.handler_in_flight.min(limits.children.div_ceil(2))
    }

    /// Runs of one handler in the background at a time: at most half of all that may be there.
    #[must_use]
    pub fn background_in_flight(&self, limits: &Limits) -> usize {
        self.handler_in_flight.min(limits.async_in_flight.div_ceil(2))
    }
}

pub(super) fn bulkheads(mut section: Section<'_, '_>) -> BulkheadSettings {
    let percent = |value: &Value| match &value.kind {
        config::ValueKind::String(text) if text == "off" => Some(None),
        config::ValueKind::Boolean(false) => Some(None),
        _ => whole_number(value)
            .filter(|percent| (1..=100).contains(percent))
            .map(|percent| usize::try_from(percent).ok()),
    };
    let rate = |value: &Value| {
        whole_number(value).filter(|rate| (1..=1_000_000).contains(rate)).and_then(|rate| u32::try_from(rate).ok())
    };
    let a_rate = "a whole number from 1 to 1000000, such as 200";
    let calls_per_second = section.read("tenant_calls_per_second", rate, a_rate);
    let burst = section.read("tenant_burst", rate, a_rate);
    if let (None, Some(burst)) = (calls_per_second, burst) {
        section.problem(
            "tenant_burst",
            None,
            &format!("{burst} has no meaning without tenant_calls_per_second, set both"),
        );
    }
    let settings = BulkheadSettings {
        handler_in_flight: section.count("handler_in_flight", 128),
        handler_queue: section.count("handler_queue", 128),
        breaker_failure_percent: section
            .read("breaker_failure_percent", percent, "a whole number from 1 to 100, or off")
            .unwrap_or(Some(50)),
        breaker_runs: section.count("breaker_runs", 20),
        breaker_open_for: section.duration("breaker_open_for", Duration::from_secs(5)),
        tenant_rate: calls_per_second
            .map(|calls_per_second| TenantRate { calls_per_second, burst: burst.unwrap_or(calls_per_second) }),
    };
    section.end();
    settings
}
