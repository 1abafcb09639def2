//! The answer, written whole and once.

use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::BorrowedFd,
    io::{Errno, write},
    stdio::{stderr, stdout},
};

/// Writes to standard output. Not through the standard library's buffer, which would write lines one by one.
///
/// # Errors
/// Nobody reads it any more (`EPIPE`), or the system refuses it.
pub(crate) fn to_stdout(text: &str) -> Result<(), Errno> {
    write_whole(stdout(), text.as_bytes())
}

/// Writes to standard error. Nobody is left to tell where that fails.
pub(crate) fn to_stderr(text: &str) {
    let _ = write_whole(stderr(), text.as_bytes());
}

fn write_whole(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // An agent can hand over a pipe that does not block.
            Err(Errno::AGAIN) => {
                let mut descriptors = [PollFd::new(&to, PollFlags::OUT)];
                match poll(&mut descriptors, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
