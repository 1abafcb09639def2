//! The pooled client: no redirects, proxies only where they belong, one careful retry, and no endless prelude to an answer.

use std::{
    collections::HashMap,
    error::Error,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hookd_rules::read_small_file;
use http::{Request, Response, Uri, header::PROXY_AUTHORIZATION, uri::Scheme};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    ext::on_informational,
};
use hyper_util::{
    client::{legacy, proxy::matcher::Matcher},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::sync::Notify;

use super::connect::{CONNECTING, Connector, NotPublic, Reach};
use crate::{
    model::{Failed, Failure},
    telemetry::all_causes,
};

/// Hosts that are never asked through a proxy, whatever the environment says.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1,::ffff:127.0.0.0/104";
/// What is read of a connection at a time, in bytes.
const READ_BYTES: usize = 16 << 10;
/// How many interim answers (1xx) may come before the answer. Servers send one or two; without a bound one that sends nothing
/// else would be listened to for ever.
const INTERIM_ANSWERS: usize = 16;

/// A client that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// A proxy of the environment cannot be used.
    #[error("the proxy that `{variable}` names cannot be used: it must be a url such as `http://proxy:3128`")]
    Proxy {
        /// The variable.
        variable: &'static str,
    },
    /// The file of authorities cannot be used.
    #[error("http_handlers.ca: {} cannot be used: {why}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// TLS could not be set up.
    #[error("TLS of the http client could not be set up: {0}")]
    Tls(#[source] rustls::Error),
}

/// Sends requests over kept connections, and once more over a new one where that is safe.
#[derive(Debug)]
pub(super) struct Client {
    pooled: legacy::Client<Connector, Full<Bytes>>,
    /// Keeps no connections, so each request looks the name up and connects anew.
    fresh: legacy::Client<Connector, Full<Bytes>>,
    proxies: Arc<Matcher>,
}

/// What TLS connections are made with: HTTP/2 where the server speaks it. `authorities` are trusted besides the system's.
pub(super) fn tls(authorities: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, HttpError> {
    let of_system = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(of_system.certs);
    if added == 0 {
        let error = of_system.errors.first().map(ToString::to_string);
        // An image without certificates must still reach its http handlers; https ones fail one by one.
        tracing::warn!(error, "no certificates of authorities, https handlers will fail");
    }
    roots.add_parsable_certificates(authorities);
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(HttpError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

impl Client {
    /// A client with the proxies that `server` names.
    pub(super) fn new(server: &HashMap<OsString, OsString>, tls: Arc<ClientConfig>) -> Result<Self, HttpError> {
        Ok(Self::from(Reach::All, proxies(server)?, tls))
    }

    /// A client that reaches public addresses only. It looks at the addresses that it connects to, so that no answer of a
    /// name server can come between, and uses no proxy, which would look the names up itself.
    pub(super) fn to_public_addresses(tls: Arc<ClientConfig>) -> Self {
        Self::from(Reach::Public, Matcher::builder().build(), tls)
    }

    fn from(reach: Reach, proxies: Matcher, tls: Arc<ClientConfig>) -> Self {
        let proxies = Arc::new(proxies);
        let connector = Connector::new(reach, Arc::clone(&proxies), tls);
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http1_read_buf_exact_size(READ_BYTES)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .http2_keep_alive_timeout(Duration::from_secs(5));
        let pooled = builder.pool_idle_timeout(Duration::from_secs(60)).build(connector.clone());
        Self { pooled, fresh: builder.pool_max_idle_per_host(0).build(connector), proxies }
    }

    /// Sends the request and gives the answer as soon as its head is there. Sets `retried` where it was sent twice:
    /// only if the first one went over a connection that had been kept from an earlier request and broke without an
    /// answer. (A peer that closes such a connection within the head of its answer looks the same, and is asked
    /// again.)
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        retried: &AtomicBool,
    ) -> Result<Response<Incoming>, Failed> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(proxy) = self.proxies.intercept(request.uri())
            && let Some(auth) = proxy.basic_auth()
        {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert_with(|| auth.clone());
        }
        let again = request.clone();
        let connecting = Arc::new(AtomicBool::new(false));
        let error = match CONNECTING.scope(Arc::clone(&connecting), sent(&self.pooled, request, &host)).await {
            Ok(answered) => return answered,
            Err(error) => error,
        };
        let kept = !connecting.load(Ordering::Relaxed);
        if kept && broke_unanswered(&error) {
            retried.store(true, Ordering::Relaxed);
            return sent(&self.fresh, again, &host).await.unwrap_or_else(|error| Err(failed(&host, &error)));
        }
        Err(failed(&host, &error))
    }
}

/// The answer to one request, or that there is no end to what comes before it. The error is that of the connection.
async fn sent(
    client: &legacy::Client<Connector, Full<Bytes>>,
    mut request: Request<Full<Bytes>>,
    host: &str,
) -> Result<Result<Response<Incoming>, Failed>, legacy::Error> {
    let (interim, too_many) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let tells = Arc::clone(&too_many);
    on_informational(&mut request, move |_| {
        if interim.fetch_add(1, Ordering::Relaxed) == INTERIM_ANSWERS {
            tells.notify_one();
        }
    });
    tokio::select! {
        // The connection ends with the request that it was for.
        () = too_many.notified() => {
            let message = format!("no answer from `{host}`: more than {INTERIM_ANSWERS} interim answers");
            Ok(Err(Failed::new(Failure::Connection, message)))
        }
        answered = client.request(request) => answered.map(Ok),
    }
}

fn failed(host: &str, error: &legacy::Error) -> Failed {
    let mut next = error.source();
    while let Some(cause) = next {
        if cause.is::<NotPublic>() {
            return Failed::new(Failure::NotPermitted, format!("`{host}`: {cause}"));
        }
        next = cause.source();
    }
    Failed::new(Failure::Connection, format!("no answer from `{host}`: {}", all_causes(error)))
}

/// Whether the connection broke, rather than the peer saying something that cannot be understood.
fn broke_unanswered(error: &legacy::Error) -> bool {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_canceled() || error.is_closed())
        {
            return true;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::UnexpectedEof
            );
        }
        next = cause.source();
    }
    false
}

