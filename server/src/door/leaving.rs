//! Large answers on their way out. A caller that does not read holds little of what it was answered, and of all that is not
//! read there is so much at most.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, ready},
};

use hyper::body::{Bytes, Frame, SizeHint};
use tonic::{Status, body::Body};

use super::room::{Guest, Room, Seat};
use crate::telemetry::call::Call;

/// In such pieces it is given to the connection, which takes one when the peer has room for the first byte of it. What it
/// took can be given up no more.
const PIECE_BYTES: usize = 16 << 10;

/// The answer of a call, which gives way to those of others where too many are not read.
#[derive(Debug)]
pub struct Leaving(Arc<Slot>);

/// What an answer takes until it is read. Its body holds it; everybody else knows of it.
#[derive(Debug)]
pub struct Slot {
    /// `None`: it gave way, or is not there yet.
    answer: Mutex<Option<Answer>>,
    seat: Mutex<Option<Seat<Weak<Self>>>>,
}

/// Has the answer of a stream take its seat when the stream's evaluation has ended: until then it has a place.
#[derive(Debug)]
pub struct Ending {
    slot: Weak<Slot>,
    room: Arc<Room<Weak<Slot>>>,
    call: Call,
}

#[derive(Debug)]
struct Answer {
    body: Body,
    /// What is left of a frame that is larger than a piece.
    rest: Bytes,
}

impl Leaving {
    /// `body` as the answer to `call`, with a seat in `room`.
    pub(super) fn new(room: &Arc<Room<Weak<Slot>>>, call: &Call, body: Body) -> Self {
        let slot = Slot::new();
        slot.sit(room, call);
        slot.filled(body)
    }
}

impl Slot {
    /// For an answer that is still to come.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { answer: Mutex::new(None), seat: Mutex::new(None) })
    }

    /// The answer.
    pub(super) fn filled(self: Arc<Self>, body: Body) -> Leaving {
        *self.answer() = Some(Answer { body, rest: Bytes::new() });
        Leaving(self)
    }

    /// Has it take its seat in `room` when that is dropped.
    pub(super) fn at_the_end(self: &Arc<Self>, room: &Arc<Room<Weak<Self>>>, call: Call) -> Ending {
        Ending { slot: Arc::downgrade(self), room: Arc::clone(room), call }
    }

    fn sit(self: &Arc<Self>, room: &Arc<Room<Weak<Self>>>, call: &Call) {
        let seat = room.enter(call, Arc::downgrade(self));
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = Some(seat);
    }

    fn answer(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest for Weak<Slot> {
    fn give_way(&self) {
        let given_up = self.upgrade().and_then(|slot| slot.answer().take());
        drop(given_up);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.upgrade() {
            slot.sit(&self.room, &self.call);
        }
    }
}

impl hyper::body::Body for Leaving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut answer = self.0.answer();
        let Some(Answer { body, rest }) = answer.as_mut() else {
            return Poll::Ready(Some(Err(Status::resource_exhausted("the answer was not read"))));
        };
        if rest.is_empty() {
            let frame = match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => *rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        // A copy where there is more, since a part of it would keep all of it.
        let piece = if rest.is_empty() && piece.len() < PIECE_BYTES { piece } else { Bytes::copy_from_slice(&piece) };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.answer().as_ref().is_some_and(|answer| answer.rest.is_empty() && answer.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let answer = self.0.answer();
        let left = answer.as_ref().and_then(|answer| {
            let rest = u64::try_from(answer.rest.len()).ok()?;
            answer.body.size_hint().exact()?.checked_add(rest)
        });
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use hyper::body::Body as _;

    use super::*;
    use crate::telemetry::call::Peer;

    fn answer(room: &Arc<Room<Weak<Slot>>>, bytes: &[u8]) -> Leaving {
        Leaving::new(room, &Call::arriving(Peer::Local), Body::new(Full::new(Bytes::copy_from_slice(bytes))))
    }

    async fn piece(leaving: &mut Leaving) -> Option<Result<usize, tonic::Code>> {
        let frame = leaving.frame().await?;
        Some(frame.map(|frame| frame.into_data().unwrap().len()).map_err(|status| status.code()))
    }

    #[tokio::test]
    async fn an_answer_leaves_whole_and_in_pieces() {
        let room = Arc::new(Room::new(8));
        for len in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 100_000] {
            let bytes = (0..=255).cycle().take(len).collect::<Vec<u8>>();
            let mut leaving = answer(&room, &bytes);
            let mut read = Vec::new();
            assert_eq!(leaving.size_hint().exact(), Some(len as u64));
            while let Some(frame) = leaving.frame().await {
                let data = frame.unwrap().into_data().unwrap();
                assert!(!data.is_empty() && data.len() <= PIECE_BYTES);
                read.extend_from_slice(&data);
                assert_eq!(leaving.size_hint().exact(), Some((len - read.len()) as u64));
                assert_eq!(leaving.is_end_stream(), read.len() == len);
            }
            assert_eq!((read, room.count()), (bytes, 1));
            drop(leaving);
            assert_eq!(room.count(), 0);
        }
    }

    #[tokio::test]
    async fn what_gives_way_is_given_up_at_once_and_is_never_taken_for_whole() {
        let room = Arc::new(Room::new(1));
        let bytes = vec![7; 3 * PIECE_BYTES];
        let mut first = answer(&room, &bytes);
        assert_eq!(piece(&mut first).await, Some(Ok(PIECE_BYTES)));
        let second = answer(&room, &bytes);
        assert!(first.0.answer().is_none() && !first.is_end_stream(), "its bytes are gone before anybody asks");
        assert_eq!(piece(&mut first).await, Some(Err(tonic::Code::ResourceExhausted)));
        drop(first);
        assert_eq!((room.count(), second.collect().await.unwrap().to_bytes().len()), (1, bytes.len()));
        assert_eq!(room.count(), 0);
    }

    #[tokio::test]
    async fn a_stream_takes_its_seat_when_its_evaluation_has_ended_unless_it_is_read_by_then() {
        let room = Arc::new(Room::new(8));
        for is_read in [false, true] {
            let slot = Slot::new();
            let ending = slot.at_the_end(&room, Call::arriving(Peer::Local));
            let leaving = Some(slot.filled(Body::new(Full::new(Bytes::from_static(b"x")))));
            let leaving = leaving.filter(|_| !is_read);
            assert_eq!(room.count(), 0);
            drop(ending);
            assert_eq!(room.count(), usize::from(!is_read));
            drop(leaving);
            assert_eq!(room.count(), 0);
        }
    }
}
