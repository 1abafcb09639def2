use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::any_value::Value,
    trace::v1::{ResourceSpans, ScopeSpans, Span as SpanMessage, SpanFlags, Status, span, status::StatusCode},
};
use prost::Message as _;

use super::{
    Signal, Span, SpanKind, SpanValue, Spans,
    messages::{attribute, nanos, resource, scope},
};

impl Signal for Spans {
    const MANY: &'static str = "spans";

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn request(items: Vec<Self>) -> Vec<u8> {
        let spans = items.into_iter().flat_map(|item| (item.make)()).map(message).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }];
        let resource_spans =
            vec![ResourceSpans { resource: Some(resource()), scope_spans, ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn rejected(answer: &[u8]) -> u64 {
        let partial = ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        partial.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or_default()
    }
}

fn message(span: Span) -> SpanMessage {
    let Span { trace_id, id, parent, is_parent_remote, flags, name, kind, began, ended, attributes, failure } = span;
    let remote = if is_parent_remote { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
    let kind = match kind {
        SpanKind::Server => span::SpanKind::Server,
        SpanKind::Client => span::SpanKind::Client,
        SpanKind::Internal => span::SpanKind::Internal,
    };
    let value = |value| match value {
        SpanValue::Text(text) => Value::StringValue(text),
        SpanValue::Flag(flag) => Value::BoolValue(flag),
        SpanValue::Count(count) => Value::IntValue(i64::try_from(count).unwrap_or(i64::MAX)),
    };
    let status = (!failure.is_empty()).then(|| Status { message: failure.to_owned(), code: StatusCode::Error.into() });
    SpanMessage {
        trace_id: trace_id.to_bytes().to_vec(),
        span_id: id.to_bytes().to_vec(),
        parent_span_id: parent.map(|parent| parent.to_bytes().to_vec()).unwrap_or_default(),
        flags: u32::from(flags) | SpanFlags::ContextHasIsRemoteMask as u32 | remote,
        name,
        kind: kind.into(),
        start_time_unix_nano: nanos(began),
        end_time_unix_nano: nanos(ended),
        attributes: attributes.into_iter().map(|(key, it)| attribute(key, value(it))).collect(),
        status,
        ..SpanMessage::default()
    }
}
