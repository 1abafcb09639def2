//! Runs one program under limits, and leaves nothing of it behind that should not be there.
//!
//! A [`Runner`] owns the cap on live children and its queue; [`Runner::run`] runs one [`Command`] under its [`Limits`] and
//! says how it [`Finished`]. It knows nothing of rules, tiers or what an output means: bytes are handed over whole and
//! undecoded, an exit code is only a number (126 and 127 included).
//!
//! What holds for every program:
//!
//! - It leads a process group of its own, gets exactly the environment it was given, stdin from a pipe that is closed
//!   right after the payload, and no other descriptor of this process (all of ours are close-on-exec; one that this
//!   process itself inherited without that flag passes through).
//! - One timer counts from its start, and ends writing and reading too. It has ended when its *leader* (the process that
//!   was started) has ended; pipes that others still hold are then read for a short grace and closed.
//! - Time-out, shutdown, and the drop of the future end the whole group: SIGTERM, grace, SIGKILL until no member is left.
//!   So does the death of the leader by a signal. The answer never waits for that; the place under the cap does.
//! - A leader that exits by itself, whatever its code, leaves the processes that it started alone: a helper that was
//!   detached on purpose lives on. It is no longer counted, and its end is not this crate's business.
//! - A process that left the group (`setsid`) is ended with it as long as its parents lead there (on Linux, where kernel
//!   and sandbox have descriptors of processes). One whose parents have ended as well is out of this crate's reach.
//! - Where this process is the first one of its machine, it reaps the members of groups that it ends; [`reap_orphans`]
//!   reaps all others.
//! - Output beyond the cap is read and thrown away, so memory stays flat and the program is not blocked.
//!
//! [`Workers`] are programs that stay: started once, asked line by line, with the same rules for their groups.
//!
//! Read on in this order: `runner` (what callers use) → `place` (the cap, the queue) → `process` (one program) → `scratch`
//! (its own directory) → `removal` (of that) → `pipes` → `group` (signals, reaping) → `members` (who is in a group) →
//! `strays` (who left it) → `orphans` (who reaps what); and `workers` (a pool) → `worker` (one of them).

mod group;
mod members;
mod orphans;
mod pipes;
mod place;
mod process;
mod removal;
mod runner;
mod scratch;
mod strays;
mod worker;
mod workers;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use orphans::reap_orphans;
pub use place::{Class, Overloaded};
pub use runner::{Capacity, Runner};
pub use scratch::Scratch;
pub use workers::{Answered, Said, Stray, WorkerSettings, Workers};

/// One program to run.
#[derive(Clone, Default)]
pub struct Command {
    /// The program and its arguments. A program without a slash is looked up in the `PATH` of `env`; a relative path with
    /// one starts at `cwd`. Empty: the run ends with [`End::DidNotStart`].
    pub argv: Vec<OsString>,
    /// The whole environment: nothing of this process is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; this process's own where there is none.
    pub cwd: Option<PathBuf>,
    /// An empty directory is made for this run, and is then the working directory in the place of `cwd`. `None`: none is.
    pub scratch: Option<Scratch>,
    /// Neither it nor what it starts gets privileges by starting a program (Linux: `no_new_privs`). The thread that starts
    /// it is held to that too, for good: a program gets it from its parent, as it is when it is started.
    pub no_new_privileges: bool,
    /// What it reads on stdin, before end of file. Any size; a program that does not read it is no error.
    pub stdin: Vec<u8>,
}

impl fmt::Debug for Command {
    /// Names only: values of the environment and the payload can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Command")
            .field("argv", &self.argv)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("scratch", &self.scratch)
            .field("no_new_privileges", &self.no_new_privileges)
            .field("stdin_bytes", &self.stdin.len())
            .finish()
    }
}

/// What one run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the program may run, counted from its start (waiting for a place is not in it: see [`Runner::run`]).
    pub timeout: Duration,
    /// How many bytes of stdout, and as many of stderr, are kept.
    pub output_bytes: usize,
    /// How long pipes that others still hold are read after the leader has exited; never beyond the timeout.
    pub pipe_grace: Duration,
    /// The time between SIGTERM and SIGKILL for a group that has to end.
    pub kill_grace: Duration,
}

impl Default for Limits {
    /// 10 s, 1 MiB of each output, 100 ms for pipes, 500 ms between the signals.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            output_bytes: 1024 * 1024,
            pipe_grace: Duration::from_millis(100),
            kill_grace: Duration::from_millis(500),
        }
    }
}

/// How one run ended, and what the program wrote until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub end: End,
    /// What it wrote to stdout, at most [`Limits::output_bytes`]; bytes as they came.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, at most [`Limits::output_bytes`]; bytes as they came.
    pub stderr: Vec<u8>,
    /// There was more on stdout than was kept.
    pub stdout_truncated: bool,
    /// There was more on stderr than was kept.
    pub stderr_truncated: bool,
    /// How long it waited for a place, apart from `elapsed`.
    pub queued: Duration,
    /// From its start to this answer; zero if it never started.
    pub elapsed: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code. 126 and 127 come from a shell that could not start what it was asked to.
    Exited(i32),
    /// By this signal, which was not this crate's.
    Signalled(i32),
    /// Its time was over, while it ran or (`elapsed` is zero) before a place was free; its group is being killed.
    TimedOut,
    /// The runner shut down, while it ran or before; its group is being killed.
    Cancelled,
    /// It could not be started; one line that says why and names the program or the working directory.
    DidNotStart(String),
    /// It ended, but how is not known, because something else in this process (or an ignored SIGCHLD) took its exit status;
    /// one line that says why.
    Lost(String),
}

impl Finished {
    fn unstarted(end: End, queued: Duration) -> Self {
        Self {
            end,
            stdout: Vec::new(),
            stderr: Vec::new(),
            stdout_truncated: false,
            stderr_truncated: false,
            queued,
            elapsed: Duration::ZERO,
        }
    }
}
