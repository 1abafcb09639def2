//! What handlers outside the process cost, against the same work without hookd.

use std::{
    ffi::OsString,
    fs,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Bench, EVENT, Goal, Row, ensure_clean};
use crate::{
    delay::Post,
    drive::{self, Mode},
    report::{ratio, rounded},
    server::{Program, Server},
    turns::{Ratios, Sample, median},
};

const COMMAND: &str = "one command rule (`argv: [\"true\"]`) against a bare spawn-and-wait, p50, 1 in flight";
const COMMAND_GOAL: Goal = Goal::AtMost(1.15);
const WORKER: &str = "one Python guard as a worker against spawn per call, calls/s, 8 in flight";
const WORKER_GOAL: Goal = Goal::AtLeast(20.0);
const HTTP: &str = "one http rule whose server answers after 5 ms against a bare client's POST, p50, 32 in flight";
const HTTP_GOAL: Goal = Goal::AtMost(1.1);
const CONCURRENT: &str = "3 concurrent http guards of 20 ms against one, p50, 1 in flight";
const CONCURRENT_GOAL: Goal = Goal::AtMost(1.5);

/// Where hookd looks for programs unless its settings say otherwise.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A guard that can be both: it answers every line that it reads, and one line is all that a spawned one gets.
const GUARD: &str = "\
import json
import sys

