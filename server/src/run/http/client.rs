//! The pooled client: no redirects, proxies only where they belong, and one careful retry.

use std::{
    collections::HashMap,
    error::Error,
    ffi::{OsStr, OsString},
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hookd_rules::{is_public, read_small_file};
use reqwest::{
    Certificate, ClientBuilder, NoProxy, Proxy, Request, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use tower::{Layer, Service};

use crate::{
    model::{Failed, Failure},
    telemetry::causes,
};

/// Hosts that are never asked through a proxy, whatever the environment says.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1,::ffff:127.0.0.0/104";

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
    /// The client could not be set up.
    #[error("the http client could not be set up: {0}")]
    Client(#[source] reqwest::Error),
}

/// Sends requests over kept connections, and once more over a new one where that is safe.
#[derive(Debug)]
pub(super) struct Client {
    pooled: reqwest::Client,
    /// Keeps no connections, so each request looks the name up and connects anew.
    fresh: reqwest::Client,
}

impl Client {
    /// A client with the proxies that `server` names. `authorities` are trusted besides the system's.
    pub(super) fn new(server: &HashMap<OsString, OsString>, authorities: &[Certificate]) -> Result<Self, HttpError> {
        let proxies = proxies(server)?;
        let builder = || proxies.iter().cloned().fold(builder(authorities), ClientBuilder::proxy);
        Self::from(builder)
    }

    /// A client that reaches public addresses only. It looks at the addresses that it connects to, so that no answer of a
    /// name server can come between, and uses no proxy, which would look the names up itself.
    pub(super) fn to_public_addresses(authorities: &[Certificate]) -> Result<Self, HttpError> {
        Self::from(|| builder(authorities).dns_resolver(PublicAddresses))
    }

    fn from(builder: impl Fn() -> ClientBuilder) -> Result<Self, HttpError> {
        // The builder panics without a provider. Already installed: just as well.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            pooled: build(|| builder().pool_idle_timeout(Duration::from_secs(60)))?,
            fresh: build(|| builder().pool_max_idle_per_host(0))?,
        })
    }

    /// Sends the request and gives the answer as soon as its head is there. Sets `retried` where it was sent twice:
    /// only if the first one went over a connection that had been kept from an earlier request and broke without an
    /// answer. (A peer that closes such a connection within the head of its answer looks the same, and is asked
    /// again.)
    pub(super) async fn send(&self, request: Request, retried: &AtomicBool) -> Result<Response, Failed> {
        let host = request.url().host_str().unwrap_or_default().to_owned();
        let again = request.try_clone();
        let connecting = Arc::new(AtomicBool::new(false));
        let error = match CONNECTING.scope(Arc::clone(&connecting), self.pooled.execute(request)).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let kept = !connecting.load(Ordering::Relaxed);
        match again {
            Some(again) if kept && broke_unanswered(&error) => {
                retried.store(true, Ordering::Relaxed);
                self.fresh.execute(again).await.map_err(|error| failed(&host, &error))
            }
            _ => Err(failed(&host, &error)),
        }
    }
}

fn failed(host: &str, error: &reqwest::Error) -> Failed {
    if error.is_builder() {
        return Failed::new(Failure::DidNotStart, format!("the request cannot be sent: {}", causes(error)));
    }
    let mut next = error.source();
    while let Some(cause) = next {
        if cause.is::<NotPublic>() {
            return Failed::new(Failure::NotPermitted, format!("`{host}`: {cause}"));
        }
        next = cause.source();
    }
    Failed::new(Failure::Connection, format!("no answer from `{host}`: {}", causes(error)))
}

/// Whether the connection broke, rather than the peer saying something that cannot be understood.
fn broke_unanswered(error: &reqwest::Error) -> bool {
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

fn build(builder: impl Fn() -> ClientBuilder) -> Result<reqwest::Client, HttpError> {
    builder().build().or_else(|error| {
        // An image without certificates must still reach its http handlers; https ones fail one by one.
        tracing::warn!(error = causes(&error), "no certificates of authorities, https handlers will fail");
        builder().tls_certs_only([]).build().map_err(HttpError::Client)
    })
}

fn builder(authorities: &[Certificate]) -> ClientBuilder {
    reqwest::Client::builder()
        .tls_certs_merge(authorities.iter().cloned())
        .redirect(Policy::none())
        .no_proxy()
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(5))
        .connector_layer(NoteConnecting)
}

/// The certificates in a file of PEM.
pub(super) fn authorities(path: &Path) -> Result<Vec<Certificate>, HttpError> {
    let unusable = |why: String| HttpError::Authorities { path: path.to_owned(), why };
    let text = read_small_file(path).map_err(unusable)?;
    let certificates = Certificate::from_pem_bundle(&text).map_err(|error| unusable(causes(&error)))?;
    if certificates.is_empty() { Err(unusable("it holds no certificate".to_owned())) } else { Ok(certificates) }
}

/// Looks names up and gives of their addresses those that are public.
#[derive(Debug, Clone, Copy)]
struct PublicAddresses;

/// A name that has no public address.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a public address, `http_hosts` of its tier would have to name the host")]
struct NotPublic(IpAddr);

impl Resolve for PublicAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?.collect::<Vec<_>>();
            let (public, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|address| is_public(address.ip()));
            match others.first() {
                Some(address) if public.is_empty() => Err(NotPublic(address.ip()).into()),
                Some(_) | None => Ok::<Addrs, _>(Box::new(public.into_iter())),
            }
        })
    }
}

fn proxies(server: &HashMap<OsString, OsString>) -> Result<Vec<Proxy>, HttpError> {
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
    let mut proxies = Vec::new();
    for (names, proxy) in [
        (["http_proxy", "HTTP_PROXY"], Proxy::http::<String> as fn(String) -> reqwest::Result<Proxy>),
        (["https_proxy", "HTTPS_PROXY"], Proxy::https::<String>),
        (["all_proxy", "ALL_PROXY"], Proxy::all::<String>),
    ] {
        if let Some((variable, url)) = variable(names) {
            let proxy = proxy(url.to_owned()).map_err(|_| HttpError::Proxy { variable })?;
            proxies.push(proxy.no_proxy(NoProxy::from_string(&direct)));
        }
    }
    Ok(proxies)
}

tokio::task_local! {
    /// Set once the request that this task sends has begun to open a connection: from then on it may be that it goes
    /// over a new one.
    static CONNECTING: Arc<AtomicBool>;
}

#[derive(Debug, Clone, Copy)]
struct NoteConnecting;

impl<S> Layer<S> for NoteConnecting {
    type Service = Noting<S>;

    fn layer(&self, inner: S) -> Noting<S> {
        Noting(inner)
    }
}

#[derive(Debug, Clone)]
struct Noting<S>(S);

impl<R, S: Service<R>> Service<R> for Noting<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, destination: R) -> S::Future {
        // Outside of a request, as when the pool refills itself, there is nobody to tell.
        let _told = CONNECTING.try_with(|connecting| connecting.store(true, Ordering::Relaxed));
        self.0.call(destination)
    }
}
