//! The lines of a program's output, as they come.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    sync::watch,
};

use crate::within;

/// The lines of an output so far.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    /// How many there are, and whether the output has ended.
    state: watch::Receiver<(usize, bool)>,
    reading: watch::Sender<Reading>,
}

/// How an output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As it comes.
    On,
    /// Not at all: whoever writes it will have to wait.
    Off,
    /// Never again.
    Closed,
}

impl Lines {
    /// Those that `output` gives from now on.
    pub(crate) fn of(output: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (sender, state) = watch::channel((0, false));
        let (reading, mut how) = watch::channel(Reading::On);
        let all = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            loop {
                // Whoever could say otherwise may be gone.
                drop(how.wait_for(|how| *how != Reading::Off).await);
                if *how.borrow() == Reading::Closed {
                    break;
                }
                tokio::select! {
                    biased;
                    true = async { how.wait_for(|how| *how != Reading::On).await.is_ok() } => {}
                    line = output.next_line() => {
                        let Ok(Some(line)) = line else { break };
                        all.lock().unwrap().push(line);
                        sender.send_modify(|(count, _)| *count += 1);
                    }
                }
            }
            drop(output);
            sender.send_modify(|(_, ended)| *ended = true);
        });
        Self { lines, state, reading }
    }

    /// How it is read from now on.
    pub(crate) fn read(&self, reading: Reading) {
        self.reading.send_replace(reading);
    }

    /// All so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line that is as `wanted`, and gives what that makes of it. `None`: the output has ended without.
    pub(crate) async fn find<T>(&self, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut state = self.state.clone();
        loop {
            let has_ended = state.borrow_and_update().1;
            if let Some(found) = self.lines.lock().unwrap().iter().find_map(|line| wanted(line)) {
                return Some(found);
            }
            if has_ended || state.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) {
        let mut state = self.state.clone();
        let _reader_is_gone = within("the end of an output", state.wait_for(|(_, ended)| *ended)).await;
    }
}
