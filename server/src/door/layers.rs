//! The layers that every gRPC call passes, in one visible stack.

mod arrival;
mod authentication;
mod beside;
mod cut;
mod in_flight;
mod panic;
mod slow_body;

use std::{convert::Infallible, future::Future, pin::Pin, sync::Arc, time::Duration};

use tonic::body::Body;
use tower::ServiceBuilder;

use super::{identity::Visitor, places::Places};
use crate::{drain::Drain, record::Recorder, rpc::status::NotJudged, telemetry::call::Call};

pub use arrival::Arrival;
pub use authentication::Authentication;
pub use cut::Cut;
pub use in_flight::InFlight;
pub use panic::CatchPanic;
pub(super) use {arrival::Unanswered, panic::text as panic_text};

/// What a call is answered with.
pub type Answer = http::Response<Body>;

/// The whole stack around `S`.
pub type Stack<S> = Arrival<CatchPanic<Cut<Authentication<InFlight<S>>>>>;

/// What a layer's service gives.
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// What the layers need.
#[derive(Debug, Clone)]
pub struct Layers {
    /// Places for calls that are evaluated.
    pub places: Arc<Places>,
    /// Size of a message, in bytes.
    pub message_bytes: usize,
    /// How long a request may take to arrive.
    pub arrival_limit: Duration,
    /// When to cut calls.
    pub drain: Drain,
    /// What statuses are counted by.
    pub recorder: Arc<Recorder>,
}

impl Layers {
    /// The stack around `services`, for one connection.
    #[must_use]
    pub fn around<S>(&self, services: S, visitor: Arc<Visitor>) -> Stack<S> {
        ServiceBuilder::new()
            // Outermost, so that whatever comes back has a decision id, a code of the contract and is counted.
            .layer(arrival::layer(visitor.peer(), self.message_bytes, self.arrival_limit, Arc::clone(&self.recorder)))
            // Above all that could panic; below the arrival, which names the call in the answer.
            .layer(panic::layer())
            // Above the places, so that a call which is cut gives its place back at once.
            .layer(cut::layer(self.drain.clone()))
            // Above the places, so that nobody holds one who may not, or whose proof is waited for.
            .layer(authentication::layer(visitor))
            // Last, so that a place is held only while the call is evaluated.
            .layer(in_flight::layer(Arc::clone(&self.places), self.message_bytes))
            .service(services)
    }
}

/// Whether a call is one to evaluate. Health, reflection and administration are not held up by load.
pub(super) fn is_evaluation<B>(request: &http::Request<B>) -> bool {
    request.uri().path().starts_with("/hookd.v1.HookService/")
}

/// Whether an evaluation goes on after its headers.
fn is_lasting<B>(request: &http::Request<B>) -> bool {
    request.uri().path() == "/hookd.v1.HookService/TriggerStream"
}

/// What the arrival knows of a call.
fn call_of<B>(request: &http::Request<B>) -> Option<Call> {
    request.extensions().get().cloned()
}

/// The status as an answer.
fn refusal(not_judged: NotJudged, call: Option<Call>) -> Answer {
    let decision_id = call.map(|call| call.decision_text()).unwrap_or_default();
    not_judged.into_status(&decision_id).into_http()
}

#[cfg(test)]
mod tests;
