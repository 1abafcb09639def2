//! Where a file ends, so that the next run can go on with it.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use crate::{MAX_LINE_BYTES, Record, Torn};

/// How much of the end of a file is looked at first, in bytes.
const FIRST_LOOK: u64 = 64 << 10;

/// Where a file ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// Its last record.
    pub last: Option<Record>,
    /// The lines after that, which are no records: the processes that wrote them died.
    pub torn: Vec<Torn>,
    /// The file does not end with a line break.
    pub is_open: bool,
}

/// Finds where `file` ends.
///
/// # Errors
/// It cannot be read; or there is no record at its end, so that it is no audit file ([`io::ErrorKind::InvalidData`]).
pub fn tail(file: &mut (impl Read + Seek)) -> io::Result<Tail> {
    let length = file.seek(SeekFrom::End(0))?;
    let longest = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX).saturating_mul(2);
    let mut look = FIRST_LOOK;
    loop {
        let from = length.saturating_sub(look);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        file.take(look).read_to_end(&mut end)?;
        if let Some(tail) = last_record(&end) {
            return Ok(tail);
        }
        if from == 0 {
            return whole(&end);
        }
        if look >= longest {
            return Err(no_audit_file());
        }
        look = look.saturating_mul(8);
    }
}

/// The first record of a file. `None`: its first line is none.
///
/// # Errors
/// It cannot be read.
pub fn first_record(file: impl Read) -> io::Result<Option<Record>> {
    let mut line = Vec::new();
    let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    io::BufReader::new(file.take(limit)).read_until(b'\n', &mut line)?;
    Ok(Record::read(line.strip_suffix(b"\n").unwrap_or(&line)).ok())
}

/// The tail of a file whose end this is; `None` where the last record does not stand in it whole.
fn last_record(end: &[u8]) -> Option<Tail> {
    let is_open = end.last().is_some_and(|byte| *byte != b'\n');
    let mut torn = Vec::new();
    let mut rest = end.strip_suffix(b"\n").unwrap_or(end);
    loop {
        let start = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
        let line = rest.get(start..).unwrap_or_default();
        if let Ok(record) = Record::read(line) {
            torn.reverse();
            return Some(Tail { last: Some(record), torn, is_open });
        }
        rest = rest.get(..start.checked_sub(1)?).unwrap_or_default();
        torn.push(Torn::of(line));
    }
}

/// The tail of a file that has no record.
fn whole(file: &[u8]) -> io::Result<Tail> {
    let is_open = file.last().is_some_and(|byte| *byte != b'\n');
    let file = file.strip_suffix(b"\n").unwrap_or(file);
    if file.is_empty() {
        return Ok(Tail { is_open, ..Tail::default() });
    }
    let mut torn = Vec::new();
    for line in file.split(|byte| *byte == b'\n') {
        if !Torn::may_be_first(line) {
            return Err(no_audit_file());
        }
        torn.push(Torn::of(line));
    }
    Ok(Tail { last: None, torn, is_open })
}

fn no_audit_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it holds something else than audit records, move it away")
}
