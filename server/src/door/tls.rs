//! TLS of callers' connections, with a certificate, key and client CA that are read again while the server runs.
//!
//! What was read is one `ServerConfig`, swapped whole: a handshake sees one certificate with its own key and one client
//! CA. No session is ever resumed, so each connection proves itself against what is in force when it begins.

mod load;

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use arc_swap::ArcSwap;
use rustls::{ServerConfig, pki_types::CertificateDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    signal::unix::Signal,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{error, info, warn};

use crate::{
    catalog::{Watch, WatchTimes},
    record::TlsCounts,
    settings::TlsSettings,
};
pub use load::{TlsError, check};

/// The certificates of a peer, its own first.
pub type Chain = Arc<[CertificateDer<'static>]>;

/// TLS as it is in force, and the way to another pair. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Tls(Arc<Shared>);

/// Watches the files of a [`Tls`].
#[derive(Debug)]
pub struct TlsReload {
    tls: Tls,
    watch: Watch,
}

#[derive(Debug)]
struct Shared {
    settings: TlsSettings,
    in_force: ArcSwap<ServerConfig>,
    failed_handshakes: AtomicU64,
    loads: Mutex<Loads>,
}

#[derive(Debug)]
struct Loads {
    good: u64,
    refused: u64,
    /// The end of the certificate in force, in seconds since 1970.
    not_after: i64,
    /// Why the last load was refused, if it was.
    refusal: Option<String>,
}

impl Tls {
    /// Reads the files for the first time, and watches them from now on.
    ///
    /// # Errors
    /// What is wrong with them, in one line.
    pub async fn start(settings: &TlsSettings) -> Result<(Self, TlsReload), TlsError> {
        // Watched first: what changes while they are read is not missed.
        let watch = Watch::start(load::files(settings), WatchTimes::default()).await;
        let loaded = load::load_off_thread(settings).await?;
        loaded.tell("certificate loaded");
        if loaded.has_expired() {
            warn!("the certificate has expired, callers will not take it");
        }
        let loads = Loads { good: 1, refused: 0, not_after: loaded.not_after, refusal: None };
        let tls = Self(Arc::new(Shared {
            settings: settings.clone(),
            in_force: ArcSwap::new(loaded.config),
            failed_handshakes: AtomicU64::new(0),
            loads: Mutex::new(loads),
        }));
        Ok((tls.clone(), TlsReload { tls, watch }))
    }

    /// Shakes hands with a peer: the stream, and the certificates that it showed, of which the first one is proved.
    ///
    /// # Errors
    /// There is no common version or protocol, the peer speaks no TLS, or its certificate is missing or not good. It has
    /// been told which by then, as far as TLS does that.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, Option<Chain>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = TlsAcceptor::from(self.0.in_force.load_full()).accept(stream).await?;
        let (_, session) = stream.get_ref();
        let chain = session.peer_certificates().map(Arc::from);
        Ok((stream, chain))
    }

    /// A handshake came to no end.
    pub(super) fn handshake_failed(&self) {
        self.0.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the files again. Where they are no good, those that were read before stay in force.
    pub async fn reload(&self) {
        let loaded = load::load_off_thread(&self.0.settings).await.and_then(load::Loaded::refuse_expired);
        let mut loads = self.0.loads.lock().unwrap_or_else(PoisonError::into_inner);
        match loaded {
            Ok(loaded) => {
                loads.good = loads.good.saturating_add(1);
                loads.not_after = loaded.not_after;
                loads.refusal = None;
                loaded.tell("certificate reloaded");
                self.0.in_force.store(loaded.config);
            }
            Err(refusal) => {
                error!(error = %refusal, "certificate refused, the one before it stays in force");
                loads.refused = loads.refused.saturating_add(1);
                loads.refusal = Some(refusal.to_string());
            }
        }
    }

    /// How loads and handshakes went so far, for the metrics.
    #[must_use]
    pub fn counts(&self) -> TlsCounts {
        let loads = self.0.loads.lock().unwrap_or_else(PoisonError::into_inner);
        TlsCounts {
            good: loads.good,
            refused: loads.refused,
            not_after: loads.not_after,
            failed_handshakes: self.0.failed_handshakes.load(Ordering::Relaxed),
        }
    }

    /// What people have to know, one line each: a refused load, a certificate that is over.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let loads = self.0.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = "the last certificate was refused: the one before it stays in force: ";
        let mut lines = loads.refusal.iter().map(|why| format!("{refused}{why}")).collect::<Vec<_>>();
        if load::is_past(loads.not_after, SystemTime::now()) {
            lines.push("the certificate has expired".to_owned());
        }
        lines
    }
}

impl TlsReload {
    /// Reads the files again when one changes and on each of `hangups`, until the future is dropped.
    pub async fn run(self, mut hangups: Option<Signal>) {
        loop {
            tokio::select! {
                () = self.watch.changed() => {}
                () = hangup(&mut hangups) => {}
            }
            self.tls.reload().await;
        }
    }
}

async fn hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}

impl load::Loaded {
    fn tell(&self, what: &'static str) {
        info!(serial = self.serial, not_after = self.not_after_text, "{what}");
    }
}

#[cfg(test)]
mod tests;
