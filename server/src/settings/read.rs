//! From the layers to [`Settings`].

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use config::{Config, Environment, Map, Value, ValueKind};
use hookd_rules::{AskFallback, DeferFallback, Fallbacks, Mode, ModifyFallback, OnError, PerTier, Tier};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::{
    DrainSettings, Http2Settings, Limits, Listen, LogFormat, LogSettings, ServerCommands, Settings, SettingsError,
    TierSettings, audit, bulkheads, default_sources, http_handlers, identity, permits,
    section::{Reading, Section, absolute, text},
    tls,
};

/// What names of environment variables start with that are settings.
pub(super) const PREFIX: &str = "HOOKD__";

const SECOND: Duration = Duration::from_secs(1);
const MIB: usize = 1 << 20;
const HOSTS: &str = "a name without scheme and port or a list of them, such as hookd.example.com";
const ADDRESSES: &str = "an address or a list of them, such as 127.0.0.1:50051, [::1]:50051 or unix:/run/hookd.sock";

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The settings file: YAML, JSON or TOML by extension. `None`: there is none.
    pub file: Option<PathBuf>,
    /// The variables of the environment that start with `HOOKD_`: see [`super::environment`].
    pub environment: BTreeMap<String, String>,
    /// Where relative paths start that stand in no file.
    pub working_directory: PathBuf,
}

pub(super) fn read(origin: &Origin) -> Result<Settings, SettingsError> {
    let file = origin.file.as_ref().map(|path| origin.working_directory.join(path));
    let directory = file.as_ref().and_then(|path| path.parent()).unwrap_or(&origin.working_directory);
    let reading = Reading {
        file: file.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        file_directory: directory,
        working_directory: &origin.working_directory,
        problems: Vec::new().into(),
    };
    let table = merged(file.as_deref(), &origin.environment).map_err(|message| SettingsError::new(vec![message]))?;
    let settings = resolve(Section::top(&reading, table), &origin.working_directory);
    reading.problems.borrow_mut().extend(mistaken_variables(&origin.environment, &settings));
    reading.finish(settings)
}

/// Variables that are settings but for their second underscore. Whatever else begins with `HOOKD_` is somebody else's: the
/// clients', or Kubernetes' for a service of that name.
fn mistaken_variables(environment: &BTreeMap<String, String>, settings: &Settings) -> Vec<String> {
    let tree = super::print::tree(settings);
    let keys = tree.as_object().into_iter().flat_map(|keys| keys.keys()).map(|key| key.to_uppercase());
    let keys = keys.collect::<Vec<_>>();
    let meant = |name: &str| {
        let rest = name.strip_prefix("HOOKD_").filter(|rest| !rest.starts_with('_'))?;
        let key = rest.split_once("__").map_or(rest, |(key, _)| key);
        keys.iter().any(|known| known == key).then(|| format!("{PREFIX}{rest}"))
    };
    let message = |name: &String| Some(format!("environment {name}: is no setting, did you mean {}", meant(name)?));
    environment.keys().filter_map(message).collect()
}

/// The layers as one table; the error is one line.
fn merged(file: Option<&Path>, environment: &BTreeMap<String, String>) -> Result<Map<String, Value>, String> {
    let mut layers = Config::builder();
    if let Some(path) = file
        && let Some(layer) = super::file::layer(path)?
    {
        layers = layers.add_source(layer);
    }
    let environment = environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let merged = layers
        .add_source(Environment::with_prefix("HOOKD").separator("__").source(Some(environment)))
        .build()
        .map_err(|error| {
            let error = error.to_string();
            let Some(path) = file.map(Path::display) else { return error };
            super::file::toml_error(&error).map_or_else(|| format!("{path}: {error}"), |at| format!("{path}:{at}"))
        })?;
    match merged.cache.kind {
        ValueKind::Table(table) => Ok(table),
        _ => Ok(Map::new()),
    }
}

