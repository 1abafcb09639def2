//! Metrics. Labels are bounded: events outside the table are `other`, rules are named only where they are managed and
//! at most 500 of them; tools, sessions and agents are never labels.

mod otlp;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hookd_rules::{Mode, Tier};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tonic::Code;

use self::otlp::OtlpMetrics;
use super::{Gauges, TlsCounts};
use crate::{
    catalog::Live,
    model::{Decision, Outcome, Ran, Rule, Trigger, Verdict},
    telemetry::{
        audit::{AuditStats, Trail},
        otlp::SpanExporter,
    },
};

/// How many managed rules are named; the others are `other`.
const NAMED_RULES: usize = 500;

/// From a decide rule to the longest deadline, in seconds.
const BUCKETS: [f64; 16] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

pub(super) struct Metrics {
    registry: Registry,
    calls: Family<Called, Counter>,
    call_seconds: Family<Event, Histogram, fn() -> Histogram>,
    shed: Counter,
    rate_limited: Counter,
    forgiven: Family<Forgiven, Counter>,
    handlers: Family<Handled, Counter>,
    handler_seconds: Family<Kind, Histogram, fn() -> Histogram>,
    rules: Family<OfRule, Counter>,
    loads: Family<Load, Counter>,
    authentications: Family<Authentication, Counter>,
    issuer_keys: Family<IssuerKeys, Counter>,
    in_flight: Gauge,
    arriving: Gauge,
    leaving: Gauge,
    connections: Gauge,
    refused_connections: Family<Limited, Counter>,
    background: Gauge,
    children: Gauge,
    child_queue: Gauge,
    handler_slots: Gauge,
    open_breakers: Gauge,
    accepted: Gauge,
    age: Gauge<f64, AtomicU64>,
    revision: Family<Revision, Gauge>,
    loaded_rules: Family<Loaded, Gauge>,
    tls_loads: Family<Load, Counter>,
    tls_not_after: Family<NoLabels, Gauge>,
    tls_failed_handshakes: Counter,
    gauges: Mutex<Option<Gauges>>,
    named_rules: RwLock<HashMap<Arc<str>, PerOutcome>>,
    audit: AuditMetrics,
    otlp: OtlpMetrics,
}

/// How records of the audit trail went.
#[derive(Default)]
struct AuditMetrics {
    written: Counter,
    dropped: Counter,
    sampled_out: Counter,
    errors: Counter,
    waiting: Gauge,
    waiting_bytes: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    sync_age: Gauge<f64, AtomicU64>,
}

/// Of a family of one series, which is there only if there is something to tell: an end in 1970 would be an alarm.
type NoLabels = [(&'static str, &'static str); 0];

