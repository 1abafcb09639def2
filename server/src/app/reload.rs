use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use hookd_rules::{Environment, LoadSettings, PerTier, Tier};
use tokio::signal::unix::Signal;
use tracing::{info, warn};

use crate::{
    catalog::{Live, Watch, WatchTimes},
    settings::{Origin, Settings},
};

/// Reads settings and rules again when a file changes or on SIGHUP.
pub(super) struct Reload {
    source: Arc<Source>,
    watch: Watch,
}

/// Where settings are read again from.
struct Source {
    origin: Origin,
    running: Settings,
    environment: Environment,
    /// The tiers whose sources the settings named when they were read last.
    named: Mutex<PerTier<bool>>,
}

impl Reload {
    /// Watches from now on: what changes while the first load runs is not missed.
    pub(super) async fn start(origin: Origin, running: Settings, environment: Environment) -> Self {
        let named = Mutex::new(names(&running));
        let source = Arc::new(Source { origin, running, environment, named });
        let first = source.for_rules(&source.running);
        let watch = Watch::start(source.watched(first.paths()), WatchTimes::default()).await;
        Self { source, watch }
    }

    /// What every load begins with: the settings as they are now.
    pub(super) fn read_settings(&self) -> impl Fn() -> Result<LoadSettings, String> + Send + Sync + 'static {
        let source = Arc::clone(&self.source);
        move || source.read()
    }

    /// Reloads until the future is dropped.
    pub(super) async fn run(self, live: Live, mut hangups: Option<Signal>) {
        loop {
            tokio::select! {
                () = self.watch.changed() => info!(reason = "a file changed", "reloading"),
                () = hangup(&mut hangups) => info!(reason = "SIGHUP", "reloading"),
            }
            live.reload().await;
            self.watch.set_paths(self.source.watched(live.paths()));
        }
    }
}

impl Source {
    fn read(&self) -> Result<LoadSettings, String> {
        let settings = Settings::read(&self.origin).map_err(|error| error.0.join("; "))?;
        self.keep_named(&settings)?;
        let keys = self.running.needs_restart(&settings);
        if !keys.is_empty() {
            warn!(keys = keys.join(", "), "settings changed that need a restart");
        }
        Ok(self.for_rules(&settings))
    }

    /// INVARIANT: central rules go only where the settings say so. A file that was cut off while it was written is often one
    /// that can be read, and without its sources everything passes (law 10).
    fn keep_named(&self, settings: &Settings) -> Result<(), String> {
        let mut before = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost =
            |tier: &Tier| tier.is_central() && *before.get(*tier) && !settings.tiers.get(*tier).says_sources.0;
        if let Some(tier) = Tier::ALL.into_iter().find(is_lost) {
            return Err(format!(
                "tiers.{tier}.sources: are not there any more, so the rules of this tier would fall away, write [] if that is meant"
            ));
        }
        *before = names(settings);
        Ok(())
    }

    /// What is hot comes from `settings`, what is not from those that run: above all who can reach the server.
    fn for_rules(&self, settings: &Settings) -> LoadSettings {
        let mut load = settings.for_rules(self.running.listens_locally(), self.environment.clone());
        load.max_handler_timeout = self.running.limits.max_handler_timeout;
        load
    }

    fn watched(&self, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
        paths.extend(self.origin.file.as_ref().map(|file| self.origin.working_directory.join(file)));
        paths
    }
}

/// Of which tiers the settings name sources.
fn names(settings: &Settings) -> PerTier<bool> {
    PerTier::from_fn(|tier| {
        let tier = settings.tiers.get(tier);
        tier.says_sources.0 && !tier.sources.is_empty()
    })
}

async fn hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}
