//! How records of the audit trail went.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

use super::whole;
use crate::telemetry::audit::AuditStats;

#[derive(Default)]
pub(super) struct AuditMetrics {
    written: Counter,
    dropped: Counter,
    sampled_out: Counter,
    errors: Counter,
    waiting: Gauge,
    waiting_bytes: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    sync_age: Gauge<f64, AtomicU64>,
}

impl AuditMetrics {
    pub(super) fn show(&self, stats: &AuditStats) {
        let counts = [
            (&self.written, stats.written),
            (&self.dropped, stats.dropped),
            (&self.sampled_out, stats.sampled_out),
            (&self.errors, stats.errors),
        ];
        for (counter, count) in counts {
            counter.inner().store(count, Ordering::Relaxed);
        }
        self.waiting.set(whole(stats.waiting));
        self.waiting_bytes.set(whole(stats.waiting_bytes));
        self.oldest.set(stats.oldest.as_secs_f64());
        let age = stats.synced.map_or(f64::NAN, |synced| synced.elapsed().unwrap_or_default().as_secs_f64());
        self.sync_age.set(age);
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register("audit_records", "Audit records written", self.written.clone());
        r.register("audit_dropped_records", "Audit records that found no place or were lost", self.dropped.clone());
        r.register(
            "audit_sampled_out",
            "Decisions that sampling left out of the audit trail",
            self.sampled_out.clone(),
        );
        r.register("audit_errors", "Tries to write, rotate or sync audit records that failed", self.errors.clone());
        r.register("audit_queue_length", "Audit records that wait to be written", self.waiting.clone());
        r.register("audit_queue_bytes", "What they weigh", self.waiting_bytes.clone());
        r.register("audit_oldest_wait_seconds", "How long the oldest of them waits", self.oldest.clone());
        r.register(
            "audit_last_sync_age_seconds",
            "Since the audit file was brought to the disk",
            self.sync_age.clone(),
        );
    }
}
