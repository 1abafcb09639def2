use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Incoming;
use tonic::{Code, Status};
use tower::{Layer, Service, layer::layer_fn};

use super::{Answer, Answering, is_evaluation, is_lasting, slow_body::SlowBody};
use crate::{
    record::Recorder,
    rpc::status::{DECISION_ID, NotJudged, Violation, reason},
    telemetry::call::{Call, Peer},
};

/// Gives the call its id, and every answer its final form: statuses that were made below hookd's own code get the
/// decision id and the codes of the contract, and all of them are counted.
#[derive(Debug, Clone)]
pub struct Arrival<S> {
    inner: S,
    peer: Peer,
    message_bytes: usize,
    arrival_limit: Duration,
    recorder: Arc<Recorder>,
}

/// Counts a call as cancelled unless it came to an answer.
pub(in crate::door) struct Unanswered<'r>(pub(in crate::door) Option<(&'r Recorder, &'r Call)>);

pub(super) fn layer<S>(
    peer: Peer,
    message_bytes: usize,
    arrival_limit: Duration,
    recorder: Arc<Recorder>,
) -> impl Layer<S, Service = Arrival<S>> {
    layer_fn(move |inner| Arrival { inner, peer, message_bytes, arrival_limit, recorder: Arc::clone(&recorder) })
}

impl<S> Service<Request<Incoming>> for Arrival<S>
where
    S: Service<Request<SlowBody>, Response = Answer, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Incoming>) -> Answering {
        let call = Call::arriving(self.peer);
        // The messages of a stream come one by one until its end, and are waited for under its own deadline.
        let limit = if is_lasting(&request) { Duration::MAX } else { self.arrival_limit };
        let mut request = request.map(|body| SlowBody::new(body, limit));
        request.extensions_mut().insert(call.clone());
        let (recorder, counted) = (Arc::clone(&self.recorder), is_evaluation(&request));
        let message_bytes = self.message_bytes;
        let answering = self.inner.call(request);
        Box::pin(async move {
            let mut unanswered = Unanswered(counted.then_some((&*recorder, &call)));
            let Ok(answer) = answering.await;
            unanswered.0 = None;
            drop(unanswered);
            let (answer, code) = complete(answer, &call, message_bytes);
            let reason = || Status::from_header_map(answer.headers()).as_ref().map(reason).unwrap_or_default();
            match code {
                Some(code) if counted => recorder.refused(&call, code, reason),
                Some(code @ (Code::PermissionDenied | Code::Unauthenticated)) => recorder.denied(&call, code, reason),
                _ => {}
            }
            Ok(answer)
        })
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some((recorder, call)) = self.0 {
            recorder.refused(call, Code::Cancelled, String::new);
        }
    }
}

/// The answer as the contract has it, and its code where it is a status.
fn complete(answer: Answer, call: &Call, message_bytes: usize) -> (Answer, Option<Code>) {
    let Some(code) = answer.headers().get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes())) else {
        return (answer, None);
    };
    if answer.headers().contains_key(DECISION_ID) {
        return (answer, Some(code));
    }
    let decision_id = call.decision_text();
    let not_judged = match code {
        // What the codec says of a message over the limit, before and after decompression.
        Code::OutOfRange | Code::ResourceExhausted => NotJudged::TooLarge(message_bytes),
        // What the codec says of bytes that are no message: the request's fault, not hookd's.
        Code::Internal => NotJudged::Invalid(vec![Violation {
            field: "request".to_owned(),
            description: format!("is not a message: {}", said(answer.headers())),
        }]),
        _ => {
            let mut answer = answer;
            if let Ok(id) = HeaderValue::from_str(&decision_id) {
                answer.headers_mut().insert(DECISION_ID, id);
            }
            return (answer, Some(code));
        }
    };
    let status = not_judged.into_status(&decision_id);
    let code = status.code();
    (status.into_http(), Some(code))
}

fn said(headers: &HeaderMap) -> String {
    Status::from_header_map(headers).map(|status| status.message().to_owned()).unwrap_or_default()
}
