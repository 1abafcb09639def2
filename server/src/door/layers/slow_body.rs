use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// The body of a request that has to arrive within a time: a caller that sends its request drop by drop must not hold
/// a place.
#[derive(Debug)]
pub(super) struct SlowBody {
    body: Incoming,
    limit: Duration,
    /// Set up only when the body is waited for; most have arrived whole.
    end: Option<Pin<Box<Sleep>>>,
}

impl SlowBody {
    pub(super) fn new(body: Incoming, limit: Duration) -> Self {
        Self { body, limit, end: None }
    }
}

impl Body for SlowBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(Box::new(error)))));
        }
        let limit = self.limit;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(limit)));
        end.as_mut().poll(context).map(|()| Some(Err(Status::deadline_exceeded("the request did not arrive in time"))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
