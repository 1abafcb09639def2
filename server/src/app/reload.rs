use std::{path::PathBuf, sync::Arc};

use hookd_rules::{Environment, LoadSettings};
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
}

impl Reload {
    /// Watches from now on: what changes while the first load runs is not missed.
    pub(super) async fn start(origin: Origin, running: Settings, environment: Environment) -> Self {
        let source = Arc::new(Source { origin, running, environment });
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
        let keys = self.running.needs_restart(&settings);
        if !keys.is_empty() {
            warn!(keys = keys.join(", "), "settings changed that need a restart");
        }
        Ok(self.for_rules(&settings))
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

async fn hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}
