//! Files of an audit trail: read to their end whatever they hold, and the end of a file is found where its last record is.
#![no_main]

use std::io::Cursor;

use hookd_audit::{NotARecord, Record, Verifier, first_record, tail};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let verify = || {
        let mut verifier = Verifier::new();
        verifier.file("audit.jsonl");
        for line in bytes.split(|byte| *byte == b'\n') {
            verifier.line(line);
        }
        verifier.finish(None)
    };
    let report = verify();
    assert_eq!(report, verify(), "the same bytes mean the same");
    let read = bytes.split(|byte| *byte == b'\n').map(Record::read);
    let (mut records, mut changed) = (0, false);
    for record in read {
        records += u64::from(!matches!(record, Err(NotARecord::Form)));
        changed |= matches!(record, Err(NotARecord::Changed(_)));
    }
    assert_eq!(report.records, records);
    assert!(!changed || !report.problems.is_empty(), "a record that was changed is a problem");
    assert!(report.problems.iter().all(|problem| !problem.message.contains('\n')), "one line each");
    let _ = tail(&mut Cursor::new(bytes));
    let _ = first_record(Cursor::new(bytes));
});
