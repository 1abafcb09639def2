//! What the tests share: programs that carry a mark, and a look into the process table for who still does.

use std::ffi::OsString;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hookd_runner::{Capacity, Class, Command, Finished, Limits, Runner};
use tokio::time::{Instant, sleep, timeout};

/// Long enough for anything that ends at all, on any machine.
pub(crate) const GENEROUS: Duration = Duration::from_secs(60);

const MARK: &str = "HOOKD_RUNNER_TEST_MARK";

/// A value in the environment of all processes of one test, so that they can be found wherever they went.
#[derive(Debug)]
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn sh(&self, script: &str) -> Command {
        let mut command = sh(script);
        command.env.push((MARK.into(), self.0.clone().into()));
        command
    }

    /// The living processes with this mark. An ended one has no environment any more.
    pub(crate) fn living(&self) -> Vec<i32> {
        let entry = format!("{MARK}={}\0", self.0);
        let bears = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(entry.len()).any(|window| window == entry.as_bytes())
        };
        let table = std::fs::read_dir("/proc").unwrap().flatten();
        table.filter_map(|found| found.file_name().to_str()?.parse().ok()).filter(bears).collect()
    }

    pub(crate) async fn gone(&self) {
        eventually("no process with the mark is left", || self.living().is_empty()).await;
    }
}

impl Drop for Mark {
    /// So that a failed test leaves nothing behind.
    fn drop(&mut self) {
        for pid in self.living() {
            let _gone = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
    }
}

pub(crate) fn sh(script: &str) -> Command {
    argv(&["/bin/sh", "-c", script])
}

pub(crate) fn argv(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(OsString::from).collect(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        ..Command::default()
    }
}

pub(crate) fn runner() -> Runner {
    Runner::new(Capacity::default())
}

pub(crate) fn limits(timeout: Duration) -> Limits {
    Limits { timeout, ..Limits::default() }
}

/// Runs as anyone, with a deadline that does not matter.
pub(crate) async fn run(runner: &Runner, command: Command, limits: Limits) -> Finished {
    runner.run(Class::Other, command, limits, soon(GENEROUS)).await.unwrap()
}

pub(crate) fn soon(after: Duration) -> Instant {
    Instant::now().checked_add(after).unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Waits until a condition of the world outside holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < GENEROUS, "not within {GENEROUS:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(GENEROUS, future).await.unwrap()
}
