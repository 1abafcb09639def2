//! What stands between the rules of a call and its caller: commands on their way out, and those that are open.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Ended, WantedProgram};
use crate::model::{Failed, Failure, Rule};

/// How much the inputs of commands may take that wait for their way out, in KiB.
const WAITING_KIB: u32 = 16 << 10;

/// One command for the caller.
#[derive(Debug)]
pub struct Ask {
    /// Its rule.
    pub rule: Arc<Rule>,
    /// What to run.
    pub program: WantedProgram,
    /// Directory to run in. Empty: none is known.
    pub cwd: String,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub timeout: Duration,
    /// How much of each output is kept, in bytes.
    pub output_bytes: usize,
}

/// What goes out to the caller.
#[derive(Debug)]
pub enum Outgoing {
    /// Run this.
    Run {
        /// Names it in this call.
        id: u32,
        /// The command.
        ask: Ask,
        /// Nobody waits for it.
        detached: bool,
    },
    /// End this.
    Cancel(u32),
}

/// The two sides of a call: handlers ask ([`Link::run`]), whoever holds the stream carries ([`Link::next`],
/// [`Link::ended`]).
#[derive(Debug)]
pub struct Link {
    state: Mutex<State>,
    /// Something waits for its way out.
    waiting: Notify,
    room: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u32,
    out: VecDeque<(Outgoing, Option<OwnedSemaphorePermit>)>,
    open: HashMap<u32, oneshot::Sender<Ended>>,
    is_closed: bool,
}

/// An open command. Dropped before it has ended, it is cancelled, or taken back if it is not out yet.
struct Open<'l> {
    link: &'l Link,
    id: u32,
}

impl Link {
    /// Nothing asked for yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            waiting: Notify::new(),
            room: Arc::new(Semaphore::new(usize::try_from(WAITING_KIB).unwrap_or(Semaphore::MAX_PERMITS))),
        }
    }

    /// Has the caller run a command, and waits for its end. Dropping the future cancels it.
    pub(super) async fn run(&self, ask: Ask) -> Ended {
        // Closed only with the link.
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(kib(&ask)).await else { return Err(gone()) };
        let (sender, receiver) = oneshot::channel();
        let id = self.push(ask, room, Some(sender))?;
        let _open = Open { link: self, id };
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Has the caller start a command that nobody waits for.
    pub(super) fn start(&self, ask: Ask) -> Result<(), Failed> {
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(kib(&ask)) else {
            let message =
                format!("too many commands at once: {WAITING_KIB} KiB of input wait for their way to the caller");
            return Err(Failed::new(Failure::Overloaded, message));
        };
        self.push(ask, room, None).map(drop)
    }

    /// What goes out next. Waits until there is something. Dropping the future loses nothing.
    pub async fn next(&self) -> Outgoing {
        loop {
            if let Some(outgoing) = self.take() {
                return outgoing;
            }
            self.waiting.notified().await;
        }
    }

    /// What goes out next, if something waits.
    #[must_use]
    pub fn take(&self) -> Option<Outgoing> {
        self.state().out.pop_front().map(|(outgoing, _room)| outgoing)
    }

    /// A command has ended. One that is not open is none of this call's, was answered already, or is not waited for
    /// any more: it is ignored.
    pub fn ended(&self, id: u32, ended: Ended) {
        if let Some(waiting) = self.state().open.remove(&id) {
            // Nobody waits: its time was over at this moment.
            let _ = waiting.send(ended);
        }
    }

    /// From now on the caller answers nothing: commands that are open fail, and those that would come.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.out.clear();
        // This fails them.
        state.open.clear();
    }

    fn push(
        &self,
        ask: Ask,
        room: OwnedSemaphorePermit,
        waiting: Option<oneshot::Sender<Ended>>,
    ) -> Result<u32, Failed> {
        let mut state = self.state();
        if state.is_closed {
            return Err(gone());
        }
        let id = state.last_id.saturating_add(1);
        state.last_id = id;
        let detached = waiting.is_none();
        if let Some(waiting) = waiting {
            state.open.insert(id, waiting);
        }
        state.out.push_back((Outgoing::Run { id, ask, detached }, Some(room)));
        drop(state);
        self.waiting.notify_one();
        Ok(id)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut state = self.link.state();
        if state.open.remove(&self.id).is_none() {
            return;
        }
        let here = |outgoing: &Outgoing| matches!(outgoing, Outgoing::Run { id, .. } if *id == self.id);
        match state.out.iter().position(|(outgoing, _)| here(outgoing)) {
            // It never went out, so there is nothing to end.
            Some(place) => drop(state.out.remove(place)),
            None => {
                state.out.push_back((Outgoing::Cancel(self.id), None));
                drop(state);
                self.link.waiting.notify_one();
            }
        }
    }
}

fn kib(ask: &Ask) -> u32 {
    u32::try_from(ask.stdin.len() / 1024).unwrap_or(u32::MAX).saturating_add(1).min(WAITING_KIB)
}

fn gone() -> Failed {
    Failed::new(Failure::CallerGone, "the caller asks or answers no more")
}
