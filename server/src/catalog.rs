//! The catalog in force: loaded at start, swapped whole by a good reload, left alone by a bad one (laws 9 and 10).

mod watch;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
pub use hookd_rules::{Catalog, LoadSettings, Problem, Severity, Source};
use hookd_rules::{Load, Memory, SourceState};

pub use self::watch::{Watch, WatchTimes};

/// Reads the settings that a load needs, anew for every load. The error is one line for people.
pub type ReadSettings = dyn Fn() -> Result<LoadSettings, String> + Send + Sync;

/// The catalog in force, and the way to another one. Cloning shares it.
#[derive(Clone)]
pub struct Live(Arc<Shared>);

/// What came of a load.
#[derive(Debug, Clone)]
pub struct ReloadReport {
    /// The load was refused as a whole; the catalog that was in force stays.
    pub is_refused: bool,
    /// The revision in force is another one than before.
    pub changed: bool,
    /// The revision in force. Empty: none is, since the first load was refused.
    pub revision: Arc<str>,
    /// Every source, in evaluation order.
    pub sources: Vec<Source>,
    /// Every error and warning, in evaluation order.
    pub problems: Vec<Problem>,
}

/// Counts of loads since the start of the process, the first one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadStats {
    /// Loads whose catalog came into force.
    pub good: u64,
    /// Loads that were refused.
    pub bad: u64,
    /// When the last good one ended.
    pub last_good: SystemTime,
}

struct Shared {
    read_settings: Box<ReadSettings>,
    current: ArcSwap<Catalog>,
    /// Held while a load runs: one after another.
    loading: Mutex<Memory>,
    state: Mutex<State>,
}

struct State {
    stats: ReloadStats,
    report: Arc<ReloadReport>,
    paths: Vec<PathBuf>,
}

impl Live {
    /// Loads the first catalog. To miss no change, watch the sources from before this call on.
    ///
    /// # Errors
    /// What was refused: the server must not start (law 10).
    pub async fn start(
        read_settings: impl Fn() -> Result<LoadSettings, String> + Send + Sync + 'static,
    ) -> Result<Self, ReloadReport> {
        let state = State {
            stats: ReloadStats { good: 0, bad: 0, last_good: SystemTime::UNIX_EPOCH },
            report: Arc::new(ReloadReport::refused("nothing is loaded yet".to_owned())),
            paths: Vec::new(),
        };
        let live = Self(Arc::new(Shared {
            read_settings: Box::new(read_settings),
            current: ArcSwap::default(),
            loading: Mutex::default(),
            state: Mutex::new(state),
        }));
        let report = live.reload().await;
        if report.is_refused { Err(ReloadReport::clone(&report)) } else { Ok(live) }
    }

    /// The catalog in force. A request takes it once and keeps it to its end (law 9).
    #[must_use]
    pub fn current(&self) -> Arc<Catalog> {
        self.0.current.load_full()
    }

    /// Counts of loads.
    #[must_use]
    pub fn stats(&self) -> ReloadStats {
        self.0.lock_state().stats
    }

    /// What came of the last load.
    #[must_use]
    pub fn last_report(&self) -> Arc<ReloadReport> {
        Arc::clone(&self.0.lock_state().report)
    }

    /// The paths of all sources, as the last settings that could be read name them.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock_state().paths.clone()
    }

    /// Reads settings and sources anew and puts what they give in force, unless it is refused. Loads run one after
    /// another; one that has begun ends, also when this future is dropped.
    pub async fn reload(&self) -> Arc<ReloadReport> {
        let shared = Arc::clone(&self.0);
        match tokio::task::spawn_blocking(move || shared.reload()).await {
            Ok(report) => report,
            Err(error) => self.0.finish(self.0.refused(format!("the load did not end: {error}"))),
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("revision", &self.current().revision).finish_non_exhaustive()
    }
}

impl ReloadReport {
    /// Whether nothing was refused or left out.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The errors, or the warnings, one line each.
    pub fn lines(&self, severity: Severity) -> impl Iterator<Item = String> {
        self.problems.iter().filter(move |problem| problem.severity == severity).map(Problem::to_string)
    }

    fn refused(message: String) -> Self {
        let problem = Problem {
            severity: Severity::Error,
            tier: None,
            file: PathBuf::new(),
            place: None,
            key: String::new(),
            rule: None,
            message,
        };
        Self {
            is_refused: true,
            changed: false,
            revision: Arc::default(),
            sources: Vec::new(),
            problems: vec![problem],
        }
    }
}

impl Shared {
    fn lock_state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload(&self) -> Arc<ReloadReport> {
        let mut memory = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let report = match (self.read_settings)() {
            Ok(settings) => {
                self.lock_state().paths = settings.paths();
                self.take_over(hookd_rules::load(&settings, &mut memory))
            }
            Err(message) => self.refused(message),
        };
        self.finish(report)
    }

    fn finish(&self, report: ReloadReport) -> Arc<ReloadReport> {
        log(&report, self.current.load().rules.len());
        let report = Arc::new(report);
        let mut state = self.lock_state();
        if report.is_refused {
            state.stats.bad = state.stats.bad.saturating_add(1);
        } else {
            state.stats.good = state.stats.good.saturating_add(1);
            state.stats.last_good = SystemTime::now();
        }
        state.report = Arc::clone(&report);
        report
    }

    fn take_over(&self, load: Load) -> ReloadReport {
        let before = Arc::clone(&self.current.load().revision);
        let is_refused = load.catalog.is_none();
        let revision = match load.catalog {
            Some(catalog) => {
                let revision = Arc::clone(&catalog.revision);
                self.current.store(Arc::new(catalog));
                revision
            }
            None => Arc::clone(&before),
        };
        let sources = if is_refused { self.as_before(load.sources) } else { load.sources };
        ReloadReport { is_refused, changed: revision != before, revision, sources, problems: load.problems }
    }

    /// A load that failed before any source was read.
    fn refused(&self, message: String) -> ReloadReport {
        let current = self.current.load();
        let sources = self.as_before(current.sources.clone());
        ReloadReport { revision: Arc::clone(&current.revision), sources, ..ReloadReport::refused(message) }
    }

    /// Sources of a load that was refused as a whole: of each counts what an earlier load made of it, whether the error
    /// is its own or another's.
    fn as_before(&self, mut sources: Vec<Source>) -> Vec<Source> {
        let current = self.current.load();
        for source in &mut sources {
            let before = current.sources.iter().find(|before| before.tier == source.tier && before.path == source.path);
            source.rules = before.map_or(0, |before| before.rules);
            let was_absent = before.is_none_or(|before| before.state == SourceState::Absent);
            if !(source.state == SourceState::Absent && was_absent) {
                source.state = SourceState::Stale;
            }
        }
        sources
    }
}

fn log(report: &ReloadReport, rules: usize) {
    for problem in &report.problems {
        let tier = problem.tier.map(|tier| tier.name());
        match problem.severity {
            Severity::Error => {
                tracing::error!(tier, rule = problem.rule, problem = %problem, "rules refused or left out")
            }
            Severity::Warning => tracing::warn!(tier, problem = %problem, "rules loaded with a warning"),
        }
    }
    let revision = report.revision.as_ref();
    if report.is_refused && revision.is_empty() {
        tracing::error!("load refused, no catalog is in force");
    } else if report.is_refused {
        tracing::error!(revision, "load refused, the catalog in force stays");
    } else {
        tracing::info!(revision, rules, changed = report.changed, "catalog loaded");
    }
}

#[cfg(test)]
mod tests;
