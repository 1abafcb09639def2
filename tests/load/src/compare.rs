//! hookd with `decide` rules beside the echo server, measured in turns on the same machine.
//!
//! Every round measures echo, hookd, echo, hookd … so that what the machine does meanwhile meets both. What is compared
//! are the medians of the rounds, and the median of each round's own ratio.

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use http::uri::PathAndQuery;
use prost::bytes::Bytes;
use serde::Serialize;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
};

use crate::{
    args::{CompareArgs, CompareOutput, LoadArgs, TRIGGER},
    call::{self, Client, ExpectedVerdict},
    drive::{self, Mode},
    print,
    report::{Report, ratio, rounded},
};

mod child;
mod policy;
mod table;

use child::{Server, Usage};

/// The whole comparison. The keys of its JSON form are stable.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// What `hookd --version` says.
    pub(crate) hookd: String,
    /// How many decide rules hookd had.
    pub(crate) rules: usize,
    /// How often each was measured in each way.
    pub(crate) rounds: usize,
    /// How long one measurement took, in seconds.
    pub(crate) duration_s: f64,
    /// Size of a request, on average.
    pub(crate) request_bytes: f64,
    /// Size of hookd's answer, on average; the echo server's is always that, rounded.
    pub(crate) reply_bytes: f64,
    /// Processors of the machine, shared by both servers and the load generator.
    pub(crate) processors: usize,
    /// What was set in hookd's environment.
    pub(crate) environment: Vec<String>,
    /// One for each way of loading.
    pub(crate) ways: Vec<Way>,
}

/// One way of loading, with what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    /// In words.
    pub(crate) name: String,
    /// Medians of the echo server.
    pub(crate) echo: Medians,
    /// Medians of hookd.
    pub(crate) hookd: Medians,
    /// Medians of hookd's figure divided by the echo server's in the same round.
    pub(crate) ratio: Ratios,
}

/// Medians over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Medians {
    pub(crate) answers_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    #[serde(rename = "p99.9_us")]
    pub(crate) p99_9_us: f64,
    pub(crate) max_us: f64,
    /// Processor time of the server for each answer.
    pub(crate) cpu_us: f64,
    /// Memory of the server after the run.
    pub(crate) rss_mib: f64,
    /// Calls that went wrong, in all rounds.
    pub(crate) errors: u64,
}

/// Medians of each round's ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Ratios {
    pub(crate) answers_per_s: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) cpu: f64,
}

/// One measurement.
#[derive(Debug, Clone)]
struct Sample {
    report: Report,
    cpu_us: f64,
    rss_mib: f64,
}

/// Starts both, measures, prints. False: some call went wrong.
///
/// # Errors
/// A server does not start or answers something else than it should, or the process was asked to stop.
pub(crate) async fn compare(args: &CompareArgs) -> anyhow::Result<bool> {
    let comparison = measure(args).await?;
    let text = match args.output {
        CompareOutput::Human => table::human(&comparison),
        CompareOutput::Markdown => table::markdown(&comparison),
        CompareOutput::Json => format!("{}\n", serde_json::to_string_pretty(&comparison)?),
    };
    print(&text)?;
    Ok(comparison.ways.iter().all(|way| way.echo.errors == 0 && way.hookd.errors == 0))
}

/// Starts both and ends both, whatever comes of it.
async fn measure(args: &CompareArgs) -> anyhow::Result<Comparison> {
    let mut interrupt = signal(SignalKind::interrupt()).context("signal handler")?;
    let mut terminate = signal(SignalKind::terminate()).context("signal handler")?;
    let folder = tempfile::tempdir().context("temporary folder")?;
    let settings = policy::write(folder.path(), args.rules)?;
    let hookd = start_hookd(args, &settings, folder.path()).await?;
    let mut echo = None;
    let comparison = select! {
        comparison = measure_beside_echo(args, &hookd, &mut echo, folder.path()) => comparison,
        _ = interrupt.recv() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("terminated")),
    };
    hookd.stop().await?;
    if let Some(echo) = echo {
        echo.stop().await?;
    }
    comparison
}

