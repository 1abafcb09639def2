//! A server as a child process: started, known to be ready, looked at, and ended with its handle.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use tokio::{
    io::{self, AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time,
};

/// How long a server may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it serves gRPC.
    pub(crate) address: SocketAddr,
    child: Child,
    process: u32,
    log: File,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Processor time in microseconds, in steps of 10,000.
    cpu_us: f64,
    /// Memory.
    pub(crate) rss_mib: f64,
}

/// What to start.
#[derive(Debug)]
pub(crate) struct Program<'p> {
    /// What errors call it.
    pub(crate) name: &'p str,
    pub(crate) path: &'p Path,
    pub(crate) arguments: &'p [OsString],
    /// What is added to its environment.
    pub(crate) environment: &'p [(String, String)],
    /// Where its log goes.
    pub(crate) folder: &'p Path,
}

impl Server {
    /// Starts `program` and waits for its line `… is ready: grpc=ADDRESS …`.
    ///
    /// # Errors
    /// It cannot be started, ends, or is not ready in time; the error holds the end of its log.
    pub(crate) async fn start(program: &Program<'_>) -> anyhow::Result<Self> {
        let log = program.log()?;
        let mut child = program.spawn(Stdio::piped(), &log)?;
        let process = child.id().with_context(|| format!("{} has ended", program.name))?;
        let stdout = child.stdout.take().with_context(|| format!("{} has no stdout", program.name))?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await.context("stdout")? {
                if let Some(address) = ready_address(&line) {
                    return Ok(address);
                }
            }
            bail!("it ended without saying that it is ready")
        };
        let address = program.in_time(ready).await?;
        // What it prints later is nobody's business, but a full pipe would stop it.
        tokio::spawn(async move { io::copy(&mut lines.into_inner(), &mut io::sink()).await });
        Ok(Self { address, child, process, log })
    }

    /// Starts `program`, which says nothing when it is ready, and waits until it accepts connections at `address`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) async fn start_at(program: &Program<'_>, address: SocketAddr) -> anyhow::Result<Self> {
        let log = program.log()?;
        let mut child = program.spawn(log.try_clone().context("log file")?.into(), &log)?;
        let process = child.id().with_context(|| format!("{} has ended", program.name))?;
        let ready = async {
            while TcpStream::connect(address).await.is_err() {
                if let Some(status) = child.try_wait().context("cannot look after a server")? {
                    bail!("it ended with {status} before it listened on {address}");
                }
                time::sleep(Duration::from_millis(20)).await;
            }
            Ok(())
        };
        program.in_time(ready).await?;
        Ok(Self { address, child, process, log })
    }

    /// What it has used so far.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let folder = PathBuf::from(format!("/proc/{}", self.process));
        let read = |name: &str| fs::read_to_string(folder.join(name)).context("the server has ended");
        let ticks = cpu_ticks(&read("stat")?).context("/proc/PID/stat has another form")?;
        let rss_kib = rss_kib(&read("status")?).context("/proc/PID/status has another form")?;
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        Ok(Usage { cpu_us: ticks as f64 * 1_000_000.0 / ticks_per_second as f64, rss_mib: rss_kib as f64 / 1024.0 })
    }

    /// Cuts its log, which holds a line for every call of the last run.
    ///
    /// # Errors
    /// The file cannot be cut.
    pub(crate) fn forget_log(&self) -> anyhow::Result<()> {
        self.log.set_len(0).context("log file")
    }

    /// Ends it and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("cannot end a server")
    }
}

impl Usage {
    /// Processor time since `before`, in microseconds.
    pub(crate) fn cpu_us_since(&self, before: &Self) -> f64 {
        self.cpu_us - before.cpu_us
    }
}

impl Program<'_> {
    fn log(&self) -> anyhow::Result<File> {
        // Appending: when it is cut between two runs, the server goes on at the new end.
        OpenOptions::new().create(true).append(true).open(self.log_path()).context("log file")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    fn spawn(&self, stdout: Stdio, log: &File) -> anyhow::Result<Child> {
        let mut command = Command::new(self.path);
        for (key, _) in env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("HOOKD")) {
            command.env_remove(key);
        }
        command.args(self.arguments).envs(self.environment.iter().cloned()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(stdout).stderr(log.try_clone().context("log file")?);
        command.spawn().with_context(|| format!("cannot start {}", self.path.display()))
    }

    async fn in_time<T>(&self, ready: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        time::timeout(START_LIMIT, ready)
            .await
            .unwrap_or_else(|_| Err(anyhow!("not ready in {} s", START_LIMIT.as_secs())))
            .with_context(|| format!("{} did not start; its log ends with:\n{}", self.name, end_of(&self.log_path())))
    }
}

/// An address on this machine that was free a moment ago, for a server that cannot be told to take any.
///
/// # Errors
/// No port is free.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).context("no free port")
}

/// The first TCP address of gRPC, or of HTTP, in a ready line: `hookd is ready: grpc=127.0.0.1:50051 admin=127.0.0.1:8081`.
fn ready_address(line: &str) -> Option<SocketAddr> {
    let (_, addresses) = line.split_once(" is ready: ")?;
    let of = |part: &'_ str| part.strip_prefix("grpc=").or_else(|| part.strip_prefix("http=")).map(str::to_owned);
    addresses.split(' ').find_map(of)?.split(',').find_map(|address| address.parse().ok())
}

/// User and system time of `/proc/PID/stat`, in clock ticks. The name in it may hold spaces and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()?.saturating_add(times.next()?.ok()?))
}

fn rss_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn end_of(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines = text.lines().collect::<Vec<_>>();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_names_the_address() {
        let address = |line| ready_address(line).map(|address| address.to_string());
        let expected = Some("127.0.0.1:40001".to_owned());
        assert_eq!(address("hookd is ready: grpc=127.0.0.1:40001 admin=127.0.0.1:40002"), expected);
        assert_eq!(address("hookd is ready: grpc=unix:/run/hookd.sock,127.0.0.1:40001 admin=127.0.0.1:1"), expected);
        assert_eq!(address("hookd is ready: grpc=unix:/run/hookd.sock admin=127.0.0.1:1"), None);
        assert_eq!(address("hookd-load is ready: http=127.0.0.1:40001"), expected);
        assert_eq!(address("listening on 127.0.0.1:40001"), None);
    }

    #[test]
    fn usage_is_read_from_the_forms_of_proc() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 0 0 20 0 3 0 100 1000 200 18446744073709551615";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(rss_kib("Name:\thookd\nVmRSS:\t    5120 kB\nThreads:\t3\n"), Some(5120));
        assert_eq!((cpu_ticks("7 (a"), rss_kib("Name:\thookd\n")), (None, None));
    }
}
