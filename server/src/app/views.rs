//! What is seen of a running server from outside: the gauges of `/metrics`, the lines of `/readyz`.

use std::sync::Arc;

use hookd_rules::{Severity, SourceState};
use hookd_runner::Runner;

use crate::{
    catalog::Live,
    door::{
        connection::ConnectionLimit,
        identity::Authenticator,
        places::Places,
        tls::{Tls, TlsReload},
    },
    record::{Gauges, Recorder, TlsCounts},
    run::{Holding, Pool},
};

/// What the gauges ask when they are read.
pub(super) fn gauges(
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

/// What `/readyz` shows besides: what holds commands in, sources of which not everything is in force, what is wrong with
/// certificates and with the audit trail, and issuers without keys.
pub(super) fn details(
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
