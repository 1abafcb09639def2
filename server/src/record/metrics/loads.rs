//! How loads of the rules went, and what is in force.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use hookd_rules::{Mode, Tier};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{Load, whole};
use crate::catalog::Live;

#[derive(Default)]
pub(super) struct LoadMetrics {
    loads: Family<Load, Counter>,
    accepted: Gauge,
    age: Gauge<f64, AtomicU64>,
    revision: Family<Revision, Gauge>,
    rules: Family<Loaded, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Revision {
    revision: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Loaded {
    tier: &'static str,
    mode: &'static str,
}

impl LoadMetrics {
    pub(super) fn show(&self, live: &Live) {
        let (catalog, stats) = (live.current(), live.stats());
        for (result, count) in [("good", stats.good), ("refused", stats.bad)] {
            self.loads.get_or_create(&Load { result }).inner().store(count, Ordering::Relaxed);
        }
        self.accepted.set(i64::from(!live.last_report().is_refused));
        self.age.set(stats.last_good.elapsed().unwrap_or_default().as_secs_f64());
        self.revision.clear();
        self.revision.get_or_create(&Revision { revision: Arc::clone(&catalog.revision) }).set(1);
        for tier in Tier::ALL {
            for mode in [Mode::Enforce, Mode::Shadow] {
                let labels = Loaded { tier: tier.name(), mode: mode.name() };
                self.rules.get_or_create(&labels).set(whole(catalog.count_in(tier, mode)));
            }
        }
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register("reloads", "Loads of the rules, the first one included, by result", self.loads.clone());
        r.register("last_load_accepted", "1: the last load is in force. 0: it was refused", self.accepted.clone());
        r.register("last_good_load_age_seconds", "Age of the last load that was accepted", self.age.clone());
        r.register("catalog_info", "The revision in force", self.revision.clone());
        r.register(
            "rules",
            "Rules and defaults in force by tier; those in mode shadow are not enforced",
            self.rules.clone(),
        );
    }
}
