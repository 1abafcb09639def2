//! What the process is doing right now.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

use super::whole;
use crate::record::Gauges;

#[derive(Default)]
pub(super) struct ProcessMetrics {
    in_flight: Gauge,
    arriving: Gauge,
    leaving: Gauge,
    connections: Gauge,
    background: Gauge,
    children: Gauge,
    child_queue: Gauge,
    handler_slots: Gauge,
    open_breakers: Gauge,
}

impl ProcessMetrics {
    pub(super) fn show(&self, gauges: &Gauges) {
        self.in_flight.set(whole((gauges.in_flight)()));
        self.arriving.set(whole((gauges.arriving)()));
        self.leaving.set(whole((gauges.leaving)()));
        self.connections.set(whole((gauges.connections)()));
        self.background.set(whole((gauges.background)()));
        self.children.set(whole((gauges.children)()));
        self.child_queue.set(whole((gauges.child_queue)()));
        self.handler_slots.set(whole((gauges.handler_slots)()));
        self.open_breakers.set(whole((gauges.open_breakers)()));
    }

    pub(super) fn register(&self, r: &mut Registry) {
        r.register("in_flight_calls", "Calls being evaluated", self.in_flight.clone());
        r.register("arriving_calls", "Calls that are not there whole yet", self.arriving.clone());
        r.register("leaving_answers", "Large answers that are not read yet", self.leaving.clone());
        r.register("connections", "Connections of callers", self.connections.clone());
        r.register("background_handlers", "Handlers in the background", self.background.clone());
        r.register("child_processes", "Child processes alive", self.children.clone());
        r.register("child_queue_length", "Commands that wait for a free child process", self.child_queue.clone());
        r.register("handler_slots_in_use", "Calls that wait for a handler", self.handler_slots.clone());
        r.register(
            "open_breakers",
            "Handlers that are not asked because they do not answer",
            self.open_breakers.clone(),
        );
    }
}
