use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

use hookd_audit::{Ends, Record, Report, Verifier, first_record, order, tail};

use super::*;
use crate::settings::{AuditFile, KEEP_ALL, OtlpSettings, Parameters};

const SOON: Duration = Duration::from_secs(60);

fn soon() -> Instant {
    Instant::now().checked_add(SOON).unwrap()
}

fn settings(path: &Path) -> AuditSettings {
    AuditSettings {
        file: AuditFile {
            path: Some(path.to_owned()),
            rotate_bytes: 1 << 20,
            rotate_age: Duration::ZERO,
            keep: 3,
            sync_interval: Duration::ZERO,
        },
        stdout: false,
        otlp: OtlpSettings::default(),
        keep: KEEP_ALL,
        parameters: Parameters::Off,
        mask_pointers: Vec::new(),
        mask_patterns: Vec::new(),
        hash_key_file: None,
        queue_bytes: 1 << 20,
        on_full: OnFull::Block,
        acknowledge: Acknowledge::Written,
    }
}

fn begin(settings: &AuditSettings) -> Trail {
    Trail::begin(settings, Box::new(|_| {})).unwrap()
}

fn entry(bytes: usize) -> Entry {
    Entry::new("decision", bytes, Box::new(move |out| hookd_audit::text(out, "text", &"x".repeat(bytes))))
}

async fn record(trail: &Trail, bytes: usize) -> Recorded {
    match trail.decided(entry(bytes)) {
        Some(held) => held.recorded(soon()).await,
        None => Recorded::Yes,
    }
}

/// What verification says of all files in a folder.
fn verify(folder: &Path) -> (Vec<String>, Report) {
    let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    names.sort();
    let ends = names.iter().map(|name| {
        let mut file = fs::File::open(name).unwrap();
        Ends { first: first_record(&file).unwrap(), last: tail(&mut file).unwrap().last }
    });
    let order = order(&ends.collect::<Vec<_>>());
    let mut verifier = Verifier::new();
    let mut kinds = Vec::new();
    for at in order {
        verifier.file(&names[at].display().to_string());
        for line in fs::read(&names[at]).unwrap().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            kinds.extend(Record::read(line).map(|record| record.kind));
            verifier.line(line);
        }
    }
    (kinds, verifier.finish(None))
}

#[tokio::test]
async fn a_run_has_a_beginning_and_an_end_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    for acknowledge in [Acknowledge::Queued, Acknowledge::Written, Acknowledge::Synced] {
        let trail = begin(&AuditSettings { acknowledge, ..settings(&path) });
        assert_eq!(record(&trail, 10).await, Recorded::Yes);
        assert!(trail.close(SOON).await);
        let AuditStats { written, dropped, errors, waiting, synced, trouble, .. } = trail.stats();
        assert_eq!((written, dropped, errors, waiting, trouble), (3, 0, 0, 0, Vec::new()));
        assert!(synced.is_some());
    }
    let (kinds, report) = verify(folder.path());
    assert_eq!(kinds, ["start", "decision", "end"].repeat(3));
    assert_eq!((report.problems, report.begins_after, report.runs.len()), (vec![], None, 3));
}

#[tokio::test]
async fn a_torn_line_is_named_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = begin(&settings(&path));
    assert_eq!(record(&trail, 10).await, Recorded::Yes);
    assert!(trail.close(SOON).await);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"seq\":4,\"ru").unwrap();
    assert!(begin(&settings(&path)).close(SOON).await);
    let (kinds, report) = verify(folder.path());
    assert_eq!(kinds, ["start", "decision", "end", "start", "end"]);
    assert_eq!((report.problems, report.torn), (vec![], 1));
}

