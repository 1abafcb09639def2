//! Spans of decisions (issue 6, item 7): which calls have them, and what stands in them. Names only, as in the log: no
//! parameters, no outputs, no reasons.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hookd_rules::Handler;

use super::{line::cause, part::Part};
use crate::{
    model::{DecidedBy, Decision, Failure, Outcome, Trigger, Verdict},
    settings::TraceSettings,
    telemetry::{
        otlp::{OtlpError, Span, SpanExporter, SpanKind, SpanValue, Spans},
        trace::{Context, SpanId},
    },
};

/// What a span weighs besides its texts, in bytes.
const SPAN_BYTES: usize = 512;

/// Makes spans of decisions.
#[derive(Debug)]
pub struct Traces {
    exporter: SpanExporter,
    sample_ratio: u32,
}

/// What is kept of a decision to make spans of.
struct Told {
    context: Context,
    /// When the call arrived.
    began: SystemTime,
    took: Duration,
    event: Arc<str>,
    /// The event if it is a known one, for the name of the span.
    known_event: &'static str,
    tool: String,
    session: String,
    decision_id: String,
    revision: Arc<str>,
    verdict: Verdict,
    by: Option<DecidedBy>,
    degraded: bool,
    considered: usize,
    matched: usize,
    parts: Vec<Part>,
}

impl Traces {
    /// The traces that `settings` ask for. `None`: none.
    ///
    /// # Errors
    /// A file for the collector cannot be used.
    pub fn begin(settings: &TraceSettings) -> Result<Option<Self>, OtlpError> {
        let exporter = SpanExporter::begin(&settings.otlp)?;
        Ok(exporter.map(|exporter| Self { exporter, sample_ratio: settings.sample_ratio }))
    }

    /// Says whether traces could begin.
    ///
    /// # Errors
    /// A file for the collector cannot be used.
    pub fn check(settings: &TraceSettings) -> Result<(), OtlpError> {
        SpanExporter::check(&settings.otlp)
    }

    /// Where spans go.
    pub(super) fn exporter(&self) -> &SpanExporter {
        &self.exporter
    }

    /// The context with the choice of whether its call has spans.
    pub(super) fn sampled(&self, context: Context) -> Context {
        context.sampled(self.sample_ratio)
    }

    /// Takes a decision, if its call has spans.
    pub(super) fn decided(&self, trigger: &Trigger, decision: &Decision, context: &Context, took: Duration) {
        if !context.is_sampled() {
            return;
        }
        let now = SystemTime::now();
        let ran = decision.results.iter().filter(|result| result.outcome != Outcome::Queued);
        let told = Told {
            context: *context,
            began: now.checked_sub(took).unwrap_or(now),
            took,
            event: Arc::clone(&trigger.event_name),
            known_event: trigger.event.name,
            tool: trigger.tool_call.as_ref().map(|call| call.tool.clone()).unwrap_or_default(),
            session: trigger.session_id.clone(),
            decision_id: trigger.decision_id.clone(),
            revision: Arc::clone(&decision.revision),
            verdict: decision.verdict,
            by: decision.decided_by.clone(),
            degraded: decision.degraded,
            considered: decision.considered,
            matched: decision.matched,
            parts: ran.map(Part::of).collect(),
        };
        let spans = told.parts.len().saturating_add(1);
        let texts = [told.event.len(), told.tool.len(), told.session.len()].into_iter().fold(0, usize::saturating_add);
        self.exporter.offer(Spans {
            bytes: spans.saturating_mul(SPAN_BYTES).saturating_add(texts),
            count: u64::try_from(spans).unwrap_or(u64::MAX),
            make: Box::new(move || told.spans()),
        });
    }

    /// Takes the end of a handler in the background, if its call has spans: a child of the call's, which may have ended.
    pub(super) fn background_ended(&self, part: Part, trigger: &Trigger) {
        let Some(context) = Context::below(&trigger.traceparent).filter(Context::is_sampled) else { return };
        let (ended, decision_id) = (SystemTime::now(), trigger.decision_id.clone());
        let make = move || {
            let began = ended.checked_sub(part.elapsed.unwrap_or_default()).unwrap_or(ended);
            let mut span = handler(&context, &part, began, ended);
            span.attributes.push(("hookd.background", SpanValue::Flag(true)));
            span.attributes.push(("hookd.decision_id", SpanValue::Text(decision_id)));
            vec![span]
        };
        self.exporter.offer(Spans { bytes: SPAN_BYTES, count: 1, make: Box::new(make) });
    }
}

