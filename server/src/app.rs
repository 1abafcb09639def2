//! The composition root: settings → ports → catalog → serving → drained.

pub mod arguments;
mod check;
mod open_files;
mod reload;
mod shutdown;
mod signals;

use std::{
    env,
    ffi::OsString,
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use hookd_proto::v1::{admin_service_server::AdminServiceServer, hook_service_server::HookServiceServer};
use hookd_rules::{Environment, Severity, SourceState};
use hookd_runner::{Capacity, Runner};
use rustix::process::getpid;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};
use tokio_util::task::TaskTracker;
use tonic::{codec::CompressionEncoding, service::Routes};
use tracing::{info, warn};

use crate::{
    catalog::{Live, ReloadReport},
    door::{
        calls::Calls,
        connection::{Arrived, ConnectionLimit, Connections},
        http::{self, Pages},
        identity::Authenticator,
        layers::Layers,
        listener::{self, BindError, Listener},
        places::Places,
        plain::{Hosts, Plain, PlainHttp, SHED_READERS},
        services::Services,
        tls::{Tls, TlsError, TlsReload},
    },
    drain::{Drain, Readiness, Waiting},
    record::{Audit, Gauges, NoAudit, Recorder, TlsCounts, Traces},
    rpc::{
        admin::Admin,
        health,
        trigger::{Bounds, TriggerService},
    },
    run::{BreakerSettings, BulkheadSettings, Holding, HoldingError, Pool, PoolError, PoolSettings},
    settings::{self, Origin, Settings, SettingsError, TlsSettings},
    telemetry::{self, DecisionLog, Secrets, audit::AuditError, otlp::OtlpError},
};
use arguments::Arguments;
use shutdown::Leaving;
use signals::Signals;

/// How long the end of the process waits for the last records of the audit trail.
const AUDIT_LIMIT: Duration = Duration::from_secs(5);
/// How long it waits for a collector after that.
const EXPORT_LIMIT: Duration = Duration::from_secs(5);

