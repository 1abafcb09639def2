use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

use hyper::rt::Executor;

/// How many calls are tried before their answers are sent.
const AT_A_TIME: usize = 16;

/// The calls of one connection that have arrived.
///
/// Each is tried once on the connection's own task, when all that came in one read have been taken in: most are decided
/// without waiting for anything, and their answers leave in one write. Then other connections have their turn, however
/// much has come meanwhile. A call that has to wait gets a task of its own.
#[derive(Default)]
pub(super) struct Batch(Arrivals);

/// Where the calls of a connection are put as they arrive. A call holds this too, so what is left here at the end has to be
/// taken out, or it would keep itself alive.
#[derive(Clone, Default)]
pub(super) struct Arrivals(Arc<Mutex<VecDeque<Call>>>);

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Arrivals {
    fn execute(&self, call: F) {
        self.calls().push_back(Box::pin(call));
    }
}

impl Arrivals {
    fn calls(&self) -> MutexGuard<'_, VecDeque<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// Where the connection is to put them.
    pub(super) fn arrivals(&self) -> Arrivals {
        self.0.clone()
    }

    /// Drives `connection`, whose calls these are, to its end.
    pub(super) async fn drive<C: Future>(&self, mut connection: Pin<&mut C>) -> C::Output {
        poll_fn(move |context| {
            let mut ended = connection.as_mut().poll(context);
            if ended.is_pending() && self.try_some() {
                // Their answers leave. What comes with that has to wait for the next turn.
                ended = connection.as_mut().poll(context);
            }
            if ended.is_ready() {
                // What is left goes on without the connection, as far as it can.
                while self.try_some() {}
            } else if !self.0.calls().is_empty() {
                context.waker().wake_by_ref();
            }
            ended
        })
        .await
    }

    /// Whether there were any.
    fn try_some(&self) -> bool {
        let next = || self.0.calls().pop_front();
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

impl Drop for Batch {
    fn drop(&mut self) {
        let left = mem::take(&mut *self.0.calls());
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Poll, Wake},
    };

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn calls_that_need_not_wait_are_done_where_they_arrived_and_the_others_go_on() {
        let (batch, done) = (Batch::default(), Arc::new(AtomicUsize::new(0)));
        let arrivals = batch.arrivals();
        let (go_on, went_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut seen = Vec::new();
        let connection = poll_fn(|context| {
            seen.push(done.load(Ordering::SeqCst));
            match seen.len() {
                // One that waits, and of those that do not one more than is tried beside it.
                1 => {
                    let (late, go_on, went_on) = (Arc::clone(&done), Arc::clone(&go_on), Arc::clone(&went_on));
                    arrivals.execute(async move {
                        go_on.notified().await;
                        late.fetch_add(100, Ordering::SeqCst);
                        went_on.notify_one();
                    });
                    for _ in 0..AT_A_TIME {
                        let done = Arc::clone(&done);
                        arrivals.execute(async move {
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
        assert_eq!(seen, [0, AT_A_TIME - 1, AT_A_TIME - 1], "the last one has to wait for the next turn");
        go_on.notify_one();
        went_on.notified().await;
        assert_eq!(done.load(Ordering::SeqCst), AT_A_TIME + 100);
    }

    /// How often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_connection_that_always_has_calls_gives_way_and_what_is_left_goes_with_it() {
        let (batch, unbegun, woken) = (Batch::default(), Arc::new(()), Arc::new(Woken::default()));
        let arrivals = batch.arrivals();
        let mut looks = 0;
        let mut connection = pin!(poll_fn(|_| {
            looks += 1;
            // Each holds the place for others, as those of hyper do.
            let call = (Arc::clone(&unbegun), arrivals.clone());
            arrivals.execute(async move { drop(call) });
            Poll::<()>::Pending
        }));
        let turn = |driven: Pin<&mut dyn Future<Output = ()>>| {
            assert!(driven.poll(&mut Context::from_waker(&Waker::from(Arc::clone(&woken)))).is_pending());
        };
        turn(pin!(batch.drive(connection.as_mut())));
        assert_eq!((woken.0.load(Ordering::SeqCst), Arc::strong_count(&unbegun)), (1, 2));
        drop(batch);
        assert_eq!((looks, Arc::strong_count(&unbegun)), (2, 1));
    }
}
