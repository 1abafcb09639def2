//! Log lines leave by a thread of their own: an answer never waits for whoever reads the log.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// How many lines may wait; more are dropped, and their number is logged.
const WAITING: usize = 8192;
/// How long lines are gathered before they are written together. Waking the thread for each line would cost a call
/// more than writing the line does.
const GATHER: Duration = Duration::from_millis(5);
/// How much is written at once, in bytes.
const BATCH: usize = 1 << 18;
/// How long the end of the process waits for lines that are still on their way.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Takes lines. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// Sees to it that the last lines get out: dropping it waits for them, for a second at most.
#[derive(Debug)]
#[must_use = "the last lines get out when this is dropped"]
pub struct LastLines(Lines);

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Lines {
    /// Lines that are written to `out` by a new thread.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub(super) fn to(out: impl Write + Send + 'static) -> io::Result<(Self, LastLines)> {
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        let lines = Self { sender, dropped: Arc::default() };
        let dropped = Arc::clone(&lines.dropped);
        thread::Builder::new().name("log".to_owned()).spawn(move || write(&receiver, out, &dropped))?;
        Ok((lines.clone(), LastLines(lines)))
    }
}

impl Write for Lines {
    /// Takes one whole line; never blocks.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(Message::Line(line.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
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
        let (done, flushed) = mpsc::sync_channel(1);
        if self.0.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(FLUSH_LIMIT);
        }
    }
}

fn write(lines: &Receiver<Message>, mut out: impl Write, dropped: &AtomicU64) {
    let mut batch = Vec::new();
    while let Ok(message) = lines.recv() {
        let mut flushed = gather(message, &mut batch);
        if flushed.is_none() {
            thread::park_timeout(GATHER);
        }
        while batch.len() < BATCH
            && let Ok(message) = lines.try_recv()
        {
            flushed = gather(message, &mut batch).or(flushed);
        }
        // Nobody is left to be told that the log cannot be written.
        let _ = out.write_all(&batch).and_then(|()| out.flush());
        batch.clear();
        if let Some(done) = flushed {
            let _ = done.send(());
        }
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!(count, "log lines were dropped: they were not read fast enough");
        }
    }
}

/// Adds a line to the batch, or gives back who waits for the batch to be written.
fn gather(message: Message, batch: &mut Vec<u8>) -> Option<SyncSender<()>> {
    match message {
        Message::Line(line) => {
            batch.extend_from_slice(&line);
            None
        }
        Message::Flush(done) => Some(done),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Writes nothing until it may.
    struct Stuck {
        may_write: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.may_write.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_holds_nobody_up_and_the_last_lines_get_out() {
        let (let_write, may_write) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut lines, last) = Lines::to(Stuck { may_write, written: Arc::clone(&written) }).unwrap();
        // One batch can be on its way besides those that wait.
        let (line, in_a_batch) = ([b'x'; 1024], BATCH / 1024 + 1);
        let sent = WAITING + 2 * in_a_batch;
        for _ in 0..sent {
            lines.write_all(&line).unwrap();
        }
        let dropped = usize::try_from(lines.dropped.load(Ordering::Relaxed)).unwrap();
        assert!((in_a_batch..=2 * in_a_batch).contains(&dropped), "{dropped}");
        drop(let_write);
        // The queue is full: the flush finds its place once the thread has gone on.
        while Arc::strong_count(&written) == 2 && written.lock().unwrap().len() < 100 {
            thread::yield_now();
        }
        drop(last);
        assert_eq!(written.lock().unwrap().len(), (sent - dropped) * line.len());
    }
}
