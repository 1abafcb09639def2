//! What can be said on the command line.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use anyhow::{bail, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use http::uri::PathAndQuery;
use prost::bytes::Bytes;

use crate::{
    call::{Client, ExpectedVerdict},
    drive::{Mode, Plan},
    tls::{Pair, TlsClient},
};

/// The method that is called unless another is named.
pub(crate) const TRIGGER: &str = "/hookd.v1.HookService/Trigger";

/// Measures hookd, and any other unary gRPC method, on this machine.
#[derive(Debug, Parser)]
#[command(name = "hookd-load", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a server and print percentiles, codes and errors; exit 1 unless every answer was good.
    Run(RunArgs),
    /// Serve `HookService.Trigger` with one fixed answer: what a bare tonic server costs.
    EchoServer(EchoArgs),
    /// Start hookd, the echo server and, with `--policy`, its peers, and measure them in turns.
    Compare(CompareArgs),
    /// Measure what hookd promises about its speed and size and hold it against the promise; exit 1 if a goal is missed.
    Goals(GoalsArgs),
    /// Answer every POST with a guard's consent after a while.
    DelayServer(DelayArgs),
}

/// `hookd-load run`
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The server, ADDRESS:PORT. Only loopback addresses are accepted.
    #[arg(long)]
    pub(crate) target: Target,
    #[command(flatten)]
    tls: TlsArgs,
    /// Closed: as many calls as `--in-flight` at all times. Open: `--rate` calls a second, come what may, each timed
    /// from the moment at which it was due.
    #[arg(long, value_enum, default_value = "closed")]
    mode: ModeName,
    /// Calls a second, open loop only.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// A body: a `.json` file holds an event in camelCase form, any other file is sent as it is. Several go in turns.
    #[arg(long = "body", value_name = "FILE")]
    pub(crate) bodies: Vec<PathBuf>,
    /// Without `--body`: the exact size of the event that is made up, in bytes.
    #[arg(long, value_name = "N", default_value_t = 500, conflicts_with = "bodies")]
    pub(crate) request_bytes: usize,
    /// The unary method to call.
    #[arg(long, default_value = TRIGGER)]
    pub(crate) method: PathAndQuery,
    /// The verdict that a `TriggerResponse` has to hold: one for all bodies or one each.
    #[arg(long, value_enum, value_name = "VERDICT")]
    expect: Vec<ExpectedVerdict>,
    #[arg(long, value_enum, default_value = "human")]
    pub(crate) output: Output,
}

/// TLS towards the server.
#[derive(Debug, clap::Args)]
struct TlsArgs {
    /// Speak TLS 1.3, and trust these authorities (PEM).
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name that the server's certificate has to hold.
    #[arg(long, value_name = "NAME", default_value = "localhost", requires = "tls_ca")]
    tls_name: String,
    /// The certificate to show, if any (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

/// How much load, and for how long.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LoadArgs {
    /// Connections; calls are spread over them evenly.
    #[arg(long, default_value_t = 4, value_parser = in_range(1..=256))]
    pub(crate) connections: usize,
    /// Calls in flight, all connections together. In open loop the most there may be; calls over it wait, and the wait
    /// counts.
    #[arg(long, default_value_t = 32, value_parser = in_range(1..=4096))]
    pub(crate) in_flight: usize,
    /// How long to measure, at most 10 minutes.
    #[arg(long, default_value = "5s", value_parser = ten_minutes)]
    pub(crate) duration: Duration,
    /// How long to load before that without measuring.
    #[arg(long, default_value = "1s", value_parser = ten_minutes)]
    pub(crate) warmup: Duration,
    /// Calls at most, warm-up included.
    #[arg(long, default_value_t = 50_000_000, value_name = "N")]
    pub(crate) count: u64,
    /// Deadline of each call.
    #[arg(long, default_value = "5s", value_parser = ten_minutes)]
    pub(crate) timeout: Duration,
    /// Threads of the load generator.
    #[arg(long, default_value_t = 1, value_parser = in_range(1..=64))]
    pub(crate) threads: usize,
}

