//! Stdin, stdout, stderr, and what else a program gets from this process.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use hookd_runner::{End, Limits};

use crate::support::{GENEROUS, Mark, argv, limits, run, runner, sh, text, within};

#[tokio::test]
async fn case_007_stdin_is_closed_right_after_the_payload() {
    let mut command = sh("payload=$(cat); echo \"got $payload\"");
    command.stdin = b"{}\n".to_vec();
    let finished = run(&runner(), command, limits(GENEROUS)).await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), "got {}\n"));

    let finished = run(&runner(), sh("cat; echo end"), limits(GENEROUS)).await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), "end\n"), "no payload at all");
}

#[tokio::test]
async fn case_009_a_program_that_ignores_stdin_has_not_failed() {
    let runner = runner();
    for _round in 0..20 {
        let mut command = argv(&["true"]);
        command.stdin = vec![b'x'; 200 * 1024];
        assert_eq!(run(&runner, command, limits(GENEROUS)).await.end, End::Exited(0));
    }
}

#[tokio::test]
async fn case_009_stdin_held_open_and_unread_by_a_helper_does_not_hold_the_answer() {
    let mark = Mark::new();
    let mut command = mark.sh("sleep 300 <&0 >/dev/null 2>&1 & echo '{}'");
    command.stdin = vec![b'x'; 200 * 1024];
    let finished = run(&runner(), command, limits(GENEROUS)).await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), "{}\n"));
}

#[tokio::test]
async fn case_070_characters_cut_by_odd_chunks_arrive_whole() {
    let whole = "é".repeat(50_000);
    let mut command = sh("dd bs=777 2>/dev/null");
    command.stdin = whole.clone().into_bytes();
    let finished = run(&runner(), command, limits(GENEROUS)).await;
    assert_eq!((finished.end, finished.stdout_truncated), (End::Exited(0), false));
    assert!(text(&finished.stdout) == whole);
}

#[tokio::test]
async fn case_075_a_large_payload_goes_through_stdin_and_back() {
    let payload: Vec<u8> = (0..300 * 1024_u32).map(|number| number.to_le_bytes()[0]).collect();
    let mut command = sh("tee /dev/stderr");
    command.stdin = payload.clone();
    let finished = run(&runner(), command, limits(GENEROUS)).await;
    assert_eq!(finished.end, End::Exited(0), "neither side waits for the other");
    assert!(finished.stdout == payload);
    assert!(finished.stderr == payload);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_077_a_flood_is_cut_and_marked_while_memory_stays_flat() {
    const CAP: usize = 64 * 1024;
    let (runner, before) = (runner(), resident_mib());
    let mut floods = tokio::task::JoinSet::new();
    for _each in 0..10 {
        let runner = runner.clone();
        let flooded = Limits { output_bytes: CAP, ..limits(Duration::from_secs(2)) };
        floods.spawn(async move { run(&runner, argv(&["yes"]), flooded).await });
    }
    for finished in floods.join_all().await {
        assert_eq!((finished.end, finished.stdout_truncated), (End::TimedOut, true));
        assert!(finished.stdout == b"y\n".repeat(CAP / 2));
    }
    let grown = resident_mib().saturating_sub(before);
    assert!(grown < 100, "grown by {grown} MiB");
    within(runner.idle()).await;
}

#[tokio::test]
async fn each_output_has_a_cap_of_its_own_and_is_marked_only_beyond_it() {
    let capped = Limits { output_bytes: 4, ..limits(GENEROUS) };
    let finished = run(&runner(), sh("printf 1234; printf 12345 >&2"), capped).await;
    assert_eq!(finished.end, End::Exited(0));
    assert_eq!((text(&finished.stdout), finished.stdout_truncated), ("1234", false));
    assert_eq!((text(&finished.stderr), finished.stderr_truncated), ("1234", true));
}

#[tokio::test]
async fn the_environment_is_the_given_one_and_nothing_else() {
    let mut command = argv(&["/usr/bin/env"]);
    command.env = vec![("ONE".into(), "1".into()), ("TWO".into(), "zwei drei".into())];
    let finished = run(&runner(), command, limits(GENEROUS)).await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), "ONE=1\nTWO=zwei drei\n"));
}

#[tokio::test]
async fn the_working_directory_is_the_given_one() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let mut command = argv(&["pwd", "-P"]);
    command.cwd = Some(directory.clone());
    let finished = run(&runner(), command, limits(GENEROUS)).await;
    assert_eq!(finished.end, End::Exited(0));
    assert_eq!(text(&finished.stdout), format!("{}\n", directory.display()));
}

#[tokio::test]
async fn no_descriptor_but_the_three_is_inherited_and_sigpipe_is_as_usual() {
    let _ours = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::fs::File::open("/dev/null").unwrap());
    let finished = run(&runner(), sh("cat /proc/$$/status; exec ls /proc/self/fd"), limits(GENEROUS)).await;
    let (status, descriptors) = text(&finished.stdout).rsplit_once("nonvoluntary_ctxt_switches:").unwrap();

    // `ls` itself opens the directory that it lists.
    let mut permitted = inherited_by_this_process();
    permitted.extend([0, 1, 2]);
    let first_free = (0..).find(|number| !permitted.contains(number)).unwrap();
    permitted.insert(first_free);
    let seen: BTreeSet<u32> = descriptors.lines().skip(1).filter_map(|line| line.parse().ok()).collect();
    assert!(seen.is_subset(&permitted), "{seen:?} is more than {permitted:?}");

    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_eq!(ignored & (1 << 12), 0, "SIGPIPE");
}

#[tokio::test]
async fn the_debug_form_of_a_command_shows_no_secret() {
    let mut command = argv(&["true"]);
    command.env.push(("TOKEN".into(), "s3cret".into()));
    command.stdin = b"s3cret".to_vec();
    let mut shown = String::new();
    write!(shown, "{command:?}").unwrap();
    let scratch = "scratch: None, no_new_privileges: false";
    assert_eq!(
        shown,
        format!(r#"Command {{ argv: ["true"], env: ["PATH", "TOKEN"], cwd: None, {scratch}, stdin_bytes: 6 }}"#)
    );
}

/// What whoever started these tests left open for all.
fn inherited_by_this_process() -> BTreeSet<u32> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let inherits = |number: &u32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        flags.is_some_and(|flags| u32::from_str_radix(flags.trim(), 8).unwrap() & CLOSE_ON_EXEC == 0)
    };
    let table = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    table.filter_map(|found| found.file_name().to_str()?.parse().ok()).filter(inherits).collect()
}

fn resident_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kib.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}
