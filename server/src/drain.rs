//! Readiness, and the way out: a set of named things that the server waits for before it is ready, and the steps in
//! which it leaves.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// What the server waits for before it is ready: ready is, that nothing is left. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    waiting: Arc<Mutex<BTreeMap<Cow<'static, str>, usize>>>,
    changed: watch::Sender<bool>,
}

/// Holds readiness off until it is dropped.
#[derive(Debug)]
#[must_use = "readiness is held off only while this lives"]
pub struct Waiting {
    readiness: Readiness,
    what: Cow<'static, str>,
}

/// The steps of leaving, each taken once and for good. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    closing: CancellationToken,
    cut: CancellationToken,
    calls: TaskTracker,
}

impl Readiness {
    /// Ready, unless something is waited for.
    #[must_use]
    pub fn new() -> Self {
        let this = Self::default();
        this.tell();
        this
    }

    /// Holds readiness off, with this to be told, until the guard is dropped.
    pub fn wait_for(&self, what: impl Into<Cow<'static, str>>) -> Waiting {
        let what = what.into();
        self.count(what.clone(), |count| count.saturating_add(1));
        Waiting { readiness: self.clone(), what }
    }

    /// What is still waited for. Empty: ready.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<Cow<'static, str>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Whether the server is ready, now and whenever that changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.changed.subscribe()
    }

    fn count(&self, what: Cow<'static, str>, change: impl FnOnce(usize) -> usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match change(waiting.get(&what).copied().unwrap_or(0)) {
            0 => waiting.remove(&what),
            count => waiting.insert(what, count),
        };
        drop(waiting);
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_if_modified(|ready| {
            let now = self.waiting_for().is_empty();
            std::mem::replace(ready, now) != now
        });
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.readiness.count(std::mem::take(&mut self.what), |count| count.saturating_sub(1));
    }
}

impl Drain {
    /// A server that stays.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on no connection is accepted, and those that are open are told to go.
    pub fn close(&self) {
        self.closing.cancel();
        self.calls.close();
    }

    /// Whether [`Self::close`] was called; to wait for it, see [`CancellationToken::cancelled`].
    #[must_use]
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Ends every call that is still running: it gets `UNAVAILABLE`.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    /// Whether calls are to end at once.
    #[must_use]
    pub fn cutting(&self) -> &CancellationToken {
        &self.cut
    }

    /// Counts a call until the token is dropped.
    pub fn call(&self) -> TaskTrackerToken {
        self.calls.token()
    }

    /// Waits until no call is running. To be used after [`Self::close`].
    pub async fn idle(&self) {
        self.calls.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_is_when_nothing_is_waited_for() {
        let readiness = Readiness::new();
        let mut watch = readiness.watch();
        assert!(*watch.borrow_and_update());
        let rules = readiness.wait_for("rules");
        let again = readiness.wait_for("rules");
        let ports = readiness.wait_for("ports");
        assert_eq!(readiness.waiting_for(), ["ports", "rules"]);
        drop((rules, ports));
        assert_eq!(readiness.waiting_for(), ["rules"]);
        assert!(!*watch.borrow_and_update());
        drop(again);
        watch.changed().await.unwrap();
        assert!(*watch.borrow());
        assert_eq!(readiness.waiting_for(), [] as [&str; 0]);
    }

    #[tokio::test]
    async fn leaving_waits_for_calls() {
        let drain = Drain::new();
        let call = drain.call();
        drain.close();
        assert!(drain.closing().is_cancelled() && !drain.cutting().is_cancelled());
        let waiting = tokio::spawn({
            let drain = drain.clone();
            async move { drain.idle().await }
        });
        drop(call);
        waiting.await.unwrap();
        drain.cut();
        assert!(drain.cutting().is_cancelled());
    }
}
