//! The thread that makes records of entries and writes them.

use std::{
    fmt::Display,
    fs::File,
    io::{self, Write as _},
    mem,
    os::fd::AsFd as _,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use hookd_audit::{Chain, DROPPED, END, Hash, ROTATED, START, Tail, text};
use tokio::time::Instant;
use tracing::{info, warn};
use uuid::Uuid;

use super::{AuditError, Entry, Fields, Shared, file::Lines};
use crate::{
    settings::{Acknowledge, AuditSettings},
    telemetry::{
        LastLines,
        lines::{self, Fate},
        otlp::LogLine,
    },
};

/// How long entries are gathered where nobody waits for them: waking the thread for each would cost a call more than its
/// record does.
const GATHER: Duration = Duration::from_millis(5);
/// How long to wait until what failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is looked after the file.
const LOOK: Duration = Duration::from_secs(1);
/// What is written at a time at least, where there is so much, in bytes.
const CHUNK: usize = 1 << 20;
/// What the buffer keeps of its memory, in bytes.
const KEPT: usize = 1 << 18;
/// What cannot be done where a copy cannot be made.
const TO_STDOUT: &str = "copied to standard output";
/// What cannot be done where old files stay.
const CLEANED_UP: &str = "cleared of old files";

/// Makes records and writes them.
pub(super) struct Writer {
    shared: Arc<Shared>,
    chain: Chain,
    file: Option<Lines>,
    /// Standard output, in the place of a file.
    stdout: Option<File>,
    /// Standard output, beside a file. It holds nobody up: what it does not take is only missing there.
    copy: Option<(lines::Lines, LastLines)>,
    /// Whole records that wait to be written.
    lines: Vec<u8>,
    /// How many they are.
    records: u64,
    /// How many bytes of them are written.
    written: usize,
    /// How many of those that were dropped and left out were told about.
    told: Left,
    /// Before then rotating is not tried again.
    rotate_after: Option<Instant>,
}

/// Counts of what has no record.
#[derive(Clone, Copy, Default)]
struct Left {
    dropped: u64,
    sampled_out: u64,
}

/// What there is to do.
struct Batch {
    entries: Vec<Entry>,
    /// The number of the last one.
    upto: u64,
    is_closing: bool,
}

impl Writer {
    pub(super) fn begin(settings: &AuditSettings, shared: Arc<Shared>, fields: Fields) -> Result<Self, AuditError> {
        let opened = settings.file.path.clone().map(|path| {
            Lines::open(settings.file.clone(), path.clone()).map_err(|error| AuditError::File { path, error })
        });
        let (file, tail) = opened.transpose()?.map_or((None, Tail::default()), |(file, tail)| (Some(file), tail));
        let (stdout, copy) = match (settings.stdout, &file) {
            (false, _) => (None, None),
            (true, Some(_)) => (None, Some(copy(&shared).map_err(AuditError::Thread)?)),
            (true, None) => (Some(stdout().map_err(AuditError::Stdout)?), None),
        };
        let Tail { last, torn, is_open } = tail;
        let chain = Chain::new(Uuid::new_v4().to_string(), last.map_or(Hash::NONE, |record| record.hash));
        let mut writer = Self {
            shared,
            chain,
            file,
            stdout,
            copy,
            lines: Vec::new(),
            records: 0,
            written: 0,
            told: Left::default(),
            rotate_after: None,
        };
        if is_open {
            writer.lines.push(b'\n');
        }
        if !torn.is_empty() {
            warn!(lines = torn.len(), "the audit file ends in a torn line: the process that wrote it was killed");
        }
        writer.record(START, SystemTime::now(), |out| {
            fields(out);
            if !torn.is_empty() {
                out.extend_from_slice(br#","torn":"#);
                // Writing to memory does not fail, here and below.
                let _ = serde_json::to_writer(out, &torn);
            }
        });
        Ok(writer)
    }

    pub(super) fn run(mut self) {
        loop {
            let batch = self.next();
            self.make(batch.entries);
            if batch.is_closing {
                self.record(END, SystemTime::now(), |_| {});
            }
            let is_written = self.write();
            let must_sync = self.shared.acknowledge == Acknowledge::Synced || batch.is_closing;
            let is_due = self.file.as_ref().and_then(Lines::sync_in).is_some_and(|left| left.is_zero());
            let is_synced = is_written && (must_sync || is_due) && self.sync(must_sync);
            let is_done = is_written && (is_synced || !must_sync);
            if batch.is_closing && !is_written {
                self.shared.counts.dropped.fetch_add(self.records, Ordering::Relaxed);
                warn!(records = self.records, "audit records are lost: they could not be written before the end");
            }
            if batch.is_closing {
                // Given free before anybody hears of the end: the next process may wait for that.
                self.file = None;
                self.copy = None;
            }
            if is_done {
                self.shared.state().done();
            }
            self.shared.progress.send_modify(|progress| {
                if is_done {
                    progress.acknowledged = batch.upto;
                }
                progress.is_closed = batch.is_closing;
                progress.is_cut = batch.is_closing && !is_done;
            });
            if batch.is_closing {
                return;
            }
        }
    }

    /// Waits until there is something to do.
    fn next(&mut self) -> Batch {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        loop {
            let sync_in = self.file.as_ref().and_then(Lines::sync_in);
            let has_work = !state.waiting.is_empty() || state.is_closing || !self.lines.is_empty();
            if has_work || self.left().dropped > self.told.dropped || sync_in.is_some_and(|left| left.is_zero()) {
                break;
            }
            let waiting = shared.filled.wait_timeout(state, sync_in.unwrap_or(LOOK).min(LOOK));
            let (woken, timed_out) = waiting.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timed_out.timed_out() && !self.is_there() {
                // A new one says so.
                break;
            }
        }
        if shared.acknowledge == Acknowledge::Queued {
            let gathered = shared.filled.wait_timeout_while(state, GATHER, |state| !state.is_closing);
            state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (entries, upto) = (mem::take(&mut state.waiting), state.taken);
        let batch = Batch { entries, upto, is_closing: state.is_closing };
        state.bytes = 0;
        drop(state);
        shared.progress.send_modify(|progress| progress.emptied = progress.emptied.wrapping_add(1));
        batch
    }

    fn is_there(&self) -> bool {
        self.file.as_ref().is_none_or(Lines::is_there)
    }

    /// Makes records, and writes them where they are many.
    fn make(&mut self, entries: Vec<Entry>) {
        if !self.is_there() {
            self.rotate();
        }
        for Entry { kind, time, fields, .. } in entries {
            self.record(kind, time, fields);
            let length = self.lines.len();
            if self.is_full(length) {
                if self.write() {
                    self.rotate();
                }
            } else if length > CHUNK {
                self.write();
            }
        }
        let dropped = self.left().dropped;
        let count = dropped.saturating_sub(self.told.dropped);
        if count > 0 {
            self.told.dropped = dropped;
            self.record(DROPPED, SystemTime::now(), |out| number(out, "count", count));
        }
    }

    fn record(&mut self, kind: &str, time: SystemTime, fields: impl FnOnce(&mut Vec<u8>)) {
        let sampled_out = self.left().sampled_out;
        let new = sampled_out.saturating_sub(self.told.sampled_out);
        self.told.sampled_out = sampled_out;
        let begin = self.lines.len();
        self.chain.record(&mut self.lines, kind, time, |out| {
            if new > 0 {
                number(out, "sampled_out", new);
            }
            fields(out);
        });
        let line = self.lines.get(begin..).unwrap_or_default();
        if let Some(exporter) = &self.shared.exporter {
            exporter.offer(LogLine { line: line.trim_ascii_end().to_owned(), time });
        }
        if let Some((copy, _)) = &self.copy
            && !copy.add(line)
        {
            self.shared.trouble(TO_STDOUT, cannot(TO_STDOUT, &"nobody reads it fast enough"));
        }
        self.records = self.records.saturating_add(1);
    }

    fn left(&self) -> Left {
        let counts = &self.shared.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Left { dropped: count(&counts.dropped), sampled_out: count(&counts.sampled_out) }
    }

    fn is_full(&self, more: usize) -> bool {
        let may_rotate = self.rotate_after.is_none_or(|after| after <= Instant::now());
        may_rotate && self.file.as_ref().is_some_and(|file| file.is_full(more))
    }

    /// Begins a new file.
    fn rotate(&mut self) {
        let Some(file) = &mut self.file else { return };
        self.rotate_after = None;
        match file.rotate() {
            Ok(Some(aside)) => {
                info!(file = aside, "the audit file was rotated");
                self.shared.no_trouble("rotated");
                self.record(ROTATED, SystemTime::now(), |out| text(out, "file", &aside));
            }
            Ok(None) => {
                warn!("the audit file was taken away: a new one goes on");
                self.record(ROTATED, SystemTime::now(), |_| {});
            }
            // The old one grows.
            Err(error) => {
                self.trouble("rotated", &error);
                self.rotate_after = Instant::now().checked_add(RETRY);
                return;
            }
        }
        match self.file.as_ref().map_or(Ok(()), Lines::clean_up) {
            Ok(()) => self.shared.no_trouble(CLEANED_UP),
            Err(error) => self.trouble(CLEANED_UP, &error),
        }
    }

    /// Writes what waits to the last byte, however long that takes. `false`: the process ends before that.
    fn write(&mut self) -> bool {
        let mut is_last_try = false;
        while let Some(rest) = self.lines.get(self.written..).filter(|rest| !rest.is_empty()) {
            let written = match (&mut self.file, &mut self.stdout) {
                (Some(file), _) => file.write(rest),
                (None, Some(stdout)) => stdout.write(rest),
                (None, None) => Ok(rest.len()),
            };
            match written {
                Ok(written @ 1..) => {
                    self.written = self.written.saturating_add(written);
                    self.shared.no_trouble("written");
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(_) => self.trouble("written", &io::ErrorKind::WriteZero.into()),
                Err(error) => self.trouble("written", &error),
            }
            if self.moves_on() {
                continue;
            }
            if is_last_try {
                return false;
            }
            is_last_try = !self.wait_to_retry();
        }
        self.shared.counts.written.fetch_add(mem::take(&mut self.records), Ordering::Relaxed);
        self.lines.clear();
        self.lines.shrink_to(KEPT);
        self.written = 0;
        true
    }

    /// Goes on in a new file where the old one was taken away, as somebody does who makes room on a full disk: it would be
    /// full for as long as the old one is held open. Whether it does.
    fn moves_on(&mut self) -> bool {
        if self.is_there() {
            return false;
        }
        // A line never stands in two files: the one whose beginning is in the old one comes whole in the new one.
        let written = self.lines.get(..self.written).unwrap_or_default();
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end.saturating_add(1));
        if let Some(file) = &mut self.file {
            file.take_back(self.written.saturating_sub(whole));
        }
        self.written = whole;
        self.rotate();
        self.is_there()
    }

    /// Brings what was written to the disk; where answers wait for it, however long that takes. Whether it is there.
    fn sync(&mut self, until_done: bool) -> bool {
        let mut is_last_try = !until_done;
        let is_synced = loop {
            let Some(file) = &mut self.file else { return true };
            match file.sync() {
                Ok(()) => break true,
                Err(error) => self.trouble("brought to the disk", &error),
            }
            if self.moves_on() {
                continue;
            }
            if is_last_try {
                break false;
            }
            is_last_try = !self.wait_to_retry();
        };
        if is_synced {
            self.shared.no_trouble("brought to the disk");
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
            self.shared.counts.synced.store(millis, Ordering::Relaxed);
        }
        is_synced
    }

    /// Waits a while. `false`: the process ends, and what cannot be done now will not be.
    fn wait_to_retry(&self) -> bool {
        let state = self.shared.state();
        let waiting = self.shared.filled.wait_timeout_while(state, RETRY, |state| !state.is_closing);
        !waiting.unwrap_or_else(PoisonError::into_inner).0.is_closing
    }

    fn trouble(&self, what: &'static str, error: &io::Error) {
        let message = match &self.file {
            Some(file) => format!("{}: {}", file.path().display(), cannot(what, error)),
            None => cannot(what, error),
        };
        self.shared.trouble(what, message);
    }
}

fn cannot(what: &str, why: &dyn Display) -> String {
    format!("audit records cannot be {what}: {why}")
}

/// Standard output as a file: what it takes of a line is known, and its own buffer would hide that.
fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// A thread that copies lines to standard output.
fn copy(shared: &Arc<Shared>) -> io::Result<(lines::Lines, LastLines)> {
    let shared = Arc::clone(shared);
    lines::Lines::to("audit-stdout", stdout()?, move |fate| match fate {
        Fate::Written => shared.no_trouble(TO_STDOUT),
        Fate::Failed(error) => shared.trouble(TO_STDOUT, cannot(TO_STDOUT, &error)),
        Fate::Dropped(count) => {
            warn!(count, "audit records are missing on standard output: they were not read fast enough");
        }
    })
}

fn number(out: &mut Vec<u8>, name: &str, number: u64) {
    let _ = write!(out, r#","{name}":{number}"#);
}
