use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the process listens to.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangups: Vec<Signal>,
}

impl Signals {
    /// From now on signals are noticed, and end the process only by way of the server.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangups: vec![signal(SignalKind::hangup())?, signal(SignalKind::hangup())?],
        })
    }

    /// Waits for SIGTERM or SIGINT.
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// SIGHUP, for whoever reloads: rules and certificates. Can be taken twice.
    pub(super) fn hangups(&mut self) -> Option<Signal> {
        self.hangups.pop()
    }
}
