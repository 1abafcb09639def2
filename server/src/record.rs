//! What is told of decisions: one log line each, and metrics. Never parameters or outputs.

mod audit;
mod metrics;

use std::{fmt, time::Duration};

use hookd_rules::Mode;
use tonic::Code;

use crate::{
    catalog::Live,
    model::{Decision, Outcome, Ran, Rule, Trigger},
    telemetry::DecisionLog,
};
use metrics::Metrics;

/// Logs and counts. One for the process, shared by all rooms.
pub struct Recorder {
    log: DecisionLog,
    metrics: Metrics,
}

/// What the process is doing right now, asked at each scrape.
pub struct Gauges {
    /// Calls being evaluated.
    pub in_flight: Box<dyn Fn() -> usize + Send + Sync>,
    /// Handlers in the background.
    pub background: Box<dyn Fn() -> usize + Send + Sync>,
    /// Child processes alive.
    pub children: Box<dyn Fn() -> usize + Send + Sync>,
    /// Calls that wait for a handler.
    pub handler_slots: Box<dyn Fn() -> usize + Send + Sync>,
    /// Handlers that are not asked because they do not answer.
    pub open_breakers: Box<dyn Fn() -> usize + Send + Sync>,
    /// Commands that wait for a free child.
    pub child_queue: Box<dyn Fn() -> usize + Send + Sync>,
    /// The catalog in force and how loads went.
    pub live: Live,
    /// TLS, if there is any.
    pub tls: Option<Box<dyn Fn() -> TlsCounts + Send + Sync>>,
}

/// How TLS fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsCounts {
    /// Loads of certificate, key and client CA that were taken, the first one included.
    pub good: u64,
    /// Loads that were refused.
    pub refused: u64,
    /// The end of the certificate in force, in seconds since 1970.
    pub not_after: i64,
    /// Handshakes that came to no end.
    pub failed_handshakes: u64,
}

impl Recorder {
    /// Nothing recorded yet; decisions will go to `log`.
    #[must_use]
    pub fn new(log: DecisionLog) -> Self {
        Self { log, metrics: Metrics::new() }
    }

    /// Says where the gauges come from.
    pub fn watch(&self, gauges: Gauges) {
        self.metrics.watch(gauges);
    }

    /// A call was judged; `took` is from its arrival.
    pub fn decision(&self, trigger: &Trigger, decision: &Decision, took: Duration) {
        self.log.decided(|put| audit::fields(trigger, decision, took, put));
        self.metrics.decided(trigger, decision, took);
        self.metrics.handlers(decision.results.iter().filter(|result| result.outcome != Outcome::Queued).map(
            |result| {
                let mode = if result.is_shadow() { "shadow" } else { "sync" };
                (&*result.rule, result.outcome, &result.ran, mode)
            },
        ));
        for result in decision.results.iter().filter(|result| result.is_forgiven()) {
            self.metrics.forgiven(&result.rule, &result.ran);
        }
    }

    /// A call was answered with a status instead of a decision, or its caller went away ([`Code::Cancelled`]).
    pub fn refused(&self, code: Code) {
        self.metrics.refused(code);
    }

    /// A call found no place.
    pub fn shed(&self) {
        self.metrics.shed();
    }

    /// A call of a tenant that calls too often.
    pub fn rate_limited(&self) {
        self.metrics.rate_limited();
    }

    /// A handler in the background ended.
    pub fn background_ended(&self, rule: &Rule, ran: &Ran) {
        let mode = if rule.mode == Mode::Shadow { "shadow" } else { "async" };
        let outcome = match &ran.said {
            Ok(answer) => Outcome::Gave(answer.verdict),
            Err(_) => Outcome::Failed,
        };
        self.metrics.handlers([(rule, outcome, ran, mode)]);
    }

    /// Everything in the text form of OpenMetrics.
    #[must_use]
    pub fn exposition(&self) -> String {
        self.metrics.exposition()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