fn resolve(mut top: Section<'_, '_>, working_directory: &Path) -> Settings {
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let listen_value = top.peek("listen").cloned();
    let listen = listen(&mut top).unwrap_or_else(|| vec![Listen::Tcp(loopback(50051))]);
    let hosts = hosts(&mut top);
    let admin_value = top.peek("admin_listen").cloned();
    let admin_listen = top
        .read("admin_listen", |value| text(value)?.parse().ok(), "an address, such as 127.0.0.1:8081")
        .unwrap_or_else(|| loopback(8081));
    taken_twice(&top, &listen, listen_value.as_ref(), admin_listen, admin_value.as_ref());
    let (tls, plaintext) = tls::transport(&mut top, &listen, listen_value.as_ref());
    let limits = limits(top.section("limits"));
    let tiers = tiers(top.section("tiers"), working_directory, limits.max_handler_timeout);

    let bulkheads = bulkheads::bulkheads(top.section("bulkheads"));
    let commands = super::commands::commands(top.section("commands"));

    let http_handlers = http_handlers::http_handlers(top.section("http_handlers"));
    let drain = drain(top.section("drain"), &limits);
    let fallbacks = fallbacks(top.section("fallbacks"));

    let mut section = top.section("log");
    let log = LogSettings {
        format: section
            .read(
                "format",
                one_of(&[("auto", LogFormat::Auto), ("human", LogFormat::Human), ("json", LogFormat::Json)]),
                "auto, human or json",
            )
            .unwrap_or(LogFormat::Auto),
        filter: section
            .read("filter", log_filter, "a log filter, such as info or info,hookd=debug")
            .unwrap_or_else(|| "info".to_owned()),
    };
    section.end();

    let mut section = top.section("http2");
    let http2 = Http2Settings {
        keepalive_interval: section.duration("keepalive_interval", SECOND.saturating_mul(30)),
        keepalive_timeout: section.duration("keepalive_timeout", SECOND.saturating_mul(10)),
        max_connection_age: section.duration("max_connection_age", SECOND.saturating_mul(30 * 60)),
        max_concurrent_streams: u32::try_from(section.count("max_concurrent_streams", 256)).unwrap_or(u32::MAX),
    };
    section.end();
    let audit = audit::audit(top.section("audit"));
    let traces = super::traces::traces(top.section("traces"));
    let identity = identity::identity(top.section("identity"));
    let permissions = identity::permissions(&mut top);
    top.end();
    Settings {
        listen,
        hosts,
        admin_listen,
        tls,
        plaintext,
        tiers,
        limits,
        bulkheads,
        commands,
        http_handlers,
        drain,
        fallbacks,
        log,
        http2,
        audit,
        traces,
        identity,
        permissions,
    }
}

fn listen(top: &mut Section<'_, '_>) -> Option<Vec<Listen>> {
    let base = top.peek("listen").map(|value| top.base(value));
    let given = top.strings("listen", ADDRESSES)?;
    let base = base?;
    let mut addresses = Vec::new();
    for address in &given {
        match address.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => addresses.push(Listen::Unix(absolute(base, path))),
            _ => match address.parse() {
                Ok(address) => addresses.push(Listen::Tcp(address)),
                Err(_) => top.problem("listen", None, &format!("{address:?} is not {ADDRESSES}")),
            },
        }
    }
    if given.is_empty() {
        top.problem("listen", None, &format!("an empty list is not {ADDRESSES}"));
    }
    Some(addresses)
}

/// Addresses that hookd would find taken by itself.
fn taken_twice(
    top: &Section<'_, '_>,
    listen: &[Listen],
    listen_value: Option<&Value>,
    admin_listen: SocketAddr,
    admin_value: Option<&Value>,
) {
    let is_one = |address: &Listen| !matches!(address, Listen::Tcp(address) if address.port() == 0);
    for (at, address) in listen.iter().enumerate().filter(|(_, address)| is_one(address)) {
        if listen.iter().take(at).any(|other| other == address) {
            top.problem("listen", listen_value, &format!("{address} stands there twice"));
        }
    }
    let admin = Listen::Tcp(admin_listen);
    if is_one(&admin) && listen.contains(&admin) {
        let message =
            format!("{admin} is an address of `listen` as well, expected one of its own, such as 127.0.0.1:8081");
        top.problem("admin_listen", admin_value, &message);
    }
}

fn hosts(top: &mut Section<'_, '_>) -> Vec<String> {
    let given = top.strings("hosts", HOSTS).unwrap_or_else(|| vec!["localhost".to_owned()]);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    for host in given.iter().filter(|host| !host.chars().all(plain)) {
        top.problem("hosts", None, &format!("{host:?} is not {HOSTS}"));
    }
    given.into_iter().map(|host| host.to_ascii_lowercase()).collect()
}

