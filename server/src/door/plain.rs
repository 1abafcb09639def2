//! Calls of plain HTTP: `POST /v1/hooks/{agent}` and `POST /v1/trigger`, in HTTP/1.1 and HTTP/2. What the layers are for
//! calls of gRPC, one walk is here: the same id, places, limits, end of the drain, and each call counted once. It is no
//! stack of layers, since an answer in an agent's own form needs what the walk has learnt of the call by then.

mod body;
mod guard;
mod hosts;

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Request, Version, header, request::Parts};
use http_body_util::Full;
use hyper::body::{Body as _, Bytes, Incoming};
use tokio::{
    sync::Semaphore,
    time::{timeout, timeout_at},
};
use tonic::body::Body;
use tracing::error;

pub(super) use self::guard::says_grpc;
use self::guard::{Refused, Route};
use super::{
    identity::{Identified, Visitor},
    layers::{Answer, Answering, Unanswered, panic_text},
    places::Places,
};
use crate::{
    drain::Drain,
    model::Permission,
    record::Recorder,
    rpc::{
        hooks::HookCall,
        json::{Refusal, Reply, TriggerCall},
        reply::LARGE_BYTES,
        status::{DECISION_ID, NotJudged},
        trigger::TriggerService,
    },
    run::Handlers,
    telemetry::call::Call,
};

pub use hosts::Hosts;

/// How long the body of a call that finds no place, or whose caller is not known, may take, all in all.
const SHED_LIMIT: Duration = Duration::from_secs(2);
/// How many bodies of such calls are read at a time.
pub const SHED_READERS: usize = 64;

/// What serves plain HTTP.
#[derive(Debug)]
pub struct PlainHttp<H> {
    /// Judges.
    pub triggers: Arc<TriggerService<H>>,
    /// Places for calls that are evaluated: those of gRPC.
    pub places: Arc<Places>,
    /// Places for calls that found none of the others or whose caller is not known, to see of which event they are.
    pub shed: Semaphore,
    /// Size of a body, in bytes.
    pub message_bytes: usize,
    /// Budget of a call that says none, and how long a request may take to arrive.
    pub default_deadline: Duration,
    /// When to cut calls.
    pub drain: Drain,
    /// What calls are counted by.
    pub recorder: Arc<Recorder>,
}

/// Plain HTTP for one connection.
#[derive(Debug)]
pub struct Plain<H> {
    http: Arc<PlainHttp<H>>,
    hosts: Arc<Hosts>,
    visitor: Arc<Visitor>,
}

/// One call, as its caller speaks.
enum Asked {
    Hook(Box<HookCall>),
    Trigger(TriggerCall),
}

impl<H: Handlers> Plain<H> {
    /// For a connection that came in where `hosts` are the names of hookd.
    pub fn new(http: Arc<PlainHttp<H>>, hosts: Arc<Hosts>, visitor: Arc<Visitor>) -> Self {
        Self { http, hosts, visitor }
    }

    /// Answers one call.
    pub(super) fn call(&self, request: Request<Incoming>) -> Answering {
        let call = Call::arriving(self.visitor.peer());
        let (http, hosts, visitor) = (Arc::clone(&self.http), Arc::clone(&self.hosts), Arc::clone(&self.visitor));
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let decision_id = call.decision_text();
            let mut answer = match guard::check(&head, &hosts) {
                Ok(route) => {
                    let asked = Asked::of(route, &head);
                    http.answer(call, &visitor, &decision_id, asked, &head, body).await
                }
                Err(refused) => http.refuse(refused, &call, &decision_id),
            };
            if let Ok(id) = HeaderValue::from_str(&decision_id) {
                answer.headers_mut().insert(DECISION_ID, id);
            }
            Ok::<Answer, _>(answer)
        })
    }
}

impl<H: Handlers> PlainHttp<H> {
    /// A request that is no call.
    fn refuse(&self, refused: Refused, call: &Call, decision_id: &str) -> Answer {
        if let Some(code) = refused.counts_as() {
            self.recorder.refused(call, code, || refused.reason().to_owned());
        }
        self.leaving(call, refused.into_reply(decision_id))
    }

    async fn answer(
        &self,
        call: Call,
        visitor: &Visitor,
        decision_id: &str,
        asked: Asked,
        head: &Parts,
        body: Incoming,
    ) -> Answer {
        let running = self.drain.call();
        let unknown = call.clone();
        let mut unanswered = Unanswered(Some((&*self.recorder, &unknown)));
        let known = AssertUnwindSafe(know(&call, visitor, head)).catch_unwind().await;
        let known = known.unwrap_or_else(|panic| {
            error!(message = panic_text(&*panic), "a call panicked");
            Err(NotJudged::Internal)
        });
        let call = &call;
        unanswered.0 = Some((&*self.recorder, call));
        let cutting = self.drain.cutting();
        let judging = AssertUnwindSafe(self.judged(call, known, &asked, head, body)).catch_unwind();
        let judged = tokio::select! {
            judged = judging => judged.unwrap_or_else(|panic| {
                error!(message = panic_text(&*panic), "a call panicked");
                Err(NotJudged::Internal)
            }),
            () = cutting.cancelled() => Err(NotJudged::Stopping),
        };
        // What comes of handlers that are killed at the cut is no answer.
        let judged = judged.and_then(|reply| if cutting.is_cancelled() { Err(NotJudged::Stopping) } else { Ok(reply) });
        unanswered.0 = None;
        let reply = judged.unwrap_or_else(|not_judged| {
            let refusal = Refusal::of(not_judged);
            self.recorder.refused(call, refusal.told.code, || refusal.told.reason.to_owned());
            asked.unanswered(refusal, decision_id)
        });
        drop(running);
        self.leaving(call, reply)
    }

