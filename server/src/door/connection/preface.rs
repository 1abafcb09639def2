use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What every HTTP/2 connection starts with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose peer has sent the preface, which is still to be read from it.
#[derive(Debug)]
pub(super) struct Greeted<S> {
    unread: &'static [u8],
    stream: S,
}

/// Waits until the peer has sent the preface.
///
/// # Errors
/// Where the peer goes, or sends something else.
pub(super) async fn read<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<Greeted<S>> {
    let mut sent = [0; PREFACE.len()];
    let mut read = 0_usize;
    while let Some(rest) = sent.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read = read.saturating_add(more),
        }
        if sent.get(..read) != PREFACE.get(..read) {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(Greeted { unread: PREFACE, stream })
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let (now, later) = self.unread.split_at(self.unread.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.unread = later;
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
    async fn the_preface_can_still_be_read_and_what_follows_too() {
        let (mut peer, stream) = tokio::io::duplex(8);
        let sending = tokio::spawn(async move {
            peer.write_all(PREFACE).await.unwrap();
            peer.write_all(b"frames").await.unwrap();
        });
        let mut read_on = read(stream).await.unwrap();
        let mut all = Vec::new();
        read_on.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [PREFACE.as_slice(), b"frames"].concat());
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn whoever_speaks_something_else_or_goes_is_no_peer() {
        for (sent, kind) in [
            (b"GET / HTTP/1.1\r\n".as_slice(), io::ErrorKind::InvalidData),
            (b"PRI * HT", io::ErrorKind::UnexpectedEof),
        ] {
            let (mut peer, stream) = tokio::io::duplex(64);
            peer.write_all(sent).await.unwrap();
            drop(peer);
            assert_eq!(read(stream).await.unwrap_err().kind(), kind);
        }
    }
}
