//! Connections of callers.

use std::time::Duration;

use hookd_json::Value as Json;
use serde_json::json;

use super::{print::duration, section::Section};

/// Connections of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Settings {
    /// How often a connection is probed.
    pub keepalive_interval: Duration,
    /// How long a probe may stay unanswered before the connection is dropped.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is told to go (GOAWAY), so that callers spread over replicas; up to a tenth is
    /// taken off at random.
    pub max_connection_age: Duration,
    /// Calls at a time on one connection.
    pub max_concurrent_streams: u32,
}

pub(super) fn http2(mut section: Section<'_, '_>) -> Http2Settings {
    let http2 = Http2Settings {
        keepalive_interval: section.duration("keepalive_interval", Duration::from_secs(30)),
        keepalive_timeout: section.duration("keepalive_timeout", Duration::from_secs(10)),
        max_connection_age: section.duration("max_connection_age", Duration::from_secs(30 * 60)),
        max_concurrent_streams: u32::try_from(section.count("max_concurrent_streams", 256)).unwrap_or(u32::MAX),
    };
    section.end();
    http2
}

pub(super) fn tree(http2: &Http2Settings) -> Json {
    json!({
        "keepalive_interval": duration(http2.keepalive_interval),
        "keepalive_timeout": duration(http2.keepalive_timeout),
        "max_connection_age": duration(http2.max_connection_age),
        "max_concurrent_streams": http2.max_concurrent_streams,
    })
}
