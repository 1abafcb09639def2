//! What a run costs beside a bare spawn-and-wait of the same program with the same three pipes, and what asking a worker
//! costs. They take turns, so that what else the machine does meets all. Run with `cargo bench -p hookd-runner`; a number after `--` sets the rounds.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    reason = "a bench tells, and stops where it cannot"
)]

use std::process::Stdio;
use std::time::Duration;

use hookd_runner::{Capacity, Class, Command, Limits, Runner, Said, WorkerSettings, Workers};
use tokio::time::Instant;

const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("HOME", "/"), ("HOOKD_EVENT", "PreToolUse")];
const PAYLOAD: &[u8] = &[b'x'; 500];
/// Runs in one turn.
const TURN: u32 = 100;

fn main() {
    let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(30_usize);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // In a task, as in a server: what `block_on` runs itself is woken from other threads.
    let measured = runtime.spawn(async move {
        let runner = Runner::new(Capacity::default());
        let worker = worker(&runner);
        for (name, program, cwd) in
            [("a name looked up in PATH", "true", None), ("the same, in a directory", "true", Some("/usr"))]
        {
            let (mut ours, mut bares, mut asks) = (Vec::new(), Vec::new(), Vec::new());
            for _round in 0..rounds {
                let begun = Instant::now();
                for _run in 0..TURN {
                    run(&runner, program, cwd).await;
                }
                ours.push(begun.elapsed() / TURN);
                let begun = Instant::now();
                for _run in 0..TURN {
                    bare("/bin/true", cwd).await;
                }
                bares.push(begun.elapsed() / TURN);
                let begun = Instant::now();
                for _ask in 0..TURN {
                    ask(&worker).await;
                }
                asks.push(begun.elapsed() / TURN);
            }
            let (ours, bares, asks) = (median(ours), median(bares), median(asks));
            let ratio = ours.as_secs_f64() / bares.as_secs_f64();
            println!("{name}: run {ours:?}, bare {bares:?}, ratio {ratio:.3}; worker {asks:?}");
        }
    });
    runtime.block_on(measured).unwrap();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn run(runner: &Runner, program: &str, cwd: Option<&str>) {
    let command = Command {
        argv: vec![program.into()],
        env: ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: cwd.map(Into::into),
        stdin: PAYLOAD.to_vec(),
    };
    let deadline = Instant::now().checked_add(Duration::from_secs(60)).unwrap();
    let finished = runner.run(Class::Central, command, Limits::default(), deadline).await.unwrap();
    assert_eq!(finished.end, hookd_runner::End::Exited(0));
}

async fn bare(program: &str, cwd: Option<&str>) {
    use tokio::io::AsyncWriteExt as _;

    let mut command = tokio::process::Command::new(program);
    command.env_clear().envs(ENVIRONMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that has ended already need not read it.
    let _unread = stdin.write_all(PAYLOAD).await;
    drop(stdin);
    assert!(child.wait_with_output().await.unwrap().status.success());
}

fn worker(runner: &Runner) -> Workers {
    let command = Command {
        argv: vec!["sh".into(), "-c".into(), "while read -r line; do echo '{}'; done".into()],
        env: ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        ..Command::default()
    };
    let settings = WorkerSettings {
        pool: 1,
        max_calls: None,
        limits: Limits::default(),
        class: Class::Central,
        accepts: |line| line == b"{}",
    };
    runner.workers(command, settings)
}

async fn ask(worker: &Workers) {
    let line = [PAYLOAD, b"\n"].concat();
    let deadline = Instant::now().checked_add(Duration::from_secs(60)).unwrap();
    assert_eq!(worker.call(line, deadline).await.unwrap().said, Said::Line(b"{}".to_vec()));
}
