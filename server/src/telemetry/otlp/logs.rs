//! Lines of the audit trail as log records.

use std::{borrow::Cow, time::SystemTime};

use opentelemetry_proto::tonic::{
    collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse},
    common::v1::{AnyValue, any_value::Value},
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber},
};
use prost::Message as _;
use serde::Deserialize;
use uuid::Uuid;

use super::{
    LogLine, Signal,
    messages::{nanos, resource, scope, text},
};

/// What a record weighs besides its line, in bytes.
const RECORD_BYTES: usize = 512;

/// What of a line becomes attributes.
#[derive(Deserialize, Default)]
struct Told<'l> {
    #[serde(borrow, default)]
    kind: Cow<'l, str>,
    #[serde(borrow, default)]
    decision_id: Cow<'l, str>,
    #[serde(borrow, default)]
    revision: Cow<'l, str>,
    #[serde(borrow, default)]
    event: Cow<'l, str>,
    #[serde(borrow, default)]
    verdict: Cow<'l, str>,
    #[serde(borrow, default)]
    trace_id: Cow<'l, str>,
}

impl Signal for LogLine {
    const MANY: &'static str = "audit records";

    fn bytes(&self) -> usize {
        self.line.len().saturating_add(RECORD_BYTES)
    }

    fn count(&self) -> u64 {
        1
    }

    fn request(items: Vec<Self>) -> Vec<u8> {
        let now = SystemTime::now();
        let log_records = items.into_iter().map(|line| record(line, now)).collect();
        let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records, ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { resource: Some(resource()), scope_logs, ..ResourceLogs::default() }];
        ExportLogsServiceRequest { resource_logs }.encode_to_vec()
    }

    fn rejected(answer: &[u8]) -> u64 {
        let partial = ExportLogsServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        partial.and_then(|partial| u64::try_from(partial.rejected_log_records).ok()).unwrap_or_default()
    }
}

fn record(LogLine { line, time }: LogLine, now: SystemTime) -> LogRecord {
    let told = serde_json::from_slice::<Told<'_>>(&line).unwrap_or_default();
    let attributes = [
        ("hookd.decision_id", &told.decision_id),
        ("hookd.event", &told.event),
        ("hookd.revision", &told.revision),
        ("hookd.verdict", &told.verdict),
    ];
    let attributes = attributes.into_iter().filter(|(_, value)| !value.is_empty());
    let attributes = attributes.map(|(key, value)| text(key, value)).collect();
    // The span of a decision is the random half of its id.
    let trace = Uuid::try_parse(&told.trace_id).ok().zip(Uuid::try_parse(&told.decision_id).ok());
    let (trace_id, span_id) = trace.map_or_else(Default::default, |(trace, decision)| {
        (trace.as_bytes().to_vec(), decision.as_u64_pair().1.to_be_bytes().to_vec())
    });
    let event_name = format!("hookd.audit.{}", told.kind);
    let body = String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    LogRecord {
        time_unix_nano: nanos(time),
        observed_time_unix_nano: nanos(now),
        severity_number: SeverityNumber::Info.into(),
        severity_text: "INFO".to_owned(),
        body: Some(AnyValue { value: Some(Value::StringValue(body)) }),
        attributes,
        trace_id,
        span_id,
        event_name,
        ..LogRecord::default()
    }
}
