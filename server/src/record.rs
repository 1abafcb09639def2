//! What is told of decisions: one log line each, and metrics, never parameters or outputs; and where the settings ask for
//! it, a record in the audit trail and spans.

mod audit;
mod line;
mod metrics;
mod part;
mod traces;

use std::{fmt, sync::Arc, time::Duration};

use tonic::Code;
use tracing::warn;
use uuid::Uuid;

pub use audit::{Audit, NoAudit};
pub use traces::Traces;

use crate::{
    catalog::Live,
    model::{Decision, Outcome, Ran, Rule, Trigger, Verdict},
    telemetry::{
        DecisionLog,
        audit::{Held, Recorded, Trail},
        call::Call,
        trace::Context,
    },
};
use metrics::Metrics;
use part::Part;

/// Logs and counts. One for the process, shared by all rooms.
pub struct Recorder {
    log: DecisionLog,
    metrics: Metrics,
    audit: Option<Audit>,
    traces: Option<Traces>,
}

/// By what somebody proves who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// Nothing.
    None,
    /// A client certificate.
    Certificate,
    /// A bearer token.
    Token,
}

/// What the process is doing right now, asked at each scrape.
pub struct Gauges {
    /// Calls being evaluated.
    pub in_flight: Box<dyn Fn() -> usize + Send + Sync>,
    /// Calls that are not there whole.
    pub arriving: Box<dyn Fn() -> usize + Send + Sync>,
    /// Large answers that are not read yet.
    pub leaving: Box<dyn Fn() -> usize + Send + Sync>,
    /// Connections of callers.
    pub connections: Box<dyn Fn() -> usize + Send + Sync>,
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

impl Proof {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Certificate => "certificate",
            Self::Token => "token",
        }
    }
}

impl Recorder {
    /// Nothing recorded yet; decisions will go to `log`, and to `audit` where there is one.
    #[must_use]
    pub fn new(log: DecisionLog, audit: Option<Audit>) -> Self {
        Self { log, metrics: Metrics::new(), audit, traces: None }
    }

    /// Spans of decisions will go to `traces`, where there is one.
    #[must_use]
    pub fn with_traces(self, traces: Option<Traces>) -> Self {
        Self { traces, ..self }
    }

    /// Where records of decisions go. `None`: nowhere.
    #[must_use]
    pub fn trail(&self) -> Option<&Trail> {
        self.audit.as_ref().map(Audit::trail)
    }

    /// Ends exporting: what waits is tried once more. Whether that was done within `limit`.
    pub async fn close_exporters(&self, limit: Duration) -> bool {
        let logs = async {
            match self.trail().and_then(Trail::exporter) {
                Some(exporter) => exporter.close(limit).await,
                None => true,
            }
        };
        let spans = async {
            match &self.traces {
                Some(traces) => traces.exporter().close(limit).await,
                None => true,
            }
        };
        let (logs, spans) = tokio::join!(logs, spans);
        logs && spans
    }