/// `hookd-load echo-server`
#[derive(Debug, clap::Args)]
pub(crate) struct EchoArgs {
    /// Where to listen: a loopback address, port 0 for any free one. The address bound is printed on stdout.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: Target,
    /// Exact size of the `TriggerResponse` that is answered, in bytes. Several go in turns.
    #[arg(long, value_name = "N", default_value = "300")]
    pub(crate) response_bytes: Vec<usize>,
    /// Speak TLS 1.3 with this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

/// `hookd-load compare`
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The hookd binary.
    #[arg(long, value_name = "PATH")]
    pub(crate) hookd: PathBuf,
    /// The folder that `tests/peers/generate` has written: rules, requests and peers. Without it hookd runs rules of its
    /// own beside the echo server alone.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) policy: Option<PathBuf>,
    /// Without `--policy`: how many decide rules, 50 or more (the others are near misses of the same fifty).
    #[arg(long, default_value_t = 50, value_parser = in_range(50..=5000), conflicts_with = "policy")]
    pub(crate) rules: usize,
    /// How many times each is measured in each way.
    #[arg(long, default_value_t = 5, value_parser = in_range(1..=100))]
    pub(crate) rounds: usize,
    /// How long each measurement takes, at most 10 minutes.
    #[arg(long, default_value = "5s", value_parser = ten_minutes)]
    pub(crate) duration: Duration,
    /// How long each server is loaded before each measurement.
    #[arg(long, default_value = "1s", value_parser = ten_minutes)]
    pub(crate) warmup: Duration,
    /// Calls a second in open loop.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// Threads of the load generator.
    #[arg(long, default_value_t = 1, value_parser = in_range(1..=64))]
    pub(crate) threads: usize,
    /// Measure hookd and the echo server over TLS 1.3, with certificates made for it. Peers are left out.
    #[arg(long)]
    pub(crate) tls: bool,
    /// A variable for hookd's environment, such as its log filter. Its log goes to a file, as it is by default.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub(crate) environment: Vec<(String, String)>,
    #[arg(long, value_enum, default_value = "human")]
    pub(crate) output: TableOutput,
}

/// `hookd-load goals`
#[derive(Debug, clap::Args)]
pub(crate) struct GoalsArgs {
    /// The hookd binary.
    #[arg(long, value_name = "PATH")]
    pub(crate) hookd: PathBuf,
    /// The hookctl binary [default: the one beside hookd].
    #[arg(long, value_name = "PATH")]
    pub(crate) hookctl: Option<PathBuf>,
    /// The folder that `tests/peers/generate` has written. Without it there are no peers, and hookd has other rules.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) policy: Option<PathBuf>,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// How many times each is measured.
    #[arg(long, default_value_t = 5, value_parser = in_range(1..=100))]
    pub(crate) rounds: usize,
    /// How long each measurement takes, at most 10 minutes.
    #[arg(long, default_value = "3s", value_parser = ten_minutes)]
    pub(crate) duration: Duration,
    /// How long each server is loaded before each measurement.
    #[arg(long, default_value = "500ms", value_parser = ten_minutes)]
    pub(crate) warmup: Duration,
    #[arg(long, value_enum, default_value = "human")]
    pub(crate) output: TableOutput,
}

/// A part of `goals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Calls a second and p99 against the echo server and the peers.
    Peers,
    /// What 10,000 and 40,000 rules cost in time and memory.
    Rules,
    /// A command rule against a bare spawn.
    Command,
    /// A worker against spawn per call.
    Worker,
    /// An http rule against a bare POST.
    Http,
    /// Concurrent rules against one.
    Concurrent,
    /// `hookctl relay` against the start of a shell and of Python.
    Relay,
}

/// `hookd-load delay-server`
#[derive(Debug, clap::Args)]
pub(crate) struct DelayArgs {
    /// Where to listen: a loopback address, port 0 for any free one. The address bound is printed on stdout.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: Target,
    /// How long it takes to answer.
    #[arg(long, default_value = "5ms", value_parser = ten_minutes)]
    pub(crate) delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Closed,
    Open,
}

/// How `run` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Human,
    Json,
}

/// How `compare` and `goals` print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOutput {
    Human,
    Markdown,
    Json,
}

/// A socket address on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target(pub(crate) SocketAddr);

