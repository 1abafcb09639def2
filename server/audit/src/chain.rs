use std::{io::Write as _, time::SystemTime};

use crate::Hash;

/// The chain of one run: makes its records, one after another.
#[derive(Debug)]
pub struct Chain {
    run: String,
    seq: u64,
    last: Hash,
}

impl Chain {
    /// The chain of a new run, which goes on after the record with this hash.
    #[must_use]
    pub fn new(run: String, after: Hash) -> Self {
        Self { run, seq: 0, last: after }
    }

    /// Adds one record to `out`, with its line break. `fields` adds what its kind has to tell: `,"name":value` each, JSON
    /// without line breaks.
    pub fn record(&mut self, out: &mut Vec<u8>, kind: &str, time: SystemTime, fields: impl FnOnce(&mut Vec<u8>)) {
        self.seq = self.seq.saturating_add(1);
        let start = out.len();
        let time = humantime::format_rfc3339_micros(time);
        // Writing to memory does not fail, here and below.
        let _ = write!(
            out,
            r#"{{"seq":{},"run":"{}","prev":"{}","time":"{time}","kind":"{kind}""#,
            self.seq, self.run, self.last
        );
        fields(out);
        self.last = Hash::of(out.get(start..).unwrap_or_default());
        let _ = writeln!(out, r#","hash":"{}"}}"#, self.last);
    }
}

/// Adds the field `name` with a text to a record.
pub fn text(out: &mut Vec<u8>, name: &str, text: &str) {
    let _ = write!(out, r#","{name}":"#);
    let _ = serde_json::to_writer(out, text);
}
