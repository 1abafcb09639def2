use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use tonic::body::Body;
use tower::{Layer, Service, layer::layer_fn};

use super::{Answer, Answering, call_of, is_evaluation, is_lasting, refusal};
use crate::{
    door::places::Places,
    rpc::status::NotJudged,
    telemetry::call::{Call, Lasting},
};

/// Lets so many calls be evaluated at a time, over all connections, and sheds the others at once.
#[derive(Debug, Clone)]
pub struct InFlight<S> {
    inner: S,
    places: Arc<Places>,
}

pub(super) fn layer<S>(places: Arc<Places>) -> impl Layer<S, Service = InFlight<S>> {
    layer_fn(move |inner| InFlight { inner, places: Arc::clone(&places) })
}

impl<S> Service<Request<Body>> for InFlight<S>
where
    S: Service<Request<Body>, Response = Answer, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Answering {
        if !is_evaluation(&request) {
            return Box::pin(self.inner.call(request));
        }
        let call = request.extensions().get::<Call>();
        // Above this layer every call was given one.
        let entered = call.map_or(Err(NotJudged::Internal), |call| self.places.enter(&call.identity));
        let place = match entered {
            Ok(place) => place,
            Err(not_judged) => {
                let refused = refusal(not_judged, call_of(&request));
                return Box::pin(async move { Ok(refused) });
            }
        };
        if is_lasting(&request)
            && let Some(lasting) = request.extensions_mut().get_mut::<Lasting>()
        {
            lasting.kept.push(Arc::new(place));
            return Box::pin(self.inner.call(request));
        }
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await;
            drop(place);
            answer
        })
    }
}