/// The span of a handler: `context` says which one it is and where.
fn handler(context: &Context, part: &Part, began: SystemTime, ended: SystemTime) -> Span {
    let (rule, failure) = (&part.rule, part.failure.map_or("", Failure::name));
    let mut attributes = Attributes::default();
    attributes.text("hookd.rule", &rule.id);
    attributes.text("hookd.tier", rule.tier.name());
    attributes.text("hookd.handler", rule.handler.kind());
    attributes.text("hookd.outcome", part.outcome.name());
    attributes.text("hookd.failure", failure);
    attributes.flag("hookd.recheck", part.recheck);
    attributes.flag("hookd.shadow", part.shadow);
    attributes.flag("hookd.forgiven", part.forgiven);
    Span {
        trace_id: context.trace_id,
        id: context.span_id,
        parent: context.parent,
        is_parent_remote: false,
        flags: context.flags,
        name: format!("{} {}", rule.handler.kind(), rule.id),
        kind: if matches!(rule.handler, Handler::Http(_)) { SpanKind::Client } else { SpanKind::Internal },
        began,
        ended,
        attributes: attributes.0,
        failure,
    }
}

impl Told {
    /// The span of the evaluation, then one for each handler.
    fn spans(self) -> Vec<Span> {
        let name = if self.known_event.is_empty() { "other" } else { self.known_event };
        let by = self.by.as_ref();
        let mut attributes = Attributes::default();
        attributes.text("hookd.decision_id", &self.decision_id);
        attributes.text("hookd.revision", &self.revision);
        attributes.text("hookd.event", &self.event);
        attributes.text("hookd.tool", &self.tool);
        attributes.text("hookd.session", &self.session);
        attributes.text("hookd.verdict", self.verdict.name());
        attributes.text("hookd.rule", by.map_or("", |by| &by.rule_id));
        attributes.text("hookd.tier", by.and_then(|by| by.tier).map_or("", |tier| tier.name()));
        attributes.text("hookd.cause", by.map_or("", |by| cause(by.cause)));
        attributes.count("hookd.considered", self.considered);
        attributes.count("hookd.matched", self.matched);
        attributes.flag("hookd.degraded", self.degraded);
        let mut spans = vec![Span {
            trace_id: self.context.trace_id,
            id: self.context.span_id,
            parent: self.context.parent,
            is_parent_remote: self.context.parent.is_some(),
            flags: self.context.flags,
            name: format!("evaluate {name}"),
            kind: SpanKind::Server,
            began: self.began,
            ended: self.after(self.took),
            attributes: attributes.0,
            failure: "",
        }];
        // What is decided in process takes no time that would be measured: it stands where the one before it ended.
        let mut reached = Duration::ZERO;
        for part in &self.parts {
            let ended = part.ended.unwrap_or(reached);
            let began = ended.saturating_sub(part.elapsed.unwrap_or_default());
            reached = reached.max(ended);
            let below = Context { parent: Some(self.context.span_id), span_id: SpanId::random(), ..self.context };
            spans.push(handler(&below, part, self.after(began), self.after(ended)));
        }
        spans
    }

    fn after(&self, time: Duration) -> SystemTime {
        self.began.checked_add(time).unwrap_or(self.began)
    }
}

/// Attributes of a span; those that say nothing are left out.
#[derive(Default)]
struct Attributes(Vec<(&'static str, SpanValue)>);

impl Attributes {
    fn text(&mut self, key: &'static str, text: &str) {
        if !text.is_empty() {
            self.0.push((key, SpanValue::Text(text.to_owned())));
        }
    }

    fn count(&mut self, key: &'static str, count: usize) {
        self.0.push((key, SpanValue::Count(count)));
    }

    fn flag(&mut self, key: &'static str, flag: bool) {
        if flag {
            self.0.push((key, SpanValue::Flag(true)));
        }
    }
}