fn tiers(
    mut section: Section<'_, '_>,
    working_directory: &Path,
    max_handler_timeout: Duration,
) -> PerTier<TierSettings> {
    let mut sources_named = false;
    let mut tiers = PerTier::from_fn(|tier| {
        let mut section = section.section(tier.name());
        let defaults = hookd_rules::TierSettings::new(tier);
        let sources = section.sources("sources");
        sources_named |= sources.is_some();
        if tier.is_central() && section.peek("server_commands").is_some() {
            section.problem(
                "server_commands",
                section.peek("server_commands"),
                "is for local, shared and plugin: commands of this tier always run on the server",
            );
        }
        let settings = TierSettings {
            sources: sources.unwrap_or_default(),
            mode: section
                .read("mode", one_of(&[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)]), "enforce or shadow")
                .unwrap_or_default(),
            on_error: section
                .read("on_error", one_of(&[("allow", OnError::Allow), ("block", OnError::Block)]), "allow or block")
                .unwrap_or(defaults.policy.on_error),
            may_allow: section.yes_or_no("may_allow", defaults.policy.may_allow),
            allow_env: section
                .strings("allow_env", "a list of names of variables, such as [SLACK_TOKEN]")
                .unwrap_or_default(),
            allow_files: section.paths("allow_files").unwrap_or_default(),
            server_commands: section
                .read(
                    "server_commands",
                    one_of(&[
                        ("loopback", ServerCommands::Loopback),
                        ("allow", ServerCommands::Allow),
                        ("deny", ServerCommands::Deny),
                    ]),
                    "loopback, allow or deny",
                )
                .filter(|_| !tier.is_central())
                .unwrap_or(if tier.is_central() { ServerCommands::Allow } else { ServerCommands::Loopback }),
            permits: permits::permits(&mut section, tier, max_handler_timeout),
        };
        section.end();
        settings
    });
    section.end();
    if !sources_named {
        for tier in Tier::ALL {
            tiers.get_mut(tier).sources = default_sources(tier, working_directory);
        }
    }
    tiers
}

fn limits(mut section: Section<'_, '_>) -> Limits {
    let limits = Limits {
        default_deadline: section.duration("default_deadline", SECOND.saturating_mul(30)),
        max_deadline: section.duration("max_deadline", SECOND.saturating_mul(60)),
        max_handler_timeout: section.duration("max_handler_timeout", SECOND.saturating_mul(60)),
        in_flight: section.count("in_flight", 1024),
        children: section.count("children", 64),
        child_queue: section.count("child_queue", 256),
        async_in_flight: section.count("async_in_flight", 256),
        connections: section.count("connections", 16_384),
        connections_of_one_address: section.count("connections_of_one_address", 4096),
        message_bytes: section.message_size("message_bytes", 4 * MIB),
        output_bytes: section.size("output_bytes", MIB),
    };
    if limits.max_deadline < limits.default_deadline {
        section.problem(
            "max_deadline",
            None,
            &format!(
                "{} is shorter than limits.default_deadline ({}), set it to at least that",
                humantime::format_duration(limits.max_deadline),
                humantime::format_duration(limits.default_deadline),
            ),
        );
    }
    section.end();
    limits
}

fn drain(mut section: Section<'_, '_>, limits: &Limits) -> DrainSettings {
    let drain = DrainSettings {
        min_delay: section.duration_or_zero("min_delay", SECOND),
        limit: section.duration("limit", SECOND.saturating_mul(30).max(limits.default_deadline)),
    };
    if drain.limit < limits.default_deadline {
        section.problem(
            "limit",
            None,
            &format!(
                "{} is shorter than limits.default_deadline ({}), so calls would be cut, set it to at least that",
                humantime::format_duration(drain.limit),
                humantime::format_duration(limits.default_deadline),
            ),
        );
    }
    section.end();
    drain
}

fn fallbacks(mut section: Section<'_, '_>) -> Fallbacks {
    let fallbacks = Fallbacks {
        ask: section
            .read("ask", one_of(&[("block", AskFallback::Block), ("allow", AskFallback::Allow)]), "block or allow")
            .unwrap_or_default(),
        defer: section
            .read("defer", one_of(&[("block", DeferFallback::Block), ("ask", DeferFallback::Ask)]), "block or ask")
            .unwrap_or_default(),
        modify: section.read("modify", one_of(&[("block", ModifyFallback::Block)]), "block").unwrap_or_default(),
    };
    section.end();
    fallbacks
}

pub(super) fn one_of<T: Copy>(names: &[(&str, T)]) -> impl FnOnce(&Value) -> Option<T> {
    move |value| {
        let given = text(value)?;
        names.iter().find(|(name, _)| *name == given).map(|(_, meant)| *meant)
    }
}

pub(super) fn search_path(value: &Value) -> Option<String> {
    text(value).filter(|path| path.split(':').all(|entry| entry.starts_with('/'))).map(str::to_owned)
}

fn log_filter(value: &Value) -> Option<String> {
    // A word alone would be taken for a target, so that a mistyped level silences everything.
    let is_level = |directive: &str| directive.trim().parse::<LevelFilter>().is_ok();
    let is_meant = |filter: &&str| filter.split(',').all(|one| one.contains(['=', '[']) || is_level(one));
    text(value).filter(is_meant).filter(|filter| EnvFilter::try_new(filter).is_ok()).map(str::to_owned)
}
