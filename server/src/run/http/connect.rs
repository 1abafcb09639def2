//! Connections to the servers of http handlers: where to, through which proxy, over TLS or not, and how they are read.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
    vec,
};

use hookd_rules::is_public;
use http::{Uri, uri::Scheme};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::{
        legacy::connect::{Connected, Connection, HttpConnector, dns::Name, proxy::Tunnel},
        proxy::matcher::Matcher,
    },
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::lookup_host,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tower::{Service, service_fn};

tokio::task_local! {
    /// Set once the request that this task sends has begun to open a connection: from then on it may be that it goes
    /// over a new one.
    pub(super) static CONNECTING: Arc<AtomicBool>;
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Opening<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// After how long without a word the system looks whether the other end is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long it may take until a connection is open, TLS included.
const LIMIT: Duration = Duration::from_secs(60);
/// How many reads in a row find something, before others have their turn. A server can send faster than what it sends is
/// looked at, and hyper reads on for as long as nothing comes of it.
const READS_IN_A_ROW: u8 = 4;

/// Opens connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    tcp: HttpConnector<Resolver>,
    tls: Arc<ClientConfig>,
    proxies: Arc<Matcher>,
    reach: Reach,
}

/// Which addresses are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All.
    All,
    /// Those of the public internet.
    Public,
}

/// A name or an address that stands for nothing public.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a public address, `http_hosts` of its tier would have to name the host")]
pub(super) struct NotPublic(IpAddr);

/// Looks names up. What it gives is what is connected to, so that no answer of a name server can come between the look at an
/// address and its use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolver(Reach);

/// A connection on which HTTP is spoken.
#[derive(Debug)]
pub(super) struct Stream {
    way: TokioIo<Way>,
    is_http2: bool,
    /// It leads to a proxy that is told the whole URL.
    to_proxy: bool,
    reads: u8,
}

/// A connection as far as it is open: TCP, TLS over it, or what a proxy made of one.
struct Way(Pin<Box<dyn Duplex>>);

trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

impl Connector {
    /// Opens connections to addresses within `reach`, through `proxies`, and with `tls` where the URL asks for it.
    pub(super) fn new(reach: Reach, proxies: Arc<Matcher>, tls: Arc<ClientConfig>) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver(reach));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        Self { tcp, tls, proxies, reach }
    }

    async fn open(mut self, to: Uri) -> Result<Stream, BoxError> {
        let is_https = to.scheme() == Some(&Scheme::HTTPS);
        // One that is no name is not looked up.
        if let (Reach::Public, Some(Ok(address))) = (self.reach, host(&to).map(str::parse::<IpAddr>))
            && !is_public(address)
        {
            return Err(NotPublic(address).into());
        }
        let Some(proxy) = self.proxies.intercept(&to) else {
            let way = self.tcp(to.clone()).await?;
            let (way, is_http2) = if is_https { self.tls(way, &to).await? } else { (way, false) };
            return Ok(Stream::new(way, is_http2, false));
        };
        if !is_https {
            return Ok(Stream::new(self.hop(proxy.uri().clone()).await?, false, true));
        }
        let hops = self.clone();
        let hop = service_fn(move |proxy| {
            let mut hops = hops.clone();
            async move { hops.hop(proxy).await.map(TokioIo::new) }
        });
        let mut tunnel = Tunnel::new(proxy.uri().clone(), hop);
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let way = tunnel.call(to.clone()).await?.into_inner();
        let (way, is_http2) = self.tls(way, &to).await?;
        Ok(Stream::new(way, is_http2, false))
    }

    /// The way to a proxy.
    async fn hop(&mut self, proxy: Uri) -> Result<Way, BoxError> {
        let way = self.tcp(proxy.clone()).await?;
        if proxy.scheme() != Some(&Scheme::HTTPS) {
            return Ok(way);
        }
        let mut http1 = (*self.tls).clone();
        http1.alpn_protocols = Vec::new();
        Ok(handshake(http1.into(), way, &proxy).await?.0)
    }

    async fn tcp(&mut self, to: Uri) -> Result<Way, BoxError> {
        std::future::poll_fn(|context| self.tcp.poll_ready(context)).await?;
        Ok(Way(Box::pin(self.tcp.call(to).await?.into_inner())))
    }

    async fn tls(&self, way: Way, to: &Uri) -> Result<(Way, bool), BoxError> {
        handshake(Arc::clone(&self.tls), way, to).await
    }
}

/// TLS over `way`, and whether HTTP/2 was agreed on.
async fn handshake(tls: Arc<ClientConfig>, way: Way, to: &Uri) -> Result<(Way, bool), BoxError> {
    let name = ServerName::try_from(host(to).unwrap_or_default().to_owned())?;
    let stream = TlsConnector::from(tls).connect(name, way).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((Way(Box::pin(stream)), is_http2))
}

fn host(uri: &Uri) -> Option<&str> {
    uri.host().map(|host| host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Opening<Stream>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Opening<Stream> {
        // Outside of a request, as when the pool refills itself, there is nobody to tell.
        let _told = CONNECTING.try_with(|connecting| connecting.store(true, Ordering::Relaxed));
        let opening = self.clone().open(to);
        // Its request may be over before it is open; then nobody else ends it.
        Box::pin(async move { timeout(LIMIT, opening).await? })
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Opening<Self::Response>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Opening<Self::Response> {
        let reach = self.0;
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?.collect::<Vec<_>>();
            let is_reached = |address: &SocketAddr| reach == Reach::All || is_public(address.ip());
            let (reached, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_reached);
            match others.first() {
                Some(address) if reached.is_empty() => Err(NotPublic(address.ip()).into()),
                Some(_) | None => Ok(reached.into_iter()),
            }
        })
    }
}

impl Stream {
    fn new(way: Way, is_http2: bool, to_proxy: bool) -> Self {
        Self { way: TokioIo::new(way), is_http2, to_proxy, reads: 0 }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.to_proxy);
        if self.is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl Connection for Way {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reads >= READS_IN_A_ROW {
            self.reads = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.way).poll_read(context, buffer);
        self.reads = if read.is_ready() { self.reads.saturating_add(1) } else { 0 };
        read
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.way).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.way).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.way.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.way).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.way).poll_shutdown(context)
    }
}

impl AsyncRead for Way {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Way {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(context)
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way(..)")
    }
}