impl RunArgs {
    /// Closed loop, or open with its rate.
    ///
    /// # Errors
    /// A rate where none belongs, or none where one does.
    pub(crate) fn mode(&self) -> anyhow::Result<Mode> {
        match (self.mode, self.rate) {
            (ModeName::Closed, None) => Ok(Mode::Closed),
            (ModeName::Open, Some(rate)) => Ok(Mode::Open { rate }),
            (ModeName::Closed, Some(_)) => bail!("`--rate` belongs to `--mode open`"),
            (ModeName::Open, None) => bail!("`--mode open` needs `--rate`"),
        }
    }

    /// Whom to call, with what.
    ///
    /// # Errors
    /// The expectations do not go with the bodies.
    pub(crate) fn client(&self, bodies: Vec<Bytes>) -> anyhow::Result<Client> {
        let expected = match self.expect.as_slice() {
            [] => vec![None; bodies.len()],
            [one] => vec![Some(*one); bodies.len()],
            many => many.iter().copied().map(Some).collect(),
        };
        ensure!(
            expected.len() == bodies.len(),
            "`--expect` is given {} times for {} bodies: give it once, or once for each",
            expected.len(),
            bodies.len()
        );
        Ok(Client {
            address: self.target.0,
            tls: self.tls.client()?,
            method: self.method.clone(),
            timeout: self.load.timeout,
            bodies: bodies.into_iter().zip(expected).collect(),
        })
    }
}

impl TlsArgs {
    /// # Errors
    /// A file cannot be read or used.
    fn client(&self) -> anyhow::Result<Option<TlsClient>> {
        let own = pair(self.tls_certificate.as_ref(), self.tls_key.as_ref());
        self.tls_ca.as_ref().map(|authority| TlsClient::new(authority, &self.tls_name, own.as_ref())).transpose()
    }
}

impl EchoArgs {
    /// What TLS is spoken with, if it is.
    pub(crate) fn pair(&self) -> Option<Pair> {
        pair(self.tls_certificate.as_ref(), self.tls_key.as_ref())
    }
}

fn pair(certificate: Option<&PathBuf>, key: Option<&PathBuf>) -> Option<Pair> {
    Some(Pair { certificate: certificate?.clone(), key: key?.clone() })
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub(crate) const ALL: [Self; 7] =
        [Self::Peers, Self::Rules, Self::Command, Self::Worker, Self::Http, Self::Concurrent, Self::Relay];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::Rules => "rules",
            Self::Command => "command",
            Self::Worker => "worker",
            Self::Http => "http",
            Self::Concurrent => "concurrent",
            Self::Relay => "relay",
        }
    }
}

impl LoadArgs {
    /// The same as a plan for [`drive`](crate::drive::drive).
    pub(crate) fn plan(&self, mode: Mode) -> Plan {
        Plan {
            mode,
            in_flight: self.in_flight,
            warm_up: self.warmup,
            duration: self.duration,
            count: self.count,
            grace: self.timeout.saturating_add(Duration::from_secs(1)),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = match text.strip_prefix("localhost:").map(u16::from_str) {
            Some(Ok(port)) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            _ => text
                .parse::<SocketAddr>()
                .map_err(|_| format!("`{text}` is not an address and a port, such as 127.0.0.1:50051"))?,
        };
        if !address.ip().is_loopback() {
            return Err(format!("`{text}` is not a loopback address: only servers on this machine are loaded"));
        }
        Ok(Self(address))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn in_range(range: std::ops::RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse::<usize>().map_err(|error| error.to_string())?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(format!("{number} is not between {} and {}", range.start(), range.end()))
        }
    }
}

fn ten_minutes(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}, such as 5s or 500ms"))?;
    if duration > Duration::from_secs(600) { Err("longer than 10 minutes".to_owned()) } else { Ok(duration) }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_targets_are_accepted() {
        let target = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        assert_eq!(target("localhost:50051"), Ok("127.0.0.1:50051".to_owned()));
        assert_eq!(target("[::1]:1"), Ok("[::1]:1".to_owned()));
        assert_eq!(target("127.9.9.9:1"), Ok("127.9.9.9:1".to_owned()));
        let refused = "`10.0.0.1:1` is not a loopback address: only servers on this machine are loaded";
        assert_eq!(target("10.0.0.1:1"), Err(refused.to_owned()));
        let refused = "`example.org:1` is not an address and a port, such as 127.0.0.1:50051";
        assert_eq!(target("example.org:1"), Err(refused.to_owned()));
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }
}
