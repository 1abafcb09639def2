//! What an agent writes on standard input, within bounds.

use std::{io, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
    stdio::stdin,
};
use tokio::time::Instant;

/// As much as hookd takes of one call.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;
/// What is read at a time.
const CHUNK: usize = 64 * 1024;

/// Why there is no input.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputError {
    /// There is more of it.
    #[error("the hook's input has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// It has no end in time.
    #[error("the hook's input did not end within {0:?}")]
    Late(Duration),
    /// The system says so.
    #[error("cannot read the hook's input: {0}")]
    Unreadable(String),
}

/// Reads standard input to its end, waiting until `deadline` at most. What is too much is read as well, and thrown away:
/// an agent whose writing breaks may take the hook for broken and go on.
pub(crate) fn read_whole(started: Instant, deadline: Instant) -> Result<Vec<u8>, InputError> {
    let mut input = Vec::new();
    let mut chunk = vec![0_u8; CHUNK];
    let mut too_large = false;
    let unreadable = |errno: Errno| InputError::Unreadable(crate::report::reason(&io::Error::from(errno)));
    loop {
        if !ready(deadline).map_err(unreadable)? {
            return Err(match too_large {
                true => InputError::TooLarge,
                false => InputError::Late(deadline.saturating_duration_since(started)),
            });
        }
        match read(stdin(), &mut chunk) {
            Ok(0) if too_large => return Err(InputError::TooLarge),
            Ok(0) => return Ok(input),
            Ok(count) => {
                too_large |= input.len().saturating_add(count) > MAX_BYTES;
                if too_large {
                    input = Vec::new();
                } else {
                    input.extend_from_slice(chunk.get(..count).unwrap_or_default());
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(unreadable(errno)),
        }
    }
}

/// Waits until there is something to read or the end. `false`: the deadline came first.
fn ready(deadline: Instant) -> Result<bool, Errno> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let stdin = stdin();
        let mut descriptors = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
