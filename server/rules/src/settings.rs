//! What the settings say about rules: an input of every load, reread with the rules.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use secrecy::SecretString;

use crate::{Fallbacks, Mode, OnError, PerTier, Tier, TierPolicy};

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
    /// Whether its command rules may run on this server (design §9). Where not, each is refused at load.
    pub server_commands: bool,
    /// Names that `${env:NAME}` may name.
    pub allow_env: Vec<String>,
    /// Files, or directories of files, that `${file:PATH}` may name; absolute.
    pub allow_files: Vec<PathBuf>,
}

/// A place that rules come from: a file, or a directory of which every `*.json`, `*.yaml` and `*.yml` is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSettings {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Whether it may be missing.
    pub optional: bool,
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
            allow_env: Vec::new(),
            allow_files: Vec::new(),
        }
    }

    /// Whether `${file:PATH}` may name `path`, which is absolute and has no `..`.
    pub(crate) fn allows_file(&self, path: &Path) -> bool {
        self.allow_files.iter().any(|allowed| path.starts_with(allowed))
    }
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
