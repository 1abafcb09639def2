use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::whole;
use crate::telemetry::otlp::OtlpStats;

/// How exporting to collectors went.
#[derive(Default)]
pub(super) struct OtlpMetrics {
    exported: Family<Signal, Counter<u64, AtomicU64>>,
    dropped: Family<Signal, Counter<u64, AtomicU64>>,
    errors: Family<Signal, Counter<u64, AtomicU64>>,
    waiting: Family<Signal, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Signal {
    signal: &'static str,
}

impl OtlpMetrics {
    pub(super) fn show(&self, signal: &'static str, stats: &OtlpStats) {
        let signal = Signal { signal };
        let counts = [(&self.exported, stats.exported), (&self.dropped, stats.dropped), (&self.errors, stats.errors)];
        for (counter, count) in counts {
            counter.get_or_create(&signal).inner().store(count, Ordering::Relaxed);
        }
        self.waiting.get_or_create(&signal).set(whole(stats.waiting_bytes));
    }

    pub(super) fn register(&self, r: &mut Registry) {
        // So that they are there from the beginning.
        self.show("logs", &OtlpStats::default());
        self.show("traces", &OtlpStats::default());
        let taken = "Audit records (logs) and spans (traces) that a collector took";
        r.register("otlp_exported", taken, self.exported.clone());
        let dropped = "Those that found no place, were refused by the collector or were lost";
        r.register("otlp_dropped", dropped, self.dropped.clone());
        r.register("otlp_errors", "Requests to a collector that came to nothing", self.errors.clone());
        r.register("otlp_queue_bytes", "What waits to be exported", self.waiting.clone());
    }
}