/// The counters of one rule that are in use, by the place of the outcome in [`place`].
type PerOutcome = [OnceLock<Counter>; 7];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Called {
    event: &'static str,
    verdict: &'static str,
    tier: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Forgiven {
    tier: &'static str,
    failure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handled {
    kind: &'static str,
    tier: &'static str,
    mode: &'static str,
    outcome: &'static str,
    failure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRule {
    rule: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Load {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Authentication {
    proof: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IssuerKeys {
    issuer: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limited {
    limit: &'static str,
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

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("hookd"),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(histogram),
            shed: Counter::default(),
            rate_limited: Counter::default(),
            forgiven: Family::default(),
            handlers: Family::default(),
            handler_seconds: Family::new_with_constructor(histogram),
            rules: Family::default(),
            loads: Family::default(),
            authentications: Family::default(),
            issuer_keys: Family::default(),
            in_flight: Gauge::default(),
            arriving: Gauge::default(),
            leaving: Gauge::default(),
            connections: Gauge::default(),
            refused_connections: Family::default(),
            background: Gauge::default(),
            children: Gauge::default(),
            child_queue: Gauge::default(),
            handler_slots: Gauge::default(),
            open_breakers: Gauge::default(),
            accepted: Gauge::default(),
            age: Gauge::default(),
            revision: Family::default(),
            loaded_rules: Family::default(),
            tls_loads: Family::default(),
            tls_not_after: Family::default(),
            tls_failed_handshakes: Counter::default(),
            gauges: Mutex::default(),
            named_rules: RwLock::default(),
            audit: AuditMetrics::default(),
            otlp: OtlpMetrics::default(),
        };
        // There from the first scrape on, so that the first refusal shows as a change.
        for limit in ["all", "address"] {
            metrics.refused_connections.get_or_create(&Limited { limit }).inc_by(0);
        }
        metrics.register();
        metrics.audit.register(&mut metrics.registry);
        metrics.otlp.register(&mut metrics.registry);
        metrics
    }

    pub(super) fn watch(&self, gauges: Gauges) {
        *self.gauges.lock().unwrap_or_else(PoisonError::into_inner) = Some(gauges);
    }

    pub(super) fn decided(&self, trigger: &Trigger, decision: &Decision, took: Duration) {
        let event = if trigger.event.name.is_empty() { "other" } else { trigger.event.name };
        let tier = decision.decided_by.as_ref().and_then(|by| by.tier).map_or("", Tier::name);
        self.calls.get_or_create(&Called { event, verdict: decision.verdict.name(), tier, status: "ok" }).inc();
        self.call_seconds.get_or_create(&Event { event }).observe(took.as_secs_f64());
    }

    pub(super) fn refused(&self, code: Code) {
        self.calls.get_or_create(&Called { event: "", verdict: "", tier: "", status: status(code) }).inc();
    }

    pub(super) fn shed(&self) {
        self.shed.inc();
    }

    pub(super) fn connection_refused(&self, limit: &'static str) {
        self.refused_connections.get_or_create(&Limited { limit }).inc();
    }

    pub(super) fn rate_limited(&self) {
        self.rate_limited.inc();
    }

    pub(super) fn authenticated(&self, proof: &'static str, result: &'static str) {
        self.authentications.get_or_create(&Authentication { proof, result }).inc();
    }

    pub(super) fn issuer_keys(&self, issuer: &str, result: &'static str) {
        self.issuer_keys.get_or_create(&IssuerKeys { issuer: issuer.to_owned(), result }).inc();
    }

    pub(super) fn forgiven(&self, rule: &Rule, ran: &Ran) {
        self.forgiven.get_or_create(&Forgiven { tier: rule.tier.name(), failure: failure(ran) }).inc();
    }

    /// Handlers that ran for one call, each with its rule and its `mode`. Those beside each other that have the same labels,
    /// as most have, are counted at once.
    pub(super) fn handlers<'r>(&self, all: impl IntoIterator<Item = (&'r Rule, Outcome, &'r Ran, &'static str)>) {
        let mut same: Option<(Handled, u64)> = None;
        let count = |(labels, count): (Handled, u64)| self.handlers.get_or_create(&labels).inc_by(count);
        for (rule, outcome, ran, mode) in all {
            let kind = rule.handler.kind();
            let labels = Handled { kind, tier: rule.tier.name(), mode, outcome: outcome.name(), failure: failure(ran) };
            match &mut same {
                Some((known, count)) if *known == labels => *count = count.saturating_add(1),
                _ => {
                    same.replace((labels, 1)).map(count);
                }
            }
            if let Some(elapsed) = ran.elapsed {
                self.handler_seconds.get_or_create(&Kind { kind }).observe(elapsed.as_secs_f64());
            }
            if rule.tier == Tier::Managed {
                self.managed(&rule.id, outcome);
            }
        }
        same.map(count);
    }

    /// An outcome of a managed rule. The first [`NAMED_RULES`] rules are named.
    fn managed(&self, id: &Arc<str>, outcome: Outcome) {
        let counter = |rule: &Arc<str>| {
            let labels = OfRule { rule: Arc::clone(rule), outcome: outcome.name() };
            self.rules.get_or_create(&labels).clone()
        };
        let count = |rule: &PerOutcome| {
            if let Some(place) = rule.get(place(outcome)) {
                place.get_or_init(|| counter(id)).inc();
            }
        };
        let named = self.named_rules.read().unwrap_or_else(PoisonError::into_inner);
        match named.get(id) {
            Some(rule) => return count(rule),
            None if named.len() >= NAMED_RULES => return self.other(outcome),
            None => drop(named),
        }
        let mut named = self.named_rules.write().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= NAMED_RULES && !named.contains_key(id) {
            return self.other(outcome);
        }
        count(named.entry(Arc::clone(id)).or_default());
    }

    fn other(&self, outcome: Outcome) {
        self.rules.get_or_create(&OfRule { rule: Arc::from("other"), outcome: outcome.name() }).inc();
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
            self.in_flight.set(whole((gauges.in_flight)()));
            self.arriving.set(whole((gauges.arriving)()));
            self.leaving.set(whole((gauges.leaving)()));
            self.connections.set(whole((gauges.connections)()));
            self.background.set(whole((gauges.background)()));
            self.children.set(whole((gauges.children)()));
            self.child_queue.set(whole((gauges.child_queue)()));
            self.handler_slots.set(whole((gauges.handler_slots)()));
            self.open_breakers.set(whole((gauges.open_breakers)()));
            self.show_loads(&gauges.live);
            if let Some(tls) = &gauges.tls {
                self.show_tls(&tls());
            }
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    fn show_loads(&self, live: &Live) {
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
                self.loaded_rules.get_or_create(&labels).set(whole(catalog.count_in(tier, mode)));
            }
        }
    }

    fn show_tls(&self, counts: &TlsCounts) {
        for (result, count) in [("good", counts.good), ("refused", counts.refused)] {
            self.tls_loads.get_or_create(&Load { result }).inner().store(count, Ordering::Relaxed);
        }
        self.tls_not_after.get_or_create(&[]).set(counts.not_after);
        self.tls_failed_handshakes.inner().store(counts.failed_handshakes, Ordering::Relaxed);
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register(
            "calls",
            "Calls by event, verdict, deciding tier and gRPC status; refused ones have a status only",
            self.calls.clone(),
        );
        r.register("call_duration_seconds", "From the arrival of a call to its decision", self.call_seconds.clone());
        r.register("shed_calls", "Calls that found no place", self.shed.clone());
        r.register("rate_limited_calls", "Calls of tenants that called too often", self.rate_limited.clone());
        r.register("forgiven_failures", "Failures of handlers that were counted as no opinion", self.forgiven.clone());
        r.register("handler_runs", "Runs of handlers by kind, tier, mode, outcome and failure", self.handlers.clone());
        r.register("handler_duration_seconds", "How long handlers ran", self.handler_seconds.clone());
        r.register("managed_rule_outcomes", "Outcomes of managed rules by rule id", self.rules.clone());
        r.register("reloads", "Loads of the rules, the first one included, by result", self.loads.clone());
        r.register(
            "authentications",
            "Calls whose caller presented a proof, or should have, by its kind and what came of it",
            self.authentications.clone(),
        );
        r.register(
            "issuer_key_loads",
            "How often the keys of an issuer of tokens were asked for, by result",
            self.issuer_keys.clone(),
        );
        r.register("in_flight_calls", "Calls being evaluated", self.in_flight.clone());
        r.register("arriving_calls", "Calls that are not there whole yet", self.arriving.clone());
        r.register("leaving_answers", "Large answers that are not read yet", self.leaving.clone());
        r.register("connections", "Connections of callers", self.connections.clone());
        r.register(
            "refused_connections",
            "Connections that were one too many, in all or of one address",
            self.refused_connections.clone(),
        );
        r.register("background_handlers", "Handlers in the background", self.background.clone());
        r.register("child_processes", "Child processes alive", self.children.clone());
        r.register("child_queue_length", "Commands that wait for a free child process", self.child_queue.clone());
        r.register("handler_slots_in_use", "Calls that wait for a handler", self.handler_slots.clone());
        r.register(
            "open_breakers",
            "Handlers that are not asked because they do not answer",
            self.open_breakers.clone(),
        );
        r.register("last_load_accepted", "1: the last load is in force. 0: it was refused", self.accepted.clone());
        r.register("last_good_load_age_seconds", "Age of the last load that was accepted", self.age.clone());
        r.register("catalog_info", "The revision in force", self.revision.clone());
        r.register(
            "rules",
            "Rules and defaults in force by tier; those in mode shadow are not enforced",
            self.loaded_rules.clone(),
        );
        r.register(
            "tls_reloads",
            "Loads of certificate, key and client CA, the first one included, by result",
            self.tls_loads.clone(),
        );
        r.register(
            "tls_certificate_not_after_seconds",
            "End of the certificate in force, in seconds since 1970",
            self.tls_not_after.clone(),
        );
        r.register(
            "tls_failed_handshakes",
            "Handshakes that came to no end: refused, broken off or too slow",
            self.tls_failed_handshakes.clone(),
        );
    }
}

impl AuditMetrics {
    fn show(&self, stats: &AuditStats) {
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

    fn register(&self, r: &mut Registry) {
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

fn place(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Gave(Verdict::None) => 0,
        Outcome::Gave(Verdict::Allow) => 1,
        Outcome::Gave(Verdict::Ask) => 2,
        Outcome::Gave(Verdict::Defer) => 3,
        Outcome::Gave(Verdict::Block) => 4,
        Outcome::Failed => 5,
        Outcome::Queued => 6,
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn failure(ran: &Ran) -> &'static str {
    ran.said.as_ref().err().map_or("", |failed| failed.kind.name())
}

pub(super) fn status(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}
