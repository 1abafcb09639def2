//! How many files the process may open, and what that leaves for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::settings::Limits;

/// Files of a child while it runs.
const OF_A_CHILD: usize = 5;
/// Of the process itself: rule files and logs, probes and scrapes, watches.
const OF_THE_PROCESS: usize = 1024;

/// Lets the process open as many files as it may: the usual soft limit of 1024 is less than the default limits can ask
/// for.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        warn!(%error, current = limit.current, "the limit of open files could not be raised");
    }
}

/// How many connections of callers there may be: those of the settings, or what the other limits leave of the files.
/// Without files left, handlers could not run, and every call would fail.
pub(super) fn connections(limits: &Limits) -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    let connections = within(files, limits);
    if connections < limits.connections {
        warn!(
            files,
            connections,
            wanted = limits.connections,
            "the limit of open files permits fewer connections than `limits.connections`"
        );
    }
    connections
}

fn within(files: Option<usize>, limits: &Limits) -> usize {
    let Some(files) = files else { return limits.connections };
    let others = limits
        .children
        .saturating_mul(OF_A_CHILD)
        // Each call and each handler in the background can hold a connection to a handler.
        .saturating_add(limits.in_flight)
        .saturating_add(limits.async_in_flight)
        .saturating_add(OF_THE_PROCESS);
    // A few files for so much is no reason to serve nobody.
    files.saturating_sub(others).max(files / 4).min(limits.connections)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn connections_are_what_the_files_leave() {
        let limits = Limits {
            default_deadline: Duration::ZERO,
            max_deadline: Duration::ZERO,
            max_handler_timeout: Duration::ZERO,
            in_flight: 1024,
            children: 64,
            child_queue: 256,
            async_in_flight: 256,
            connections: 16_384,
            connections_of_one_address: 4096,
            message_bytes: 0,
            output_bytes: 0,
        };
        for (files, expected) in
            [(None, 16_384), (Some(1 << 20), 16_384), (Some(4096), 1472), (Some(1024), 256), (Some(0), 0)]
        {
            assert_eq!(within(files, &limits), expected, "{files:?}");
        }
    }
}
