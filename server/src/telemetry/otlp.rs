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
#[cfg(feature = "otlp")]
mod spans;

use std::{fmt, path::PathBuf, time::SystemTime};

#[cfg(not(feature = "otlp"))]
pub use absent::Exporter;
#[cfg(feature = "otlp")]
pub use exporter::{Exporter, Signal};

use super::trace::{SpanId, TraceId};

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

/// The spans of a call.
pub struct Spans {
    /// What they weigh, in bytes.
    pub bytes: usize,
    /// How many they are.
    pub count: u64,
    /// Makes them. Called where requests are made, not where calls are answered.
    pub make: Box<dyn FnOnce() -> Vec<Span> + Send>,
}

/// A span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its own id.
    pub id: SpanId,
    /// The span that it is a part of. `None`: it is the first of its trace.
    pub parent: Option<SpanId>,
    /// The parent is another process's.
    pub is_parent_remote: bool,
    /// The flags of its trace context.
    pub flags: u8,
    /// What is done.
    pub name: String,
    /// On which side of a call.
    pub kind: SpanKind,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// What else there is to tell.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Why it failed. Empty: it did not.
    pub failure: &'static str,
}

/// On which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// On that of who is called.
    Server,
    /// On that of who calls.
    Client,
    /// On neither.
    Internal,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// A number of things.
    Count(usize),
}

/// Exports spans.
pub type SpanExporter = Exporter<Spans>;

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("bytes", &self.bytes).field("count", &self.count).finish_non_exhaustive()
    }
}

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
