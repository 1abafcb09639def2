//! From the layers to [`Settings`].

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use config::{Config, Environment, Map, Value, ValueKind};

use super::{
    Listen, Settings, SettingsError, audit, bulkheads, commands, drain, fallbacks, http_handlers, http2, identity,
    limits, listen, log,
    section::{Reading, Section, text},
    tiers, tls, traces,
};

/// What names of environment variables start with that are settings.
pub(super) const PREFIX: &str = "HOOKD__";

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
    let tree = super::tree::tree(settings);
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
    let listen = listen::listen(&mut top).unwrap_or_else(|| vec![Listen::Tcp(loopback(50051))]);
    let hosts = listen::hosts(&mut top);
    let admin_value = top.peek("admin_listen").cloned();
    let admin_listen = top
        .read("admin_listen", |value| text(value)?.parse().ok(), "an address, such as 127.0.0.1:8081")
        .unwrap_or_else(|| loopback(8081));
    listen::taken_twice(&top, &listen, listen_value.as_ref(), admin_listen, admin_value.as_ref());
    let (tls, plaintext) = tls::transport(&mut top, &listen, listen_value.as_ref());
    let limits = limits::limits(top.section("limits"));
    top.refuse_null("tiers", tiers::CUT_OFF);
    let settings = Settings {
        hosts,
        admin_listen,
        tls,
        plaintext,
        tiers: tiers::tiers(top.section("tiers"), working_directory, limits.max_handler_timeout),
        bulkheads: bulkheads::bulkheads(top.section("bulkheads")),
        commands: commands::commands(top.section("commands")),
        http_handlers: http_handlers::http_handlers(top.section("http_handlers")),
        drain: drain::drain(top.section("drain"), &limits),
        fallbacks: fallbacks::fallbacks(top.section("fallbacks")),
        log: log::log(top.section("log")),
        http2: http2::http2(top.section("http2")),
        audit: audit::audit(top.section("audit")),
        traces: traces::traces(top.section("traces")),
        identity: identity::identity(top.section("identity")),
        permissions: identity::permissions(&mut top),
        listen,
        limits,
    };
    top.end();
    settings
}
