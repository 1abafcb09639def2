use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use tower::{Layer, Service, layer::layer_fn};

use super::{Answer, Answering, call_of, is_evaluation, is_lasting, refusal, slow_body::SlowBody};
use crate::{drain::Drain, rpc::status::NotJudged, telemetry::call::Lasting};

/// Counts calls for the drain, and answers those that are still running at its limit with `UNAVAILABLE`.
#[derive(Debug, Clone)]
pub struct Cut<S> {
    inner: S,
    drain: Drain,
}

pub(super) fn layer<S>(drain: Drain) -> impl Layer<S, Service = Cut<S>> {
    layer_fn(move |inner| Cut { inner, drain: drain.clone() })
}

impl<S> Service<Request<SlowBody>> for Cut<S>
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

    fn call(&mut self, mut request: Request<SlowBody>) -> Answering {
        if is_lasting(&request) {
            // It counts itself, and ends itself at the cut: its headers are only its beginning.
            let (counted, cutting) = (self.drain.call(), self.drain.cutting().clone());
            request.extensions_mut().insert(Lasting { kept: vec![Arc::new(counted)], cutting, threshold: None });
            return Box::pin(self.inner.call(request));
        }
        let counted = is_evaluation(&request).then(|| self.drain.call());
        let call = call_of(&request);
        let cutting = self.drain.cutting().clone();
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = tokio::select! {
                answer = answering => Some(answer),
                () = cutting.cancelled() => None,
            };
            // What comes of handlers that are killed at the cut is no answer.
            let answer = answer.filter(|_| !cutting.is_cancelled());
            let answer = answer.unwrap_or_else(|| Ok(refusal(NotJudged::Stopping, call)));
            drop(counted);
            answer
        })
    }
}
