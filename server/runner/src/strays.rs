//! Processes that left the group (`setsid`), found by their parents: who is ended with the group.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal};

#[cfg(target_os = "linux")]
use crate::members::{self, Member};

/// How often it is looked again for what those had started that were found and stopped. Each look finds one more
/// generation that was being started, and what is stopped starts nothing: the second is mostly the last.
#[cfg(target_os = "linux")]
const MOST_LOOKS: usize = 64;

/// The processes that left one group and have been found, each held by a descriptor of its own, so that no signal can
/// reach a stranger with the same number.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Vec<Stray>>);

/// A process that left a group.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Stray {
    member: Member,
    pidfd: std::os::fd::OwnedFd,
}

/// Nobody is found here.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum Stray {}

impl Strays {
    /// Stops whoever left the group of `leader` (which is unreaped) and descends from it, from a living member, or from one
    /// that was found before. To be asked while the group is stopped: then nothing is missed but what lost its parents
    /// before. Walks over the process table: not for an async thread.
    #[cfg(target_os = "linux")]
    pub(crate) fn stop(&self, leader: Pid) {
        let mut strays = self.held();
        for _look in 0..MOST_LOOKS {
            let known = strays.iter().map(|stray| stray.member.clone()).collect::<Vec<_>>();
            let new = members::left(leader, &known).into_iter().filter_map(Stray::stop).collect::<Vec<_>>();
            if new.is_empty() {
                return;
            }
            strays.extend(new);
        }
    }

    /// Nobody is found here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn stop(&self, _leader: Pid) {}

    /// Sends a signal to all that were found.
    pub(crate) fn signal(&self, signal: Signal) {
        self.held().iter().for_each(|stray| stray.signal(signal));
    }

    /// Whether one of them is alive.
    pub(crate) fn are_living(&self) -> bool {
        self.held().iter().any(Stray::is_living)
    }

    fn held(&self) -> MutexGuard<'_, Vec<Stray>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(target_os = "linux")]
impl Stray {
    /// `None`: it is another process than the one that was seen, is at its end, or belongs to somebody whom no signal of
    /// ours reaches. Old kernels and some sandboxes have no such descriptors.
    fn stop(seen: Member) -> Option<Self> {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

        let pidfd = pidfd_open(seen.pid, PidfdFlags::empty()).ok()?;
        // The number may have gone to another one before: the descriptor is of whoever has it now.
        let member = Member::of(seen.pid).filter(|now| now.is(&seen) && now.parent == seen.parent && !now.ended)?;
        pidfd_send_signal(&pidfd, Signal::STOP).ok()?;
        Some(Self { member, pidfd })
    }

    fn signal(&self, signal: Signal) {
        // Fails for one that has ended.
        let _ended = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }

    fn is_living(&self) -> bool {
        Member::of(self.member.pid).is_some_and(|now| now.is(&self.member) && !now.ended)
    }
}

#[cfg(not(target_os = "linux"))]
impl Stray {
    fn signal(&self, _signal: Signal) {
        match *self {}
    }

    fn is_living(&self) -> bool {
        match *self {}
    }
}
