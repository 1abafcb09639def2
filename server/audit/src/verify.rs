//! Whether a chain is whole.

use serde::Serialize;

use crate::{DROPPED, END, Hash, NotARecord, ROTATED, Record, START, Torn};

/// Verifies one chain, line by line, over all of its files in their order.
#[derive(Debug, Default)]
pub struct Verifier {
    report: Report,
    file: String,
    line: u64,
    last: Option<Record>,
    /// Lines that are no records and wait for the one after them to say that they were torn.
    unread: Vec<Unread>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// How many records there are.
    pub records: u64,
    /// How many they say were dropped.
    pub dropped: u64,
    /// How many decisions they say were left out by sampling.
    pub sampled_out: u64,
    /// How many lines were torn when a process died.
    pub torn: u64,
    /// Their runs, in order.
    pub runs: Vec<Run>,
    /// The record that the first one goes on after and that is not there. `None`: the chain is there from its beginning.
    pub begins_after: Option<Hash>,
    /// The hash of the last record.
    pub last: Option<Hash>,
    /// What is wrong. Empty: the chain is whole.
    pub problems: Vec<Problem>,
}

/// One run: the records of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Its id.
    pub run: String,
    /// The number of its first record that is there.
    pub first_seq: u64,
    /// The number of its last record.
    pub last_seq: u64,
    /// The time of its first record that is there.
    pub from: String,
    /// The time of its last record.
    pub to: String,
    /// It ended in order. Otherwise its process goes on or died, or its end was removed.
    pub ended: bool,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file. Empty: the chain as a whole.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

#[derive(Debug)]
struct Unread {
    file: String,
    line: u64,
    torn: Torn,
    may_be_first: bool,
}

impl Verifier {
    /// A verifier that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What comes next stands in this file.
    pub fn file(&mut self, name: &str) {
        name.clone_into(&mut self.file);
        self.line = 0;
    }

    /// One line, without its line break.
    pub fn line(&mut self, line: &[u8]) {
        self.line = self.line.saturating_add(1);
        match Record::read(line) {
            Ok(record) => self.record(record),
            Err(NotARecord::Changed(record)) => {
                self.problem(format!("record {} was changed: it does not have its own hash", record.seq));
                // What it was is not known; that those around it are what they were shows by the hash that it names.
                self.record(*record);
            }
            Err(NotARecord::Form) => {
                let (torn, may_be_first) = (Torn::of(line), Torn::may_be_first(line));
                self.unread.push(Unread { file: self.file.clone(), line: self.line, torn, may_be_first });
            }
        }
    }

    /// What was found. `expected_last` is the hash that the last record has to have, as it was noted somewhere else.
    #[must_use]
    pub fn finish(mut self, expected_last: Option<Hash>) -> Report {
        // Nothing came after them: that is how processes that were killed leave their file.
        let unread = std::mem::take(&mut self.unread);
        self.torn(unread);
        self.report.last = self.last.map(|record| record.hash);
        if let Some(expected) = expected_last
            && self.report.last != Some(expected)
        {
            let message = match self.report.last {
                Some(last) => format!("the last record is {last}, not {expected}: records at the end are missing"),
                None => format!("there is no record, the last one has to be {expected}"),
            };
            self.report.problems.push(Problem { file: String::new(), line: 0, message });
        }
        self.report
    }

    fn record(&mut self, record: Record) {
        self.after_torn(&record);
        match self.last.take() {
            None => {
                if ![START, ROTATED].contains(&record.kind.as_str()) {
                    self.problem(format!(
                        "the first record that is there, {}, begins no file: those before it are missing",
                        record.seq
                    ));
                }
                self.report.begins_after = Some(record.prev).filter(|prev| *prev != Hash::NONE);
            }
            Some(last) => {
                if let Some(message) = break_between(&last, &record) {
                    self.problem(message);
                }
            }
        }
        self.count(&record);
        self.last = Some(record);
    }

    fn count(&mut self, record: &Record) {
        let report = &mut self.report;
        report.records = report.records.saturating_add(1);
        report.sampled_out = report.sampled_out.saturating_add(record.sampled_out);
        if record.kind == DROPPED {
            report.dropped = report.dropped.saturating_add(record.count);
        }
        let ended = record.kind == END;
        match report.runs.last_mut().filter(|run| run.run == record.run) {
            Some(run) => {
                run.last_seq = record.seq;
                run.to.clone_from(&record.time);
                run.ended = ended;
            }
            None => report.runs.push(Run {
                run: record.run.clone(),
                first_seq: record.seq,
                last_seq: record.seq,
                from: record.time.clone(),
                to: record.time.clone(),
                ended,
            }),
        }
    }

    /// What the record says of the lines before it.
    fn after_torn(&mut self, record: &Record) {
        let unread = std::mem::take(&mut self.unread);
        if record.torn.iter().eq(unread.iter().map(|unread| &unread.torn)) {
            return self.torn(unread);
        }
        let known = self.report.problems.len();
        let mut said = record.torn.clone();
        for Unread { file, line, torn, .. } in unread {
            match said.iter().position(|said| *said == torn) {
                Some(at) => drop(said.remove(at)),
                None => {
                    let message = "is no record, and the one after it does not say that it was torn".to_owned();
                    self.report.problems.push(Problem { file, line, message });
                }
            }
        }
        // What was torn in a file that is not there cannot be missed.
        if self.line == 1 && self.last.is_none() {
            return;
        }
        for torn in said {
            let message = format!("a torn line of {} bytes, which record {} names, is missing", torn.bytes, record.seq);
            self.problem(message);
        }
        if self.report.problems.len() == known {
            self.problem(format!("the torn lines before record {} are not in the order that it names", record.seq));
        }
    }

    /// Lines that were torn.
    fn torn(&mut self, lines: Vec<Unread>) {
        let torn = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.report.torn = self.report.torn.saturating_add(torn);
        // Of one process only one can be; those after it had not got past their first record.
        for Unread { file, line, .. } in lines.into_iter().skip(1).filter(|unread| !unread.may_be_first) {
            let message = "is no record, and cannot have been torn by the end of a process".to_owned();
            self.report.problems.push(Problem { file, line, message });
        }
    }

    fn problem(&mut self, message: String) {
        self.report.problems.push(Problem { file: self.file.clone(), line: self.line, message });
    }
}

/// What is wrong between a record and the next one.
fn break_between(last: &Record, next: &Record) -> Option<String> {
    let follows = next.prev == last.hash;
    if next.run != last.run {
        return match (follows, next.seq) {
            (true, 1) if next.kind == START => None,
            (_, 1) => Some(format!(
                "run {} does not go on after record {} of run {}: records between them are missing or were changed",
                next.run, last.seq, last.run
            )),
            (_, seq) => Some(format!("the records of run {} before {seq} are missing", next.run)),
        };
    }
    match last.seq.checked_add(1) {
        Some(expected) if next.seq == expected && follows => None,
        Some(expected) if next.seq == expected => {
            Some(format!("record {} does not follow record {}, which is not what it was", next.seq, last.seq))
        }
        Some(expected) if next.seq > expected => {
            let missing = next.seq.saturating_sub(1);
            Some(if missing == expected {
                format!("record {expected} is missing")
            } else {
                format!("records {expected} to {missing} are missing")
            })
        }
        _ => Some(format!("record {} stands after record {}: the order was changed", next.seq, last.seq)),
    }
}
