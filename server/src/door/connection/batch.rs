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
///
/// It is empty whenever the connection waits: a call holds this too, and one that stayed here would keep itself alive.
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

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn calls_that_need_not_wait_are_done_where_they_arrived_and_the_others_go_on() {
        let (batch, done) = (Batch::default(), Arc::new(AtomicUsize::new(0)));
        let (go_on, went_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut seen = Vec::new();
        let connection = poll_fn(|context| {
            seen.push(done.load(Ordering::SeqCst));
            match seen.len() {
                // One that waits, and more of those that do not than are tried at a time.
                1 => {
                    let (late, go_on, went_on) = (Arc::clone(&done), Arc::clone(&go_on), Arc::clone(&went_on));
                    batch.execute(async move {
                        go_on.notified().await;
                        late.fetch_add(100, Ordering::SeqCst);
                        went_on.notify_one();
                    });
                    for _ in 0..AT_A_TIME {
                        let done = Arc::clone(&done);
                        batch.execute(async move {
                            done.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                    Poll::Pending
                }
                2 => Poll::Pending,
                // The connection ends, and the call that waits does not.
                _ => {
                    context.waker().wake_by_ref();
                    Poll::Ready(())
                }
            }
        });
        batch.drive(pin!(connection)).await;
        assert_eq!(seen, [0, AT_A_TIME - 1, AT_A_TIME]);
        go_on.notify_one();
        went_on.notified().await;
        assert_eq!(done.load(Ordering::SeqCst), AT_A_TIME + 100);
    }
}
