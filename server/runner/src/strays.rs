//! Processes that left the group (`setsid`), found by their parents: who is ended with the group.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal};

use crate::members::Member;
#[cfg(target_os = "linux")]
use crate::members::left;

/// How often it is looked again for what those had started that were found and stopped. Each look finds one more
/// generation that was being started, and what is stopped starts nothing: the second is mostly the last.
#[cfg(target_os = "linux")]
const MOST_LOOKS: usize = 64;

/// The processes that left one group and have been found. A descriptor is held only while a signal is sent, or a command
/// that has many of them could take all that this process may have.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Vec<Member>>);

impl Strays {
    /// Stops whoever left the group of `leader` (which is unreaped) and descends from it, from a living member, or from one
    /// that was found before. To be asked while the group is stopped: then nothing is missed but what lost its parents
    /// before. Walks over the process table: not for an async thread.
    #[cfg(target_os = "linux")]
    pub(crate) fn stop(&self, leader: Pid) {
        let mut strays = self.held();
        for _look in 0..MOST_LOOKS {
            let mut new = left(leader, &strays);
            new.retain(|seen| seen.signal(Signal::STOP));
            if new.is_empty() {
                return;
            }
            strays.append(&mut new);
        }
    }

    /// Nobody is found here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn stop(&self, _leader: Pid) {}

    /// Nobody was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// Sends a signal to all that were found. Looks at each in the process table: not for an async thread.
    pub(crate) fn signal(&self, signal: Signal) {
        for stray in &*self.held() {
            // Fails for one that has ended.
            let _ended = stray.signal(signal);
        }
    }

    /// Whether one of them is alive.
    pub(crate) fn are_living(&self) -> bool {
        self.held().iter().any(Member::is_living)
    }

    fn held(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
