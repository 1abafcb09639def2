//! Lines leave by a thread of their own: nobody who writes one ever waits for whoever reads them.

use std::{
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::time::Instant;
use tracing_subscriber::fmt::MakeWriter;

/// How many bytes may wait; lines over it are dropped.
const WAITING: usize = 4 << 20;
/// How long lines are gathered before they are written together. Waking the thread for each line would cost a call
/// more than writing the line does.
const GATHER: Duration = Duration::from_millis(5);
/// What the buffers keep of their memory, in bytes.
const KEPT: usize = 1 << 18;
/// How long the end of the process waits for lines that are still on their way.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Takes lines. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Waiting>);

/// What became of lines.
#[derive(Debug)]
pub(super) enum Fate {
    /// They are written.
    Written,
    /// They could not be.
    Failed(io::Error),
    /// So many found no place.
    Dropped(u64),
}

/// Sees to it that the last lines get out: dropping it waits for them, for a second at most.
#[derive(Debug)]
#[must_use = "the last lines get out when this is dropped"]
pub struct LastLines(Lines);

/// What waits. One buffer for all lines: it is held for as long as it takes to copy a line, and a line that is freed by
/// the thread that writes it would cost more than that.
#[derive(Debug, Default)]
struct Waiting {
    state: Mutex<State>,
    /// Something waits, or is to be flushed.
    filled: Condvar,
    /// Everything that waited was written.
    flushed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    dropped: u64,
    is_writing: bool,
    is_flushing: bool,
}

impl Lines {
    /// Lines that are written to `out` by a new thread of this name, which tells what becomes of them.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub(super) fn to(
        name: &str,
        out: impl Write + Send + 'static,
        told: impl FnMut(Fate) + Send + 'static,
    ) -> io::Result<(Self, LastLines)> {
        let lines = Self(Arc::default());
        let waiting = Arc::clone(&lines.0);
        thread::Builder::new().name(name.to_owned()).spawn(move || write(&waiting, out, told))?;
        Ok((lines.clone(), LastLines(lines)))
    }

    /// Lines that nobody writes out.
    #[cfg(test)]
    pub(super) fn unread() -> Self {
        Self(Arc::default())
    }

    /// Takes one whole line, its line break included, if there is a place for it; waits for nobody who reads.
    pub(super) fn add(&self, line: &[u8]) -> bool {
        let mut state = self.0.state();
        let after = state.bytes.len().saturating_add(line.len());
        if after > WAITING {
            state.dropped = state.dropped.saturating_add(1);
            return false;
        }
        let was_empty = state.bytes.is_empty();
        state.bytes.extend_from_slice(line);
        drop(state);
        if was_empty {
            self.0.filled.notify_one();
        }
        true
    }
}

impl Write for Lines {
    /// Takes one whole line; never blocks.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // What finds no place is counted.
        let _taken = self.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl Drop for LastLines {
    fn drop(&mut self) {
        let waiting = &self.0.0;
        let end = Instant::now().checked_add(FLUSH_LIMIT);
        let mut state = waiting.state();
        while (state.is_writing || !state.bytes.is_empty())
            && let Some(left) = end.and_then(|end| end.checked_duration_since(Instant::now()))
        {
            state.is_flushing = true;
            waiting.filled.notify_one();
            state = waiting.flushed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(waiting: &Waiting, mut out: impl Write, mut told: impl FnMut(Fate)) {
    let mut batch = Vec::new();
    loop {
        let mut state = waiting.state();
        while state.bytes.is_empty() {
            state = waiting.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let gathering = |state: &mut State| !state.is_flushing;
        let gathered = waiting.filled.wait_timeout_while(state, GATHER, gathering);
        let mut state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::swap(&mut state.bytes, &mut batch);
        let dropped = std::mem::take(&mut state.dropped);
        state.is_writing = true;
        drop(state);
        let written = out.write_all(&batch).and_then(|()| out.flush());
        batch.clear();
        batch.shrink_to(KEPT);
        told(written.map_or_else(Fate::Failed, |()| Fate::Written));
        if dropped > 0 {
            told(Fate::Dropped(dropped));
        }
        let mut state = waiting.state();
        state.is_writing = false;
        if state.bytes.is_empty() {
            state.is_flushing = false;
            drop(state);
            waiting.flushed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// Says that it is asked to write, and writes nothing until it may.
    struct Stuck {
        asked: Sender<()>,
        may_write: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.asked.send(());
            let _ = self.may_write.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(out: Stuck) -> (Lines, LastLines) {
        Lines::to("log", out, |_| {}).unwrap()
    }

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_the_last_lines_get_out() {
        let ((asked, being_asked), (let_write, may_write)) = (mpsc::channel(), mpsc::channel());
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut lines, last) = lines(Stuck { asked, may_write, written: Arc::clone(&written) });
        let line = [b'x'; 1024];
        lines.write_all(&line).unwrap();
        being_asked.recv().unwrap();
        let taken = WAITING / line.len();
        for _ in 0..taken + 10 {
            lines.write_all(&line).unwrap();
        }
        assert_eq!(lines.0.state().dropped, 10);
        drop(let_write);
        drop(last);
        assert_eq!(written.lock().unwrap().len(), (1 + taken) * line.len());
    }

    #[test]
    fn the_end_does_not_wait_for_ever() {
        let ((asked, being_asked), (let_write, may_write)) = (mpsc::channel(), mpsc::channel());
        let (mut lines, last) = lines(Stuck { asked, may_write, written: Arc::default() });
        lines.write_all(b"never read\n").unwrap();
        being_asked.recv().unwrap();
        drop(last);
        drop(let_write);
    }
}