    /// Why nothing can be written or exported now, for a person.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = self.trail().map(|trail| trail.stats().trouble).unwrap_or_default();
        troubles.extend(self.trail().and_then(Trail::exporter).map(|exporter| exporter.stats().trouble));
        troubles.extend(self.traces.as_ref().map(|traces| traces.exporter().stats().trouble));
        troubles.retain(|trouble| !trouble.is_empty());
        troubles
    }

    /// Says where the gauges come from.
    pub fn watch(&self, gauges: Gauges) {
        self.metrics.watch(gauges);
    }

    /// Where a call stands in a trace, and whether it has spans. `traceparent` is its caller's.
    #[must_use]
    pub fn context(&self, traceparent: Option<&str>, decision_id: Uuid) -> Context {
        let context = Context::from_header(traceparent, decision_id);
        self.traces.as_ref().map_or(context, |traces| traces.sampled(context))
    }

    /// A call was judged; `took` is from its arrival. `None`: its answer may leave now.
    #[must_use]
    pub fn decision(
        &self,
        trigger: &Arc<Trigger>,
        decision: &Decision,
        context: &Context,
        took: Duration,
    ) -> Option<Held> {
        self.log.decided(|put| line::fields(trigger, decision, took, put));
        self.metrics.calls.decided(trigger, decision, took);
        self.metrics.handlers.ran(decision.results.iter().filter(|result| result.outcome != Outcome::Queued).map(
            |result| {
                let mode = if result.is_shadow() { "shadow" } else { "sync" };
                (&*result.rule, result.outcome, &result.ran, mode)
            },
        ));
        for result in decision.results.iter().filter(|result| result.is_forgiven()) {
            self.metrics.handlers.forgiven(&result.rule, &result.ran);
        }
        if let Some(traces) = &self.traces {
            traces.decided(trigger, decision, context, took);
        }
        self.audit.as_ref().and_then(|audit| audit.decided(trigger, decision, took))
    }

    /// A call was answered with this verdict instead of its decision's, whose record was not written in time: the line of
    /// the decision is in the log already, and says otherwise.
    pub fn unrecorded(&self, trigger: &Trigger, answered: Verdict, recorded: Recorded) {
        warn!(
            event = %trigger.event_name,
            decision_id = %trigger.decision_id,
            answered = answered.name(),
            "the audit record of a decision could not be written in time"
        );
        // It may be written yet.
        if let Some(audit) = &self.audit
            && recorded == Recorded::Late
        {
            audit.late(trigger, answered);
        }
    }

    /// A call was answered with a status instead of a decision, or its caller went away ([`Code::Cancelled`]). `reason`
    /// says more of it, for the audit trail; it may be empty.
    pub fn refused(&self, call: &Call, code: Code, reason: impl FnOnce() -> String) {
        self.metrics.calls.refused(code);
        self.denied(call, code, reason);
    }

    /// As [`Self::refused`], of a call that does not count as one: it asked for nothing to be judged.
    pub fn denied(&self, call: &Call, code: Code, reason: impl FnOnce() -> String) {
        if let Some(audit) = &self.audit {
            audit.refused(call, code, reason());
        }
    }

    /// A call found no place.
    pub fn shed(&self) {
        self.metrics.calls.shed();
    }

    /// A connection was closed at once because it was one too many: `limit` is `all` or `address`.
    pub fn connection_refused(&self, limit: &'static str) {
        self.metrics.calls.connection_refused(limit);
    }

    /// A call of a tenant that calls too often.
    pub fn rate_limited(&self) {
        self.metrics.calls.rate_limited();
    }

    /// Somebody proved who they are (`ok`), or did not: the result is an [`crate::model::Unproven`]'s name. Callers that are
    /// let in without any proof are not counted.
    pub fn authenticated(&self, proof: Proof, result: &'static str) {
        self.metrics.calls.authenticated(proof.name(), result);
    }

    /// The keys of an issuer were asked for, and had or not.
    pub fn issuer_keys(&self, issuer: &str, had: bool) {
        self.metrics.calls.issuer_keys(issuer, if had { "good" } else { "failed" });
    }

    /// A handler in the background, for this event, ended now. The audit trail is not told: its records are decisions.
    pub fn background_ended(&self, rule: &Arc<Rule>, trigger: &Trigger, ran: &Ran) {
        let part = Part::in_background(rule, ran);
        let mode = if part.shadow { "shadow" } else { "async" };
        self.metrics.handlers.ran([(&**rule, part.outcome, ran, mode)]);
        if let Some(traces) = &self.traces {
            traces.background_ended(part, trigger);
        }
    }

    /// Everything in the text form of OpenMetrics.
    #[must_use]
    pub fn exposition(&self) -> String {
        self.metrics.exposition(self.trail(), self.traces.as_ref().map(Traces::exporter))
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