/// The certificates in a file of PEM.
pub(super) fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let unusable = |why: String| HttpError::Authorities { path: path.to_owned(), why };
    let text = read_small_file(path).map_err(unusable)?;
    let mut trusted = RootCertStore::empty();
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        trusted.add(certificate.clone()).map_err(|error| unusable(error.to_string()))?;
        certificates.push(certificate);
    }
    if certificates.is_empty() { Err(unusable("it holds no certificate".to_owned())) } else { Ok(certificates) }
}

fn proxies(server: &HashMap<OsString, OsString>) -> Result<Matcher, HttpError> {
    let variable = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| {
            let value = server.get(OsStr::new(name))?.to_str()?;
            (!value.is_empty()).then_some((name, value))
        })
    };
    let direct = match variable(["no_proxy", "NO_PROXY"]) {
        Some((_, hosts)) => format!("{hosts},{LOOPBACK}"),
        None => LOOPBACK.to_owned(),
    };
    let usable = |names| match variable(names) {
        None => Ok(""),
        Some((_, url)) if is_proxy(url) => Ok(url),
        Some((variable, _)) => Err(HttpError::Proxy { variable }),
    };
    let (http, https, all) = (
        usable(["http_proxy", "HTTP_PROXY"])?,
        usable(["https_proxy", "HTTPS_PROXY"])?,
        usable(["all_proxy", "ALL_PROXY"])?,
    );
    Ok(Matcher::builder().http(http).https(https).all(all).no(direct).build())
}

/// Whether this is the URL of a proxy that speaks HTTP, or its host and port alone.
fn is_proxy(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|url| {
        let is_http = url.scheme().is_none_or(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        is_http && url.host().is_some_and(|host| !host.is_empty())
    })
}
