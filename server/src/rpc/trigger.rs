//! `HookService`: a call comes in as a message and goes out as one; everything between is the other rooms'. Statuses and
//! calls whose caller went away are counted at the door, where all of them pass.

mod stream;

use std::{sync::Arc, time::Duration};

use hookd_proto::v1::{self, hook_service_server::HookService};
use hookd_rules::Policy;
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream, metadata::MetadataMap};

use self::stream::Offers;
use super::{
    parse::{Arrival, parse},
    reply::{is_large, reply},
    status::NotJudged,
};
use crate::{
    catalog::Live,
    combine,
    evaluate::{Budget, evaluate},
    model::{Decision, Trigger},
    record::Recorder,
    run::{Handlers, Slots},
    telemetry::{
        audit::{Held, Recorded},
        call::{Call, LargeAnswer, Peer},
        trace::Context,
    },
};

/// What a call may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Budget of a call whose caller sets no deadline.
    pub default_deadline: Duration,
    /// Longest budget that a caller can ask for.
    pub max_deadline: Duration,
    /// Size of an answer, in bytes.
    pub message_bytes: usize,
    /// Size of one handler's output, in bytes.
    pub output_bytes: usize,
}

/// Serves `HookService`.
#[derive(Debug)]
pub struct TriggerService<H> {
    live: Live,
    handlers: Arc<H>,
    recorder: Arc<Recorder>,
    bounds: Bounds,
    slots: Arc<Slots>,
    offers: Arc<Offers>,
}

/// A call that can be evaluated.
struct Begun {
    trigger: Arc<Trigger>,
    /// What its caller is judged by.
    policy: Policy,
    budget: Budget,
    /// Where it stands in a trace.
    context: Context,
}

impl<H: Handlers> TriggerService<H> {
    /// A service that judges by `live`, runs `handlers` and tells `recorder`. `slots` are for calls that wait for what
    /// their caller runs.
    pub fn new(live: Live, handlers: Arc<H>, recorder: Arc<Recorder>, bounds: Bounds, slots: Arc<Slots>) -> Self {
        Self { live, handlers, recorder, bounds, slots, offers: Arc::default() }
    }

    /// Judges one event, however it came: `deadline` counts from the arrival of the call, and without one it is the
    /// default; `traceparent` is the caller's.
    ///
    /// # Errors
    /// Why the event was not judged. A block is no error.
    pub async fn judge(
        &self,
        call: &Call,
        deadline: Option<Duration>,
        traceparent: Option<&str>,
        request: v1::TriggerRequest,
    ) -> Result<v1::TriggerResponse, NotJudged> {
        let deadline = deadline.unwrap_or(self.bounds.default_deadline).min(self.bounds.max_deadline);
        let begun = self.begin(call, deadline, traceparent, request)?;
        let decision = evaluate(&*self.handlers, &begun.policy, &begun.trigger, begun.budget).await;
        Ok(self.answer(call, &begun, decision, self.bounds.message_bytes).await)
    }

    /// Records a decision and makes an answer of at most `limit` bytes of it: what is recorded is what is answered.
    async fn answer(&self, call: &Call, begun: &Begun, mut decision: Decision, limit: usize) -> v1::TriggerResponse {
        let Begun { trigger, budget, context, .. } = begun;
        combine::oversized(trigger, &mut decision, limit);
        if let Some(held) = self.recorder.decision(trigger, &decision, context, call.arrived.elapsed()) {
            self.wait_for_record(held, trigger, &mut decision, *budget).await;
        }
        reply(trigger, decision, limit)
    }

    /// Waits for the record of a decision, and makes of the decision what may be answered without.
    async fn wait_for_record(&self, held: Held, trigger: &Trigger, decision: &mut Decision, budget: Budget) {
        let recorded = held.recorded(budget.record_end()).await;
        if recorded != Recorded::Yes && combine::unrecorded(trigger, decision) {
            self.recorder.unrecorded(trigger, decision.verdict, recorded);
        }
    }

