//! hookd beside the echo server, and beside other engines with the same policy, measured in turns on one machine.
//!
//! Every round measures echo, hookd, peers, echo, hookd, peers … so that what the machine does meanwhile meets them all.
//! What is compared are the medians of the rounds, and the median of each round's own ratio.

use std::{env, ffi::OsString, fs, path::Path, thread, time::Duration};

use anyhow::{Context as _, anyhow};
use http::uri::PathAndQuery;
use serde::Serialize;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
};

use crate::{
    args::{CompareArgs, LoadArgs, TRIGGER, TableOutput},
    drive::Mode,
    print,
    report::{ratio, rounded},
    server::{Program, Server},
    tls::{self, Pair, TlsClient},
    turns::{Candidate, Medians, Ratios, Sample, progress},
};

mod candidates;
mod peer;
mod policy;
mod table;

use policy::Policy;

/// The whole comparison. The keys of its JSON form are stable.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    /// What `hookd --version` says.
    pub(crate) hookd: String,
    /// How many rules each engine had.
    pub(crate) rules: usize,
    /// How often each was measured in each way.
    pub(crate) rounds: usize,
    /// How long one measurement took, in seconds.
    pub(crate) duration_s: f64,
    /// Size of a request to hookd, on average.
    pub(crate) request_bytes: f64,
    /// Size of hookd's answer, on average; the echo server's have the same sizes.
    pub(crate) reply_bytes: f64,
    /// Processors of the machine, shared by all servers and the load generator.
    pub(crate) processors: usize,
    /// The machine's load average of a minute before the first measurement.
    pub(crate) load_average: f64,
    /// hookd and the echo server were spoken to over TLS 1.3.
    pub(crate) tls: bool,
    /// What was set in hookd's environment.
    pub(crate) environment: Vec<String>,
    /// Engines that were not asked, each with the reason.
    pub(crate) skipped: Vec<String>,
    /// One for each way of loading.
    pub(crate) ways: Vec<Way>,
}

/// One way of loading, with what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    /// What it is, for programs.
    pub(crate) key: &'static str,
    /// The same in words.
    pub(crate) name: String,
    /// Medians of each server: the echo server, hookd, then the others.
    pub(crate) servers: Vec<Measured>,
    /// hookd's figure divided by that of each other server.
    pub(crate) ratios: Vec<Compared>,
}

/// One server's medians.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) medians: Medians,
}

/// hookd divided by another server.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    /// The other one.
    pub(crate) to: String,
    #[serde(flatten)]
    pub(crate) ratios: Ratios,
}

/// Starts all, measures, prints. False: some call went wrong.
///
/// # Errors
/// A server does not start or answers something else than it should, or the process was asked to stop.
pub(crate) async fn compare(args: &CompareArgs) -> anyhow::Result<bool> {
    let comparison = measure(args).await?;
    let text = match args.output {
        TableOutput::Human => table::human(&comparison),
        TableOutput::Markdown => table::markdown(&comparison),
        TableOutput::Json => format!("{}\n", serde_json::to_string_pretty(&comparison)?),
    };
    print(&text)?;
    Ok(comparison.is_clean())
}

/// Starts all and ends all, whatever comes of it.
///
/// # Errors
/// As [`compare`].
pub(crate) async fn measure(args: &CompareArgs) -> anyhow::Result<Comparison> {
    let folder = tempfile::tempdir().context("temporary folder")?;
    let mut candidates = Vec::new();
    let comparison = unless_stopped(measure_all(args, &mut candidates, folder.path())).await;
    for candidate in candidates {
        candidate.server.stop().await?;
    }
    comparison
}

/// What `work` gives, or an error as soon as the process is asked to stop.
///
/// # Errors
/// Those of `work`, and that.
pub(crate) async fn unless_stopped<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut interrupt = signal(SignalKind::interrupt()).context("signal handler")?;
    let mut terminate = signal(SignalKind::terminate()).context("signal handler")?;
    select! {
        done = work => done,
        _ = interrupt.recv() => Err(anyhow!("interrupted")),
        _ = terminate.recv() => Err(anyhow!("terminated")),
    }
}

/// Starts hookd with these settings.
///
/// # Errors
/// It does not start.
pub(crate) async fn start_hookd(
    hookd: &Path,
    settings: &Path,
    environment: &[(String, String)],
    folder: &Path,
) -> anyhow::Result<Server> {
    let arguments = [OsString::from("--config"), settings.into()];
    Server::start(&Program { name: "hookd", path: hookd, arguments: &arguments, environment, folder }).await
}

