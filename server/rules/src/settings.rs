//! What the settings say about rules: an input of every load, reread with the rules.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use secrecy::SecretString;
use url::Url;

use crate::{Fallbacks, Handler, Mode, OnError, PerTier, Rule, Selector, Tier, TierPolicy, problem::shown};

/// Everything besides the rule files that decides what a load gives.
#[derive(Debug, Clone)]
pub struct LoadSettings {
    /// What stands under `tiers`.
    pub tiers: PerTier<TierSettings>,
    /// What stands under `fallbacks`.
    pub fallbacks: Fallbacks,
    /// Ceiling of every handler's `timeout`; a longer one is cut to it, with a warning.
    pub max_handler_timeout: Duration,
    /// The variables that `${env:NAME}` may find, where the tier allows the name.
    pub environment: Environment,
}

/// What the settings say about one tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSettings {
    /// Where its rules come from, in order.
    pub sources: Vec<SourceSettings>,
    /// [`Mode::Shadow`] makes all of its rules shadow rules.
    pub mode: Mode,
    /// What it may do.
    pub policy: TierPolicy,
    /// Whether its command rules may run on this server. Where not, each is refused at load.
    pub server_commands: bool,
    /// Whether its http handlers may reach any address because only this machine can reach the running server, or
    /// because the tier is a central one. Elsewhere those hosts may have any that [`Permits::http_hosts`] names.
    pub any_address: bool,
    /// Names that `${env:NAME}` may name.
    pub allow_env: Vec<String>,
    /// Files, or directories of files, that `${file:PATH}` may name; absolute.
    pub allow_files: Vec<PathBuf>,
    /// What its rules may be.
    pub permits: Permits,
}

/// What the rules of one tier may be, those that callers offer for it included. The default permits everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// Whether the tier has rules at all. Of a tier that is switched off no source is read. The managed tier always is
    /// on: nothing can switch it off but the lack of sources.
    pub enabled: bool,
    /// The kinds of handlers, by their names in rule files. `None`: all.
    pub handlers: Option<Vec<String>>,
    /// The events. `None`: all.
    pub events: Option<Vec<String>>,
    /// Hosts of http handlers, in lower case; `*.example.com` is each host below that one. `None`: all.
    pub http_hosts: Option<Vec<String>>,
    /// Ceiling of `timeout`, beside that of all handlers. `None`: no other than that.
    pub max_timeout: Option<Duration>,
}

/// A place that rules come from: a file, or a directory of which every `*.json`, `*.yaml` and `*.yml` is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSettings {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Whether it may be missing.
    pub optional: bool,
    /// Which callers it is for. `None`: everyone.
    pub selector: Option<Arc<Selector>>,
}

/// Environment variables by name. They do not show in its `Debug` form.
#[derive(Clone, Default)]
pub struct Environment(HashMap<String, SecretString>);

impl Default for LoadSettings {
    /// No sources, and what the settings say where they say nothing.
    fn default() -> Self {
        Self {
            tiers: PerTier::from_fn(TierSettings::new),
            fallbacks: Fallbacks::default(),
            max_handler_timeout: Duration::from_secs(60),
            environment: Environment::default(),
        }
    }
}

impl LoadSettings {
    /// The paths of all sources, in evaluation order.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let sources = Tier::ALL.into_iter().flat_map(|tier| &self.tiers.get(tier).sources);
        sources.map(|source| source.path.clone()).collect()
    }
}

impl TierSettings {
    /// What holds for `tier` where the settings say nothing: no sources, enforced; managed, team and local may allow;
    /// failures of managed rules block.
    #[must_use]
    pub fn new(tier: Tier) -> Self {
        Self {
            sources: Vec::new(),
            mode: Mode::Enforce,
            policy: TierPolicy {
                may_allow: tier >= Tier::Local,
                on_error: if tier == Tier::Managed { OnError::Block } else { OnError::Allow },
            },
            server_commands: true,
            any_address: true,
            allow_env: Vec::new(),
            allow_files: Vec::new(),
            permits: Permits::default(),
        }
    }

    /// The ceiling of `timeout` in a tier with these settings, and the setting that it stands in.
    pub(crate) fn max_timeout(&self, tier: Tier, of_all: Duration) -> (Duration, String) {
        match self.permits.max_timeout.filter(|limit| *limit < of_all) {
            Some(limit) => (limit, format!("tiers.{tier}.max_timeout")),
            None => (of_all, "limits.max_handler_timeout".to_owned()),
        }
    }

    /// Whether its http handlers may reach public addresses only.
    pub(crate) fn public_addresses_only(&self) -> bool {
        !self.any_address && self.permits.http_hosts.is_none()
    }

    /// Whether `${file:PATH}` may name `path`, which is absolute and has no `..`.
    pub(crate) fn allows_file(&self, path: &Path) -> bool {
        self.allow_files.iter().any(|allowed| path.starts_with(allowed))
    }
}

impl Default for Permits {
    fn default() -> Self {
        Self { enabled: true, handlers: None, events: None, http_hosts: None, max_timeout: None }
    }
}

impl Permits {
    /// Whether `rule` may be one of `tier`.
    ///
    /// # Errors
    /// The part that may not, and which setting says so.
    pub(crate) fn check(&self, tier: Tier, rule: &Rule) -> Result<(), String> {
        let kind = rule.handler.kind();
        if let Some(handlers) = self.handlers.as_ref().filter(|handlers| !handlers.iter().any(|name| name == kind)) {
            let message = format!("handlers of type `{kind}` are not permitted here");
            return Err(format!("{message}, `tiers.{tier}.handlers` permits {}", listed(handlers)));
        }
        if let Some(events) = &self.events
            && let Some(event) = rule.events.iter().find(|event| !events.iter().any(|name| **name == ***event))
        {
            let message = format!("rules for the event `{}` are not permitted here", shown(event));
            return Err(format!("{message}, `tiers.{tier}.events` permits {}", listed(events)));
        }
        if let (Some(hosts), Handler::Http(http)) = (&self.http_hosts, &rule.handler) {
            let url = Url::parse(&http.url).ok();
            let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            if !hosts.iter().any(|permitted| is_host(permitted, &host)) {
                let message = format!("http handlers for the host `{}` are not permitted here", shown(&host));
                return Err(format!("{message}, `tiers.{tier}.http_hosts` permits {}", listed(hosts)));
            }
        }
        Ok(())
    }
}

/// Whether `host` is the `permitted` one, or below it where that starts with `*.`.
fn is_host(permitted: &str, host: &str) -> bool {
    match permitted.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|below| below.len() > 1 && below.ends_with('.')),
        None => permitted == host,
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl Environment {
    /// The value of the variable `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&SecretString> {
        self.0.get(name)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), SecretString::from(value.into()))).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}