    /// `reply` on its way out.
    fn leaving(&self, call: &Call, reply: Reply) -> Answer {
        reply.map(|text| {
            let is_large = text.len() > LARGE_BYTES;
            let body = Body::new(Full::from(text));
            if is_large { Body::new(self.places.leaving(call, body)) } else { body }
        })
    }

    /// The answer to a call whose caller is known, that finds a place and is judged.
    async fn judged(
        &self,
        call: &Call,
        known: Result<(), NotJudged>,
        asked: &Asked,
        head: &Parts,
        body: Incoming,
    ) -> Result<Reply, NotJudged> {
        if let Err(not_judged) = known {
            self.see_event(asked, body::whole(body, self.message_bytes)).await;
            return Err(not_judged);
        }
        if waits_to_send(head) && body.size_hint().lower() > to_u64(self.message_bytes) {
            return Err(NotJudged::TooLarge(self.message_bytes));
        }
        let limit = asked.deadline(self.default_deadline).min(self.default_deadline);
        let end = call.arrived.checked_add(limit).unwrap_or(call.arrived);
        let mut reading = pin!(async {
            timeout_at(end, body::whole(body, self.message_bytes)).await.map_err(|_| NotJudged::TooSlow)?
        });
        let whole = match reading.as_mut().now_or_never() {
            Some(whole) => whole?,
            None => match self.places.arrive(call, reading.as_mut()).await {
                Ok(whole) => whole?,
                Err(no_place) => {
                    self.see_event(asked, reading).await;
                    return Err(no_place.into());
                }
            },
        };
        // First, since the form of whatever comes now depends on its event.
        let request = asked.read(&whole);
        drop(whole);
        let place = self.places.enter(call)?;
        let request = request?;
        let traceparent = head.headers.get("traceparent").and_then(|header| header.to_str().ok());
        // Only now is it known of which event the call is.
        let deadline = asked.deadline(self.default_deadline);
        let response = self.triggers.judge(call, Some(deadline), traceparent, request).await?;
        drop(place);
        Ok(asked.answer(&response))
    }

    /// Reads the body of a call that is not judged, where the form of its answer depends on it.
    async fn see_event(&self, asked: &Asked, reading: impl Future<Output = Result<Bytes, NotJudged>>) {
        if let Asked::Trigger(_) = asked {
            return;
        }
        let reading = async {
            let _turn = self.shed.acquire().await;
            reading.await
        };
        if let Ok(Ok(whole)) = timeout(SHED_LIMIT, reading).await {
            // What is wrong with it matters no more.
            let _ = asked.read(&whole);
        }
    }
}

impl Asked {
    fn of(route: Route, head: &Parts) -> Self {
        match route {
            Route::Hooks(agent) => {
                Self::Hook(HookCall::new(agent, head.uri.query().unwrap_or_default(), &head.headers).into())
            }
            Route::Trigger => Self::Trigger(TriggerCall::new(&head.headers)),
        }
    }

    fn read(&self, body: &[u8]) -> Result<hookd_proto::v1::TriggerRequest, NotJudged> {
        match self {
            Self::Hook(call) => call.read(body),
            Self::Trigger(call) => call.read(body),
        }
    }

    /// How long the call may take; `default` is for those that do not say.
    fn deadline(&self, default: Duration) -> Duration {
        match self {
            Self::Hook(call) => call.deadline(default),
            Self::Trigger(call) => call.deadline().unwrap_or(default),
        }
    }

    fn answer(&self, response: &hookd_proto::v1::TriggerResponse) -> Reply {
        match self {
            Self::Hook(call) => call.answer(response),
            Self::Trigger(_) => TriggerCall::answer(response),
        }
    }

    fn unanswered(&self, refusal: Refusal, decision_id: &str) -> Reply {
        match self {
            Self::Hook(call) => call.unanswered(refusal, decision_id),
            Self::Trigger(_) => TriggerCall::unanswered(refusal, decision_id),
        }
    }
}

/// Notes in `call` who makes it, if they may.
async fn know(call: &Call, visitor: &Visitor, head: &Parts) -> Result<(), NotJudged> {
    let identified = match visitor.identify(&head.headers, call) {
        Identified::Now(identified) => identified,
        Identified::Later(later) => visitor.identify_later(later).await,
    };
    visitor.admit(identified, Permission::Trigger, call)
}

/// Whether the caller sends its body only when it is told to.
fn waits_to_send(head: &Parts) -> bool {
    let expects = |headers: &HeaderMap| headers.get(header::EXPECT).is_some();
    head.version == Version::HTTP_11 && expects(&head.headers)
}

fn to_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
