#[cfg(target_os = "linux")]
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::process::{Pid, Signal};

/// Whether a group has a living member. Its leader must be unreaped, and counts only while it is alive.
///
/// Signal 0 to the group cannot tell: it reaches the unreaped leader too. So the process table is read. That is a walk over
/// all processes, some milliseconds on a busy machine: not for an async thread. Where the table cannot be read, the answer is
/// no: the kernel hands SIGKILL to all members of a group at once, and the walk is only the check on that.
#[cfg(target_os = "linux")]
pub(crate) fn has_living(group: Pid) -> bool {
    let first = look_at(group);
    // An ended member that was seen before its parent ended can have become a child of this process since.
    first.living || (first.uncollected && look_at(group).living)
}

/// Whether a group has a living member. Its leader must be unreaped, and counts only while it is alive: a group of nothing
/// but ended processes takes no signal here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn has_living(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok()
}

/// The children of this process that have ended and are not collected.
#[cfg(target_os = "linux")]
pub(crate) fn ended_children() -> Vec<Pid> {
    all().filter(|it| it.ended && it.is_ours()).map(|it| it.pid).collect()
}

/// The children of this process that have ended and are not collected: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ended_children() -> Vec<Pid> {
    Vec::new()
}

/// The living processes outside of a group whose parents lead to its leader (which is unreaped), to one of its members, or
/// to one of `known`, which are left out themselves.
#[cfg(target_os = "linux")]
pub(crate) fn left(group: Pid, known: &[Member]) -> Vec<Member> {
    let table = table();
    let mut by_parent = BTreeMap::<i32, Vec<&Member>>::new();
    let mut roots = Vec::new();
    for member in &*table {
        let is_known = known.iter().any(|it| it.is(member));
        if member.pid == group || member.group == group.as_raw_pid() || is_known {
            roots.push(member.pid);
        }
        if !is_known {
            by_parent.entry(member.parent).or_default().push(member);
        }
    }
    let mut found = Vec::new();
    while let Some(parent) = roots.pop() {
        // Taken out, so that each is looked at once.
        for child in by_parent.remove(&parent.as_raw_pid()).into_iter().flatten() {
            roots.push(child.pid);
            if child.group != group.as_raw_pid() && !child.ended {
                found.push(child.clone());
            }
        }
    }
    found
}

/// What one walk found of a group.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Look {
    living: bool,
    uncollected: bool,
}

#[cfg(target_os = "linux")]
fn look_at(group: Pid) -> Look {
    let mut look = Look::default();
    for member in all() {
        if member.group != group.as_raw_pid() {
            continue;
        }
        if !member.ended {
            look.living = true;
        } else if member.pid != group && !member.reap_if_ours() {
            look.uncollected = true;
        }
    }
    look
}

/// Nobody is found here.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) enum Member {}

#[cfg(not(target_os = "linux"))]
impl Member {
    pub(crate) fn signal(&self, _signal: Signal) -> bool {
        match *self {}
    }

    pub(crate) fn is_living(&self) -> bool {
        match *self {}
    }
}

/// The processes as they are now. Where many groups end at once, one walk serves all who asked before it began.
#[cfg(target_os = "linux")]
fn table() -> Arc<[Member]> {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    static LAST: Mutex<Option<(u64, Arc<[Member]>)>> = Mutex::new(None);

    let asked = BEGUN.load(Ordering::SeqCst);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((number, members)) = &*last
        && *number > asked
    {
        return Arc::clone(members);
    }
    let number = BEGUN.fetch_add(1, Ordering::SeqCst).saturating_add(1);
    let members = all().collect::<Arc<[_]>>();
    *last = Some((number, Arc::clone(&members)));
    members
}

/// All processes that can be seen.
#[cfg(target_os = "linux")]
fn all() -> impl Iterator<Item = Member> {
    let table = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    table.filter_map(|entry| Member::of(Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?))
}

/// A process as the table has it.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pid: Pid,
    parent: i32,
    group: i32,
    /// When it was started, in ticks of the kernel's.
    started: u64,
    ended: bool,
}

#[cfg(target_os = "linux")]
impl Member {
    /// The process with this number. `None`: there is none.
    fn of(pid: Pid) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name, in parentheses, can hold anything; what follows the last one is plain.
        let (_, plain) = stat.rsplit_once(')')?;
        let mut fields = plain.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { pid, parent, group, started, ended: matches!(state, "Z" | "X" | "x") })
    }

    /// Sends it a signal, and says whether that reached it: it may have ended, or belong to somebody whom no signal of ours
    /// reaches. Old kernels and some sandboxes have no descriptors of processes.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

        let Ok(pidfd) = pidfd_open(self.pid, PidfdFlags::empty()) else { return false };
        // The number may have gone to another one before: the descriptor is of whoever has it now.
        self.is_living() && pidfd_send_signal(&pidfd, signal).is_ok()
    }

    /// Whether it is still there.
    pub(crate) fn is_living(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| self.is(&now) && !now.ended)
    }

    /// They are one process.
    fn is(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    /// The processes of a dead leader become children of process 1. In a container that is often this process, and then
    /// nobody else collects them.
    fn reap_if_ours(&self) -> bool {
        use rustix::process::{WaitOptions, waitpid};

        self.is_ours() && waitpid(Some(self.pid), WaitOptions::NOHANG).is_ok()
    }

    fn is_ours(&self) -> bool {
        self.parent == rustix::process::getpid().as_raw_pid()
    }
}
