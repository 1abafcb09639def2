//! New connections: TCP or a unix socket, TLS, and the first word of HTTP/2 from the other end.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{Error as TlsError, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    sync::oneshot,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    Address,
    address::Place,
    files::{NotUsable, reason},
    one_line::root_of,
    tls::{Tls, is_http2},
    transport::Connection,
};

/// How long a connection attempt may take, until the other end has said its first word, before another address has its
/// turn.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes connections.
pub(crate) struct Dialer {
    tls: Tls,
    keep_alive: KeepAlive,
}

/// How often a connection with calls in flight is checked, and how long the check may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepAlive {
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
}

/// Why there is no connection, in one line without the address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialError {
    /// The two ends do not trust each other, or a file that it takes for that cannot be used.
    #[error("{0}")]
    NotTrusted(String),
    /// Nobody is there, or not in time.
    #[error("{0}")]
    Unreachable(String),
}

/// What a connection is made of.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream that tells how the other end begins, and what it said against the TLS of this end.
struct Listened {
    stream: Stream,
    heard: Option<oneshot::Sender<u8>>,
    refused: Refused,
}

type Refused = Arc<Mutex<Option<TlsError>>>;

/// What HTTP/2 begins with: the first byte of the length of its settings, which are short.
const OF_HTTP2: u8 = 0;
/// What a server of TLS begins with that is spoken to in plain text: an alert.
const OF_TLS: u8 = 21;

impl Dialer {
    pub(crate) fn new(tls: Tls, keep_alive: KeepAlive) -> Self {
        Self { tls, keep_alive }
    }

    /// A connection to `address`, at the place that it stands for (none: a unix socket), once the other end has said its first word: one that takes connections and is not
    /// alive is none.
    pub(crate) async fn dial(&self, address: &Address, at: Option<SocketAddr>) -> Result<Connection, DialError> {
        match timeout(CONNECT_TIMEOUT, self.connect(address, at)).await {
            Ok(connection) => connection,
            Err(_) => Err(DialError::Unreachable(format!("no connection within {CONNECT_TIMEOUT:?}"))),
        }
    }

    async fn connect(&self, address: &Address, at: Option<SocketAddr>) -> Result<Connection, DialError> {
        let stream = self.open(address, at).await?;
        let refused = Refused::default();
        let (heard, mut on_heard) = oneshot::channel();
        let io = TokioIo::new(Listened { stream, heard: Some(heard), refused: Arc::clone(&refused) });
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(self.keep_alive.interval)
            .keep_alive_timeout(self.keep_alive.timeout)
            .handshake(io)
            .await;
        let ended = |why: String| {
            let refused = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
            match refused {
                Some(error) => DialError::NotTrusted(self.tls.reason(&error, &self.server_name(address))),
                None => DialError::Unreachable(why),
            }
        };
        let (sender, connection) = handshake.map_err(|error| ended(root_of(&error)))?;
        let mut connection = Box::pin(connection);
        let first = tokio::select! {
            biased;
            Ok(first) = &mut on_heard => first,
            end = &mut connection => match on_heard.try_recv() {
                Ok(first) => first,
                Err(_) => {
                    let why = end.map_or_else(|error| root_of(&error), |()| "the connection was closed".to_owned());
                    return Err(ended(why));
                }
            }
        };
        match first {
            OF_HTTP2 => {}
            OF_TLS => return Err(ended("it speaks TLS, expected `https://` before its address".to_owned())),
            _ => return Err(ended("what answers there does not speak HTTP/2, so it is not hookd".to_owned())),
        }
        // Ends with the last call after the last sender is gone, or with the connection. Each call says itself what it met.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection::new(sender, address.origin()))
    }

    async fn open(&self, address: &Address, at: Option<SocketAddr>) -> Result<Stream, DialError> {
        let (tls, at) = match (address.place(), at) {
            (Place::Unix(path), _) => return Ok(Stream::Unix(UnixStream::connect(path).await?)),
            (Place::Tcp { tls, .. }, Some(at)) => (*tls, at),
            (Place::Tcp { .. }, None) => return Err(DialError::Unreachable("its place is not known".to_owned())),
        };
        // What is plain for being local must be so: a name says nothing.
        if !tls && address.is_local() && !at.ip().is_loopback() {
            return Err(DialError::NotTrusted("it is not on this machine, and there is no TLS".to_owned()));
        }
        let config = if tls { Some(self.tls.config()?) } else { None };
        let tcp = TcpStream::connect(at).await?;
        tcp.set_nodelay(true)?;
        let Some(config) = config else { return Ok(Stream::Tcp(tcp)) };
        let name = self.server_name(address);
        let server_name = ServerName::try_from(name.clone());
        let server_name = server_name
            .map_err(|_| DialError::NotTrusted(format!("`{name}` is no name that a certificate can be for")))?;
        match TlsConnector::from(config).connect(server_name, tcp).await {
            Ok(stream) if is_http2(stream.get_ref().1.alpn_protocol()) => Ok(Stream::Tls(Box::new(stream))),
            Ok(_) => Err(DialError::NotTrusted("it does not speak HTTP/2 over TLS".to_owned())),
            Err(error) => Err(match tls_error(&error) {
                Some(error) => DialError::NotTrusted(self.tls.reason(error, &name)),
                None => error.into(),
            }),
        }
    }

    fn server_name(&self, address: &Address) -> String {
        let host = match address.place() {
            Place::Tcp { host, .. } => host,
            Place::Unix(_) => "",
        };
        self.tls.server_name().unwrap_or(host).to_owned()
    }
}

impl From<NotUsable> for DialError {
    fn from(error: NotUsable) -> Self {
        Self::NotTrusted(error.to_string())
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(reason(&error))
    }
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

macro_rules! on_stream {
    ($listened:expr, $stream:ident => $call:expr) => {
        match &mut $listened.stream {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl Listened {
    fn hear(&mut self, word: &[u8]) {
        if let Some(first) = word.first() {
            // Nobody waits for it any more once the connection is in use.
            let _ = self.heard.take().map(|heard| heard.send(*first));
        }
    }

    fn note(&self, error: &io::Error) {
        if let Some(error) = tls_error(error) {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    /// What came of writing. Where that fails before the other end has said its first word, that word may be there already,
    /// or on its way, and be why: a server that takes no such client says so, and goes away.
    fn written<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if self.heard.is_some() && matches!(written, Poll::Ready(Err(_))) {
            let mut word = [0; 64];
            let mut word = ReadBuf::new(&mut word);
            match ready!(on_stream!(self, stream => Pin::new(stream).poll_read(context, &mut word))) {
                Ok(()) => self.hear(word.filled()),
                Err(error) => self.note(&error),
            }
        }
        written
    }
}

impl AsyncRead for Listened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(on_stream!(self, stream => Pin::new(stream).poll_read(context, buffer)));
        match &read {
            Ok(()) => self.hear(buffer.filled().get(before..).unwrap_or_default()),
            Err(error) => self.note(error),
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Listened {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = on_stream!(self, stream => Pin::new(stream).poll_write(context, bytes));
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = on_stream!(self, stream => Pin::new(stream).poll_write_vectored(context, slices));
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = on_stream!(self, stream => Pin::new(stream).poll_flush(context));
        self.written(context, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = on_stream!(self, stream => Pin::new(stream).poll_shutdown(context));
        self.written(context, written)
    }
}
