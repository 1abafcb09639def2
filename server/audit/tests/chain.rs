//! A chain that is whole is found to be, and whatever is done to one is found.
#![cfg(test)]
#![expect(clippy::arithmetic_side_effects, reason = "a test that computes a wrong place has failed")]

use std::{
    io::Cursor,
    time::{Duration, SystemTime},
};

use hookd_audit::{
    Chain, DROPPED, END, Ends, Hash, NotAHash, Problem, ROTATED, Record, Report, START, Tail, Torn, Verifier,
    first_record, order, tail, text,
};
use proptest::prelude::*;

const AT: SystemTime = SystemTime::UNIX_EPOCH;

/// How a run of a test ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    InOrder,
    /// Killed between two records.
    Killed,
    /// Killed in the middle of a record.
    Torn,
    /// Killed before the line break of its last record.
    Open,
}

/// Writes one run into `file` as hookd does it.
fn run(file: &mut Vec<u8>, name: &str, records: usize, ending: Ending) {
    let Tail { last, torn, is_open } = tail(&mut Cursor::new(&*file)).unwrap();
    if is_open {
        file.push(b'\n');
    }
    let mut chain = Chain::new(name.to_owned(), last.map_or(Hash::NONE, |record| record.hash));
    chain.record(file, START, AT, |out| {
        if !torn.is_empty() {
            out.extend_from_slice(format!(r#","torn":{}"#, serde_json::to_string(&torn).unwrap()).as_bytes());
        }
    });
    for n in 0..records {
        chain.record(file, "decision", AT, |out| text(out, "tool", &format!("tool \"{n}\"\n")));
    }
    match ending {
        Ending::InOrder => chain.record(file, END, AT, |_| {}),
        Ending::Killed => {}
        Ending::Torn => {
            let length = file.len();
            chain.record(file, "decision", AT, |_| {});
            file.truncate(length + (file.len() - length) / 2);
        }
        Ending::Open => {
            file.pop();
        }
    }
}

fn verify(file: &[u8], expected_last: Option<Hash>) -> Report {
    let mut verifier = Verifier::new();
    verifier.file("a");
    let file = file.strip_suffix(b"\n").unwrap_or(file);
    if !file.is_empty() {
        file.split(|byte| *byte == b'\n').for_each(|line| verifier.line(line));
    }
    verifier.finish(expected_last)
}

fn lines(file: &[u8]) -> Vec<Vec<u8>> {
    file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::InOrder), Just(Ending::Killed), Just(Ending::Torn), Just(Ending::Open)]
}

/// A file of some runs, the last of which ended in order.
fn file() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec((0..4_usize, ending()), 0..4), 0..4_usize).prop_map(|(runs, last)| {
        let mut file = Vec::new();
        for (n, (records, ending)) in runs.into_iter().enumerate() {
            run(&mut file, &format!("r{n}"), records, ending);
        }
        run(&mut file, "last", last, Ending::InOrder);
        file
    })
}

#[test]
fn a_record_is_one_line_with_its_hash_at_the_end() {
    let mut file = Vec::new();
    let mut chain = Chain::new("r".to_owned(), Hash::NONE);
    chain.record(&mut file, START, AT, |out| text(out, "version", "1"));
    let body = r#"{"seq":1,"run":"r","prev":"0000000000000000000000000000000000000000000000000000000000000000","time":"1970-01-01T00:00:00.000000Z","kind":"start","version":"1""#;
    let expected = format!("{body},\"hash\":\"{}\"}}\n", Hash::of(body.as_bytes()));
    assert_eq!(String::from_utf8(file).unwrap(), expected);
}

#[test]
fn a_whole_chain_is_told_about() {
    let mut file = Vec::new();
    run(&mut file, "a", 1, Ending::Torn);
    run(&mut file, "b", 0, Ending::InOrder);
    let report = verify(&file, None);
    let of = |run: &str, last_seq, ended| hookd_audit::Run {
        run: run.to_owned(),
        first_seq: 1,
        last_seq,
        from: "1970-01-01T00:00:00.000000Z".to_owned(),
        to: "1970-01-01T00:00:00.000000Z".to_owned(),
        ended,
    };
    let expected = Report {
        records: 4,
        torn: 1,
        runs: vec![of("a", 2, false), of("b", 2, true)],
        last: report.last,
        ..Report::default()
    };
    assert_eq!(report, expected);
    assert_eq!(verify(&file, report.last), expected);
    assert_eq!(verify(b"", None), Report::default());
}