/// Puts the echo server into `started` as soon as it runs.
async fn measure_beside_echo(
    args: &CompareArgs,
    hookd: &Server,
    started: &mut Option<Server>,
    folder: &Path,
) -> anyhow::Result<Comparison> {
    let bodies = policy::requests()?;
    let reply_bytes = check_answers(hookd, &bodies).await.context("hookd is not what it should be")?;
    let echo = &*started.insert(start_echo(reply_bytes, folder).await?);
    let ways = measure_in_turns(args, hookd, echo, &bodies).await?;
    check_answers(hookd, &bodies).await.context("hookd is not what it was")?;
    let bytes = bodies.iter().map(|(body, _)| body.len()).fold(0, usize::saturating_add);
    Ok(Comparison {
        hookd: hookd_version(&args.hookd).await?,
        rules: args.rules,
        rounds: args.rounds,
        duration_s: args.duration.as_secs_f64(),
        request_bytes: rounded(ratio(bytes as f64, bodies.len() as f64), 10.0),
        reply_bytes: rounded(reply_bytes, 10.0),
        processors: thread::available_parallelism().map_or(0, usize::from),
        environment: args.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ways,
    })
}

async fn measure_in_turns(
    args: &CompareArgs,
    hookd: &Server,
    echo: &Server,
    bodies: &[(Bytes, ExpectedVerdict)],
) -> anyhow::Result<Vec<Way>> {
    let ways = ways(args);
    let mut samples: Vec<(Vec<Sample>, Vec<Sample>)> = vec![(Vec::new(), Vec::new()); ways.len()];
    for round in 1..=args.rounds {
        for ((name, mode, load), (of_echo, of_hookd)) in ways.iter().zip(&mut samples) {
            of_echo.push(sample(echo, bodies, *mode, load).await?);
            of_hookd.push(sample(hookd, bodies, *mode, load).await?);
            progress(&format!("round {round} of {}: {name}", args.rounds));
        }
    }
    Ok(ways.into_iter().zip(&samples).map(|((name, ..), (echo, hookd))| Way::new(name, echo, hookd)).collect())
}

/// The ways in which both are loaded.
fn ways(args: &CompareArgs) -> Vec<(String, Mode, LoadArgs)> {
    let load = |connections, in_flight| LoadArgs {
        connections,
        in_flight,
        duration: args.duration,
        warmup: args.warmup,
        count: u64::MAX,
        timeout: Duration::from_secs(5),
        threads: args.threads,
    };
    vec![
        ("closed loop, 1 in flight on 1 connection".to_owned(), Mode::Closed, load(1, 1)),
        ("closed loop, 32 in flight on 4 connections".to_owned(), Mode::Closed, load(4, 32)),
        (format!("open loop, {}/s on 4 connections", args.rate), Mode::Open { rate: args.rate }, load(4, 512)),
    ]
}

async fn start_hookd(args: &CompareArgs, settings: &Path, folder: &Path) -> anyhow::Result<Server> {
    let arguments = [OsString::from("--config"), settings.into()];
    Server::start("hookd", &args.hookd, &arguments, &args.environment, folder).await
}

async fn start_echo(reply_bytes: f64, folder: &Path) -> anyhow::Result<Server> {
    let own = env::current_exe().context("the path of this program")?;
    let bytes = format!("--response-bytes={:.0}", reply_bytes.max(23.0));
    Server::start("echo-server", &own, &["echo-server".into(), bytes.into()], &[], folder).await
}

