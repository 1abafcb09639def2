//! OTLP (issue 6, item 7): what goes to an OpenTelemetry collector, as protobuf over HTTP.
//!
//! Nothing waits for a collector. What is to be exported waits in a queue that is bounded in bytes; a task makes requests
//! of it and tries again while the collector is away. What finds no place is dropped and counted.

#[cfg(not(feature = "otlp"))]
mod absent;
#[cfg(feature = "otlp")]
mod collector;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod logs;
#[cfg(feature = "otlp")]
mod messages;

use std::{path::PathBuf, time::SystemTime};

#[cfg(not(feature = "otlp"))]
pub use absent::Exporter;
#[cfg(feature = "otlp")]
pub use exporter::{Exporter, Signal};

/// A line of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its text, without the line break.
    pub line: Vec<u8>,
    /// When what it tells of happened.
    pub time: SystemTime,
}

/// Exports lines of the audit trail as log records.
pub type LogExporter = Exporter<LogLine>;

/// How exporting went so far, in records or spans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtlpStats {
    /// Those that the collector took.
    pub exported: u64,
    /// Those that found no place in the queue, that the collector refused, or that were left when the process ended.
    pub dropped: u64,
    /// Requests that came to nothing.
    pub errors: u64,
    /// What waits or is on its way, in bytes.
    pub waiting_bytes: usize,
    /// Why nothing can be exported now, for a person. Empty: it can.
    pub trouble: String,
}

/// Why nothing can be exported: one line.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// A file cannot be used.
    #[error("{}: cannot use the {what}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What is wrong with it, without what stands in it.
        why: String,
    },
    /// The client cannot be set up.
    #[error("cannot set up the client of the OTLP collector: {0}")]
    Client(String),
}