/// What `hookd --version` says.
///
/// # Errors
/// It cannot be started.
pub(crate) async fn hookd_version(path: &Path) -> anyhow::Result<String> {
    let output = tokio::process::Command::new(path).arg("--version").output().await.context("hookd --version")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The machine's load average of a minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|figure| figure.parse().ok()).unwrap_or_default()
}

/// How often which servers are asked.
struct Load {
    key: &'static str,
    name: String,
    rate: Rate,
    load: LoadArgs,
    /// Whether the peers are asked too.
    peers: bool,
}

#[derive(Clone, Copy)]
enum Rate {
    Closed,
    Open(u32),
    /// Open, at half of what the echo server reached in this round's closed loop just before.
    HalfOfEcho,
}

impl Comparison {
    /// No call went wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.ways.iter().flat_map(|way| &way.servers).all(|server| server.medians.errors == 0)
    }

    /// The way of loading with this key.
    pub(crate) fn way(&self, key: &str) -> Option<&Way> {
        self.ways.iter().find(|way| way.key == key)
    }
}

impl Way {
    /// hookd's figures divided by those of the first server whose name starts like this.
    pub(crate) fn ratios_to(&self, name: &str) -> Option<&Ratios> {
        self.ratios.iter().find(|compared| compared.to.starts_with(name)).map(|compared| &compared.ratios)
    }

    /// `samples`: for each candidate, those of all rounds; none for one that was not asked.
    fn new(load: &Load, candidates: &[Candidate], samples: &[Vec<Sample>], rates: &[u32]) -> Self {
        let asked = || candidates.iter().zip(samples).filter(|(_, samples)| !samples.is_empty());
        let hookd = samples.get(HOOKD).map(Vec::as_slice).unwrap_or_default();
        let servers = asked()
            .map(|(candidate, samples)| Measured { name: candidate.name.clone(), medians: Medians::of(samples) });
        let others = asked().enumerate().filter(|(position, _)| *position != HOOKD);
        let ratios = others.map(|(_, (candidate, samples))| Compared {
            to: candidate.name.clone(),
            ratios: Ratios::of(hookd, samples),
        });
        let name = match (load.rate, rates.iter().min(), rates.iter().max()) {
            (Rate::HalfOfEcho, Some(least), Some(most)) => format!("{} ({least} to {most}/s)", load.name),
            _ => load.name.clone(),
        };
        Self { key: load.key, name, servers: servers.collect(), ratios: ratios.collect() }
    }
}

/// Where the echo server and hookd stand among the candidates.
const ECHO: usize = 0;
const HOOKD: usize = 1;

/// Puts every server into `candidates` as soon as it runs.
async fn measure_all(args: &CompareArgs, candidates: &mut Vec<Candidate>, folder: &Path) -> anyhow::Result<Comparison> {
    let mut policy = match &args.policy {
        Some(folder) => Policy::read(folder)?,
        None => Policy::built_in(folder, args.rules)?,
    };
    let made = args.tls.then(|| tls::make(folder)).transpose()?;
    let client = made.as_ref().map(|made| TlsClient::new(&made.authority, "localhost", None)).transpose()?;
    let pair = made.as_ref().map(|made| &made.server);
    if pair.is_some() {
        policy.peers.iter_mut().for_each(|peer| peer.asked = Err("no TLS".to_owned()));
    }
    let mut environment = args.environment.clone();
    if let Some(pair) = pair {
        environment.push(("HOOKD__TLS__CERTIFICATE".to_owned(), pair.certificate.display().to_string()));
        environment.push(("HOOKD__TLS__KEY".to_owned(), pair.key.display().to_string()));
    }
    let load_average = load_average();
    let candidate = |name: &str, server, expects: bool| Candidate {
        name: name.to_owned(),
        server,
        tls: client.clone(),
        method: PathAndQuery::from_static(TRIGGER),
        answers: policy.answers,
        questions: policy.questions.iter().map(|question| question.expecting(expects)).collect(),
    };
    let server = start_hookd(&args.hookd, &policy.settings, &environment, folder).await?;
    candidates.push(candidate("hookd", server, true));
    let sizes = check(candidates).await?.into_iter().next().unwrap_or_default();
    candidates.insert(ECHO, candidate("echo", start_echo(&sizes, pair, folder).await?, false));
    for peer in &policy.peers {
        candidates.extend(peer.start(folder).await?);
    }
    check(candidates).await?;
    let ways = measure_in_turns(args, candidates).await?;
    check(candidates).await.context("after the measurement")?;
    let mean = |sizes: &[usize]| {
        let sum = sizes.iter().copied().fold(0, usize::saturating_add);
        rounded(ratio(sum as f64, sizes.len() as f64), 10.0)
    };
    let skipped = policy.peers.iter().filter_map(|peer| Some(format!("{}: {}", peer.name, peer.asked.as_ref().err()?)));
    Ok(Comparison {
        hookd: hookd_version(&args.hookd).await?,
        rules: policy.rules,
        rounds: args.rounds,
        duration_s: args.duration.as_secs_f64(),
        request_bytes: mean(&policy.questions.iter().map(|question| question.body.len()).collect::<Vec<_>>()),
        reply_bytes: mean(&sizes),
        processors: thread::available_parallelism().map_or(0, usize::from),
        load_average,
        tls: args.tls,
        environment: args.environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        skipped: skipped.collect(),
        ways,
    })
}

