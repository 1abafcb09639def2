//! How programs end: by themselves, in time or not, alone or with the processes that they started.

use std::time::Duration;

use hookd_runner::{Class, End, Finished, Limits};
use rustix::process::{Pid, test_kill_process};
use tokio::time::Instant;

use crate::support::{GENEROUS, Mark, eventually, limits, run, runner, soon, text, within};

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn case_001_a_helper_that_holds_stdout_does_not_hold_the_answer() {
    let (runner, mark) = (runner(), Mark::new());
    let finished = run(&runner, mark.sh("sleep 300 & echo '{}'"), limits(GENEROUS)).await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), "{}\n"));
    assert_eq!(mark.living().len(), 1, "a leader that exits by itself leaves its helpers alone");
    assert_eq!(runner.live(), 0, "and they are not counted");
}

#[tokio::test]
async fn case_001_what_the_leader_wrote_is_whole_even_without_a_grace() {
    let mark = Mark::new();
    let no_grace = Limits { pipe_grace: Duration::ZERO, ..limits(GENEROUS) };
    let script = "sleep 300 & head -c 60000 /dev/zero | tr '\\0' x";
    let finished = run(&runner(), mark.sh(script), no_grace).await;
    assert_eq!((finished.end, finished.stdout), (End::Exited(0), vec![b'x'; 60_000]));
}

#[tokio::test]
async fn case_002_a_timeout_ends_the_whole_pipeline() {
    let (runner, mark) = (runner(), Mark::new());
    let finished = run(&runner, mark.sh("echo begun; sleep 600 | cat"), limits(SHORT)).await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::TimedOut, "begun\n"));
    assert!(finished.elapsed >= SHORT);
    mark.gone().await;
    within(runner.idle()).await;
}