    fn begin(
        &self,
        call: &Call,
        deadline: Duration,
        traceparent: Option<&str>,
        request: v1::TriggerRequest,
    ) -> Result<Begun, NotJudged> {
        let context = self.recorder.context(traceparent, call.decision_id);
        let arrival = Arrival {
            decision_id: call.decision_text(),
            now_ms: call.now_ms,
            identity: call.identity(),
            traceparent: context.to_traceparent(),
        };
        let trigger = Arc::new(parse(request, arrival)?);
        // INVARIANT: one catalog from here to the answer (law 9).
        let catalog = self.live.current();
        if !trigger.expected_revision.is_empty() && *trigger.expected_revision != *catalog.revision {
            return Err(NotJudged::RevisionMismatch {
                expected: trigger.expected_revision.clone(),
                actual: catalog.revision.to_string(),
            });
        }
        let policy = Policy::of(catalog, trigger.identity.labels.as_slice())?;
        let budget = Budget::new(call.arrived, deadline).ok_or(NotJudged::TooLate)?;
        Ok(Begun { trigger, policy, budget, context })
    }
}

impl<H> Clone for TriggerService<H> {
    fn clone(&self) -> Self {
        Self {
            live: self.live.clone(),
            handlers: Arc::clone(&self.handlers),
            recorder: Arc::clone(&self.recorder),
            bounds: self.bounds,
            slots: Arc::clone(&self.slots),
            offers: Arc::clone(&self.offers),
        }
    }
}

#[tonic::async_trait]
impl<H: Handlers> HookService for TriggerService<H> {
    async fn trigger(&self, request: Request<v1::TriggerRequest>) -> Result<Response<v1::TriggerResponse>, Status> {
        let call = request.extensions().get::<Call>().cloned().unwrap_or_else(|| Call::arriving(Peer::Remote(None)));
        let (metadata, _, message) = request.into_parts();
        let traceparent = metadata.get("traceparent").and_then(|header| header.to_str().ok());
        let judged = match deadline(&metadata) {
            Ok(deadline) => self.judge(&call, deadline, traceparent, message).await,
            Err(not_judged) => Err(not_judged),
        };
        let mut answer =
            judged.map(Response::new).map_err(|not_judged| not_judged.into_status(&call.decision_text()))?;
        if is_large(answer.get_ref()) {
            answer.extensions_mut().insert(LargeAnswer);
        }
        Ok(answer)
    }

    async fn trigger_stream(
        &self,
        request: Request<Streaming<v1::TriggerStreamRequest>>,
    ) -> Result<Response<BoxStream<v1::TriggerStreamResponse>>, Status> {
        Ok(Response::new(stream::open(self.clone(), request)))
    }
}

/// The caller's deadline, from `grpc-timeout`: at most eight digits and a unit.
fn deadline(metadata: &MetadataMap) -> Result<Option<Duration>, NotJudged> {
    let Some(header) = metadata.get("grpc-timeout") else { return Ok(None) };
    let parsed = header.to_str().ok().and_then(parse_timeout);
    parsed.map(Some).ok_or_else(|| {
        NotJudged::Invalid(vec![super::status::Violation {
            field: "grpc-timeout".to_owned(),
            description: format!("is {header:?}, not up to eight digits and one of H M S m u n"),
        }])
    })
}

fn parse_timeout(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<u64>().ok()?;
    match unit {
        "H" => count.checked_mul(3600).map(Duration::from_secs),
        "M" => count.checked_mul(60).map(Duration::from_secs),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_the_protocol_writes_them() {
        for (header, expected) in [
            ("2S", Some(Duration::from_secs(2))),
            ("50m", Some(Duration::from_millis(50))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("5", None),
            ("-5S", None),
            ("123456789S", None),
            ("5é", None),
        ] {
            assert_eq!(parse_timeout(header), expected, "{header:?}");
        }
    }
}
