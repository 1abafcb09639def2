use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// This side of a child's three pipes. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// The start of one output, up to a cap.
#[derive(Debug)]
pub(crate) struct Captured {
    bytes: Vec<u8>,
    cap: usize,
    truncated: bool,
}

impl Pipes {
    /// Takes the pipes out of a child that was just started.
    pub(crate) fn of(child: &mut Child) -> io::Result<Self> {
        Ok(Self {
            stdin: child.stdin.take().map(ChildStdin::from_std).transpose()?,
            stdout: child.stdout.take().map(ChildStdout::from_std).transpose()?,
            stderr: child.stderr.take().map(ChildStderr::from_std).transpose()?,
        })
    }

    /// Keeps both outputs of a child open on this side for as long as the answer lives, though nobody reads them.
    pub(crate) fn hold_outputs(child: &Child) -> [Option<OwnedFd>; 2] {
        [
            child.stdout.as_ref().and_then(|pipe| pipe.as_fd().try_clone_to_owned().ok()),
            child.stderr.as_ref().and_then(|pipe| pipe.as_fd().try_clone_to_owned().ok()),
        ]
    }

    /// Writes the payload and reads both outputs, all at once: a child that writes before it has read everything blocks
    /// neither side. Ends when stdin is closed and both outputs are at their end.
    pub(crate) async fn pump(self, payload: &[u8], stdout: &mut Captured, stderr: &mut Captured) {
        tokio::join!(feed(self.stdin, payload), stdout.drain(self.stdout), stderr.drain(self.stderr));
    }
}

impl Captured {
    pub(crate) fn new(cap: usize) -> Self {
        Self { bytes: Vec::new(), cap, truncated: false }
    }

    /// Whether more came than was kept.
    pub(crate) fn truncated(&self) -> bool {
        self.truncated
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reads to the end, beyond the cap too: a child that fills its pipe would block for ever.
    async fn drain(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut chunk = vec![0; CHUNK];
        // A pipe that cannot be read any more is at its end: how the child ends says the rest.
        while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
            self.keep(chunk.get(..count).unwrap_or_default());
        }
    }

    fn keep(&mut self, chunk: &[u8]) {
        let room = self.cap.saturating_sub(self.bytes.len());
        let kept = chunk.get(..room).unwrap_or(chunk);
        self.bytes.extend_from_slice(kept);
        self.truncated |= kept.len() < chunk.len();
    }
}

async fn feed(pipe: Option<ChildStdin>, payload: &[u8]) {
    let Some(mut pipe) = pipe else { return };
    // A child need not read its stdin: one that closes it, or ends first, does so without fault.
    let _ignored = pipe.write_all(payload).await;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_the_start_of_any_chunks_and_marks_a_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            cap in 0_usize..200,
        ) {
            let mut captured = Captured::new(cap);
            for chunk in &chunks {
                captured.keep(chunk);
            }
            let whole = chunks.concat();
            prop_assert_eq!(captured.truncated(), whole.len() > cap);
            prop_assert_eq!(captured.into_bytes(), whole.into_iter().take(cap).collect::<Vec<_>>());
        }
    }
}