#[test]
fn what_was_dropped_and_left_out_is_counted() {
    let mut file = Vec::new();
    let mut chain = Chain::new("r".to_owned(), Hash::NONE);
    chain.record(&mut file, START, AT, |_| {});
    chain.record(&mut file, DROPPED, AT, |out| out.extend_from_slice(br#","count":7"#));
    chain.record(&mut file, "decision", AT, |out| out.extend_from_slice(br#","sampled_out":5"#));
    let report = verify(&file, None);
    assert_eq!((report.records, report.dropped, report.sampled_out, report.problems), (3, 7, 5, vec![]));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let mut file = Vec::new();
    run(&mut file, "a", 3, Ending::Killed);
    run(&mut file, "b", 1, Ending::InOrder);
    let whole = lines(&file);
    let of = |order: &[usize]| order.iter().flat_map(|at| whole[*at].clone()).collect::<Vec<_>>();
    let problem = |line, message: &str| vec![Problem { file: "a".to_owned(), line, message: message.to_owned() }];
    let check = |file: &[u8], expected: Vec<Problem>| assert_eq!(verify(file, None).problems, expected);
    check(&of(&[0, 1, 2, 3, 4, 5, 6]), vec![]);
    check(&of(&[0, 2, 3, 4, 5, 6]), problem(2, "record 2 is missing"));
    check(&of(&[0, 3, 4, 5, 6]), problem(2, "records 2 to 3 are missing"));
    check(
        &of(&[0, 1, 2, 4, 5, 6]),
        problem(4, "run b does not go on after record 3 of run a: records between them are missing or were changed"),
    );
    check(&of(&[0, 1, 2, 3, 5, 6]), problem(5, "the records of run b before 2 are missing"));
    check(
        &of(&[1, 2, 3, 4, 5, 6]),
        problem(1, "the first record that is there, 2, begins no file: those before it are missing"),
    );
    check(
        &of(&[0, 2, 1, 3, 4, 5, 6]),
        [
            problem(2, "record 2 is missing"),
            problem(3, "record 2 stands after record 3: the order was changed"),
            problem(4, "record 3 is missing"),
        ]
        .concat(),
    );
    let text = String::from_utf8(file.clone()).unwrap();
    check(
        text.replacen("tool \\\"1\\\"", "tool \\\"9\\\"", 1).as_bytes(),
        problem(3, "record 3 was changed: it does not have its own hash"),
    );
    check(
        format!(
            "{}no record\n{}",
            String::from_utf8(of(&[0, 1])).unwrap(),
            String::from_utf8(of(&[2, 3, 4, 5, 6])).unwrap()
        )
        .as_bytes(),
        problem(3, "is no record, and the one after it does not say that it was torn"),
    );
    // Changed together with its hash, which needs no secret: the record after it tells.
    let changed = String::from_utf8(whole[2].clone()).unwrap().replacen("tool \\\"1\\\"", "tool \\\"9\\\"", 1);
    let (body, _) = changed.split_once(",\"hash\"").unwrap();
    let forged = format!("{body},\"hash\":\"{}\"}}\n", Hash::of(body.as_bytes()));
    check(
        &[&of(&[0, 1])[..], forged.as_bytes(), &of(&[3, 4, 5, 6])].concat(),
        problem(4, "record 4 does not follow record 3, which is not what it was"),
    );
    let last_of_a = Record::read(whole[3].strip_suffix(b"\n").unwrap()).unwrap().hash;
    let mut another = of(&[0, 1, 2, 3]);
    Chain::new("c".to_owned(), last_of_a).record(&mut another, "decision", AT, |_| {});
    check(
        &another,
        problem(5, "run c does not go on after record 4 of run a: records between them are missing or were changed"),
    );
    let last = Record::read(whole[6].strip_suffix(b"\n").unwrap()).unwrap().hash;
    let cut = verify(&of(&[0, 1, 2, 3, 4, 5]), Some(last));
    assert_eq!(cut.problems.len(), 1);
    assert!(cut.problems[0].message.ends_with(": records at the end are missing"), "{cut:?}");
}

#[test]
fn what_was_torn_has_to_be_there() {
    let mut file = Vec::new();
    run(&mut file, "a", 1, Ending::Torn);
    run(&mut file, "b", 0, Ending::InOrder);
    let mut without = lines(&file);
    without.remove(2);
    let report = verify(&without.concat(), None);
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].message.ends_with("which record 1 names, is missing"), "{report:?}");

    let mut file = Vec::new();
    run(&mut file, "a", 0, Ending::Torn);
    file.extend_from_slice(b"\n{\"seq\":1,\"ru");
    run(&mut file, "b", 0, Ending::InOrder);
    let whole = lines(&file);
    let of = |order: &[usize]| order.iter().flat_map(|at| whole[*at].clone()).collect::<Vec<_>>();
    let messages = |order: &[usize]| {
        let problems = verify(&of(order), None).problems;
        problems.into_iter().map(|problem| (problem.line, problem.message)).collect::<Vec<_>>()
    };
    assert_eq!(messages(&[0, 1, 2, 3, 4]), []);
    let other_order = "the torn lines before record 1 are not in the order that it names";
    assert_eq!(messages(&[0, 2, 1, 3, 4]), [(4, other_order.to_owned())]);
    // Where the file begins with what stood after it, as where it stands at all.
    let missing = format!("a torn line of {} bytes, which record 1 names, is missing", whole[1].len() - 1);
    assert_eq!(messages(&[2, 3, 4]), [(2, missing)]);
    assert_eq!(messages(&[3, 4]), [], "what was torn in a file that is not there cannot be missed");
}

#[test]
fn places_are_those_in_each_file() {
    let mut file = Vec::new();
    let mut chain = Chain::new("r".to_owned(), Hash::NONE);
    for kind in [START, "decision", ROTATED, "decision", END] {
        chain.record(&mut file, kind, AT, |_| {});
    }
    let whole = lines(&file);
    let mut verifier = Verifier::new();
    for (name, records) in [("a", &[0, 1][..]), ("b", &[2, 4])] {
        verifier.file(name);
        records.iter().for_each(|at| verifier.line(whole[*at].strip_suffix(b"\n").unwrap()));
    }
    let missing = Problem { file: "b".to_owned(), line: 2, message: "record 4 is missing".to_owned() };
    assert_eq!(verifier.finish(None).problems, [missing]);
}

#[test]
fn a_hash_is_read_in_one_way() {
    let hash = Hash::of(b"x");
    let text = hash.to_string();
    assert_eq!(text.parse(), Ok(hash));
    let wrong = [text.to_uppercase(), "0".repeat(63), format!("{text}0"), format!("{text}00"), String::new()];
    for wrong in wrong {
        assert_eq!(wrong.parse::<Hash>(), Err(NotAHash), "{wrong}");
    }
}

#[test]
fn of_one_process_only_one_line_can_be_torn() {
    let mut file = Vec::new();
    run(&mut file, "a", 1, Ending::Torn);
    file.extend_from_slice(b"\n{\"seq\":1,\"ru");
    run(&mut file, "b", 0, Ending::Torn);
    let report = verify(&file, None);
    assert_eq!((report.torn, report.problems), (3, vec![]));
    file.truncate(0);
    run(&mut file, "a", 3, Ending::Killed);
    let mut made_unreadable = String::from_utf8(file).unwrap().replace("\"decision\"", "'decision'").into_bytes();
    run(&mut made_unreadable, "b", 0, Ending::InOrder);
    let report = verify(&made_unreadable, None);
    let problem = |line| Problem {
        file: "a".to_owned(),
        line,
        message: "is no record, and cannot have been torn by the end of a process".to_owned(),
    };
    assert_eq!(report.problems, [problem(3), problem(4)]);
}

#[test]
fn a_file_that_holds_something_else_is_not_gone_on_with() {
    for other in ["hello\n", "hello", "{\"seq\":1,\"run\":\"x\nmore\n", "{}\n"] {
        let error = tail(&mut Cursor::new(other)).unwrap_err();
        assert_eq!(error.to_string(), "it holds something else than audit records, move it away", "{other:?}");
    }
    assert_eq!(tail(&mut Cursor::new("")).unwrap(), Tail::default());
    let torn = br#"{"seq":1,"run":"00"#;
    let expected = Tail { last: None, torn: vec![Torn { bytes: 18, sha256: Hash::of(torn) }], is_open: true };
    assert_eq!(tail(&mut Cursor::new(torn)).unwrap(), expected);
}

#[test]
fn the_end_of_a_long_file_is_found_behind_long_records() {
    let mut file = Vec::new();
    let mut chain = Chain::new("r".to_owned(), Hash::NONE);
    chain.record(&mut file, START, AT, |_| {});
    chain.record(&mut file, "decision", AT, |out| text(out, "tool", &"x".repeat(300_000)));
    let end = file.len();
    chain.record(&mut file, "decision", AT, |out| text(out, "tool", &"x".repeat(300_000)));
    file.truncate(end + 200_000);
    let tail = tail(&mut Cursor::new(&file)).unwrap();
    assert_eq!((tail.last.unwrap().seq, tail.torn[0].bytes, tail.is_open), (2, 200_000, true));
    assert_eq!(first_record(&*file).unwrap().unwrap().seq, 1);
}

#[test]
fn files_are_put_in_order_by_the_chain() {
    let mut chain = Chain::new("r".to_owned(), Hash::NONE);
    let mut ends = Vec::new();
    for kind in [START, ROTATED, ROTATED, ROTATED] {
        let mut file = Vec::new();
        chain.record(&mut file, kind, AT, |_| {});
        chain.record(&mut file, "decision", AT, |_| {});
        let first = first_record(&*file).unwrap();
        ends.push(Ends { first, last: tail(&mut Cursor::new(&file)).unwrap().last });
    }
    ends.reverse();
    assert_eq!(order(&ends), [3, 2, 1, 0]);
    ends.swap(0, 2);
    assert_eq!(order(&ends), [3, 0, 1, 2]);
    // One between is missing.
    ends.remove(0);
    assert_eq!(order(&ends).len(), 3);
    // Nothing leads from one to the other: the time tells.
    let mut apart = [AT + Duration::from_secs(9), AT].map(|time| {
        let mut file = Vec::new();
        Chain::new("r".to_owned(), Hash::NONE).record(&mut file, START, time, |_| {});
        Ends { first: first_record(&*file).unwrap(), last: tail(&mut Cursor::new(&file)).unwrap().last }
    });
    assert_eq!(order(&apart), [1, 0]);
    // No chain is a ring, so that none of these may be passed by.
    let [last_of_one, last_of_other] = [0, 1].map(|at: usize| apart[at].last.as_ref().unwrap().hash);
    apart[0].first.as_mut().unwrap().prev = last_of_other;
    apart[1].first.as_mut().unwrap().prev = last_of_one;
    assert_eq!(order(&apart), [0, 1]);
}

proptest! {
    #[test]
    fn a_chain_is_whole_over_crashes(file in file()) {
        let report = verify(&file, None);
        prop_assert_eq!(&report.problems, &vec![]);
        prop_assert_eq!(report.begins_after, None);
        prop_assert!(report.runs.last().unwrap().ended);
    }

    #[test]
    fn any_line_that_is_removed_is_found(file in file(), at in any::<prop::sample::Index>()) {
        let last = verify(&file, None).last;
        let mut changed = lines(&file);
        changed.remove(at.index(changed.len()));
        let report = verify(&changed.concat(), last);
        prop_assert!(!report.problems.is_empty() || report.begins_after.is_some());
    }

    #[test]
    fn any_byte_that_is_changed_is_found(file in file(), at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let last = verify(&file, None).last;
        let mut changed = file.clone();
        let at = at.index(file.len() - 1);
        changed[at] ^= by;
        prop_assert!(!verify(&changed, last).problems.is_empty());
    }

    #[test]
    fn any_two_lines_that_change_places_are_found(file in file(), one in any::<prop::sample::Index>(), other in any::<prop::sample::Index>()) {
        let mut changed = lines(&file);
        let (one, other) = (one.index(changed.len()), other.index(changed.len()));
        prop_assume!(one != other);
        changed.swap(one, other);
        prop_assert!(!verify(&changed.concat(), None).problems.is_empty());
    }

    #[test]
    fn a_line_that_is_put_in_is_found(file in file(), what in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let mut changed = lines(&file);
        let copy = changed[what.index(changed.len())].clone();
        changed.insert(at.index(changed.len()), copy);
        prop_assert!(!verify(&changed.concat(), None).problems.is_empty());
    }

    #[test]
    fn an_end_that_is_cut_off_is_found_by_the_last_hash(file in file(), at in any::<prop::sample::Index>()) {
        let last = verify(&file, None).last;
        let cut = &file[..at.index(file.len() - 1)];
        prop_assert!(!verify(cut, last).problems.is_empty());
    }

    #[test]
    fn the_next_run_goes_on_after_any_cut(file in file(), at in any::<prop::sample::Index>()) {
        let mut cut = file[..at.index(file.len())].to_vec();
        run(&mut cut, "next", 1, Ending::InOrder);
        prop_assert_eq!(verify(&cut, None).problems, vec![]);
    }
}