#[tokio::test]
async fn case_003_a_background_loop_that_writes_ends_with_its_shell() {
    let (runner, mark) = (runner(), Mark::new());
    let finished = run(&runner, mark.sh("(while :; do echo x; sleep 0.01; done) & wait"), limits(SHORT)).await;
    assert_eq!(finished.end, End::TimedOut);
    mark.gone().await;
    within(runner.idle()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_005_no_child_escapes_that_is_forked_at_the_moment_of_the_kill() {
    let runner = runner();
    let forker = "trap '' TERM; fork() { while :; do sleep 300 & done; }; fork & fork";
    for _round in 0..10 {
        let mark = Mark::new();
        let short = Limits {
            kill_grace: Duration::from_millis(10),
            pipe_grace: Duration::ZERO,
            ..limits(Duration::from_millis(60))
        };
        let (one, other) = tokio::join!(
            run(&runner, mark.sh(forker), short),
            run(&runner, mark.sh("while :; do (sleep 300) & done"), short),
        );
        assert_eq!((one.end, other.end), (End::TimedOut, End::TimedOut));
        within(runner.idle()).await;
        assert_eq!(mark.living(), Vec::<i32>::new(), "survivors of a group that was said to be gone");
    }
}

#[tokio::test]
async fn a_timeout_ends_also_what_left_the_group() {
    let runner = runner();
    let short = Limits { kill_grace: Duration::from_millis(50), ..limits(SHORT) };
    for script in [
        "setsid sleep 300 & wait",
        "(setsid sleep 300 & setsid sleep 300 & wait) & wait",
        "setsid sh -c 'setsid sleep 300 & sleep 300 & wait' & wait",
        r#"setsid sh -c "trap '' TERM; while :; do sleep 300; done" & wait"#,
        r#"trap '' TERM; setsid sh -c 'while :; do setsid sleep 300; done' & while :; do sleep 300; done"#,
    ] {
        let mark = Mark::new();
        let finished = run(&runner, mark.sh(script), short).await;
        assert_eq!(finished.end, End::TimedOut, "{script}");
        within(runner.idle()).await;
        assert_eq!(mark.living(), Vec::<i32>::new(), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_005_no_child_escapes_that_leaves_the_group_at_the_moment_of_the_kill() {
    let runner = runner();
    for _round in 0..10 {
        let mark = Mark::new();
        let short = Limits { pipe_grace: Duration::ZERO, ..limits(Duration::from_millis(60)) };
        let forker = "while :; do setsid sleep 300 & done";
        assert_eq!(run(&runner, mark.sh(forker), short).await.end, End::TimedOut);
        within(runner.idle()).await;
        assert_eq!(mark.living(), Vec::<i32>::new(), "survivors of a group that was said to be gone");
    }
}

#[tokio::test]
async fn what_left_the_group_may_clean_up_too() {
    let (runner, mark) = (runner(), Mark::new());
    let directory = tempfile::tempdir().unwrap();
    let patient = Limits { kill_grace: GENEROUS, ..limits(Duration::from_millis(500)) };
    let cleaner = r#"setsid sh -c "trap 'echo done >cleaned; exit' TERM; while :; do sleep 0.05; done" & wait"#;
    let mut command = mark.sh(cleaner);
    command.cwd = Some(directory.path().to_owned());
    assert_eq!(run(&runner, command, patient).await.end, End::TimedOut);
    within(runner.idle()).await;
    assert_eq!(std::fs::read_to_string(directory.path().join("cleaned")).unwrap(), "done\n");
    assert_eq!(mark.living(), Vec::<i32>::new());
}

#[tokio::test]
async fn what_left_the_group_and_stays_takes_no_descriptors() {
    const STRAYS: usize = 8;
    let (runner, mark) = (runner(), Mark::new());
    let directory = tempfile::tempdir().unwrap();
    let lines = |file| std::fs::read_to_string(directory.path().join(file)).map_or(0, |text| text.lines().count());
    let stays = "trap 'echo >>told' TERM; echo >>begun; while :; do sleep 0.05; done";
    let mut command = mark.sh(&format!("for i in $(seq {STRAYS}); do setsid sh -c \"{stays}\" & done; wait"));
    command.cwd = Some(directory.path().to_owned());
    let patient = Limits { kill_grace: GENEROUS, ..limits(GENEROUS) };
    let running = {
        let runner = runner.clone();
        tokio::spawn(async move { run(&runner, command, patient).await })
    };
    eventually("all have begun", || lines("begun") == STRAYS).await;
    running.abort();
    eventually("all have got SIGTERM", || lines("told") == STRAYS).await;
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let held = descriptors.filter_map(|entry| {
        let info = std::fs::read_to_string(entry.path()).ok()?;
        info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i32>().ok())
    });
    let living = mark.living();
    assert!(living.len() >= STRAYS);
    // The leader has ended, and is held until the others have.
    assert_eq!(held.filter(|pid| living.contains(pid)).count(), 0);
    assert_eq!(within(runner.shutdown(Duration::ZERO)).await, 0);
    assert_eq!(mark.living(), Vec::<i32>::new());
}

#[tokio::test]
async fn case_006_a_helper_that_left_the_group_lives_on_when_its_leader_exits() {
    let mark = Mark::new();
    let finished = run(&runner(), mark.sh("setsid sleep 300 >/dev/null 2>&1 & echo $!"), limits(GENEROUS)).await;
    assert_eq!(finished.end, End::Exited(0));
    let helper: i32 = text(&finished.stdout).trim().parse().unwrap();
    assert_eq!(mark.living(), vec![helper]);
}

#[tokio::test]
async fn case_006_a_helper_detached_on_purpose_lives_on() {
    let mark = Mark::new();
    let script = "(sleep 300 </dev/null >/dev/null 2>&1 & echo $!)";
    let finished = run(&runner(), mark.sh(script), limits(GENEROUS)).await;
    assert_eq!(finished.end, End::Exited(0));
    let helper: i32 = text(&finished.stdout).trim().parse().unwrap();
    assert_eq!(mark.living(), vec![helper]);
}

#[tokio::test]
async fn case_015_a_limit_that_was_too_short_is_said_with_the_time_taken() {
    let mark = Mark::new();
    let second = Duration::from_secs(1);
    let finished = run(&runner(), mark.sh("sleep 60"), limits(second)).await;
    assert!(finished.elapsed >= second);
    let expected = Finished {
        end: End::TimedOut,
        stdout: Vec::new(),
        stderr: Vec::new(),
        stdout_truncated: false,
        stderr_truncated: false,
        queued: finished.queued,
        elapsed: finished.elapsed,
    };
    assert_eq!(finished, expected);
}

#[tokio::test]
async fn the_deadline_ends_a_program_before_its_own_timeout() {
    let (runner, mark) = (runner(), Mark::new());
    let ended = runner.run(Class::Other, mark.sh("sleep 300"), limits(GENEROUS), soon(SHORT)).await;
    assert_eq!(ended.unwrap().end, End::TimedOut);
    mark.gone().await;
}

#[tokio::test]
async fn nothing_starts_when_no_time_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Mark::new().sh("touch started");
    command.cwd = Some(directory.path().to_owned());
    let finished = runner().run(Class::Other, command, Limits::default(), Instant::now()).await.unwrap();
    assert_eq!((finished.end, finished.elapsed), (End::TimedOut, Duration::ZERO));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let runner = runner();
    for (script, end) in [
        ("exit 0", End::Exited(0)),
        ("exit 2", End::Exited(2)),
        ("exit 255", End::Exited(255)),
        ("/nowhere/to/be/found", End::Exited(127)),
        ("/dev/null", End::Exited(126)),
        ("kill -TERM $$", End::Signalled(15)),
        ("kill -KILL $$", End::Signalled(9)),
    ] {
        let finished = run(&runner, Mark::new().sh(script), limits(GENEROUS)).await;
        assert_eq!(finished.end, end, "{script}");
    }
}

#[tokio::test]
async fn a_leader_killed_by_a_signal_takes_its_group_along() {
    let (runner, mark) = (runner(), Mark::new());
    let finished = run(&runner, mark.sh("sleep 300 & kill -KILL $$"), limits(GENEROUS)).await;
    assert_eq!(finished.end, End::Signalled(9));
    mark.gone().await;
    within(runner.idle()).await;
}

#[tokio::test]
async fn a_group_that_ignores_sigterm_is_killed() {
    let (runner, mark) = (runner(), Mark::new());
    let short = Limits { kill_grace: Duration::from_millis(50), ..limits(SHORT) };
    let finished = run(&runner, mark.sh("trap '' TERM; while :; do sleep 300; done"), short).await;
    assert_eq!(finished.end, End::TimedOut);
    mark.gone().await;
    within(runner.idle()).await;
}

#[tokio::test]
async fn the_answer_does_not_wait_for_the_kill_grace_but_the_place_does() {
    let (runner, mark) = (runner(), Mark::new());
    let patient = Limits { kill_grace: Duration::from_secs(3600), ..limits(SHORT) };
    let script = "trap '' TERM; echo $$; while :; do sleep 300; done";
    let finished = run(&runner, mark.sh(script), patient).await;
    assert_eq!(finished.end, End::TimedOut);
    let leader = Pid::from_raw(text(&finished.stdout).trim().parse().unwrap()).unwrap();
    assert!(test_kill_process(leader).is_ok());
    assert_eq!(runner.live(), 1);
    assert_eq!(runner.shutdown(Duration::ZERO).await, 0);
    mark.gone().await;
    assert!(test_kill_process(leader).is_err(), "killed and reaped");
}

#[tokio::test]
async fn the_grace_lasts_for_members_whose_leader_is_gone() {
    let (runner, mark) = (runner(), Mark::new());
    let directory = tempfile::tempdir().unwrap();
    let patient = Limits { kill_grace: GENEROUS, ..limits(Duration::from_millis(500)) };
    // The outer shell dies of SIGTERM at once; the inner one cleans up first.
    let mut command = mark
        .sh("(trap 'echo cleaning; sleep 0.2; echo done >cleaned; exit' TERM; while :; do sleep 0.05; done) & wait");
    command.cwd = Some(directory.path().to_owned());
    assert_eq!(run(&runner, command, patient).await.end, End::TimedOut);
    within(runner.idle()).await;
    assert_eq!(std::fs::read_to_string(directory.path().join("cleaned")).unwrap(), "done\n");
}

#[tokio::test]
async fn a_dropped_run_ends_its_group() {
    let (runner, mark) = (runner(), Mark::new());
    let task = {
        let (runner, command) = (runner.clone(), mark.sh("sleep 300 & sleep 300 & wait"));
        tokio::spawn(async move { run(&runner, command, limits(GENEROUS)).await })
    };
    eventually("all three run", || mark.living().len() == 3).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    mark.gone().await;
    within(runner.idle()).await;
}

#[test]
fn a_runtime_that_goes_away_leaves_no_program_behind() {
    let mark = Mark::new();
    let new_runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second, runner) = (new_runtime(), new_runtime(), runner());
    for script in ["trap '' TERM; while :; do sleep 300; done", "sleep 300 & wait", "setsid sleep 300 & wait"] {
        let (runner, command) = (runner.clone(), mark.sh(script));
        first.spawn(async move { run(&runner, command, limits(GENEROUS)).await });
    }
    second.block_on(eventually("all run", || mark.living().len() == 6));
    drop(first);
    second.block_on(async {
        mark.gone().await;
        within(runner.idle()).await;
    });
}
