use std::{
    any::Any,
    convert::Infallible,
    panic::AssertUnwindSafe,
    task::{Context, Poll},
};

use futures_util::FutureExt as _;
use http::Request;
use tower::{Layer, Service, layer::layer_fn};
use tracing::error;

use super::{Answer, Answering, call_of, refusal, slow_body::SlowBody};
use crate::rpc::status::NotJudged;

/// Answers a call whose evaluation panicked with `INTERNAL`; all others live on.
#[derive(Debug, Clone)]
pub struct CatchPanic<S> {
    inner: S,
}

pub(super) fn layer<S>() -> impl Layer<S, Service = CatchPanic<S>> {
    layer_fn(|inner| CatchPanic { inner })
}

impl<S> Service<Request<SlowBody>> for CatchPanic<S>
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

    fn call(&mut self, request: Request<SlowBody>) -> Answering {
        let call = call_of(&request);
        // What a call leaves behind is its own; what calls share is changed whole or not at all.
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| self.inner.call(request)));
        Box::pin(async move {
            let answered = match called {
                Ok(answering) => AssertUnwindSafe(answering).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            answered.unwrap_or_else(|panic| {
                error!(message = text(&*panic), "a call panicked");
                Ok(refusal(NotJudged::Internal, call))
            })
        })
    }
}

/// What a panic says.
pub(in crate::door) fn text(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
}
