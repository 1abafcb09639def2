use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use hyper::rt::Executor;

/// How many calls are tried before their answers are sent.
const AT_A_TIME: usize = 16;

/// The calls of one connection that have arrived.
///
/// Each is tried once on the connection's own task, when all that came in one read have been taken in: most are decided
/// without waiting for anything, and their answers leave in one write. A call that has to wait gets a task of its own.
#[derive(Clone, Default)]
pub(super) struct Batch(Arc<Mutex<VecDeque<Call>>>);

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Batch {
    fn execute(&self, call: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::pin(call));
    }
}

impl Batch {
    /// Drives `connection`, whose calls these are, to its end.
    pub(super) async fn drive<C: Future>(&self, mut connection: Pin<&mut C>) -> C::Output {
        poll_fn(move |context| {
            loop {
                if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                    // What is left goes on without the connection, as far as it can.
                    while self.try_some() {}
                    return Poll::Ready(ended);
                }
                if !self.try_some() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Whether there were any.
    fn try_some(&self) -> bool {
        let next = || self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let mut tried = 0_usize;
        while tried < AT_A_TIME
            && let Some(mut call) = next()
        {
            tried = tried.saturating_add(1);
            // Nobody has to be woken: a call that is not done is polled again at once, by its task.
            if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(call);
            }
        }
        tried > 0
    }
}