/// How the process ends; the number is its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything is done: drained, printed, or checked without an error.
    Done = 0,
    /// It could not serve, or the check found an error.
    Failed = 1,
    /// The arguments, the settings or the central rules cannot be used.
    Unusable = 64,
    /// A second signal ended it at once.
    Forced = 130,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{}", .0.lines(Severity::Error).collect::<Vec<_>>().join("\n"))]
    Rules(Box<ReloadReport>),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0}: {1}")]
    Bind(&'static str, BindError),
    #[error(transparent)]
    Audit(#[from] NoAudit),
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Holding(#[from] HoldingError),
    #[error("cannot serve reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    #[error("{0}")]
    Identity(String),
    #[error("{0}")]
    Other(#[from] io::Error),
}

/// A server that has its ports and its rules.
struct App {
    settings: Settings,
    tls: Option<(Tls, TlsReload)>,
    listeners: Vec<Listener>,
    admin: (TcpListener, SocketAddr),
    live: Live,
    reload: reload::Reload,
    recorder: Arc<Recorder>,
    runner: Runner,
    holding: Arc<Holding>,
    pool: Arc<Pool>,
    readiness: Readiness,
    starting: Waiting,
    services: Services<Pool>,
    triggers: Arc<TriggerService<Pool>>,
    places: Arc<Places>,
    authenticator: Arc<Authenticator>,
    connections: Arc<ConnectionLimit>,
}

/// Does what the arguments ask for, to the end of the process. What is wrong is told on stderr.
pub async fn run(arguments: Arguments) -> Exit {
    match start(arguments).await {
        Ok(exit) => exit,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            error.exit()
        }
    }
}

impl StartError {
    /// Whether the settings, or files that they name, cannot be used; or the machine has not what they ask for just now.
    fn exit(&self) -> Exit {
        match self {
            Self::Settings(_)
            | Self::Rules(_)
            | Self::Tls(_)
            | Self::Identity(_)
            | Self::Holding(_)
            | Self::Otlp(_)
            | Self::Audit(NoAudit::Key { .. } | NoAudit::Trail(AuditError::Otlp(_)))
            | Self::Pool(PoolError::Http(_)) => Exit::Unusable,
            Self::Bind(..)
            | Self::Audit(NoAudit::Trail(AuditError::File { .. } | AuditError::Stdout(_) | AuditError::Thread(_)))
            | Self::Pool(PoolError::NoRuntime(_))
            | Self::Reflection(_)
            | Self::Other(_) => Exit::Failed,
        }
    }
}

async fn start(arguments: Arguments) -> Result<Exit, StartError> {
    let origin = Origin {
        file: arguments.config,
        environment: settings::environment(env::vars_os()),
        working_directory: env::current_dir()?,
    };
    let settings = Settings::read(&origin)?;
    if arguments.print_config {
        io::stdout().write_all(settings.to_yaml().as_bytes())?;
        return Ok(Exit::Done);
    }
    if arguments.check {
        check::files(&settings)?;
        holding(&settings).await?;
        let load = settings.for_rules(settings.listens_locally(), environment());
        return Ok(check::check(&load, &mut io::stdout())?);
    }
    let (decisions, _last_lines) = telemetry::init(&settings.log).map_err(io::Error::other)?;
    open_files::raise();
    let signals = Signals::install()?;
    App::bind(origin, settings, decisions).await?.serve(signals).await
}

impl App {
    /// Opens the ports and loads the rules.
    async fn bind(origin: Origin, settings: Settings, decisions: DecisionLog) -> Result<Self, StartError> {
        let holding = holding(&settings).await?;
        let readiness = Readiness::new();
        let starting = readiness.wait_for("start");
        let tls = match &settings.tls {
            Some(settings) => Some(Tls::start(settings).await?),
            None => None,
        };
        let mut listeners = Vec::new();
        for address in &settings.listen {
            listeners.push(Listener::bind(address).await.map_err(|error| StartError::Bind("listen", error))?);
        }
        let admin = listener::bind_tcp(settings.admin_listen).await;
        let admin = admin.map_err(|error| StartError::Bind("admin_listen", error))?;

        let reload = reload::Reload::start(origin, settings.clone(), environment()).await;
        let live = Live::start(reload.read_settings()).await.map_err(|report| StartError::Rules(Box::new(report)))?;

        let secrets = Secrets::default();
        let recorder = Recorder::new(decisions, Audit::begin(&settings.audit, secrets.clone())?);
        let recorder = Arc::new(recorder.with_traces(Traces::begin(&settings.traces)?));
        let authenticator = Authenticator::start(&settings.identity, &settings.permissions, Arc::clone(&recorder));
        let authenticator = authenticator.await.map_err(StartError::Identity)?;
        let limits = &settings.limits;
        let runner = Runner::new(Capacity {
            children: limits.children,
            queue: limits.child_queue,
            background: limits.async_in_flight,
        });
        let pool_settings = PoolSettings {
            commands_path: settings.commands.path.clone(),
            holding: Arc::clone(&holding),
            output_bytes: limits.output_bytes,
            async_in_flight: limits.async_in_flight,
            http_ca: settings.http_handlers.ca.clone(),
            bulkheads: bulkheads(&settings),
            environment: env::vars_os().collect(),
        };
        let counting = Arc::clone(&recorder);
        let ended = move |rule: &_, trigger: &_, ran: &_| counting.background_ended(rule, trigger, ran);
        let pool = Arc::new(Pool::new(&pool_settings, runner.clone(), secrets, ended)?);
        let rate = settings.bulkheads.tenant_rate;
        let places = Arc::new(Places::new(limits.in_flight, rate, Arc::clone(&recorder)));
        let connections = open_files::connections(limits);
        let connections = ConnectionLimit::new(connections, limits.connections_of_one_address, Arc::clone(&recorder));
        let connections = Arc::new(connections);
        recorder.watch(gauges(&live, &places, &connections, &pool, &runner, tls.as_ref()));

        let bounds = Bounds {
            default_deadline: limits.default_deadline,
            max_deadline: limits.max_deadline,
            message_bytes: limits.message_bytes,
            output_bytes: limits.output_bytes,
        };
        let triggers = TriggerService::new(
            live.clone(),
            Arc::clone(&pool),
            Arc::clone(&recorder),
            bounds,
            Arc::clone(pool.slots()),
        );
        let triggers = Arc::new(triggers);
        let admin_service = AdminServiceServer::new(Admin::new(live.clone(), readiness.clone()))
            .max_decoding_message_size(limits.message_bytes)
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip);
        let hook_service = HookServiceServer::from_arc(Arc::clone(&triggers))
            .max_decoding_message_size(limits.message_bytes)
            .max_encoding_message_size(limits.message_bytes)
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip);
        let others = Routes::new(admin_service)
            .add_service(health::service(readiness.clone()))
            .add_service(health::reflection()?)
            .add_service(health::early_reflection()?);
        Ok(Self {
            settings,
            tls,
            listeners,
            admin,
            live,
            reload,
            recorder,
            runner,
            holding,
            pool,
            readiness,
            starting,
            services: Services::new(hook_service, others),
            triggers,
            places,
            authenticator,
            connections,
        })
    }

    /// Serves until a signal, and leaves.
    async fn serve(self, mut signals: Signals) -> Result<Exit, StartError> {
        let Self {
            settings,
            tls,
            listeners,
            admin,
            live,
            reload,
            recorder,
            runner,
            holding,
            pool,
            readiness,
            starting,
            services,
            triggers,
            places,
            authenticator,
            connections,
        } = self;
        let addresses = listeners.iter().map(|listener| listener.address().to_string()).collect::<Vec<_>>().join(",");
        let (admin_listener, admin_address) = admin;
        let (tls, tls_reload) = tls.unzip();
        let details = details(&live, &holding, &recorder, tls.clone(), &authenticator);
        let pages = Pages { readiness: readiness.clone(), details, recorder: Arc::clone(&recorder) };
        let admin_pages = tokio::spawn(http::serve(admin_listener, pages));

        let (drain, open) = (Drain::new(), TaskTracker::new());
        let layers = Layers {
            places: Arc::clone(&places),
            message_bytes: settings.limits.message_bytes,
            arrival_limit: settings.limits.default_deadline,
            drain: drain.clone(),
            recorder: Arc::clone(&recorder),
        };
        let plain = Arc::new(PlainHttp {
            triggers,
            places,
            shed: Semaphore::new(SHED_READERS),
            message_bytes: settings.limits.message_bytes,
            default_deadline: settings.limits.default_deadline,
            drain: drain.clone(),
            recorder: Arc::clone(&recorder),
        });
        let connections = Connections {
            http2: settings.http2,
            tls,
            longest_call: settings.limits.max_deadline.saturating_add(Duration::from_secs(5)),
            drain: drain.clone(),
            open: open.clone(),
            limit: connections,
        };
        for listener in listeners {
            let (layers, services, plain) = (layers.clone(), services.clone(), Arc::clone(&plain));
            let authenticator = Arc::clone(&authenticator);
            let hosts = Arc::new(Hosts::of(listener.address(), &settings.hosts));
            let service = move |arrived: Arrived| {
                let visitor = Arc::new(authenticator.visitor(&arrived));
                let plain = Plain::new(Arc::clone(&plain), Arc::clone(&hosts), Arc::clone(&visitor));
                Calls::new(layers.around(services.clone(), visitor), plain)
            };
            open.spawn(listener.watch(readiness.clone(), drain.clone()));
            open.spawn(connections.clone().accept(listener, service));
        }
        let reloading = tokio::spawn(reload.run(live.clone(), signals.hangups()));
        let tls_reloading = tls_reload.map(|reload| tokio::spawn(reload.run(signals.hangups())));
        // Only now: trying out what holds commands in has started a child that no runner knows of.
        let reaping = getpid().is_init().then(|| tokio::spawn(hookd_runner::reap_orphans()));
        drop(starting);
        info!(how = holding.summary(), "commands are held in");
        let tls = tls_text(settings.tls.as_ref());
        info!(grpc = addresses, admin = %admin_address, tls, version = env!("CARGO_PKG_VERSION"), "serving");
        if settings.tls.is_none() && !settings.listens_locally() {
            warn!("calls from other machines are plain text, as `plaintext: allow` permits");
        }
        let mut stdout = io::stdout();
        // Whoever started the server may not read this; that is no reason not to serve.
        let _ =
            writeln!(stdout, "hookd is ready: grpc={addresses} admin={admin_address}").and_then(|()| stdout.flush());

        signals.stop().await;
        let cutting = drain.clone();
        let leaving = Leaving { settings: settings.drain, readiness, drain, open, pool, runner: runner.clone() };
        let exit = tokio::select! {
            () = leaving.leave() => Exit::Done,
            () = signals.stop() => {
                warn!("a second signal: leaving at once");
                // Calls first: that their children are killed must not become their answer.
                cutting.close();
                cutting.cut();
                runner.shutdown(Duration::ZERO).await;
                Exit::Forced
            }
        };
        // Last, when nothing is left to be recorded.
        if let Some(trail) = recorder.trail()
            && !trail.close(AUDIT_LIMIT).await
        {
            warn!("the audit trail could not be ended: its last records may be missing");
        }
        if !recorder.close_exporters(EXPORT_LIMIT).await {
            warn!("what waited for the OTLP collector is lost: it did not take it in time");
        }
        reloading.abort();
        tls_reloading.inspect(JoinHandle::abort);
        reaping.inspect(JoinHandle::abort);
        admin_pages.abort();
        Ok(exit)
    }
}