#[tokio::test]
async fn two_processes_do_not_write_one_file_and_other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let refused = |path: &Path| {
        let error = Trail::begin(&settings(path), Box::new(|_| {})).unwrap_err().to_string();
        error.replace(&folder.path().display().to_string(), "")
    };
    let first = begin(&settings(&path));
    assert_eq!(
        refused(&path),
        "/audit.jsonl: cannot write the audit file: another process writes it, each hookd needs a file of its own"
    );
    assert!(first.close(SOON).await);
    assert_eq!(refused(folder.path()), ": cannot write the audit file: not a regular file");
    let link = folder.path().join("link.jsonl");
    for target in [&path, &folder.path().join("nowhere")] {
        std::os::unix::fs::symlink(target, &link).unwrap();
        assert_eq!(refused(&link), "/link.jsonl: cannot write the audit file: it is a link, name the file itself");
        fs::remove_file(&link).unwrap();
    }
    let other = folder.path().join("notes.txt");
    fs::write(&other, "my notes\n").unwrap();
    assert_eq!(
        refused(&other),
        "/notes.txt: cannot write the audit file: it holds something else than audit records, move it away"
    );
    assert_eq!(fs::read_to_string(&other).unwrap(), "my notes\n");
    assert_eq!(
        refused(&folder.path().join("no/audit.jsonl")),
        "/no/audit.jsonl: cannot write the audit file: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn files_are_rotated_and_only_so_many_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut settings = settings(&path);
    settings.file.rotate_bytes = 4096;
    let trail = begin(&settings);
    for _ in 0..3 {
        assert_eq!(record(&trail, 5000).await, Recorded::Yes);
    }
    // A whole record never stands in two files, and the chain goes on over all of them.
    let (kinds, report) = verify(folder.path());
    assert_eq!(kinds, ["start", "decision", "rotated", "decision", "rotated", "decision", "rotated"]);
    assert_eq!((report.problems, report.begins_after), (vec![], None));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    for _ in 0..2 {
        assert_eq!(record(&trail, 5000).await, Recorded::Yes);
    }
    assert!(trail.close(SOON).await);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    let (_, report) = verify(folder.path());
    assert_eq!(report.problems, []);
    assert!(report.begins_after.is_some());

    // The newest file is gone: the next run goes on after the one before, and the run whose end it held did not end.
    fs::remove_file(&path).unwrap();
    assert!(begin(&settings).close(SOON).await);
    let (_, report) = verify(folder.path());
    assert_eq!(report.problems, []);
    assert_eq!(report.runs.iter().map(|run| run.ended).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test]
async fn a_file_that_is_taken_away_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let trail = begin(&settings(&path));
    assert_eq!(record(&trail, 10).await, Recorded::Yes);
    fs::remove_file(&path).unwrap();
    assert_eq!(record(&trail, 10).await, Recorded::Yes);
    assert!(trail.close(SOON).await);
    let (kinds, report) = verify(folder.path());
    assert_eq!(kinds, ["rotated", "decision", "end"]);
    assert_eq!(report.problems, []);
    assert!(report.begins_after.is_some());
}

#[tokio::test]
async fn a_link_in_the_place_of_the_file_is_not_followed_while_it_is_written_either() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("audit.jsonl"), folder.path().join("other"));
    let trail = begin(&settings(&path));
    assert_eq!(record(&trail, 10).await, Recorded::Yes);
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    fs::write(&other, "").unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    assert_eq!(record(&trail, 10).await, Recorded::Yes);
    let trouble = format!("{}: audit records cannot be rotated: it is a link, name the file itself", path.display());
    assert_eq!(trail.stats().trouble, [trouble]);
    assert!(trail.close(SOON).await);
    assert_eq!(fs::read(&other).unwrap(), b"");
    let report = Record::read(fs::read(&aside).unwrap().split(|byte| *byte == b'\n').nth_back(1).unwrap()).unwrap();
    assert_eq!((report.seq, &*report.kind), (4, "end"), "it goes on in the file from before");
}

#[tokio::test]
async fn a_new_file_says_that_it_is_one_also_where_old_files_cannot_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut settings = settings(&path);
    (settings.file.rotate_bytes, settings.file.keep) = (4096, 1);
    // Nothing that is removed like a file.
    let stays = folder.path().join("audit.jsonl.20200101T000000.000000Z");
    let trail = begin(&settings);
    fs::create_dir(&stays).unwrap();
    for _ in 0..2 {
        assert_eq!(record(&trail, 5000).await, Recorded::Yes);
    }
    let trouble = trail.stats().trouble;
    let expected = format!("{}: audit records cannot be cleared of old files: ", path.display());
    assert!(trouble.len() == 1 && trouble[0].starts_with(&expected), "{trouble:?}");
    assert!(trail.close(SOON).await);
    fs::remove_dir(&stays).unwrap();
    let (kinds, report) = verify(folder.path());
    assert_eq!(kinds, ["start", "decision", "rotated", "decision", "rotated", "end"]);
    assert_eq!(report.problems, []);
    // Somebody takes them away: what is left begins as a file does.
    for entry in fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path() != path) {
        fs::remove_file(entry.path()).unwrap();
    }
    let (kinds, report) = verify(folder.path());
    assert_eq!((kinds, report.problems), (vec!["rotated".to_owned(), "end".to_owned()], vec![]));
}

