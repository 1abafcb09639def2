//! Caps of all kinds.

use std::time::Duration;

use hookd_json::Value as Json;
use serde_json::json;

use super::{
    print::{duration, size},
    section::Section,
};

const MIB: usize = 1 << 20;

/// Caps of all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Budget of a call whose caller sets no deadline.
    pub default_deadline: Duration,
    /// Longest budget that a caller can ask for.
    pub max_deadline: Duration,
    /// Ceiling of handlers' own timeouts.
    pub max_handler_timeout: Duration,
    /// Calls evaluated at a time; more are shed. As many can be on their way.
    pub in_flight: usize,
    /// Child processes alive at a time.
    pub children: usize,
    /// Commands that wait for a free child.
    pub child_queue: usize,
    /// Handlers in the background at a time.
    pub async_in_flight: usize,
    /// Connections of callers open at a time; more are closed at once.
    pub connections: usize,
    /// As many of them as one address of another machine may have; of IPv6, one network of 64 bits.
    pub connections_of_one_address: usize,
    /// Size of a request and of an answer, in bytes after decompression.
    pub message_bytes: usize,
    /// Size of one handler's output, in bytes.
    pub output_bytes: usize,
}

pub(super) fn limits(mut section: Section<'_, '_>) -> Limits {
    let limits = Limits {
        default_deadline: section.duration("default_deadline", Duration::from_secs(30)),
        max_deadline: section.duration("max_deadline", Duration::from_secs(60)),
        max_handler_timeout: section.duration("max_handler_timeout", Duration::from_secs(60)),
        in_flight: section.count("in_flight", 1024),
        children: section.count("children", 64),
        child_queue: section.count("child_queue", 256),
        async_in_flight: section.count("async_in_flight", 256),
        connections: section.count("connections", 16_384),
        connections_of_one_address: section.count("connections_of_one_address", 4096),
        message_bytes: section.message_size("message_bytes", 4 * MIB),
        output_bytes: section.size("output_bytes", MIB),
    };
    if limits.max_deadline < limits.default_deadline {
        section.problem(
            "max_deadline",
            None,
            &format!(
                "{} is shorter than limits.default_deadline ({}), set it to at least that",
                humantime::format_duration(limits.max_deadline),
                humantime::format_duration(limits.default_deadline),
            ),
        );
    }
    section.end();
    limits
}

pub(super) fn tree(limits: &Limits) -> Json {
    json!({
        "default_deadline": duration(limits.default_deadline),
        "max_deadline": duration(limits.max_deadline),
        "max_handler_timeout": duration(limits.max_handler_timeout),
        "in_flight": limits.in_flight,
        "children": limits.children,
        "child_queue": limits.child_queue,
        "async_in_flight": limits.async_in_flight,
        "connections": limits.connections,
        "connections_of_one_address": limits.connections_of_one_address,
        "message_bytes": size(limits.message_bytes),
        "output_bytes": size(limits.output_bytes),
    })
}
