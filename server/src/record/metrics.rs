//! Metrics. Labels are bounded: events outside the table are `other`, rules are named only where they are managed and
//! at most 500 of them; tools, sessions and agents are never labels.

mod audit;
mod calls;
mod handlers;
mod loads;
mod otlp;
mod process;
mod tls;

use std::sync::{Mutex, PoisonError};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::histogram::Histogram,
    registry::Registry,
};

pub(super) use self::calls::status;
use self::{
    audit::AuditMetrics, calls::CallMetrics, handlers::HandlerMetrics, loads::LoadMetrics, otlp::OtlpMetrics,
    process::ProcessMetrics, tls::TlsMetrics,
};
use super::Gauges;
use crate::telemetry::{audit::Trail, otlp::SpanExporter};

/// From a decide rule to the longest deadline, in seconds.
const BUCKETS: [f64; 16] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

pub(super) struct Metrics {
    registry: Registry,
    pub(super) calls: CallMetrics,
    pub(super) handlers: HandlerMetrics,
    process: ProcessMetrics,
    loads: LoadMetrics,
    tls: TlsMetrics,
    audit: AuditMetrics,
    otlp: OtlpMetrics,
    gauges: Mutex<Option<Gauges>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Load {
    result: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("hookd"),
            calls: CallMetrics::default(),
            handlers: HandlerMetrics::default(),
            process: ProcessMetrics::default(),
            loads: LoadMetrics::default(),
            tls: TlsMetrics::default(),
            audit: AuditMetrics::default(),
            otlp: OtlpMetrics::default(),
            gauges: Mutex::default(),
        };
        let registry = &mut metrics.registry;
        metrics.calls.register(registry);
        metrics.handlers.register(registry);
        metrics.process.register(registry);
        metrics.loads.register(registry);
        metrics.tls.register(registry);
        metrics.audit.register(registry);
        metrics.otlp.register(registry);
        metrics
    }

    pub(super) fn watch(&self, gauges: Gauges) {
        *self.gauges.lock().unwrap_or_else(PoisonError::into_inner) = Some(gauges);
    }

    pub(super) fn exposition(&self, trail: Option<&Trail>, spans: Option<&SpanExporter>) -> String {
        if let Some(spans) = spans {
            self.otlp.show("traces", &spans.stats());
        }
        if let Some(trail) = trail {
            self.audit.show(&trail.stats());
            if let Some(exporter) = trail.exporter() {
                self.otlp.show("logs", &exporter.stats());
            }
        }
        if let Some(gauges) = &*self.gauges.lock().unwrap_or_else(PoisonError::into_inner) {
            self.process.show(gauges);
            self.loads.show(&gauges.live);
            if let Some(tls) = &gauges.tls {
                self.tls.show(&tls());
            }
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

fn seconds() -> Histogram {
    Histogram::new(BUCKETS)
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
