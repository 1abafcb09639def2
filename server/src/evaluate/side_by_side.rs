use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

/// Runs futures side by side and gives their outputs in order, up to the first that `ends` says is the last one. As
/// soon as one is, those after it are dropped, which cancels them; those before it are waited for.
pub(super) async fn side_by_side<F: Future>(
    futures: Vec<F>,
    ends: impl Fn(usize, &F::Output) -> bool,
) -> Vec<F::Output> {
    let mut slots = futures.into_iter().map(|future| Slot::Running(Box::pin(future))).collect::<Vec<_>>();
    poll_fn(|context| {
        let mut running = false;
        let mut place = 0;
        while let Some(slot) = slots.get_mut(place) {
            if let Slot::Running(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Pending => running = true,
                    Poll::Ready(output) => {
                        let is_last = ends(place, &output);
                        *slot = Slot::Done(output);
                        if is_last {
                            slots.truncate(place.saturating_add(1));
                        }
                    }
                }
            }
            place = place.saturating_add(1);
        }
        if running { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let done = |slot| match slot {
        Slot::Done(output) => Some(output),
        Slot::Running(_) => None,
    };
    slots.into_iter().filter_map(done).collect()
}

enum Slot<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc, time::Duration};

    use tokio::time::{Instant, sleep};

    use super::*;

    /// Says its number after so many milliseconds, and notes when it is dropped before that.
    async fn after(millis: u64, number: u32, dropped: Rc<RefCell<Vec<u32>>>) -> u32 {
        struct Note(u32, bool, Rc<RefCell<Vec<u32>>>);
        impl Drop for Note {
            fn drop(&mut self) {
                if self.1 {
                    self.2.borrow_mut().push(self.0);
                }
            }
        }
        let mut note = Note(number, true, dropped);
        sleep(Duration::from_millis(millis)).await;
        note.1 = false;
        number
    }

    #[tokio::test(start_paused = true)]
    async fn they_take_as_long_as_the_longest_and_come_in_order() {
        let dropped = Rc::default();
        let started = Instant::now();
        let runs = [(30, 1), (10, 2), (20, 3)].map(|(millis, number)| after(millis, number, Rc::clone(&dropped)));
        assert_eq!(side_by_side(runs.into(), |_, _| false).await, [1, 2, 3]);
        assert_eq!(started.elapsed().as_millis(), 30);
        assert!(dropped.borrow().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_one_cancels_those_after_it_and_waits_for_those_before_it() {
        let dropped = Rc::default();
        let started = Instant::now();
        let runs = [(30, 1), (10, 2), (1000, 3)].map(|(millis, number)| after(millis, number, Rc::clone(&dropped)));
        assert_eq!(side_by_side(runs.into(), |_, number| *number == 2).await, [1, 2]);
        assert_eq!(started.elapsed().as_millis(), 30);
        assert_eq!(*dropped.borrow(), [3]);
    }
}
