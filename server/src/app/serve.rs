use std::{
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use rustix::process::getpid;
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{App, Exit, StartError, shutdown::Leaving, signals::Signals, views};
use crate::{
    door::{
        arrived::Arrived,
        calls::Calls,
        connection::Connections,
        http::{self, Pages},
        layers::Layers,
        plain::{Hosts, Plain, PlainHttp, SHED_READERS},
    },
    drain::Drain,
    settings::TlsSettings,
};

/// How long the end of the process waits for the last records of the audit trail.
const AUDIT_LIMIT: Duration = Duration::from_secs(5);
/// How long it waits for a collector after that.
const EXPORT_LIMIT: Duration = Duration::from_secs(5);

impl App {
    /// Serves until a signal, and leaves.
    pub(super) async fn serve(self, mut signals: Signals) -> Result<Exit, StartError> {
        let addresses =
            self.listeners.iter().map(|listener| listener.address().to_string()).collect::<Vec<_>>().join(",");
        let (admin_listener, admin_address) = self.admin;
        let (tls, tls_reload) = self.tls.unzip();
        let details = views::details(&self.live, &self.holding, &self.recorder, tls.clone(), &self.authenticator);
        let pages = Pages { readiness: self.readiness.clone(), details, recorder: Arc::clone(&self.recorder) };
        let admin_pages = tokio::spawn(http::serve(admin_listener, pages));

        let (drain, open) = (Drain::new(), TaskTracker::new());
        let layers = Layers {
            places: Arc::clone(&self.places),
            message_bytes: self.settings.limits.message_bytes,
            arrival_limit: self.settings.limits.default_deadline,
            drain: drain.clone(),
            recorder: Arc::clone(&self.recorder),
        };
        let plain = Arc::new(PlainHttp {
            triggers: self.triggers,
            places: self.places,
            shed: Semaphore::new(SHED_READERS),
            message_bytes: self.settings.limits.message_bytes,
            default_deadline: self.settings.limits.default_deadline,
            drain: drain.clone(),
            recorder: Arc::clone(&self.recorder),
        });
        let connections = Connections {
            http2: self.settings.http2,
            tls,
            longest_call: self.settings.limits.max_deadline.saturating_add(Duration::from_secs(5)),
            drain: drain.clone(),
            open: open.clone(),
            limit: self.connections,
        };
        for listener in self.listeners {
            let (layers, services, plain) = (layers.clone(), self.services.clone(), Arc::clone(&plain));
            let authenticator = Arc::clone(&self.authenticator);
            let hosts = Arc::new(Hosts::of(listener.address(), &self.settings.hosts));
            let service = move |arrived: Arrived| {
                let visitor = Arc::new(authenticator.visitor(&arrived));
                let plain = Plain::new(Arc::clone(&plain), Arc::clone(&hosts), Arc::clone(&visitor));
                Calls::new(layers.around(services.clone(), visitor), plain)
            };
            open.spawn(listener.watch(self.readiness.clone(), drain.clone()));
            open.spawn(connections.clone().accept(listener, service));
        }
        let reloading = tokio::spawn(self.reload.run(self.live, signals.hangups()));
        let tls_reloading = tls_reload.map(|reload| tokio::spawn(reload.run(signals.hangups())));
        // Only now: trying out what holds commands in has started a child that no runner knows of.
        let reaping = getpid().is_init().then(|| tokio::spawn(hookd_runner::reap_orphans()));
        drop(self.starting);
        info!(how = self.holding.summary(), "commands are held in");
        let tls = tls_text(self.settings.tls.as_ref());
        info!(grpc = addresses, admin = %admin_address, tls, version = env!("CARGO_PKG_VERSION"), "serving");
        if self.settings.tls.is_none() && !self.settings.listens_locally() {
            warn!("calls from other machines are plain text, as `plaintext: allow` permits");
        }
        let mut stdout = io::stdout();
        // Whoever started the server may not read this; that is no reason not to serve.
        let _ =
            writeln!(stdout, "hookd is ready: grpc={addresses} admin={admin_address}").and_then(|()| stdout.flush());

        signals.stop().await;
        let cutting = drain.clone();
        let leaving = Leaving {
            settings: self.settings.drain,
            readiness: self.readiness,
            drain,
            open,
            pool: self.pool,
            runner: self.runner.clone(),
        };
        let exit = tokio::select! {
            () = leaving.leave() => Exit::Done,
            () = signals.stop() => {
                warn!("a second signal: leaving at once");
                // Calls first: that their children are killed must not become their answer.
                cutting.close();
                cutting.cut();
                self.runner.shutdown(Duration::ZERO).await;
                Exit::Forced
            }
        };
        // Last, when nothing is left to be recorded.
        if let Some(trail) = self.recorder.trail()
            && !trail.close(AUDIT_LIMIT).await
        {
            warn!("the audit trail could not be ended: its last records may be missing");
        }
        if !self.recorder.close_exporters(EXPORT_LIMIT).await {
            warn!("what waited for the OTLP collector is lost: it did not take it in time");
        }
        reloading.abort();
        tls_reloading.inspect(JoinHandle::abort);
        reaping.inspect(JoinHandle::abort);
        admin_pages.abort();
        Ok(exit)
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
