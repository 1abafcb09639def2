//! How calls went, judged or not.

use std::time::Duration;

use hookd_rules::Tier;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use tonic::Code;

use super::seconds;
use crate::model::{Decision, Trigger};

pub(in crate::record) struct CallMetrics {
    calls: Family<Called, Counter>,
    call_seconds: Family<Event, Histogram, fn() -> Histogram>,
    shed: Counter,
    rate_limited: Counter,
    authentications: Family<Authentication, Counter>,
    issuer_keys: Family<IssuerKeys, Counter>,
    refused_connections: Family<Limited, Counter>,
}

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

impl Default for CallMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            shed: Counter::default(),
            rate_limited: Counter::default(),
            authentications: Family::default(),
            issuer_keys: Family::default(),
            refused_connections: Family::default(),
        }
    }
}

impl CallMetrics {
    pub(in crate::record) fn decided(&self, trigger: &Trigger, decision: &Decision, took: Duration) {
        let event = if trigger.event.name.is_empty() { "other" } else { trigger.event.name };
        let tier = decision.decided_by.as_ref().and_then(|by| by.tier).map_or("", Tier::name);
        self.calls.get_or_create(&Called { event, verdict: decision.verdict.name(), tier, status: "ok" }).inc();
        self.call_seconds.get_or_create(&Event { event }).observe(took.as_secs_f64());
    }

    pub(in crate::record) fn refused(&self, code: Code) {
        self.calls.get_or_create(&Called { event: "", verdict: "", tier: "", status: status(code) }).inc();
    }

    pub(in crate::record) fn shed(&self) {
        self.shed.inc();
    }

    pub(in crate::record) fn rate_limited(&self) {
        self.rate_limited.inc();
    }

    pub(in crate::record) fn authenticated(&self, proof: &'static str, result: &'static str) {
        self.authentications.get_or_create(&Authentication { proof, result }).inc();
    }

    pub(in crate::record) fn issuer_keys(&self, issuer: &str, result: &'static str) {
        self.issuer_keys.get_or_create(&IssuerKeys { issuer: issuer.to_owned(), result }).inc();
    }

    pub(in crate::record) fn connection_refused(&self, limit: &'static str) {
        self.refused_connections.get_or_create(&Limited { limit }).inc();
    }

    pub(super) fn register(&self, r: &mut Registry) {
        // There from the first scrape on, so that the first refusal shows as a change.
        for limit in ["all", "address"] {
            self.refused_connections.get_or_create(&Limited { limit }).inc_by(0);
        }
        r.register(
            "calls",
            "Calls by event, verdict, deciding tier and gRPC status; refused ones have a status only",
            self.calls.clone(),
        );
        r.register("call_duration_seconds", "From the arrival of a call to its decision", self.call_seconds.clone());
        r.register("shed_calls", "Calls that found no place", self.shed.clone());
        r.register("rate_limited_calls", "Calls of tenants that called too often", self.rate_limited.clone());
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
        r.register(
            "refused_connections",
            "Connections that were one too many, in all or of one address",
            self.refused_connections.clone(),
        );
    }
}

pub(in crate::record) fn status(code: Code) -> &'static str {
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
