use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What every HTTP/2 connection starts with, and no HTTP/1.1 request.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a peer speaks, by the first bytes that it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    /// The whole preface of HTTP/2.
    Http2,
    /// Something else, which is for the reader of HTTP/1.1 to judge.
    Http1,
}

/// A stream whose first bytes are known and still to be read from it.
#[derive(Debug)]
pub(super) struct Greeted<S> {
    first: [u8; PREFACE.len()],
    /// Which of the first bytes are still to be read.
    from: usize,
    to: usize,
    stream: S,
}

/// Waits until the peer has shown what it speaks. What it is told apart by is the first byte that is not of the preface,
/// so nobody waits for more than was sent.
///
/// # Errors
/// Where the peer goes before it can be told.
pub(super) async fn read<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(Speaks, Greeted<S>)> {
    let mut first = [0; PREFACE.len()];
    let mut read = 0_usize;
    let speaks = loop {
        let Some(rest) = first.get_mut(read..).filter(|rest| !rest.is_empty()) else { break Speaks::Http2 };
        match stream.read(rest).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read = read.saturating_add(more),
        }
        if first.get(..read) != PREFACE.get(..read) {
            break Speaks::Http1;
        }
    };
    Ok((speaks, Greeted { first, from: 0, to: read, stream }))
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let unread = this.first.get(this.from..this.to).unwrap_or_default();
        if unread.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let (now, _) = unread.split_at(unread.len().min(buffer.remaining()));
        buffer.put_slice(now);
        this.from = this.from.saturating_add(now.len());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn what_a_peer_speaks_is_told_by_its_first_bytes_which_can_still_be_read() {
        let cases: [(&[u8], Speaks); 4] = [
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nframes", Speaks::Http2),
            (b"POST /v1/trigger HTTP/1.1\r\nhost: x\r\n\r\n", Speaks::Http1),
            (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", Speaks::Http1),
            (b"\x16", Speaks::Http1),
        ];
        for (sent, expected) in cases {
            let (mut peer, stream) = tokio::io::duplex(8);
            let sending = tokio::spawn(async move { peer.write_all(sent).await });
            let (speaks, mut read_on) = read(stream).await.unwrap();
            let mut all = Vec::new();
            read_on.read_to_end(&mut all).await.unwrap();
            assert_eq!((speaks, all.as_slice()), (expected, sent));
            sending.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn whoever_goes_before_that_is_no_peer() {
        for sent in [b"".as_slice(), b"PRI * HT"] {
            let (mut peer, stream) = tokio::io::duplex(64);
            peer.write_all(sent).await.unwrap();
            drop(peer);
            assert_eq!(read(stream).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
