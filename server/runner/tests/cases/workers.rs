//! Programs that stay.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hookd_runner::{Answered, Capacity, Class, End, Limits, Overloaded, Runner, Said, Stray, WorkerSettings, Workers};
use tokio::{task::JoinSet, time::Instant};

use crate::support::{GENEROUS, Mark, eventually, runner, soon, text, within};

const SETTINGS: WorkerSettings = WorkerSettings {
    pool: 2,
    max_calls: None,
    limits: Limits {
        timeout: Duration::ZERO,
        output_bytes: 1024 * 1024,
        pipe_grace: Duration::from_secs(5),
        kill_grace: Duration::from_secs(5),
    },
    class: Class::Other,
    accepts: |line| line.is_empty() || line.starts_with(b"{"),
};

/// Answers each line with its own number and the line.
const ECHO: &str = r#"while read -r line; do echo "{$$ $line}"; done"#;

fn workers(runner: &Runner, mark: &Mark, script: &str, settings: WorkerSettings) -> Workers {
    runner.workers(mark.sh(script), settings, |_| {})
}

async fn ask(workers: &Workers, line: &str) -> Answered {
    within(workers.call(format!("{line}\n").into_bytes(), "", soon(GENEROUS))).await.unwrap()
}

async fn said(workers: &Workers, line: &str) -> Said {
    ask(workers, line).await.said
}

/// The process that answered, and what it answered.
#[track_caller]
fn parts(said: &Said) -> (i32, &str) {
    let Said::Line(line) = said else { panic!("{said:?}") };
    let (pid, rest) = text(line).strip_prefix('{').unwrap().strip_suffix('}').unwrap().split_once(' ').unwrap();
    (pid.parse().unwrap(), rest)
}

fn ended(end: End) -> Said {
    Said::Ended(end)
}

#[tokio::test]
async fn one_program_answers_call_after_call() {
    let (runner, mark) = (runner(), Mark::new());
    let workers = workers(&runner, &mark, ECHO, SETTINGS);
    assert_eq!(runner.live(), 0, "none is started before the first call");
    let first = ask(&workers, "0").await;
    let (pid, rest) = parts(&first.said);
    assert_eq!((rest, first.stderr.is_empty(), first.elapsed.is_zero()), ("0", true, false));
    for number in 1..100 {
        let number = number.to_string();
        assert_eq!(parts(&said(&workers, &number).await), (pid, number.as_str()));
    }
    assert_eq!((runner.live(), mark.living()), (1, vec![pid]));
    drop(workers);
    within(runner.idle()).await;
    assert_eq!(mark.living(), []);
}