for line in sys.stdin:
    command = json.loads(line)[\"toolCall\"][\"params\"].get(\"command\", \"\")
    decision = \"block\" if \"rm -rf /\" in command else \"allow\"
    print(json.dumps({\"decision\": decision}), flush=True)
";

pub(super) async fn command(bench: &Bench<'_>) -> Row {
    row(COMMAND, COMMAND_GOAL, measure_command(bench).await)
}

pub(super) async fn worker(bench: &Bench<'_>) -> Row {
    row(WORKER, WORKER_GOAL, measure_worker(bench).await)
}

pub(super) async fn http(bench: &Bench<'_>) -> Row {
    row(HTTP, HTTP_GOAL, measure_http(bench).await)
}

pub(super) async fn concurrent(bench: &Bench<'_>) -> Row {
    row(CONCURRENT, CONCURRENT_GOAL, measure_concurrent(bench).await)
}

/// The figure that the goal is about, and what it is made of.
type Figure = (f64, String);

fn row(measure: &str, goal: Goal, figure: anyhow::Result<Figure>) -> Row {
    match figure {
        Ok((value, text)) => Row::new(measure, goal, value, format!("{value:.3} ({text})")),
        Err(error) => Row::not_measured(measure, goal, &format!("{error:#}")),
    }
}

async fn measure_command(bench: &Bench<'_>) -> anyhow::Result<Figure> {
    let handler = json!({ "type": "command", "argv": ["true"] });
    let hookd = bench.hookd("command", &[rule("true", &handler)], "none").await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        let span = bench.args.duration;
        bare.push(tokio::task::spawn_blocking(move || spawn_again_and_again(span)).await??);
        ours.push(hookd.sample(Mode::Closed, &bench.load(1, 1)).await?);
    }
    ensure_clean(&ours, &hookd.name)?;
    hookd.server.stop().await?;
    Ok(p50s(&ours, &bare))
}

async fn measure_worker(bench: &Bench<'_>) -> anyhow::Result<Figure> {
    let script = bench.folder.join("guard.py");
    fs::write(&script, GUARD).context("guard.py")?;
    let argv = json!([python().await?, script]);
    let spawned = json!({ "type": "command", "argv": argv });
    let kept = json!({ "type": "command", "argv": argv, "worker": { "pool": 2 } });
    let worker = bench.hookd("worker", &[rule("worker", &kept)], "allow").await?;
    let spawner = bench.hookd("spawner", &[rule("spawner", &spawned)], "allow").await?;
    let (mut of_worker, mut of_spawner) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        of_spawner.push(spawner.sample(Mode::Closed, &bench.load(2, 8)).await?);
        of_worker.push(worker.sample(Mode::Closed, &bench.load(2, 8)).await?);
    }
    ensure_clean(&of_worker, &worker.name)?;
    ensure_clean(&of_spawner, &spawner.name)?;
    worker.server.stop().await?;
    spawner.server.stop().await?;
    let rate = |samples: &[Sample]| median(samples.iter().map(|sample| sample.report.answers_per_s));
    let text = format!("{:.0}/s to {:.0}/s", rate(&of_worker), rate(&of_spawner));
    Ok((Ratios::of(&of_worker, &of_spawner).answers_per_s, text))
}

async fn measure_http(bench: &Bench<'_>) -> anyhow::Result<Figure> {
    let guard = delaying(bench, Duration::from_millis(5)).await?;
    let hookd = bench.hookd("http", &[rule("http", &http_handler(&guard))], "allow").await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let load = bench.load(4, 32);
    for _ in 0..bench.args.rounds {
        let post = Post::new(format!("http://{}/", guard.address), Bytes::from_static(EVENT.as_bytes()));
        let tally = drive::drive(&[post], &load.plan(Mode::Closed), &mut || Ok(())).await?;
        ensure!(tally.refused.is_empty() && tally.unexpected == 0, "the bare client's calls went wrong");
        bare.push(tally.latency.value_at_quantile(0.5) as f64 / 1000.0);
        ours.push(hookd.sample(Mode::Closed, &load).await?);
    }
    ensure_clean(&ours, &hookd.name)?;
    hookd.server.stop().await?;
    guard.stop().await?;
    Ok(p50s(&ours, &bare))
}

async fn measure_concurrent(bench: &Bench<'_>) -> anyhow::Result<Figure> {
    let guard = delaying(bench, Duration::from_millis(20)).await?;
    let handler = http_handler(&guard);
    let side_by_side = ["first", "second", "third"]
        .map(|id| json!({ "id": id, "event": "PreToolUse", "concurrent": true, "handler": handler }));
    let three = bench.hookd("three guards", &side_by_side, "allow").await?;
    let one = bench.hookd("one guard", &[rule("only", &handler)], "allow").await?;
    let (mut of_three, mut of_one) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        of_one.push(one.sample(Mode::Closed, &bench.load(1, 1)).await?);
        of_three.push(three.sample(Mode::Closed, &bench.load(1, 1)).await?);
    }
    ensure_clean(&of_three, &three.name)?;
    ensure_clean(&of_one, &one.name)?;
    three.server.stop().await?;
    one.server.stop().await?;
    guard.stop().await?;
    let p50s_of_one = of_one.iter().map(|sample| sample.report.latency_us.p50).collect::<Vec<_>>();
    Ok(p50s(&of_three, &p50s_of_one))
}

/// hookd's p50 divided by the other one's, round by round.
fn p50s(ours: &[Sample], others: &[f64]) -> Figure {
    let p50 = |sample: &Sample| sample.report.latency_us.p50;
    let value = median(ours.iter().zip(others).map(|(ours, other)| ratio(p50(ours), *other)));
    let text = format!("{:.0} µs to {:.0}", median(ours.iter().map(p50)), median(others.iter().copied()));
    (rounded(value, 1000.0), text)
}

fn rule(id: &str, handler: &Value) -> Value {
    json!({ "id": id, "event": "PreToolUse", "handler": handler })
}

fn http_handler(guard: &Server) -> Value {
    json!({ "type": "http", "url": format!("http://{}/", guard.address) })
}

/// A server that answers every POST after `delay`.
async fn delaying(bench: &Bench<'_>, delay: Duration) -> anyhow::Result<Server> {
    let own = std::env::current_exe().context("the path of this program")?;
    let arguments = ["delay-server".into(), OsString::from(format!("--delay={}ms", delay.as_millis()))];
    let name = format!("guard-{}ms", delay.as_millis());
    let program = Program { name: &name, path: &own, arguments: &arguments, environment: &[], folder: bench.folder };
    Server::start(&program).await
}

/// The interpreter itself: a launcher in front of it would be paid on one side only.
async fn python() -> anyhow::Result<PathBuf> {
    let mut command = tokio::process::Command::new("python3");
    command.args(["-c", "import sys; print(sys.executable)"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.context("no python3")?;
    ensure!(output.status.success(), "no python3");
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The median time, in microseconds, of starting `true` with the pipes that a command rule has and waiting for its end.
fn spawn_again_and_again(span: Duration) -> anyhow::Result<f64> {
    // By its path: where a program has to be looked up in another PATH than ours, it would be started the slow way.
    let path = PATH.split(':').map(|folder| Path::new(folder).join("true")).find(|path| path.is_file());
    let path = path.context("there is no `true`")?;
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).context("bounds of the histogram")?;
    let begin = Instant::now();
    while begin.elapsed() < span {
        let start = Instant::now();
        spawn_and_wait(&path).context("cannot run `true`")?;
        times.saturating_record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(times.value_at_quantile(0.5) as f64 / 1000.0)
}

fn spawn_and_wait(path: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", PATH).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The program reads nothing, so the pipe may be gone already.
        let _ = stdin.write_all(EVENT.as_bytes());
    }
    let mut output = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut output)?;
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut output)?;
    }
    ensure!(child.wait()?.success() && output.is_empty(), "it did not end well");
    Ok(())
}
