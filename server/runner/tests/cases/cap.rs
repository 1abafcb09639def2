//! How many run at once, who waits, who is refused, and the end of all.

use std::time::Duration;

use hookd_runner::{Capacity, Class, End, Limits, Overloaded, Runner};
use tokio::task::JoinSet;

use crate::support::{GENEROUS, Mark, eventually, limits, run, runner, sh, soon, text, within};

fn capped(children: usize, queue: usize) -> Runner {
    Runner::new(Capacity { children, queue, background: 1 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_013_three_hundred_hooks_that_never_end_are_all_answered_and_gone() {
    let (runner, mark) = (capped(8, 200), Mark::new());
    let deadline = soon(Duration::from_secs(2));
    let mut runs = JoinSet::new();
    for _each in 0..300 {
        let (runner, command) = (runner.clone(), mark.sh("exec sleep 1000"));
        let short = limits(Duration::from_millis(200));
        runs.spawn(async move { runner.run(Class::Other, command, short, deadline).await });
    }
    let (mut timed_out, mut refused) = (0, 0);
    for answer in runs.join_all().await {
        match answer {
            Ok(finished) => {
                assert_eq!(finished.end, End::TimedOut);
                timed_out += 1;
            }
            Err(overloaded) => {
                assert_eq!(overloaded, Overloaded::Queue { children: 8, queue: 200 });
                refused += 1;
            }
        }
    }
    // Others have three quarters of the places (6) and of the queue (150).
    assert_eq!(timed_out + refused, 300);
    assert!(timed_out >= 156, "{timed_out} were taken in");
    within(runner.idle()).await;
    assert_eq!((mark.living(), runner.live(), runner.queued()), (Vec::new(), 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_067_each_waiting_run_is_answered_by_its_own_program_and_its_wait_reported_apart() {
    let (runner, directory) = (capped(1, 40), tempfile::tempdir().unwrap());
    let nap = Duration::from_millis(50);
    let mut runs = JoinSet::new();
    for number in 0..20 {
        let mut command = sh(&format!("until [ -e go ]; do sleep 0.01; done; sleep 0.05; echo {number}"));
        command.cwd = Some(directory.path().to_owned());
        let runner = runner.clone();
        runs.spawn(async move { (number, run(&runner, command, limits(GENEROUS)).await) });
    }
    eventually("all but one wait", || runner.queued() == 19).await;
    std::fs::write(directory.path().join("go"), "").unwrap();
    let mut waits = Vec::new();
    for (number, finished) in runs.join_all().await {
        assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), format!("{number}\n").as_str()));
        assert!(finished.elapsed >= nap);
        waits.push(finished.queued);
    }
    waits.sort();
    for (before, wait) in (0..).zip(waits) {
        assert!(wait >= nap * before, "{wait:?} with {before} before it");
    }
    assert_eq!((runner.live(), runner.queued()), (0, 0));
}

#[tokio::test]
async fn case_067_overflow_of_the_queue_is_an_error_of_its_own() {
    let (runner, mark) = (capped(1, 1), Mark::new());
    let start = || {
        let (runner, command) = (runner.clone(), mark.sh("exec sleep 300"));
        tokio::spawn(async move { run(&runner, command, limits(GENEROUS)).await })
    };
    let first = start();
    eventually("the first runs", || mark.living().len() == 1).await;
    let second = start();
    eventually("the second waits", || runner.queued() == 1).await;
    let third = runner.run(Class::Other, mark.sh("true"), limits(GENEROUS), soon(GENEROUS)).await;
    let overloaded = third.unwrap_err();
    assert_eq!(overloaded, Overloaded::Queue { children: 1, queue: 1 });
    assert_eq!(overloaded.to_string(), "too many commands at once: 1 children are alive and the queue of 1 is full");
    second.abort();
    eventually("a waiting run that is dropped leaves the queue", || runner.queued() == 0).await;
    first.abort();
    within(runner.idle()).await;
}

#[tokio::test]
async fn no_place_by_the_deadline_is_a_timeout() {
    let (runner, mark) = (capped(1, 1), Mark::new());
    let task = {
        let (runner, command) = (runner.clone(), mark.sh("exec sleep 300"));
        tokio::spawn(async move { run(&runner, command, limits(GENEROUS)).await })
    };
    eventually("the first runs", || mark.living().len() == 1).await;
    let wait = Duration::from_millis(100);
    let finished = runner.run(Class::Other, mark.sh("true"), limits(GENEROUS), soon(wait)).await.unwrap();
    assert_eq!((finished.end, finished.elapsed), (End::TimedOut, Duration::ZERO));
    assert!(finished.queued >= wait);
    task.abort();
    within(runner.idle()).await;
}

#[tokio::test]
async fn law_08_a_quarter_of_places_and_queue_is_kept_for_the_central_class() {
    let (runner, mark) = (capped(4, 4), Mark::new());
    let mut others = JoinSet::new();
    for _each in 0..6 {
        let (runner, command) = (runner.clone(), mark.sh("exec sleep 300"));
        others.spawn(async move { run(&runner, command, limits(GENEROUS)).await });
    }
    eventually("three run and three wait", || mark.living().len() == 3 && runner.queued() == 3).await;
    let refused = runner.run(Class::Other, mark.sh("true"), limits(GENEROUS), soon(GENEROUS)).await;
    assert_eq!(refused, Err(Overloaded::Queue { children: 4, queue: 4 }));

    let central = |script: &str| runner.run(Class::Central, mark.sh(script), limits(GENEROUS), soon(GENEROUS));
    assert_eq!(central("exit 3").await.unwrap().end, End::Exited(3), "a place");
    let (first, second) = tokio::join!(central("sleep 0.1"), central("exit 4"));
    assert_eq!((first.unwrap().end, second.unwrap().end), (End::Exited(0), End::Exited(4)), "a place in the queue");
    others.shutdown().await;
    within(runner.idle()).await;
}

#[tokio::test]
async fn the_background_has_a_cap_of_its_own_and_no_queue() {
    let (runner, mark) = (capped(1, 0), Mark::new());
    let background = runner.run_background(mark.sh("cat; exec sleep 300"), limits(GENEROUS)).unwrap();
    let Err(overloaded) = runner.run_background(mark.sh("true"), limits(GENEROUS)) else {
        panic!("a place that is promised is taken before the run begins");
    };
    assert_eq!(overloaded, Overloaded::Background { background: 1 });
    let background = tokio::spawn(background);
    eventually("it runs", || mark.living().len() == 1).await;
    assert_eq!(run(&runner, mark.sh("exit 5"), limits(GENEROUS)).await.end, End::Exited(5));
    assert_eq!(runner.live(), 1);
    background.abort();
    within(runner.idle()).await;

    let unused = runner.run_background(mark.sh("true"), limits(GENEROUS)).unwrap();
    drop(unused);
    let finished = runner.run_background(mark.sh("echo $((6 * 7))"), limits(GENEROUS)).unwrap().await;
    assert_eq!((finished.end, text(&finished.stdout)), (End::Exited(0), "42\n"));
}

#[tokio::test]
async fn shutdown_ends_and_reaps_everything_and_nothing_starts_after_it() {
    let (runner, mark) = (Runner::new(Capacity { children: 3, queue: 8, background: 2 }), Mark::new());
    let mut runs = JoinSet::new();
    let stubborn = Limits { kill_grace: Duration::from_secs(3600), ..limits(GENEROUS) };
    for script in ["sleep 300", "trap '' TERM; while :; do sleep 300; done", "sleep 300 | cat", "exit 0", "exit 1"] {
        let (runner, command) = (runner.clone(), mark.sh(script));
        runs.spawn(async move { runner.run(Class::Central, command, stubborn, soon(GENEROUS)).await.unwrap().end });
    }
    runs.spawn({
        let background = runner.run_background(mark.sh("exec sleep 300"), stubborn).unwrap();
        async move { background.await.end }
    });
    eventually("all places are taken and two wait", || runner.live() == 4 && runner.queued() == 2).await;
    eventually("what should run does", || mark.living().len() >= 4).await;
    assert_eq!(runner.shutdown(Duration::from_millis(100)).await, 0);
    assert_eq!((mark.living(), runner.live(), runner.queued()), (Vec::new(), 0, 0));
    assert_eq!(runs.join_all().await, vec![End::Cancelled; 6]);
    assert_eq!(run(&runner, mark.sh("true"), limits(GENEROUS)).await.end, End::Cancelled);
}

#[tokio::test]
async fn no_children_at_all_still_means_one() {
    let runner = Runner::new(Capacity { children: 0, queue: 0, background: 0 });
    assert_eq!(run(&runner, Mark::new().sh("exit 7"), limits(GENEROUS)).await.end, End::Exited(7));
    assert_eq!(self::runner().live(), 0);
}