#[tokio::test]
async fn an_empty_line_is_an_answer_too() {
    let (runner, mark) = (runner(), Mark::new());
    let workers = workers(&runner, &mark, "while read -r line; do echo; done", SETTINGS);
    assert_eq!(said(&workers, "a").await, Said::Line(Vec::new()));
    assert_eq!(said(&workers, "b").await, Said::Line(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_calls_at_once_share_a_pool_of_two() {
    let (runner, mark) = (runner(), Mark::new());
    let workers = Arc::new(workers(&runner, &mark, ECHO, SETTINGS));
    let mut calls = JoinSet::new();
    for number in 0..50 {
        let workers = Arc::clone(&workers);
        calls.spawn(async move { (number.to_string(), said(&workers, &number.to_string()).await) });
    }
    let mut pids = HashSet::new();
    while let Some(call) = within(calls.join_next()).await {
        let (number, said) = call.unwrap();
        let (pid, rest) = parts(&said);
        assert_eq!(rest, number, "each call has its own answer");
        pids.insert(pid);
    }
    assert!((1..=2).contains(&pids.len()), "{pids:?}");
    assert_eq!(runner.live(), pids.len());
}

#[tokio::test]
async fn one_that_crashes_in_a_call_fails_it_and_is_replaced() {
    let (runner, mark) = (runner(), Mark::new());
    let script = ECHO.replace(
        "do ",
        "do if [ $line = exit ]; then echo last words >&2; exit 3; fi; if [ $line = kill ]; then kill -9 $$; fi; ",
    );
    let workers = workers(&runner, &mark, &script, SETTINGS);
    let first = said(&workers, "a").await;
    let crashed = ask(&workers, "exit").await;
    assert_eq!((crashed.said, text(&crashed.stderr)), (ended(End::Exited(3)), "last words\n"));
    let second = said(&workers, "b").await;
    assert_ne!(parts(&first).0, parts(&second).0);
    assert_eq!(said(&workers, "kill").await, ended(End::Signalled(9)));
    assert_eq!(parts(&said(&workers, "c").await).1, "c");
    eventually("the dead are reaped", || runner.live() == 1).await;
}

#[tokio::test]
async fn one_that_hangs_is_killed_with_its_group_and_its_late_answer_is_nobodys() {
    let (runner, mark) = (runner(), Mark::new());
    let script = ECHO.replace("do ", "do if [ $line = hang ]; then trap 'echo late' TERM; sleep 600 & wait; fi; ");
    let workers = workers(&runner, &mark, &script, WorkerSettings { pool: 1, ..SETTINGS });
    let first = parts(&said(&workers, "a").await).0;
    let (begun, limit) = (Instant::now(), Duration::from_millis(300));
    let hung = workers.call(b"hang\n".to_vec(), "", soon(limit)).await.unwrap();
    assert_eq!(hung.said, ended(End::TimedOut));
    assert!(begun.elapsed() >= limit && !hung.elapsed.is_zero(), "{:?}", hung.elapsed);
    let next = said(&workers, "b").await;
    assert_ne!(parts(&next).0, first);
    assert_eq!(parts(&next).1, "b");
    eventually("the one that hung is gone", || mark.living() == [parts(&next).0]).await;
    eventually("its place too", || runner.live() == 1).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_the_worker_along() {
    let (runner, mark) = (runner(), Mark::new());
    let script = ECHO.replace("do ", "do if [ $line = hang ]; then sleep 600; fi; ");
    let workers = workers(&runner, &mark, &script, SETTINGS);
    let pid = parts(&said(&workers, "a").await).0;
    {
        let mut call = Box::pin(workers.call(b"hang\n".to_vec(), "", soon(GENEROUS)));
        // The shell and its `sleep`: the question has arrived.
        let asked = eventually("it hangs", || mark.living().len() == 2);
        tokio::select! {
            answered = &mut call => panic!("{answered:?}"),
            () = asked => {}
        }
    }
    mark.gone().await;
    assert_ne!(parts(&said(&workers, "b").await).0, pid);
}

#[tokio::test]
async fn what_is_not_one_line_that_can_be_an_answer_fails_the_call_and_the_worker() {
    let (runner, mark) = (runner(), Mark::new());
    for (script, noise) in [
        ("read -r line; echo garbage; sleep 600", "garbage"),
        ("read -r line; printf '{1}\\n{2}\\n'; sleep 600", "{1}\n{2}\n"),
        ("read -r line; printf '{1}\\nrest'; sleep 600", "{1}\nrest"),
        ("echo 'I am ready'; sleep 600", "I am ready"),
    ] {
        let workers = workers(&runner, &mark, script, SETTINGS);
        assert_eq!(said(&workers, "a").await, Said::Noise(noise.as_bytes().to_vec()), "{script}");
        mark.gone().await;
    }
    within(runner.idle()).await;
}

#[tokio::test]
async fn a_second_line_that_comes_late_is_not_the_next_calls() {
    let (runner, mark) = (runner(), Mark::new());
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.01; done", go.display());
    let script = format!(r#"read -r line; echo "{{$$ $line}}"; {wait}; echo '{{late}}'; sleep 600"#);
    let workers = workers(&runner, &mark, &script, WorkerSettings { pool: 1, ..SETTINGS });
    let first = said(&workers, "a").await;
    std::fs::write(&go, "").unwrap();
    mark.gone().await;
    std::fs::remove_file(&go).unwrap();
    let second = said(&workers, "b").await;
    assert_eq!(parts(&second).1, "b");
    assert_ne!(parts(&first).0, parts(&second).0);
}

#[tokio::test]
async fn a_line_has_a_cap_and_input_has_none() {
    let (runner, mark) = (runner(), Mark::new());
    let limits = Limits { output_bytes: 1000, ..SETTINGS.limits };
    let settings = WorkerSettings { limits, ..SETTINGS };
    let fill = "head -c 998 /dev/zero | tr '\\0' x";
    let exact = workers(&runner, &mark, &format!("while read -r line; do echo \"{{$({fill})}}\"; done"), settings);
    assert_eq!(said(&exact, "a").await, Said::Line(format!("{{{}}}", "x".repeat(998)).into_bytes()));
    let worker = workers(&runner, &mark, &format!("while read -r line; do echo \"{{$({fill})}}y\"; done"), settings);
    assert_eq!(said(&worker, "a").await, Said::TooLong(1000));
    let worker = workers(&runner, &mark, "read -r line; tr '\\0' x < /dev/zero", settings);
    assert_eq!(said(&worker, "a").await, Said::TooLong(1000));
    drop(exact);
    mark.gone().await;
    // It answers before it has read everything, and the rest is written all the same.
    let early = "while true; do head -c 100000 >/dev/null; echo \"{$$ early}\"; head -c 1900001 > /dev/null; done";
    // There is but one: the next call waits until that is done.
    let worker = workers(&runner, &mark, early, WorkerSettings { pool: 1, ..SETTINGS });
    let mut pids = HashSet::new();
    for _call in 0..3 {
        let answer = said(&worker, &"x".repeat(2_000_000)).await;
        assert_eq!(parts(&answer).1, "early");
        pids.insert(parts(&answer).0);
    }
    assert_eq!(pids.len(), 1);
    eventually("the places of the others are free", || runner.live() == 1).await;
}

#[tokio::test]
async fn after_its_calls_a_worker_is_replaced() {
    let (runner, mark) = (runner(), Mark::new());
    let directory = tempfile::tempdir().unwrap();
    let script = format!("{ECHO}; echo $$ >> '{}/ended'", directory.path().display());
    let settings = WorkerSettings { max_calls: Some(3), ..SETTINGS };
    let workers = workers(&runner, &mark, &script, settings);
    let mut pids = Vec::new();
    for _call in 0..7 {
        pids.push(parts(&said(&workers, "a").await).0);
    }
    let [first, .., last] = pids[..] else { panic!("{pids:?}") };
    let middle = pids[3];
    assert_eq!(pids, [first, first, first, middle, middle, middle, last]);
    assert_eq!(HashSet::from([first, middle, last]).len(), 3);
    eventually("two have ended", || runner.live() == 1).await;
    // They found their stdin closed, and ended by themselves.
    let ended = std::fs::read_to_string(directory.path().join("ended")).unwrap();
    assert_eq!(ended.lines().map(|line| line.parse().unwrap()).collect::<HashSet<i32>>(), [first, middle].into());
}

#[tokio::test]
async fn one_that_answers_and_exits_is_asked_once() {
    let (runner, mark) = (runner(), Mark::new());
    let workers = workers(&runner, &mark, r#"read -r line; echo "{$$ $line}""#, SETTINGS);
    let one = said(&workers, "a").await;
    within(runner.idle()).await;
    let two = said(&workers, "b").await;
    assert_eq!((parts(&one).1, parts(&two).1), ("a", "b"));
    assert_ne!(parts(&one).0, parts(&two).0);
    within(runner.idle()).await;
}

#[tokio::test]
async fn an_idle_one_that_dies_is_reaped_at_once_and_replaced_at_the_next_call() {
    let (runner, mark) = (runner(), Mark::new());
    let workers = workers(&runner, &mark, ECHO, SETTINGS);
    let pid = parts(&said(&workers, "a").await).0;
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    within(runner.idle()).await;
    assert_ne!(parts(&said(&workers, "b").await).0, pid);
}

#[tokio::test]
async fn what_an_idle_one_does_unasked_is_told_with_its_last_words() {
    let (runner, mark) = (runner(), Mark::new());
    let (told, mut strays) = tokio::sync::mpsc::unbounded_channel();
    let directory = tempfile::tempdir().unwrap();
    let now = directory.path().join("now");
    assert!(std::process::Command::new("mkfifo").arg(&now).status().unwrap().success());
    // Something else holds its stdout, so that its end is not seen by that first.
    let answers = format!("sleep 2 & read -r line; echo '{{}}'; read -r go < '{}';", now.display());
    for (then, expected) in [
        (
            "echo last >&2; echo words >&2; exit 3",
            Some(Stray::Ended { end: End::Exited(3), stderr: b"last\nwords\n".to_vec() }),
        ),
        ("kill -9 $$", Some(Stray::Ended { end: End::Signalled(9), stderr: Vec::new() })),
        ("echo unasked; read -r line", Some(Stray::Spoke)),
        ("echo leaves >&2; exit 0", None),
    ] {
        let told = told.clone();
        let workers =
            runner.workers(mark.sh(&format!("{answers} {then}")), SETTINGS, move |stray| told.send(stray).unwrap());
        assert_eq!(said(&workers, "a").await, Said::Line(b"{}".to_vec()));
        std::fs::write(&now, "go\n").unwrap();
        within(runner.idle()).await;
        assert_eq!(strays.try_recv().ok(), expected, "{then}");
    }
}

#[tokio::test]
async fn one_that_cannot_live_is_started_again_after_longer_and_longer_pauses() {
    let (runner, mark) = (runner(), Mark::new());
    let workers = workers(&runner, &mark, "echo broken >&2; exit 7", WorkerSettings { pool: 1, ..SETTINGS });
    let begun = Instant::now();
    for _call in 0..3 {
        let failed = ask(&workers, "a").await;
        assert_eq!((failed.said, text(&failed.stderr)), (ended(End::Exited(7)), "broken\n"));
    }
    assert!(begun.elapsed() >= Duration::from_millis(20 + 40), "{:?}", begun.elapsed());
    // No call waits for a long pause, or for one that is longer than its time: it is told so, and nothing is started.
    let told = loop {
        match said(&workers, "a").await {
            Said::Paused(why) => break why,
            other => assert_eq!(other, ended(End::Exited(7))),
        }
    };
    let count = told.strip_prefix("the worker ended ").and_then(|rest| rest.split_once(' ')).unwrap().0;
    assert!(count.parse::<u32>().unwrap() > 3, "{told}");
    assert!(told.contains(" times in a row without being asked to; the next start is in "), "{told}");
    let refused = workers.call(b"a\n".to_vec(), "", soon(Duration::from_millis(1))).await.unwrap();
    assert!(matches!(refused.said, Said::Paused(_)) && refused.elapsed.is_zero(), "{refused:?}");
    within(runner.idle()).await;
}

#[tokio::test]
async fn what_one_asks_that_ends_workers_lets_nobody_else_wait() {
    let (runner, mark) = (runner(), Mark::new());
    let script = "while read -r line; do if [ $line = poison ]; then exit 7; fi; echo '{}'; done";
    let workers = workers(&runner, &mark, script, WorkerSettings { pool: 1, ..SETTINGS });
    let call = async |line: &str, asker: &str| {
        within(workers.call(format!("{line}\n").into_bytes(), asker, soon(GENEROUS))).await.unwrap().said
    };
    while !matches!(call("poison", "a").await, Said::Paused(_)) {}
    assert_eq!(call("fine", "b").await, Said::Line(b"{}".to_vec()));
    // One that is there is everybody's.
    assert_eq!(call("fine", "a").await, Said::Line(b"{}".to_vec()));
    assert_eq!(call("poison", "a").await, ended(End::Exited(7)));
    assert_eq!(call("fine", "a").await, Said::Line(b"{}".to_vec()), "it begins anew");
}

#[tokio::test]
async fn a_program_that_is_not_there_did_not_start() {
    let runner = runner();
    let workers = runner.workers(crate::support::argv(&["/nowhere/guard"]), SETTINGS, |_| {});
    let missing = "cannot start `/nowhere/guard`: No such file or directory (os error 2)";
    assert_eq!(said(&workers, "a").await, ended(End::DidNotStart(missing.to_owned())));
    assert_eq!(runner.live(), 0);
}

#[tokio::test]
async fn without_a_place_of_its_own_a_call_gets_a_worker_for_itself() {
    let runner = Runner::new(Capacity { children: 4, queue: 0, background: 1 });
    let mark = Mark::new();
    let one = WorkerSettings { pool: 1, ..SETTINGS };
    let mut pools = Vec::new();
    // Three of four places: the fourth is kept for the central ones.
    for _pool in 0..3 {
        let workers = workers(&runner, &mark, ECHO, one);
        said(&workers, "a").await;
        pools.push(workers);
    }
    let fourth = workers(&runner, &mark, ECHO, one);
    let (first, second) = (said(&fourth, "a").await, said(&fourth, "b").await);
    assert_ne!(parts(&first).0, parts(&second).0);
    eventually("it is not kept", || runner.live() == 3).await;
    let central = workers(&runner, &mark, ECHO, WorkerSettings { class: Class::Central, ..one });
    let (first, second) = (said(&central, "a").await, said(&central, "b").await);
    assert_eq!(parts(&first).0, parts(&second).0);

    // Those are ordinary children, with their cap.
    let hangs = "read -r line; sleep 600";
    let busy: Vec<_> = (0..3).map(|_| Arc::new(workers(&runner, &mark, hangs, one))).collect();
    let mut calls = JoinSet::new();
    for workers in busy {
        calls.spawn(async move { said(&workers, "a").await });
    }
    eventually("they run", || runner.live() == 7).await;
    let full = fourth.call(b"c\n".to_vec(), "", soon(GENEROUS)).await;
    assert_eq!(full, Err(Overloaded::Queue { children: 4, queue: 0 }));
    let background = fourth.call_background(b"d\n".to_vec(), "", soon(GENEROUS)).await.unwrap();
    assert_eq!(parts(&background.said).1, "d");
    calls.shutdown().await;
    drop((pools, central, fourth));
    within(runner.idle()).await;
    assert_eq!(mark.living(), []);
}

#[tokio::test]
async fn the_end_of_workers_waits_for_calls_and_closes_stdin() {
    let (runner, mark) = (runner(), Mark::new());
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = format!(
        "{}; echo $$ >> '{}/ended'",
        ECHO.replace("do ", &format!("do while [ $line = wait -a ! -e '{}' ]; do sleep 0.01; done; ", go.display())),
        directory.path().display()
    );
    let workers = Arc::new(workers(&runner, &mark, &script, SETTINGS));
    let call = tokio::spawn({
        let workers = Arc::clone(&workers);
        async move { said(&workers, "wait").await }
    });
    eventually("one is asked", || !mark.living().is_empty()).await;
    let idle = parts(&said(&workers, "a").await).0;
    let end = tokio::spawn({
        let runner = runner.clone();
        async move { runner.end_workers(GENEROUS).await }
    });
    eventually("the idle one has ended", || !mark.living().contains(&idle)).await;
    let refused = ask(&workers, "b").await;
    assert_eq!((refused.said, refused.elapsed), (ended(End::Cancelled), Duration::ZERO));
    assert!(!end.is_finished());
    std::fs::write(go, "").unwrap();
    let busy = parts(&within(call).await.unwrap()).0;
    within(end).await.unwrap();
    assert_eq!((runner.live(), mark.living()), (0, vec![]));
    let ended = std::fs::read_to_string(directory.path().join("ended")).unwrap();
    assert_eq!(ended.lines().map(|line| line.parse().unwrap()).collect::<Vec<i32>>(), [idle, busy]);
}

#[tokio::test]
async fn a_shutdown_leaves_nobody() {
    let (runner, mark) = (runner(), Mark::new());
    let script = format!("trap '' TERM; {}; sleep 600", ECHO.replace("do ", "do [ $line = hang ] && sleep 600; "));
    let workers = Arc::new(workers(&runner, &mark, &script, SETTINGS));
    let call = tokio::spawn({
        let workers = Arc::clone(&workers);
        async move { said(&workers, "hang").await }
    });
    eventually("one hangs", || mark.living().len() == 2).await;
    said(&workers, "a").await;
    assert_eq!(runner.live(), 2);
    assert_eq!(within(runner.shutdown(Duration::ZERO)).await, 0);
    assert_eq!(within(call).await.unwrap(), ended(End::Cancelled));
    assert_eq!(mark.living(), []);
    assert_eq!(said(&workers, "b").await, ended(End::Cancelled));
}

#[tokio::test]
async fn a_worker_that_says_much_on_stderr_is_not_blocked_and_its_last_lines_are_told() {
    let (runner, mark) = (runner(), Mark::new());
    let chatter = "i=0; while [ $i -lt 3000 ]; do echo \"line $i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" >&2; i=$((i+1)); done";
    let script = ECHO.replace("do ", &format!("do {chatter}; [ $line = exit ] && exit 1; "));
    let workers = workers(&runner, &mark, &script, SETTINGS);
    assert_eq!(parts(&said(&workers, "a").await).1, "a");
    let crashed = ask(&workers, "exit").await;
    assert_eq!(crashed.said, ended(End::Exited(1)));
    let lines: Vec<_> = text(&crashed.stderr).lines().collect();
    assert!((4000..=4096).contains(&crashed.stderr.len()) && lines.iter().all(|line| line.starts_with("line ")));
    assert!(lines.last().unwrap().starts_with("line 2999 "), "{lines:?}");
}
