//! `audit verify`: the audit trail, without a server.

use std::{fs, path::Path, time::SystemTime};

use hookd_audit::{Chain, END, Hash, ROTATED, START};

use crate::{Ran, hookctl};

/// Writes two files of one chain and gives their lines, and the hash of the last record.
fn write(folder: &Path) -> (Vec<String>, String) {
    let mut chain = Chain::new("r".to_owned(), Hash::NONE);
    let mut all = Vec::new();
    for (name, kinds) in
        [("audit.jsonl.1", [START, "decision", "decision"]), ("audit.jsonl", [ROTATED, "decision", END])]
    {
        let mut file = Vec::new();
        for kind in kinds {
            chain.record(&mut file, kind, SystemTime::UNIX_EPOCH, |_| {});
        }
        fs::write(folder.join(name), &file).unwrap();
        all.extend(String::from_utf8(file).unwrap().lines().map(str::to_owned));
    }
    let last = all.last().unwrap().split("\"hash\":\"").nth(1).unwrap().trim_end_matches("\"}").to_owned();
    (all, last)
}

const TABLE: &str = "
  RUN  RECORDS  FROM                         TO                           END
  r    1 to 6   1970-01-01T00:00:00.000000Z  1970-01-01T00:00:00.000000Z  in order

";

#[test]
fn a_whole_trail_is_said_to_be_and_its_files_come_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_, last) = write(folder.path());
    let expected = format!(
        "note: whether records at the very end are missing can be seen only with `--expect-last HASH`\n{TABLE}last record: \
         {last}\nWHOLE  2 files, 6 records, 1 run, 0 dropped, 0 sampled out, 0 torn lines, 0 errors\n"
    );
    for files in [["audit.jsonl", "audit.jsonl.1"], ["audit.jsonl.1", "audit.jsonl"]] {
        let ran = hookctl(folder.path(), &[], &["audit", "verify", files[0], files[1]], "");
        assert_eq!(ran, Ran { exit: 0, out: expected.clone(), err: String::new() });
    }
    let ran =
        hookctl(folder.path(), &[], &["audit", "verify", "audit.jsonl", "audit.jsonl.1", "--expect-last", &last], "");
    assert_eq!((ran.exit, ran.out.starts_with("  RUN")), (0, true), "{}", ran.out);
}

#[test]
fn what_is_wrong_is_named_and_exits_1() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, last) = write(folder.path());
    let without = |at: usize| {
        let left = lines[3..].iter().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| format!("{line}\n"));
        fs::write(folder.path().join("audit.jsonl"), left.collect::<String>()).unwrap();
        hookctl(folder.path(), &[], &["audit", "verify", "audit.jsonl.1", "audit.jsonl", "--expect-last", &last], "")
    };
    let ran = without(1);
    assert_eq!((ran.exit, ran.err.as_str()), (1, ""));
    assert!(ran.out.starts_with("error: audit.jsonl:2: record 5 is missing\n"), "{}", ran.out);
    assert!(
        ran.out.ends_with("NOT WHOLE  2 files, 5 records, 1 run, 0 dropped, 0 sampled out, 0 torn lines, 1 error\n"),
        "{}",
        ran.out
    );
    let ran = without(2);
    assert_eq!(ran.exit, 1);
    assert!(ran.out.starts_with("error: the last record is "), "{}", ran.out);

    let ran = hookctl(folder.path(), &[], &["--output", "json", "audit", "verify", "audit.jsonl"], "");
    let value = hookd_json::parse(ran.out.trim_end()).unwrap();
    assert_eq!(ran.exit, 0);
    assert_eq!(value.pointer("/ok"), Some(&true.into()));
    assert_eq!(value.pointer("/files/0"), Some(&"audit.jsonl".into()));
    assert_eq!(value.pointer("/runs/0/ended"), Some(&false.into()));
    assert!(value.pointer("/begins_after").unwrap().is_string());
}

#[test]
fn a_file_that_cannot_be_read_and_a_hash_that_is_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ran = hookctl(folder.path(), &[], &["audit", "verify", "none.jsonl"], "");
    let expected = "hookctl: none.jsonl: no such file or directory\n".to_owned();
    assert_eq!(ran, Ran { exit: 1, out: String::new(), err: expected });
    let ran = hookctl(folder.path(), &[], &["audit", "verify", "x", "--expect-last", "abc"], "");
    assert_eq!(ran.exit, 64);
    assert!(ran.err.contains("a hash is 64 lowercase hexadecimal digits"), "{}", ran.err);
}
