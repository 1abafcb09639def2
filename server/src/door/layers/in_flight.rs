use std::{
    convert::Infallible,
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use http::Request;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::{Layer, Service, layer::layer_fn};

use super::{
    Answer, Answering,
    beside::{Beside, Counted},
    call_of, is_evaluation, is_lasting, refusal,
    slow_body::SlowBody,
};
use crate::{
    door::{
        leaving::Slot,
        places::{Arriving, Places},
    },
    rpc::status::NotJudged,
    telemetry::call::{Call, Kept, LargeAnswer, Lasting, NoPlace, Threshold},
};

/// Lets so many calls be evaluated at a time, over all connections, and sheds the others at once. A call has its place from
/// when it is there whole.
#[derive(Debug, Clone)]
pub struct InFlight<S> {
    inner: S,
    places: Arc<Places>,
    /// Calls of this connection that are no evaluations.
    beside: Beside,
    message_bytes: usize,
}

/// The threshold of a stream, which knows itself when it is there whole.
#[derive(Debug)]
struct Opening {
    places: Arc<Places>,
    call: Call,
    gives_way: CancellationToken,
    arriving: Mutex<Option<Arriving>>,
}

pub(super) fn layer<S>(places: Arc<Places>, message_bytes: usize) -> impl Layer<S, Service = InFlight<S>> {
    layer_fn(move |inner| InFlight { inner, places: Arc::clone(&places), beside: Beside::new(), message_bytes })
}

impl<S> Service<Request<SlowBody>> for InFlight<S>
where
    S: Service<Request<Body>, Response = Answer, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<SlowBody>) -> Answering {
        if !is_evaluation(&request) {
            let Some(one) = self.beside.enter() else { return refused(NotJudged::Shed, call_of(&request)) };
            let answering = self.inner.call(request.map(Body::new));
            return Box::pin(async move { Ok(answering.await?.map(|body| Body::new(Counted::new(body, one)))) });
        }
        // Above this layer every call was given one.
        let Some(call) = call_of(&request) else { return refused(NotJudged::Internal, None) };
        if is_lasting(&request) {
            let (arriving, slot) = (self.places.arriving(&call), Slot::new());
            if let Some(lasting) = request.extensions_mut().get_mut::<Lasting>() {
                lasting.kept.push(Arc::new(self.places.ending(&slot, call.clone())));
                lasting.threshold = Some(Arc::new(Opening {
                    places: Arc::clone(&self.places),
                    call,
                    gives_way: arriving.guest().clone(),
                    arriving: Mutex::new(Some(arriving)),
                }));
            }
            let answering = self.inner.call(request.map(Body::new));
            return Box::pin(async move { Ok(answering.await?.map(|body| Body::new(slot.filled(body)))) });
        }
        let most = most_bytes(self.message_bytes);
        if request.body_mut().poll_gathered(&mut Context::from_waker(Waker::noop()), most).is_pending() {
            // Of these two the one that is ready goes along.
            let inner = self.inner.clone();
            let inner = mem::replace(&mut self.inner, inner);
            return Box::pin(late(inner, Arc::clone(&self.places), call, request, most));
        }
        let place = match self.places.enter(&call) {
            Ok(place) => place,
            Err(no_place) => return refused(no_place.into(), Some(call)),
        };
        let (answering, places) = (self.inner.call(request.map(Body::new)), Arc::clone(&self.places));
        Box::pin(async move {
            let answer = leaving(&places, &call, answering.await?);
            drop(place);
            Ok(answer)
        })
    }
}

impl Threshold for Opening {
    fn gives_way(&self) -> &CancellationToken {
        &self.gives_way
    }

    fn pass(&self) -> Result<Kept, NoPlace> {
        let place = self.places.enter(&self.call)?;
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(Arc::new(place))
    }
}

/// A call that is not there whole yet.
async fn late<S>(
    mut inner: S,
    places: Arc<Places>,
    call: Call,
    mut request: Request<SlowBody>,
    most: usize,
) -> Result<Answer, Infallible>
where
    S: Service<Request<Body>, Response = Answer, Error = Infallible>,
{
    let gathered = poll_fn(|context| request.body_mut().poll_gathered(context, most));
    let entered = match places.arrive(&call, gathered).await {
        Ok(()) => places.enter(&call),
        Err(no_place) => Err(no_place),
    };
    match entered {
        Ok(place) => {
            let answer = leaving(&places, &call, inner.call(request.map(Body::new)).await?);
            drop(place);
            Ok(answer)
        }
        Err(no_place) => Ok(refusal(no_place.into(), Some(call))),
    }
}

/// `answer`, which keeps to its seat where it is large.
fn leaving(places: &Places, call: &Call, mut answer: Answer) -> Answer {
    if answer.extensions_mut().remove::<LargeAnswer>().is_none() {
        return answer;
    }
    answer.map(|body| Body::new(places.leaving(call, body)))
}

/// How many bytes a message can take on its way: its envelope, and what compression makes of one that cannot be made
/// smaller.
fn most_bytes(message_bytes: usize) -> usize {
    message_bytes.saturating_add(message_bytes / 64).saturating_add(1024)
}

fn refused(not_judged: NotJudged, call: Option<Call>) -> Answering {
    let refused = refusal(not_judged, call);
    Box::pin(async move { Ok(refused) })
}