/// A trail whose writer is stuck, and what lets it go on.
fn stuck(on_full: OnFull, acknowledge: Acknowledge) -> (tempfile::TempDir, Trail, impl FnOnce()) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(&folder.path().join("audit.jsonl"));
    (settings.on_full, settings.acknowledge, settings.queue_bytes) = (on_full, acknowledge, 4 * RECORD_BYTES);
    let (being_stuck, until) = std::sync::mpsc::channel::<()>();
    let trail = begin(&settings);
    let (is_stuck, stuck) = std::sync::mpsc::channel();
    trail.refused(Entry::new(
        "stuck",
        0,
        Box::new(move |_| {
            is_stuck.send(()).unwrap();
            let _ = until.recv();
        }),
    ));
    stuck.recv().unwrap();
    (folder, trail, move || drop(being_stuck))
}

#[tokio::test]
async fn a_full_queue_drops_records_and_says_how_many() {
    let (folder, trail, go_on) = stuck(OnFull::Drop, Acknowledge::Queued);
    for _ in 0..10 {
        assert!(trail.decided(entry(0)).is_none(), "nobody waits");
    }
    assert_eq!((trail.stats().dropped, trail.stats().waiting), (6, 4));
    trail.left_out();
    go_on();
    assert!(trail.close(SOON).await);
    let (kinds, report) = verify(folder.path());
    assert_eq!(
        kinds,
        ["start", "stuck", "dropped", "decision", "decision", "decision", "decision", "end"],
        "what was dropped is told with the batch that was being made"
    );
    assert_eq!((report.problems, report.dropped, report.sampled_out), (vec![], 6, 1));
}

#[tokio::test]
async fn refused_calls_keep_no_decision_out() {
    let (folder, trail, go_on) = stuck(OnFull::Drop, Acknowledge::Queued);
    for _ in 0..10 {
        trail.refused(Entry::new("refusal", 0, Box::new(|_| {})));
    }
    assert_eq!(trail.stats().waiting, 2, "half of the room");
    for _ in 0..2 {
        assert!(trail.decided(entry(0)).is_none());
    }
    assert_eq!((trail.stats().waiting, trail.stats().dropped), (4, 8));
    go_on();
    assert!(trail.close(SOON).await);
    let (kinds, report) = verify(folder.path());
    assert_eq!(kinds, ["start", "stuck", "dropped", "refusal", "refusal", "decision", "decision", "end"]);
    assert_eq!((report.problems, report.dropped), (vec![], 8));
}

#[tokio::test]
async fn records_that_wait_long_are_spoken_of_though_nothing_failed() {
    let (_folder, trail, go_on) = stuck(OnFull::Block, Acknowledge::Written);
    assert_eq!(trail.stats().trouble, Vec::<String>::new());
    tokio::time::pause();
    tokio::time::advance(STALLED + Duration::from_secs(2)).await;
    let AuditStats { oldest, trouble, .. } = trail.stats();
    assert!(oldest >= STALLED, "{oldest:?}");
    assert_eq!(trouble, ["audit records have waited to be written for 7 s"]);
    tokio::time::resume();
    go_on();
    assert_eq!(record(&trail, 0).await, Recorded::Yes);
    assert!(trail.close(SOON).await);
    let AuditStats { oldest, trouble, .. } = trail.stats();
    assert_eq!((oldest, trouble), (Duration::ZERO, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_answers_until_their_time_is_over() {
    let (folder, trail, go_on) = stuck(OnFull::Block, Acknowledge::Queued);
    for _ in 0..4 {
        assert!(trail.decided(entry(0)).is_none());
    }
    let waited = trail.decided(entry(0)).unwrap().recorded(soon()).await;
    assert_eq!((waited, trail.stats().dropped), (Recorded::No, 1));
    // What is said of an answer that found no place has room of its own.
    trail.late(entry(0));
    assert_eq!(trail.stats().dropped, 1);
    tokio::time::resume();
    let held = tokio::spawn(trail.decided(entry(0)).unwrap().recorded(soon()));
    go_on();
    assert_eq!(held.await.unwrap(), Recorded::Yes);
    assert!(trail.close(SOON).await);
    let (_, report) = verify(folder.path());
    assert_eq!((report.problems, report.dropped, report.records), (vec![], 1, 10));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_for_its_record_to_be_written_is_late_without() {
    let (_folder, trail, go_on) = stuck(OnFull::Block, Acknowledge::Written);
    let held = trail.decided(entry(0)).unwrap();
    assert_eq!(held.recorded(soon()).await, Recorded::Late);
    go_on();
    tokio::time::resume();
    assert_eq!(record(&trail, 0).await, Recorded::Yes);
    assert!(trail.close(SOON).await);
}

#[tokio::test]
async fn the_end_does_not_wait_for_ever_for_a_writer_that_is_stuck() {
    let (_folder, trail, go_on) = stuck(OnFull::Drop, Acknowledge::Queued);
    tokio::time::pause();
    assert!(!trail.close(Duration::from_secs(5)).await);
    go_on();
}