/// Asks everyone everything once, and gives the sizes of each one's answers.
async fn check(candidates: &[Candidate]) -> anyhow::Result<Vec<Vec<usize>>> {
    let mut sizes = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        sizes.push(candidate.check().await?);
    }
    Ok(sizes)
}

async fn measure_in_turns(args: &CompareArgs, candidates: &[Candidate]) -> anyhow::Result<Vec<Way>> {
    let loads = loads(args);
    let mut samples = vec![vec![Vec::new(); candidates.len()]; loads.len()];
    let mut rates = Vec::new();
    for round in 1..=args.rounds {
        let mut top_of_echo = 0.0;
        for (load, samples) in loads.iter().zip(&mut samples) {
            let mode = load.mode(top_of_echo);
            if let (Rate::HalfOfEcho, Mode::Open { rate }) = (load.rate, mode) {
                rates.push(rate);
            }
            for (position, (candidate, samples)) in candidates.iter().zip(samples.iter_mut()).enumerate() {
                if position <= HOOKD || load.peers {
                    let sample = candidate.sample(mode, &load.load).await?;
                    if position == ECHO && mode == Mode::Closed {
                        top_of_echo = sample.report.answers_per_s;
                    }
                    samples.push(sample);
                }
            }
            progress(&format!("round {round} of {}: {}", args.rounds, load.name));
        }
    }
    Ok(loads.iter().zip(&samples).map(|(load, samples)| Way::new(load, candidates, samples, &rates)).collect())
}

impl Load {
    fn mode(&self, top_of_echo: f64) -> Mode {
        match self.rate {
            Rate::Closed => Mode::Closed,
            Rate::Open(rate) => Mode::Open { rate },
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is kept")]
            Rate::HalfOfEcho => Mode::Open { rate: (top_of_echo / 2.0).clamp(1.0, 1_000_000.0) as u32 },
        }
    }
}

/// The ways in which all are loaded. The closed loop that finds the echo server's top rate comes right before the open
/// loop at half of it.
fn loads(args: &CompareArgs) -> Vec<Load> {
    let load = |connections, in_flight| LoadArgs {
        connections,
        in_flight,
        duration: args.duration,
        warmup: args.warmup,
        count: u64::MAX,
        timeout: Duration::from_secs(5),
        threads: args.threads,
    };
    let way = |key, name: &str, rate, load, peers| Load { key, name: name.to_owned(), rate, load, peers };
    let open = format!("open loop, {}/s on 4 connections", args.rate);
    vec![
        way("closed_1", "closed loop, 1 in flight on 1 connection", Rate::Closed, load(1, 1), true),
        way("open", &open, Rate::Open(args.rate), load(4, 512), true),
        way("closed_32", "closed loop, 32 in flight on 4 connections", Rate::Closed, load(4, 32), true),
        way(
            "open_half",
            "open loop at half of the echo's top rate on 4 connections",
            Rate::HalfOfEcho,
            load(4, 512),
            false,
        ),
    ]
}

async fn start_echo(sizes: &[usize], pair: Option<&Pair>, folder: &Path) -> anyhow::Result<Server> {
    let own = env::current_exe().context("the path of this program")?;
    let sizes = sizes.iter().map(|size| OsString::from(format!("--response-bytes={}", size.max(&23))));
    let mut arguments = [OsString::from("echo-server")].into_iter().chain(sizes).collect::<Vec<_>>();
    if let Some(Pair { certificate, key }) = pair {
        arguments.extend(["--tls-certificate".into(), certificate.into(), "--tls-key".into(), key.into()]);
    }
    let program = Program { name: "echo", path: &own, arguments: &arguments, environment: &[], folder };
    Server::start(&program).await
}
