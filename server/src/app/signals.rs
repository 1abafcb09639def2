use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the process listens to.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangups: Vec<Signal>,
    /// Listened to so that it does not end the process: a file at its size limit is an error of who writes it.
    _file_size: Signal,
}

impl Signals {
    /// From now on signals are noticed, and end the process only by way of the server.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangups: vec![signal(SignalKind::hangup())?, signal(SignalKind::hangup())?],
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
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
