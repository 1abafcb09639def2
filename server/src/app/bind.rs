use std::{env, net::SocketAddr, sync::Arc};

use hookd_proto::v1::{admin_service_server::AdminServiceServer, hook_service_server::HookServiceServer};
use hookd_runner::{Capacity, Runner};
use tokio::net::TcpListener;
use tonic::{codec::CompressionEncoding, service::Routes};

use super::{StartError, environment, holding, open_files, reload::Reload, views};
use crate::{
    catalog::Live,
    door::{
        connection::ConnectionLimit,
        identity::Authenticator,
        listener::{self, Listener},
        places::Places,
        services::Services,
        tls::{Tls, TlsReload},
    },
    drain::{Readiness, Waiting},
    record::{Audit, Recorder, Traces},
    rpc::{
        admin::Admin,
        health,
        trigger::{Bounds, TriggerService},
    },
    run::{BreakerSettings, BulkheadSettings, Holding, Pool, PoolSettings},
    settings::{self, Origin, Settings},
    telemetry::{DecisionLog, Secrets},
};

/// A server that has its ports and its rules.
pub(super) struct App {
    pub(super) settings: Settings,
    pub(super) tls: Option<(Tls, TlsReload)>,
    pub(super) listeners: Vec<Listener>,
    pub(super) admin: (TcpListener, SocketAddr),
    pub(super) live: Live,
    pub(super) reload: Reload,
    pub(super) recorder: Arc<Recorder>,
    pub(super) runner: Runner,
    pub(super) holding: Arc<Holding>,
    pub(super) pool: Arc<Pool>,
    pub(super) readiness: Readiness,
    pub(super) starting: Waiting,
    pub(super) services: Services<Pool>,
    pub(super) triggers: Arc<TriggerService<Pool>>,
    pub(super) places: Arc<Places>,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) connections: Arc<ConnectionLimit>,
}

impl App {
    /// Opens the ports and loads the rules.
    pub(super) async fn bind(origin: Origin, settings: Settings, decisions: DecisionLog) -> Result<Self, StartError> {
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

        let reload = Reload::start(origin, settings.clone(), environment()).await;
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
        recorder.watch(views::gauges(&live, &places, &connections, &pool, &runner, tls.as_ref()));

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
