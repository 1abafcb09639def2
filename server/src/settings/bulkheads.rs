//! What keeps handlers and tenants from taking all places.

use std::time::Duration;

use config::{Value, ValueKind};
use hookd_json::Value as Json;
use serde_json::json;

use super::{
    Limits,
    print::duration,
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
    pub breaker_failure_percent: Option<u32>,
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

    /// Runs of commands that one tenant gets at a time: a quarter of the children.
    #[must_use]
    pub fn tenant_commands(limits: &Limits) -> usize {
        limits.children.div_ceil(4)
    }

    /// Handlers in the background that one tenant gets at a time: a quarter of all.
    #[must_use]
    pub fn tenant_background(limits: &Limits) -> usize {
        limits.async_in_flight.div_ceil(4)
    }

    /// Runs of one handler in the background at a time: at most half of all that may be there.
    #[must_use]
    pub fn background_in_flight(&self, limits: &Limits) -> usize {
        self.handler_in_flight.min(limits.async_in_flight.div_ceil(2))
    }
}

pub(super) fn bulkheads(mut section: Section<'_, '_>) -> BulkheadSettings {
    let a_rate = "a whole number from 1 to 1000000 or off, such as 200";
    let mut rate = |key| section.read(key, |value| number_or_off(value, 1_000_000), a_rate).flatten();
    let (calls_per_second, burst) = (rate("tenant_calls_per_second"), rate("tenant_burst"));
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
            .read("breaker_failure_percent", |value| number_or_off(value, 100), "a whole number from 1 to 100, or off")
            .unwrap_or(Some(50)),
        breaker_runs: section.count("breaker_runs", 20),
        breaker_open_for: section.duration("breaker_open_for", Duration::from_secs(5)),
        tenant_rate: calls_per_second
            .map(|calls_per_second| TenantRate { calls_per_second, burst: burst.unwrap_or(calls_per_second) }),
    };
    section.end();
    settings
}

pub(super) fn tree(settings: &BulkheadSettings) -> Json {
    let or_off = |number: Option<u32>| number.map_or("off".into(), Json::from);
    json!({
        "handler_in_flight": settings.handler_in_flight,
        "handler_queue": settings.handler_queue,
        "breaker_failure_percent": or_off(settings.breaker_failure_percent),
        "breaker_runs": settings.breaker_runs,
        "breaker_open_for": duration(settings.breaker_open_for),
        "tenant_calls_per_second": or_off(settings.tenant_rate.map(|rate| rate.calls_per_second)),
        "tenant_burst": or_off(settings.tenant_rate.map(|rate| rate.burst)),
    })
}

/// A number from 1 to `most`, or `None` for what is switched off.
fn number_or_off(value: &Value, most: u64) -> Option<Option<u32>> {
    match &value.kind {
        ValueKind::String(text) if text == "off" => Some(None),
        // What YAML before 1.2 takes the word for.
        ValueKind::Boolean(false) => Some(None),
        _ => whole_number(value).filter(|number| (1..=most).contains(number)).map(|number| u32::try_from(number).ok()),
    }
}
