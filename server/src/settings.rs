//! Settings (`deploy/docs/settings.md`): defaults < file < environment, read and checked whole before a port opens.
//!
//! Everything under `tiers` and `fallbacks` is hot: it is read again with the rules. The rest needs a restart.

mod audit;
mod bulkheads;
mod commands;
mod drain;
mod fallbacks;
mod file;
mod http2;
mod http_handlers;
mod identity;
mod limits;
mod listen;
mod log;
mod otlp;
mod permits;
mod print;
mod read;
mod section;
mod selector;
mod tiers;
mod tls;
mod traces;
mod tree;
mod words;

use std::{collections::BTreeMap, ffi::OsString, fmt, net::SocketAddr};

use hookd_rules::{Environment, Fallbacks, LoadSettings, PerTier, TierPolicy, one_line};

pub use audit::{Acknowledge, AuditFile, AuditSettings, KEEP_ALL, OnFull, Parameters};
pub use bulkheads::{BulkheadSettings, TenantRate};
pub use commands::{CommandLimits, CommandSettings, LandlockFor, LandlockUse, WorkingDirectory};
pub use drain::DrainSettings;
pub use http_handlers::HttpHandlerSettings;
pub use http2::Http2Settings;
pub use identity::{
    Anonymous, CertificateSettings, IdentitySettings, IssuerSettings, KeyServer, KeySource, MAX_LABEL_BYTES, NameKind,
    NamePattern, check_label, is_label_value,
};
pub use limits::Limits;
pub use listen::Listen;
pub use log::{LogFormat, LogSettings};
pub use otlp::OtlpSettings;
pub use read::Origin;
pub use tiers::{Said, ServerCommands, TierSettings};
pub use tls::{ClientCertificates, Plaintext, TlsSettings, TlsVersion};
pub use traces::TraceSettings;

use crate::model::Grant;

/// Settings as they are in force: complete, checked, all paths absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where gRPC is served. Not empty.
    pub listen: Vec<Listen>,
    /// Names by which callers of plain HTTP may address the server (their `Host`), besides addresses of loopback and
    /// those that it listens on. Lowercase, without port.
    pub hosts: Vec<String>,
    /// Where `/livez`, `/readyz` and `/metrics` are served.
    pub admin_listen: SocketAddr,
    /// TLS of callers' connections. `None`: plain text.
    pub tls: Option<TlsSettings>,
    /// Where callers may speak plain text.
    pub plaintext: Plaintext,
    /// The sources of each tier, and what the tier may do. Hot.
    pub tiers: PerTier<TierSettings>,
    /// Caps of all kinds.
    pub limits: Limits,
    /// What keeps one handler, or one tenant, from taking all places.
    pub bulkheads: BulkheadSettings,
    /// How programs of command handlers are run.
    pub commands: CommandSettings,
    /// What http handlers are sent with.
    pub http_handlers: HttpHandlerSettings,
    /// How the server leaves.
    pub drain: DrainSettings,
    /// What takes the place of a decision that a caller cannot carry out. Hot.
    pub fallbacks: Fallbacks,
    /// What is logged, and how.
    pub log: LogSettings,
    /// Connections of callers.
    pub http2: Http2Settings,
    /// The record of each decision.
    pub audit: AuditSettings,
    /// Spans of calls and handlers.
    pub traces: TraceSettings,
    /// Who may call, and how that is known.
    pub identity: IdentitySettings,
    /// What callers may do, by their labels.
    pub permissions: Vec<Grant>,
}

/// Why settings cannot be used: one line for each thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError(pub Vec<String>);

impl SettingsError {
    /// One line for each of `problems`, which can hold keys and values of any kind.
    fn new(problems: Vec<String>) -> Self {
        Self(problems.iter().map(|problem| one_line(problem)).collect())
    }
}

impl Settings {
    /// Reads and checks the settings that `origin` names.
    ///
    /// # Errors
    /// Everything that is wrong with them, one line each: file or variable, key, value seen and what would be right.
    pub fn read(origin: &Origin) -> Result<Self, SettingsError> {
        read::read(origin)
    }

    /// The settings as YAML that can be used as a settings file.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        print::yaml(&tree::tree(self))
    }

    /// The keys that differ between these settings and `newer` and are not hot: they need a restart.
    #[must_use]
    pub fn needs_restart(&self, newer: &Self) -> Vec<String> {
        tree::differing_cold_keys(self, newer)
    }

    /// What a load of the rules needs: `local` is whether only this machine can reach the running server, and
    /// `environment` what `${env:NAME}` may find.
    #[must_use]
    pub fn for_rules(&self, local: bool, environment: Environment) -> LoadSettings {
        LoadSettings {
            tiers: PerTier::from_fn(|tier| {
                let settings = self.tiers.get(tier);
                hookd_rules::TierSettings {
                    sources: settings.sources.clone(),
                    mode: settings.mode,
                    policy: TierPolicy { may_allow: settings.may_allow, on_error: settings.on_error },
                    server_commands: settings.server_commands.allows(local),
                    any_address: local || tier.is_central(),
                    allow_env: settings.allow_env.clone(),
                    allow_files: settings.allow_files.clone(),
                    permits: settings.permits.clone(),
                }
            }),
            fallbacks: self.fallbacks,
            max_handler_timeout: self.limits.max_handler_timeout,
            environment,
        }
    }

    /// Whether only this machine can reach the server, so that lower tiers may run commands on it.
    #[must_use]
    pub fn listens_locally(&self) -> bool {
        self.listen.iter().all(Listen::is_local)
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// The variables of the environment that settings are read from, which start with `HOOKD__`, and those that may be
/// meant to be: that start with `HOOKD_`.
#[must_use]
pub fn environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| name.starts_with("HOOKD_"))
        .collect()
}

#[cfg(test)]
mod tests;
