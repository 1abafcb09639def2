use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// The body of a request that has to arrive within a time: a caller that sends its request drop by drop must not be
/// waited for without end. It can be gathered before it is read.
#[derive(Debug)]
pub struct SlowBody<B = Incoming> {
    body: B,
    limit: Duration,
    /// Set up only when the body is waited for; most have arrived whole.
    end: Option<Pin<Box<Sleep>>>,
    gathered: Gathered,
}

/// What of a body was gathered and not read yet.
#[derive(Debug, Default)]
struct Gathered {
    /// The first piece. Most bodies come in one, which needs no copy.
    first: Bytes,
    /// All pieces, where there are more.
    all: Vec<u8>,
    /// Nothing more comes.
    is_whole: bool,
    /// Why nothing more comes, where it should have.
    failed: Option<Status>,
}

impl<B> SlowBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    pub(super) fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, end: None, gathered: Gathered::default() }
    }

    /// Gathers all of it. Whatever goes wrong, being larger than `most` bytes included, is an end too: whoever reads it
    /// finds that out.
    pub(super) fn poll_gathered(&mut self, context: &mut Context<'_>, most: usize) -> Poll<()> {
        while !self.gathered.is_whole {
            match ready!(self.poll_received(context)) {
                Some(Ok(frame)) => self.gathered.take(frame, most),
                Some(Err(status)) => self.gathered.end(Some(status)),
                None => self.gathered.end(None),
            }
            self.gathered.is_whole |= self.body.is_end_stream();
        }
        Poll::Ready(())
    }

    fn poll_received(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(Box::new(error)))));
        }
        let limit = self.limit;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(limit)));
        end.as_mut().poll(context).map(|()| Some(Err(Status::deadline_exceeded("the request did not arrive in time"))))
    }
}

impl Gathered {
    fn take(&mut self, frame: Frame<Bytes>, most: usize) {
        let Ok(data) = frame.into_data() else { return };
        if self.first.is_empty() {
            self.first = data;
        } else {
            if self.all.is_empty() {
                self.all.extend_from_slice(&self.first);
            }
            self.all.extend_from_slice(&data);
        }
        if self.first.len().max(self.all.len()) > most {
            *self = Self::default();
            self.end(Some(Status::out_of_range("more bytes than a message may have")));
        }
    }

    fn end(&mut self, failed: Option<Status>) {
        (self.is_whole, self.failed) = (true, failed);
    }

    fn next(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        let (first, all) = (mem::take(&mut self.first), mem::take(&mut self.all));
        match if all.is_empty() { first } else { all.into() } {
            data if data.is_empty() => self.failed.take().map(Err),
            data => Some(Ok(Frame::data(data))),
        }
    }
}

impl<B> Body for SlowBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.gathered.is_whole { Poll::Ready(self.gathered.next()) } else { self.poll_received(context) }
    }

    fn is_end_stream(&self) -> bool {
        let Gathered { first, all, is_whole, failed } = &self.gathered;
        if *is_whole { first.is_empty() && all.is_empty() && failed.is_none() } else { self.body.is_end_stream() }
    }

    fn size_hint(&self) -> SizeHint {
        if self.gathered.is_whole { SizeHint::default() } else { self.body.size_hint() }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io};

    use futures_util::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    type Piece = Result<&'static str, &'static str>;

    /// What comes of a body that comes in these pieces, and then ends or goes on for ever, when it is gathered and read.
    async fn read(pieces: &[Piece], ends: bool) -> (String, Option<tonic::Code>) {
        let frames = pieces.iter().map(|piece| match piece {
            Ok(text) => Ok(Frame::data(Bytes::from_static(text.as_bytes()))),
            Err(error) => Err(io::Error::other(*error)),
        });
        let frames = stream::iter(frames.collect::<Vec<_>>());
        let frames = if ends { frames.boxed() } else { frames.chain(stream::pending()).boxed() };
        let mut body = SlowBody::new(StreamBody::new(frames), Duration::from_secs(7));
        poll_fn(|context| body.poll_gathered(context, 4)).await;
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap()),
                Err(status) => return (text, Some(status.code())),
            }
        }
        assert!(body.is_end_stream());
        (text, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_gathered_whole_or_its_end_is_told() {
        let whole = |text: &str| (text.to_owned(), None);
        assert_eq!(read(&[], true).await, whole(""));
        assert_eq!(read(&[Ok("abcd")], true).await, whole("abcd"));
        assert_eq!(read(&[Ok(""), Ok("ab"), Ok(""), Ok("c"), Ok("d")], true).await, whole("abcd"));
        let too_large = (String::new(), Some(tonic::Code::OutOfRange));
        assert_eq!(read(&[Ok("abcde")], false).await, too_large);
        assert_eq!(read(&[Ok("ab"), Ok("cde")], false).await, too_large);
        assert_eq!(read(&[Ok("ab"), Err("gone")], true).await, ("ab".to_owned(), Some(tonic::Code::Unknown)));
        let begun = tokio::time::Instant::now();
        assert_eq!(read(&[Ok("ab")], false).await, ("ab".to_owned(), Some(tonic::Code::DeadlineExceeded)));
        assert_eq!(begun.elapsed(), Duration::from_secs(7));
    }
}