async fn hookd_version(path: &Path) -> anyhow::Result<String> {
    let output = tokio::process::Command::new(path).arg("--version").output().await.context("hookd --version")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Sends every request once and looks at the verdicts. Gives the mean size of the answers.
async fn check_answers(server: &Server, bodies: &[(Bytes, ExpectedVerdict)]) -> anyhow::Result<f64> {
    let mut connections = call::connect(&client(server, bodies), 1).await?;
    let connection = connections.first_mut().context("no connection")?;
    let mut bytes = 0_usize;
    for (turn, (body, expected)) in bodies.iter().enumerate() {
        let answer = connection.send(body.clone()).await.with_context(|| format!("request {turn}"))?;
        let verdict = call::verdict(&answer);
        let seen = verdict.map_or_else(|| "no verdict".to_owned(), |verdict| format!("{verdict:?}"));
        ensure!(verdict == Some(*expected), "request {turn} got {seen}, not {expected:?}");
        bytes = bytes.saturating_add(answer.len());
    }
    Ok(ratio(bytes as f64, bodies.len() as f64))
}

/// Expects no verdicts: they are checked before and after, and decoding them in between would be work of the load
/// generator for one of the two servers only.
fn client(server: &Server, bodies: &[(Bytes, ExpectedVerdict)]) -> Client {
    Client {
        address: server.address,
        method: PathAndQuery::from_static(TRIGGER),
        timeout: Duration::from_secs(5),
        bodies: bodies.iter().map(|(body, _)| (body.clone(), None)).collect(),
    }
}

/// Measures one server in one way.
async fn sample(
    server: &Server,
    bodies: &[(Bytes, ExpectedVerdict)],
    mode: Mode,
    load: &LoadArgs,
) -> anyhow::Result<Sample> {
    let plan = load.plan(mode);
    let connections = call::connect(&client(server, bodies), load.connections).await?;
    let mut usage: Vec<Usage> = Vec::with_capacity(2);
    let mut at_edge = || {
        usage.push(server.usage()?);
        Ok(())
    };
    let tally = drive::drive(&connections, &plan, &mut at_edge).await?;
    server.forget_log()?;
    let [before, after] = usage.as_slice() else { bail!("the measurement has no beginning or no end") };
    let report = Report::new(server.address.to_string(), load, &plan, &tally);
    Ok(Sample { cpu_us: ratio(after.cpu_us_since(before), report.calls as f64), rss_mib: after.rss_mib, report })
}

impl Way {
    fn new(name: String, echo: &[Sample], hookd: &[Sample]) -> Self {
        let of_each = |figure: fn(&Sample) -> f64| {
            median(echo.iter().zip(hookd).map(|(echo, hookd)| ratio(figure(hookd), figure(echo))))
        };
        let ratio = Ratios {
            answers_per_s: rounded(of_each(|sample| sample.report.answers_per_s), 1000.0),
            p50: rounded(of_each(|sample| sample.report.latency_us.p50), 1000.0),
            p99: rounded(of_each(|sample| sample.report.latency_us.p99), 1000.0),
            cpu: rounded(of_each(|sample| sample.cpu_us), 1000.0),
        };
        Self { name, echo: Medians::of(echo), hookd: Medians::of(hookd), ratio }
    }
}

impl Medians {
    fn of(samples: &[Sample]) -> Self {
        let of = |figure: fn(&Sample) -> f64| rounded(median(samples.iter().map(figure)), 10.0);
        Self {
            answers_per_s: of(|sample| sample.report.answers_per_s),
            p50_us: of(|sample| sample.report.latency_us.p50),
            p99_us: of(|sample| sample.report.latency_us.p99),
            p99_9_us: of(|sample| sample.report.latency_us.p99_9),
            max_us: of(|sample| sample.report.latency_us.max),
            cpu_us: of(|sample| sample.cpu_us),
            rss_mib: of(|sample| sample.rss_mib),
            errors: samples.iter().map(|sample| sample.report.bad_calls()).fold(0, u64::saturating_add),
        }
    }
}

/// The middle one; of an even number, the mean of the two in the middle; of none, 0.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures = figures.collect::<Vec<_>>();
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    let at = |index: usize| figures.get(index).copied().unwrap_or_default();
    if figures.len() % 2 == 1 { at(half) } else { (at(half.saturating_sub(1)) + at(half)) / 2.0 }
}

/// Says on stderr how far it is: a comparison takes minutes.
fn progress(text: &str) {
    // Nobody listening is no reason to stop.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), 2.5);
        assert_eq!(median([].into_iter()), 0.0);
    }
}
