//! What came of the calls of one run.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use tokio::time::Instant;
use tonic::Code;

/// The longest time that can be told apart: longer than any run.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its size.
    pub(crate) bytes: usize,
    /// It says what it should.
    pub(crate) as_expected: bool,
}

/// A status that came instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Times in nanoseconds, and counts.
#[derive(Debug)]
pub(crate) struct Tally {
    /// From due to answered, of every call that was due in the measurement, failed ones included.
    pub(crate) latency: Histogram<u64>,
    /// From due to sent, of the same calls: how late the generator itself was, or had to be.
    pub(crate) lag: Histogram<u64>,
    /// Good answers in the measurement.
    pub(crate) good: u64,
    /// Their bytes.
    pub(crate) reply_bytes: u64,
    /// Answers that did not say what they should, in all, warm-up included.
    pub(crate) unexpected: u64,
    /// Calls that got a status instead of an answer, in all, warm-up included: how many, and the first one's message.
    pub(crate) refused: BTreeMap<&'static str, (u64, String)>,
    /// Calls that got any answer, in all.
    pub(crate) finished: u64,
    /// Calls that had none when the grace was over.
    pub(crate) unfinished: u64,
    /// Calls that were due and never sent.
    pub(crate) unsent: u64,
    /// When the measurement began.
    from: Instant,
    /// When it ended: its time was over and the last answer there.
    pub(crate) end: Instant,
}

impl Tally {
    /// Nothing yet; the measurement begins at `from`.
    ///
    /// # Errors
    /// Never: the histogram's bounds are good.
    pub(crate) fn new(from: Instant) -> anyhow::Result<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).context("bounds of the histogram")?;
        Ok(Self {
            latency: histogram.clone(),
            lag: histogram,
            good: 0,
            reply_bytes: 0,
            unexpected: 0,
            refused: BTreeMap::new(),
            finished: 0,
            unfinished: 0,
            unsent: 0,
            from,
            end: from,
        })
    }

    /// Adds one call.
    pub(crate) fn record(&mut self, due: Instant, sent: Instant, answered: Instant, answer: Result<Reply, Refusal>) {
        self.finished = self.finished.saturating_add(1);
        self.end = self.end.max(answered);
        let measured = due >= self.from;
        if measured {
            self.latency.saturating_record(nanos(answered.saturating_duration_since(due)));
            self.lag.saturating_record(nanos(sent.saturating_duration_since(due)));
        }
        match answer {
            Ok(reply) => {
                if measured {
                    self.good = self.good.saturating_add(1);
                    self.reply_bytes = self.reply_bytes.saturating_add(u64::try_from(reply.bytes).unwrap_or(u64::MAX));
                }
                if !reply.as_expected {
                    self.unexpected = self.unexpected.saturating_add(1);
                }
            }
            Err(refusal) => {
                let entry = self.refused.entry(code_name(refusal.code)).or_insert((0, refusal.message));
                entry.0 = entry.0.saturating_add(1);
            }
        }
    }

    /// How long the measurement took, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.end.saturating_duration_since(self.from).as_secs_f64()
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The name of a code as the gRPC specification writes it.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
