//! What a run costs beside a bare spawn-and-wait of the same program with the same three pipes, and what asking a worker
//! costs, and what it adds that a helper (this bench itself, started again) holds the program in first. They take turns, so that what else the machine does meets all. Run with `cargo bench -p hookd-runner`; a number after `--` sets the rounds.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    reason = "a bench tells, and stops where it cannot"
)]

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use hookd_confine::{Confinement, Helper, Landlock, Program, ResourceLimits};
use hookd_runner::{Capacity, Class, Command, Limits, Runner, Said, WorkerSettings, Workers};
use tokio::time::Instant;

const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8"), ("HOME", "/"), ("HOOKD_EVENT", "PreToolUse")];
const PAYLOAD: &[u8] = &[b'x'; 500];
/// Runs in one turn.
const TURN: u32 = 100;

fn main() -> ExitCode {
    if let Some(ended) = hookd_confine::main(std::env::args_os()) {
        return ended;
    }
    let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(30_usize);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // In a task, as in a server: what `block_on` runs itself is woken from other threads.
    let measured = runtime.spawn(async move {
        let runner = Runner::new(Capacity::default());
        let worker = worker(&runner);
        let helper = Helper::open().unwrap();
        let limited = Confinement {
            limits: ResourceLimits { open_files: Some(256), ..ResourceLimits::default() },
            ..Confinement::default()
        };
        let landlock =
            Landlock { system: ["/usr", "/bin", "/lib", "/lib64"].map(PathBuf::from).to_vec(), ..Landlock::default() };
        let landlocked = Confinement { landlock: Some(landlock), ..limited.clone() };
        for (name, program, cwd) in
            [("a name looked up in PATH", "true", None), ("the same, in a directory", "true", Some("/usr"))]
        {
            let (mut ours, mut bares, mut asks) = (Vec::new(), Vec::new(), Vec::new());
            let (mut limiteds, mut landlockeds) = (Vec::new(), Vec::new());
            for _round in 0..rounds {
                for (held, times) in
                    [(None, &mut ours), (Some(&limited), &mut limiteds), (Some(&landlocked), &mut landlockeds)]
                {
                    let begun = Instant::now();
                    for _run in 0..TURN {
                        run(&runner, program, cwd, held.map(|held| (&helper, held))).await;
                    }
                    times.push(begun.elapsed() / TURN);
                }
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
            for (what, times) in [("limits", limiteds), ("limits and Landlock", landlockeds)] {
                let held = median(times);
                println!("  held in by {what}: {held:?}, {:.3} of a run", held.as_secs_f64() / ours.as_secs_f64());
            }
        }
    });
    runtime.block_on(measured).unwrap();
    ExitCode::SUCCESS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn run(runner: &Runner, program: &str, cwd: Option<&str>, held: Option<(&Helper, &Confinement)>) {
    let env = ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut program = Program { argv: vec![program.into()], env };
    if let Some((helper, confinement)) = held {
        program = helper.around(confinement, program);
    }
    let command = Command {
        argv: program.argv,
        env: program.env,
        cwd: cwd.map(Into::into),
        stdin: PAYLOAD.to_vec(),
        ..Command::default()
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
    runner.workers(command, settings, |_| {})
}

async fn ask(worker: &Workers) {
    let line = [PAYLOAD, b"\n"].concat();
    let deadline = Instant::now().checked_add(Duration::from_secs(60)).unwrap();
    assert_eq!(worker.call(line, "", deadline).await.unwrap().said, Said::Line(b"{}".to_vec()));
}
