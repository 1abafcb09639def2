//! Calls that are no evaluations: health, reflection and administration. They take no places, and health is open to
//! everybody, so of each connection there are few at a time.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Status, body::Body};

/// How many of them one connection has at a time: a client watches one or two services, and a person asks one thing at a
/// time.
const AT_A_TIME: usize = 16;

/// Those of one connection.
#[derive(Debug, Clone)]
pub(super) struct Beside(Arc<Semaphore>);

/// The answer to one of them, which counts until its end.
#[derive(Debug)]
pub(super) struct Counted {
    body: Body,
    _one: OwnedSemaphorePermit,
}

impl Beside {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }

    /// Counts one more. `None`: there are enough.
    pub(super) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}

impl Counted {
    pub(super) fn new(body: Body, one: OwnedSemaphorePermit) -> Self {
        Self { body, _one: one }
    }
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
