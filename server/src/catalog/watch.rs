//! Notices that what stands at the paths of the sources has changed.
//!
//! Directories are watched, not files: an editor replaces a file, Kubernetes swaps a link beside it, and a watch on the
//! file would stay with the old one. Events only wake the watch up; whether there is something to load is seen by
//! comparing what a load would read. A slow poll does the same where a file system sends no events.

mod places;

use std::{
    collections::BTreeSet,
    hash::{BuildHasher as _, Hash as _, Hasher, RandomState},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hookd_rules::read_small_file;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind, event::AccessMode};
use tokio::{
    sync::{Notify, watch},
    time::MissedTickBehavior,
};
use tokio_util::task::AbortOnDropHandle;

/// Watches the paths of sources, or of other small files, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    paths: watch::Sender<Vec<PathBuf>>,
    changed: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// How patient a [`Watch`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchTimes {
    /// A change is looked at when there was no further event for so long,
    pub quiet: Duration,
    /// or when so much time has passed since the first one.
    pub longest: Duration,
    /// How often the paths are looked at without any event.
    pub poll: Duration,
}

impl Default for WatchTimes {
    fn default() -> Self {
        Self { quiet: Duration::from_millis(100), longest: Duration::from_secs(1), poll: Duration::from_secs(5) }
    }
}

impl Watch {
    /// Watches sources of rules, and other small files whatever their names: settings, certificates, keys, tokens. Every
    /// change after this call has returned is noticed.
    pub async fn start(paths: Vec<PathBuf>, times: WatchTimes) -> Self {
        let (paths, receiver) = watch::channel(paths);
        let (changed, woken) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut task = Task {
            paths: receiver,
            changed: Arc::clone(&changed),
            woken,
            times,
            hasher: RandomState::new(),
            watcher: None,
            seen: None,
        };
        task.look(Look::Arm).await;
        let task = AbortOnDropHandle::new(tokio::spawn(task.run()));
        Self { paths, changed, _task: task }
    }

    /// Waits until a load would read something else than at the last change. Keeps one change for the next call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Watches other paths from now on. Where they differ, that is a change.
    pub fn set_paths(&self, paths: Vec<PathBuf>) {
        self.paths.send_if_modified(|old| {
            let differs = *old != paths;
            *old = paths;
            differs
        });
    }
}

struct Task {
    paths: watch::Receiver<Vec<PathBuf>>,
    changed: Arc<Notify>,
    woken: Arc<Notify>,
    times: WatchTimes,
    hasher: RandomState,
    /// What is watched now.
    watcher: Option<RecommendedWatcher>,
    /// Hash of what a load would have read at the last look.
    seen: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Set the watches anew first: what they were set on may be gone.
    Arm,
    /// Only compare.
    Compare,
}

impl Task {
    async fn run(mut self) {
        let mut poll = tokio::time::interval(self.times.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        poll.reset();
        loop {
            let look = tokio::select! {
                () = self.woken.notified() => Look::Arm,
                new_paths = self.paths.changed() => match new_paths {
                    Ok(()) => Look::Arm,
                    Err(_) => return,
                },
                _ = poll.tick() => Look::Compare,
            };
            if look == Look::Arm {
                self.wait_for_quiet().await;
            }
            if self.look(look).await {
                // Found by the poll: the watches missed it, so they stand in the wrong places.
                if look == Look::Compare {
                    self.look(Look::Arm).await;
                }
                self.changed.notify_one();
            }
        }
    }

    async fn wait_for_quiet(&self) {
        let limit = tokio::time::sleep(self.times.longest);
        tokio::pin!(limit);
        loop {
            tokio::select! {
                () = &mut limit => return,
                () = tokio::time::sleep(self.times.quiet) => return,
                () = self.woken.notified() => {}
            }
        }
    }

    /// Looks at what stands at the paths, and says whether that is something else than the last time.
    async fn look(&mut self, look: Look) -> bool {
        let paths = self.paths.borrow_and_update().clone();
        let (woken, hasher) = (Arc::clone(&self.woken), self.hasher.clone());
        let looked = tokio::task::spawn_blocking(move || {
            // Watched first, looked at then: nothing can happen in between.
            let watcher = (look == Look::Arm).then(|| arm(&paths, woken));
            let mut hasher = hasher.build_hasher();
            for path in &paths {
                fingerprint(path, &mut hasher);
            }
            (watcher, hasher.finish())
        });
        let Ok((watcher, seen)) = looked.await else { return false };
        if let Some(watcher) = watcher {
            let old = std::mem::replace(&mut self.watcher, watcher);
            // Not waited for: to end a watch can take a while.
            tokio::task::spawn_blocking(move || drop(old));
        }
        self.seen.replace(seen) != Some(seen)
    }
}

/// Hashes what is read at a path: as a source of rules, and as a small file, since not all that is watched is a source.
fn fingerprint(path: &Path, hasher: &mut impl Hasher) {
    hookd_rules::fingerprint(path, hasher);
    read_small_file(path).hash(hasher);
}

/// Watches every directory in which something has to happen before other files stand at `paths`.
fn arm(paths: &[PathBuf], woken: Arc<Notify>) -> Option<RecommendedWatcher> {
    let handler = move |event: notify::Result<notify::Event>| {
        if event.is_err() || event.is_ok_and(|event| is_a_change(event.kind)) {
            woken.notify_one();
        }
    };
    let mut watcher = match notify::recommended_watcher(handler) {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "file events are not to be had, files are polled");
            return None;
        }
    };
    let mut watched = BTreeSet::new();
    // Until nothing new is found: a directory may have appeared while its parent was not watched yet.
    loop {
        let wanted = paths.iter().flat_map(|path| places::directories(path)).collect::<BTreeSet<_>>();
        let new = wanted.difference(&watched).cloned().collect::<Vec<_>>();
        if new.is_empty() {
            return Some(watcher);
        }
        for directory in new {
            if let Err(error) = watcher.watch(&directory, RecursiveMode::NonRecursive) {
                tracing::warn!(directory = %directory.display(), %error, "directory cannot be watched, it is polled");
            }
            watched.insert(directory);
        }
    }
}

/// Reading is none, and loads read.
fn is_a_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests;
