use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::pipes::Pipes;
use crate::place::{Place, Stage};
use crate::scratch::Directory;
use crate::strays::Strays;
use crate::{members, orphans};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// A group that is still there so long after SIGKILL is worth a line in the log.
const STUBBORN: Duration = Duration::from_secs(5);

/// How a leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
}

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) child: Child,
    /// The directory of its own, where it has one.
    pub(crate) scratch: Option<Directory>,
}

/// A live process group. Dropping it ends the group, and whoever left it but has parents there: it is stopped before the
/// drop returns, gets SIGTERM at once, and the rest in a task of its own.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Option<Leader>,
    kill_grace: Duration,
    runtime: Option<Handle>,
}

impl Group {
    /// For a child that was started as the leader of a group of its own.
    pub(crate) fn new(spawned: Spawned, kill_grace: Duration, place: Place) -> Self {
        let Spawned { child, scratch } = spawned;
        let pid = Pid::from_child(&child);
        let outputs = Pipes::hold_outputs(&child);
        let leader = Leader { child, pid, exit_event: ExitEvent::of(pid), _outputs: outputs, scratch, place };
        Self { leader: Some(leader), kill_grace, runtime: Handle::try_current().ok() }
    }

    /// Hands out the pipes of the child, once.
    pub(crate) fn pipes(&mut self) -> io::Result<Pipes> {
        match &mut self.leader {
            Some(leader) => Pipes::of(&mut leader.child),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Waits until the leader has exited, and leaves it unreaped.
    pub(crate) async fn exited(&self) -> io::Result<Exit> {
        match &self.leader {
            Some(leader) => leader.exited().await,
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Reaps a leader that has exited, gives its place back, and leaves the other members alone.
    pub(crate) fn leave(mut self) {
        if let Some(leader) = self.leader.take() {
            leader.reap();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(leader) = self.leader.take() else { return };
        // What is stopped starts nothing and ends nowhere, so whoever left the group is still to be found by its parents.
        leader.signal(Signal::STOP);
        let doomed = Doomed { leader: Some(leader), strays: Arc::default() };
        if let Some(runtime) = &self.runtime {
            // A runtime that is shutting down drops the task instead, and `Doomed` does the rest.
            runtime.spawn(doomed.end(self.kill_grace));
        }
    }
}

/// A group that is stopped. Dropping it, which only a runtime does that goes away, kills at once.
struct Doomed {
    leader: Option<Leader>,
    strays: Arc<Strays>,
}

impl Doomed {
    async fn end(mut self, grace: Duration) {
        if let Some(leader) = &self.leader {
            let (mut stage, strays) = (leader.place.stage(), &self.strays);
            leader.stop(strays).await;
            for signal in [Signal::TERM, Signal::CONT] {
                leader.signal_all(strays, signal).await;
            }
            let is_empty = tokio::select! {
                biased;
                () = leader.emptied(strays) => true,
                () = stage.reached(Stage::Killing) => false,
                () = sleep(grace) => false,
            };
            if !is_empty {
                leader.stop(strays).await;
            }
            leader.kill_all(strays).await;
        }
        if let Some(leader) = self.leader.take() {
            leader.reap();
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let Some(leader) = self.leader.take() else { return };
        leader.signal(Signal::STOP);
        self.strays.stop(leader.pid);
        leader.signal(Signal::KILL);
        self.strays.signal(Signal::KILL);
        // Without a runtime only a thread can wait. If there is none to have, this process is about to end, and its
        // children are then reaped by its own parent.
        let _thread = std::thread::Builder::new().name("reaper".to_owned()).spawn(move || leader.reap_when_exited());
    }
}

/// The process that leads a group, and the place that the group takes.
///
/// INVARIANT: signals go to the group only while the leader is *unreaped*. Its process id is also the id of the group, and
/// only a living or unreaped process keeps the kernel from giving that number to strangers. So exits are observed without
/// being collected (`NOWAIT`), and what collects, [`Leader::reap`] and [`Leader::reap_when_exited`], consumes the leader.
#[derive(Debug)]
struct Leader {
    child: Child,
    pid: Pid,
    exit_event: ExitEvent,
    /// Open until the group is gone: one that says something while it cleans up after SIGTERM would else die of SIGPIPE.
    _outputs: [Option<OwnedFd>; 2],
    /// Removed when the group is gone, or left alone.
    scratch: Option<Directory>,
    place: Place,
}

impl Leader {
    fn signal(&self, signal: Signal) {
        // Fails only for members that run as someone else; they are found, and logged, as members that stay.
        let _ignored = kill_process_group(self.pid, signal);
    }

    fn exit(&self) -> io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = waitid(WaitId::Pid(self.pid), options)? else { return Ok(None) };
        let code = status.exit_status().map(Exit::Code);
        Ok(code.or_else(|| status.terminating_signal().map(Exit::Signal)))
    }

    async fn exited(&self) -> io::Result<Exit> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(exit) = self.exit()? {
                return Ok(exit);
            }
            self.exit_event.wait(&mut pause).await?;
        }
    }

    /// Stops the group and whoever left it.
    async fn stop(&self, strays: &Arc<Strays>) {
        self.signal(Signal::STOP);
        let (pid, strays) = (self.pid, Arc::clone(strays));
        // A runtime that goes away cancels the look; this task is then dropped too, and looks itself as it goes.
        let _cancelled = spawn_blocking(move || strays.stop(pid)).await;
    }

    /// Sends a signal to the group and to whoever left it.
    async fn signal_all(&self, strays: &Arc<Strays>, signal: Signal) {
        self.signal(signal);
        if !strays.is_empty() {
            let strays = Arc::clone(strays);
            // A runtime that goes away cancels it; this task is then dropped too, and kills as it goes.
            let _cancelled = spawn_blocking(move || strays.signal(signal)).await;
        }
    }

    /// Waits until no member and no stray is left, the unreaped leader apart.
    async fn emptied(&self, strays: &Arc<Strays>) {
        // An exit that cannot be observed is one that something else has collected.
        let _exit = self.exited().await;
        let mut pause = FIRST_PAUSE;
        while self.has_members(strays).await {
            rest(&mut pause).await;
        }
    }

    /// Sends SIGKILL until no member is left. One that was being forked when the first signal came, or that joined the
    /// group since, is met by the next one.
    async fn kill_all(&self, strays: &Arc<Strays>) {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut logged = false;
        loop {
            self.signal_all(strays, Signal::KILL).await;
            let leader_is_alive = matches!(self.exit(), Ok(None));
            if !leader_is_alive && !self.has_members(strays).await {
                return;
            }
            if !logged && begun.elapsed() > STUBBORN {
                logged = true;
                tracing::warn!(group = self.pid.as_raw_pid(), "a process group outlives SIGKILL and keeps its place");
            }
            rest(&mut pause).await;
        }
    }

    /// Whether there are any, strays included.
    async fn has_members(&self, strays: &Arc<Strays>) -> bool {
        let (pid, strays) = (self.pid, Arc::clone(strays));
        // A runtime that goes away cancels the look; this task is then dropped too, and kills as it goes.
        spawn_blocking(move || members::has_living(pid) || strays.are_living()).await.unwrap_or(true)
    }

    /// Reaps a leader that has exited.
    fn reap(mut self) {
        if let Err(error) = orphans::reap(&mut self.child) {
            tracing::warn!(pid = self.pid.as_raw_pid(), %error, "cannot reap a child");
        }
        if let Some(scratch) = self.scratch.take() {
            scratch.remove(self.place);
        }
    }

    /// Blocks until the leader has exited, and reaps it.
    fn reap_when_exited(mut self) {
        // Seen first and collected then: what collects holds orphans back meanwhile, and must not wait.
        let _exit = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _reaped = orphans::reap(&mut self.child);
    }
}

async fn rest(pause: &mut Duration) {
    sleep(*pause).await;
    *pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
}

/// Tells when a leader may have exited.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct ExitEvent(Option<tokio::io::unix::AsyncFd<OwnedFd>>);

#[cfg(target_os = "linux")]
impl ExitEvent {
    #[expect(
        deprecated,
        reason = "its successor is unsafe; an owned descriptor keeps all that it would have to promise"
    )]
    fn of(pid: Pid) -> Self {
        use rustix::process::{PidfdFlags, pidfd_open};
        use tokio::io::{Interest, unix::AsyncFd};

        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).ok();
        Self(pidfd.and_then(|pidfd| AsyncFd::with_interest(pidfd, Interest::READABLE).ok()))
    }

    async fn wait(&self, pause: &mut Duration) -> io::Result<()> {
        match &self.0 {
            Some(pidfd) => pidfd.readable().await?.clear_ready(),
            // Old kernels and some sandboxes have none.
            None => rest(pause).await,
        }
        Ok(())
    }
}

/// Tells when a leader may have exited.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct ExitEvent;

#[cfg(not(target_os = "linux"))]
impl ExitEvent {
    fn of(_pid: Pid) -> Self {
        Self
    }

    async fn wait(&self, pause: &mut Duration) -> io::Result<()> {
        rest(pause).await;
        Ok(())
    }
}
