//! Settings (design §8): defaults < file < environment, read and checked whole before a port opens.
//!
//! Everything under `tiers` and `fallbacks` is hot: it is read again with the rules. The rest needs a restart.

mod audit;
mod bulkheads;
mod commands;
mod file;
mod http_handlers;
mod identity;
mod otlp;
mod permits;
mod print;
mod read;
mod section;
mod selector;
mod tls;
mod traces;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use hookd_rules::{
    Environment, Fallbacks, LoadSettings, Mode, OnError, PerTier, Permits, SourceSettings, Tier, TierPolicy, one_line,
};

pub use audit::{Acknowledge, AuditFile, AuditSettings, KEEP_ALL, OnFull, Parameters};
pub use bulkheads::{BulkheadSettings, TenantRate};
pub use commands::{CommandLimits, CommandSettings, LandlockFor, LandlockUse, WorkingDirectory};
pub use http_handlers::HttpHandlerSettings;
pub use identity::{
    Anonymous, CertificateSettings, IdentitySettings, IssuerSettings, KeyServer, KeySource, MAX_LABEL_BYTES, NameKind,
    NamePattern, check_label, is_label_value,
};
pub use otlp::OtlpSettings;
pub use read::Origin;
pub use tls::{ClientCertificates, Plaintext, TlsSettings, TlsVersion};
pub use traces::TraceSettings;

use crate::model::Grant;

/// Settings as they are in force: complete, checked, all paths absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where gRPC is served. Not empty.
    pub listen: Vec<Listen>,
    /// Names by which callers of plain HTTP may address the server (their `Host`), besides addresses of loopback and those
    /// that it listens on. Lowercase, without port.
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

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; port 0 takes any free one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// One tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSettings {
    /// Where its rules come from, in evaluation order.
    pub sources: Vec<SourceSettings>,
    /// `shadow` keeps every rule of the tier out of verdicts.
    pub mode: Mode,
    /// What its failures count as where a rule does not say (law 7).
    pub on_error: OnError,
    /// Its ALLOW counts (law 3).
    pub may_allow: bool,
    /// Variables of the server's environment that its header values may take.
    pub allow_env: Vec<String>,
    /// Files that its header values may take.
    pub allow_files: Vec<PathBuf>,
    /// Whether its commands run on this machine (design §9). Central tiers: always [`ServerCommands::Allow`].
    pub server_commands: ServerCommands,
    /// What its rules may be.
    pub permits: Permits,
}

/// Whether a tier's commands run on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCommands {
    /// While hookd listens on loopback and unix sockets alone.
    Loopback,
    /// Always.
    Allow,
    /// Never.
    Deny,
}

/// Caps of all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Budget of a call whose caller sets no deadline.
    pub default_deadline: Duration,
    /// Longest budget that a caller can ask for.
    pub max_deadline: Duration,
    /// Ceiling of handlers' own timeouts.
    pub max_handler_timeout: Duration,
    /// Calls evaluated at a time; more are shed. As many can be on their way.
    pub in_flight: usize,
    /// Child processes alive at a time.
    pub children: usize,
    /// Commands that wait for a free child.
    pub child_queue: usize,
    /// Handlers in the background at a time.
    pub async_in_flight: usize,
    /// Connections of callers open at a time; more are closed at once.
    pub connections: usize,
    /// As many of them as one address of another machine may have; of IPv6, one network of 64 bits.
    pub connections_of_one_address: usize,
    /// Size of a request and of an answer, in bytes after decompression.
    pub message_bytes: usize,
    /// Size of one handler's output, in bytes.
    pub output_bytes: usize,
}

/// How the server leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainSettings {
    /// How long it still serves after readiness went off, so that balancers notice.
    pub min_delay: Duration,
    /// How long calls may take to finish after that.
    pub limit: Duration,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The form.
    pub format: LogFormat,
    /// Directives such as `info` or `info,hookd=debug`.
    pub filter: String,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Connections of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Settings {
    /// How often a connection is probed.
    pub keepalive_interval: Duration,
    /// How long a probe may stay unanswered before the connection is dropped.
    pub keepalive_timeout: Duration,
    /// Age at which a connection is told to go (GOAWAY), so that callers spread over replicas; up to a tenth is
    /// taken off at random.
    pub max_connection_age: Duration,
    /// Calls at a time on one connection.
    pub max_concurrent_streams: u32,
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
        print::yaml(&print::tree(self))
    }

    /// The keys that differ between these settings and `newer` and are not hot: they need a restart.
    #[must_use]
    pub fn needs_restart(&self, newer: &Self) -> Vec<String> {
        print::differing_cold_keys(self, newer)
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

    /// Whether only this machine can reach the server, so that lower tiers may run commands on it (design §9).
    #[must_use]
    pub fn listens_locally(&self) -> bool {
        self.listen.iter().all(Listen::is_local)
    }
}

impl Listen {
    /// Whether only this machine can reach the address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ServerCommands {
    /// Whether they run, `local` being whether only this machine can reach the server.
    #[must_use]
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::Loopback => local,
            Self::Allow => true,
            Self::Deny => false,
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// The variables of the environment that settings are read from, which start with `HOOKD__`, and those that may be meant
/// to be: that start with `HOOKD_`.
#[must_use]
pub fn environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| name.starts_with("HOOKD_"))
        .collect()
}

/// The default sources: used as a whole while no tier names sources of its own.
fn default_sources(tier: Tier, working_directory: &Path) -> Vec<SourceSettings> {
    let path = match tier {
        Tier::Managed => PathBuf::from("/etc/hookd/managed"),
        Tier::Local => working_directory.join(".ling/hooks.local.json"),
        Tier::Shared => working_directory.join(".ling/hooks.json"),
        Tier::Team | Tier::Plugin => return Vec::new(),
    };
    vec![SourceSettings { path, optional: true, selector: None }]
}

#[cfg(test)]
mod tests;