/// The variables that header values can name.
fn environment() -> Environment {
    let text = |text: OsString| text.into_string().ok();
    env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// How wide the bulkheads of handlers are.
fn bulkheads(settings: &Settings) -> BulkheadSettings {
    let Settings { bulkheads, limits, .. } = settings;
    BulkheadSettings {
        slots: settings::BulkheadSettings::slots(limits),
        tenant_slots: settings::BulkheadSettings::tenant_slots(limits),
        http_runs: bulkheads.handler_in_flight,
        command_runs: bulkheads.command_in_flight(limits),
        tenant_commands: settings::BulkheadSettings::tenant_commands(limits),
        background_runs: bulkheads.background_in_flight(limits),
        tenant_background: settings::BulkheadSettings::tenant_background(limits),
        queue: bulkheads.handler_queue,
        breaker: bulkheads.breaker_failure_percent.map(|failure_percent| BreakerSettings {
            failure_percent,
            runs: bulkheads.breaker_runs,
            open_for: bulkheads.breaker_open_for,
        }),
    }
}

fn gauges(
    live: &Live,
    places: &Arc<Places>,
    connections: &Arc<ConnectionLimit>,
    pool: &Arc<Pool>,
    runner: &Runner,
    tls: Option<&(Tls, TlsReload)>,
) -> Gauges {
    let (evaluated, arriving, leaving) = (Arc::clone(places), Arc::clone(places), Arc::clone(places));
    let connections = Arc::clone(connections);
    let (slots, breakers, pool) = (Arc::clone(pool.slots()), Arc::clone(pool), Arc::clone(pool));
    let (alive, waiting) = (runner.clone(), runner.clone());
    Gauges {
        in_flight: Box::new(move || evaluated.taken()),
        arriving: Box::new(move || arriving.count_arriving()),
        leaving: Box::new(move || leaving.count_leaving()),
        connections: Box::new(move || connections.open()),
        background: Box::new(move || pool.background()),
        children: Box::new(move || alive.live()),
        child_queue: Box::new(move || waiting.queued()),
        handler_slots: Box::new(move || slots.taken()),
        open_breakers: Box::new(move || breakers.open_breakers()),
        live: live.clone(),
        tls: tls.map(|(tls, _)| -> Box<dyn Fn() -> TlsCounts + Send + Sync> {
            let tls = tls.clone();
            Box::new(move || tls.counts())
        }),
    }
}

/// How the TCP addresses are spoken to, for the log.
fn tls_text(settings: Option<&TlsSettings>) -> String {
    let Some(settings) = settings else { return "off".to_owned() };
    let clients = match &settings.clients {
        None => "not asked for",
        Some(clients) if clients.required => "required",
        Some(_) => "optional",
    };
    format!("{} or newer, client certificates {clients}", settings.min_version.name())
}

/// Tries out what holds commands in.
async fn holding(settings: &Settings) -> Result<Arc<Holding>, StartError> {
    let commands = settings.commands.clone();
    let tried = tokio::task::spawn_blocking(move || Holding::new(&commands, env::temp_dir())).await;
    Ok(Arc::new(tried.map_err(io::Error::other)??))
}

/// What `/readyz` shows besides: what holds commands in, sources of which not everything is in force, what is wrong with
/// certificates and with the audit trail, and issuers without keys.
fn details(
    live: &Live,
    holding: &Holding,
    recorder: &Arc<Recorder>,
    tls: Option<Tls>,
    authenticator: &Arc<Authenticator>,
) -> Arc<dyn Fn() -> Vec<String> + Send + Sync> {
    let (live, recorder, authenticator) = (live.clone(), Arc::clone(recorder), Arc::clone(authenticator));
    let commands = format!("commands: {}", holding.summary());
    Arc::new(move || {
        let report = live.last_report();
        let mut lines = vec![format!("revision: {}", live.current().revision), commands.clone()];
        if report.is_refused {
            lines.push("the last reload was refused: the rules before it stay in force".to_owned());
        }
        for source in &report.sources {
            let what = match source.state {
                SourceState::Stale => "stale",
                SourceState::Partial => "in part",
                SourceState::Loaded | SourceState::Absent => continue,
            };
            lines.push(format!("{what}: {} {}", source.tier, source.path.display()));
        }
        lines.extend(report.lines(Severity::Error).map(|error| format!("error: {error}")));
        lines.extend(tls.iter().flat_map(Tls::details));
        lines.extend(recorder.troubles());
        lines.extend(authenticator.troubles());
        lines
    })
}

/// The path of the settings file, absolute, to be watched with the rules.
fn settings_path(origin: &Origin) -> Option<PathBuf> {
    origin.file.as_ref().map(|file| origin.working_directory.join(file))
}
