use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use rustix::process::{WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::members;

/// Between two walks over the process table. Each end of a command asks for one, and orphans can wait.
const PAUSE: Duration = Duration::from_millis(250);

/// Held shared from before a child is there until [`OWN`] says so, and alone while an orphan is collected: between the two
/// a child that is to be somebody's would look like nobody's.
static GATE: RwLock<()> = RwLock::new(());
/// The children that this crate started and has not reaped. Children are the process's, whichever runner started them.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Starts a child that is reaped by [`reap`] alone.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    let _gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    own().insert(child.id());
    Ok(child)
}

/// Reaps a child that has exited.
pub(crate) fn reap(child: &mut Child) -> io::Result<()> {
    let _gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    let status = child.try_wait();
    if !matches!(status, Ok(None)) {
        own().remove(&child.id());
    }
    status.map(drop)
}

/// Reaps the ended children of this process that no [`Runner`](crate::Runner) of it started, as long as it is polled. For the
/// first process of a machine or a container (and for a subreaper), which inherits what others leave behind: what a
/// program left running when it ended by itself is never waited for here otherwise. An orphan is collected within a second
/// of its end.
///
/// The exit statuses of children that runners start stay theirs. Those of children that are started by other means (the
/// standard library's `Command`) would be lost: while this is polled, there must be none. Does nothing but wait where there
/// is no `/proc`. Needs a tokio runtime with I/O and time.
///
/// # Errors
/// If SIGCHLD cannot be listened to.
pub async fn reap_orphans() -> io::Result<Infallible> {
    let mut ends = signal(SignalKind::child())?;
    loop {
        // Looked at first: some may have ended before anybody listened.
        if let Ok(count @ 1..) = spawn_blocking(reap_ended).await {
            tracing::debug!(count, "processes that others left behind have ended");
        }
        sleep(PAUSE).await;
        let _some = ends.recv().await;
    }
}

/// Reaps the orphans that have ended, and says how many there were.
fn reap_ended() -> usize {
    let any = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    if !matches!(any, Ok(Some(_))) {
        return 0;
    }
    members::ended_children()
        .into_iter()
        .filter(|pid| {
            let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
            // Since the walk the number can have been given to a child of ours: so it is looked up only now.
            let is_own = own().contains(&pid.as_raw_pid().unsigned_abs());
            !is_own && matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(Some(_)))
        })
        .count()
}

fn own() -> MutexGuard<'static, BTreeSet<u32>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}
