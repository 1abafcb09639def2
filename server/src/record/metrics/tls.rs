//! How TLS fares.

use std::sync::atomic::Ordering;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Load;
use crate::record::TlsCounts;

#[derive(Default)]
pub(super) struct TlsMetrics {
    loads: Family<Load, Counter>,
    not_after: Family<NoLabels, Gauge>,
    failed_handshakes: Counter,
}

/// Of a family of one series, which is there only if there is something to tell: an end in 1970 would be an alarm.
type NoLabels = [(&'static str, &'static str); 0];

impl TlsMetrics {
    pub(super) fn show(&self, counts: &TlsCounts) {
        for (result, count) in [("good", counts.good), ("refused", counts.refused)] {
            self.loads.get_or_create(&Load { result }).inner().store(count, Ordering::Relaxed);
        }
        self.not_after.get_or_create(&[]).set(counts.not_after);
        self.failed_handshakes.inner().store(counts.failed_handshakes, Ordering::Relaxed);
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register(
            "tls_reloads",
            "Loads of certificate, key and client CA, the first one included, by result",
            self.loads.clone(),
        );
        r.register(
            "tls_certificate_not_after_seconds",
            "End of the certificate in force, in seconds since 1970",
            self.not_after.clone(),
        );
        r.register(
            "tls_failed_handshakes",
            "Handshakes that came to no end: refused, broken off or too slow",
            self.failed_handshakes.clone(),
        );
    }
}
