//! One connection of a caller, from its first byte to its end.

mod batch;
mod limit;
mod preface;

use std::{
    convert::Infallible,
    hash::{BuildHasher as _, RandomState},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Request, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tracing::debug;

pub use self::limit::ConnectionLimit;
use self::{batch::Batch, preface::Speaks};
use super::{
    arrived::Arrived,
    layers::Answer,
    listener::{Listener, Stream},
    tls::{Chain, Tls},
};
use crate::{drain::Drain, settings::Http2Settings};

/// How long a handshake of TLS may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How long a peer may take to show what it speaks.
const PREFACE_LIMIT: Duration = Duration::from_secs(10);
/// How long a peer that speaks HTTP/1.1 may take for the head of its next request. Also how long it may stay without
/// any, so longer than what clients keep connections for: one that is closed just when a request is on its way costs
/// that request its answer.
const HEAD_LIMIT: Duration = Duration::from_secs(120);
/// Size of the head of a request in HTTP/1.1, in bytes, and of what is read or written in one go.
const HEAD_BYTES: usize = 64 << 10;
/// Headers of a request in HTTP/1.1.
const HEADERS: usize = 100;
/// Headers of a call in HTTP/2, in bytes as RFC 9113 counts them (32 more for each). What is kept of more is nothing: such a
/// call is refused, and a peer that goes on sending them (CONTINUATION) loses its connection. Tokens of identity providers
/// that list groups take some 16 KiB.
const HEADER_LIST_BYTES: u32 = 32 << 10;
/// Remembered headers of a connection, in bytes; the default of the protocol. A peer can name each of them again by one
/// byte, and what that becomes counts under [`HEADER_LIST_BYTES`].
const HEADER_TABLE_BYTES: u32 = 4 << 10;
/// Size of a frame, in bytes: the least that the protocol permits, so that no frame keeps others waiting for long.
const FRAME_BYTES: u32 = 16 << 10;
/// What a peer may send before it was read, on a call and on its connection, in bytes: what one connection can take of the
/// memory without any call being looked at. As much for both: bodies are read as they come, so none holds up others.
const WINDOW_BYTES: u32 = 1 << 20;
/// What is kept of an answer that its peer does not read, in bytes for each call; the rest of it is not made into frames
/// (see `leaving`).
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Calls that this side has to end because the peer broke the protocol on them; one more and the connection is closed.
/// Else such a peer would have calls begun and ended without ever being over [`Http2Settings::max_concurrent_streams`]. A
/// peer that keeps to the protocol has few: what it goes on sending after an early answer. The default of the library.
const BROKEN_CALLS: usize = 1024;

/// How connections are served.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Probes, age and streams.
    pub http2: Http2Settings,
    /// TLS over TCP. `None`: plain text. Unix sockets speak plain text in any case.
    pub tls: Option<Tls>,
    /// Longest that a call can take: how long a connection that was told to go may stay.
    pub longest_call: Duration,
    /// When to go.
    pub drain: Drain,
    /// Every connection that is open.
    pub open: TaskTracker,
    /// How many may be.
    pub limit: Arc<ConnectionLimit>,
}

impl Connections {
    /// Accepts and serves connections until the server closes. `service` makes what serves one connection; it is called
    /// on that connection's own task.
    pub async fn accept<S>(self, listener: Listener, service: impl Fn(Arrived) -> S + Send + Sync + 'static)
    where
        S: Service<Request<Incoming>, Response = Answer, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let service = Arc::new(service);
        loop {
            let (stream, peer) = tokio::select! {
                biased;
                () = self.drain.closing().cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            // One too many is closed at once: whoever waits for an answer that does not come would learn less.
            let Some(counted) = self.limit.count(peer) else { continue };
            let (connections, service) = (self.clone(), Arc::clone(&service));
            self.open.spawn(async move {
                let _counted = counted;
                let plain = || service(Arrived { peer, certificates: None });
                match (stream, connections.tls.clone()) {
                    (Stream::Unix(stream), _) => connections.serve(stream, plain()).await,
                    (Stream::Tcp(stream), None) => connections.serve(stream, plain()).await,
                    // In a box, so that plain connections are no larger for it.
                    (Stream::Tcp(stream), Some(tls)) => {
                        let proved = |certificates| service(Arrived { peer, certificates });
                        Box::pin(connections.serve_tls(&tls, stream, proved)).await;
                    }
                }
            });
        }
    }

    /// Shakes hands and serves as [`Self::serve`]. `service` is made from the certificates that the peer showed.
    async fn serve_tls<S>(
        self,
        tls: &Tls,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        service: impl FnOnce(Option<Chain>) -> S,
    ) where
        S: Service<Request<Incoming>, Response = Answer, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let shaken = tokio::select! {
            biased;
            shaken = timeout(HANDSHAKE_LIMIT, tls.accept(stream)) => shaken,
            () = self.drain.closing().cancelled() => return,
        };
        let (stream, certificates) = match shaken {
            Ok(Ok(shaken)) => shaken,
            Ok(Err(error)) => {
                tls.handshake_failed();
                return debug!(%error, "no handshake");
            }
            Err(_) => {
                tls.handshake_failed();
                return debug!(limit = ?HANDSHAKE_LIMIT, "no handshake in time");
            }
        };
        let service = service(certificates);
        self.serve(stream, service).await;
    }

    /// Serves one connection until its peer closes it, or it is told to go and its calls are done.
    async fn serve<S>(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S)
    where
        S: Service<Request<Incoming>, Response = Answer, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        // A connection on which nothing comes must neither stay open nor hold the exit.
        let (speaks, stream) = tokio::select! {
            // First: what has been sent already is served.
            biased;
            read = timeout(PREFACE_LIMIT, preface::read(stream)) => match read {
                Ok(Ok(greeted)) => greeted,
                Ok(Err(_)) | Err(_) => return,
            },
            () = self.drain.closing().cancelled() => return,
        };
        match speaks {
            Speaks::Http2 => self.serve_http2(stream, service).await,
            // In a box, so that connections of gRPC are no larger for it.
            Speaks::Http1 => Box::pin(self.serve_http1(stream, service)).await,
        }
    }

    async fn serve_http2<S>(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S)
    where
        S: Service<Request<Incoming>, Response = Answer, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let batch = Batch::default();
        let connection = http2::Builder::new(batch.arrivals())
            .timer(TokioTimer::new())
            .keep_alive_interval(self.http2.keepalive_interval)
            .keep_alive_timeout(self.http2.keepalive_timeout)
            .max_concurrent_streams(self.http2.max_concurrent_streams)
            .max_header_list_size(HEADER_LIST_BYTES)
            .header_table_size(HEADER_TABLE_BYTES)
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .max_local_error_reset_streams(BROKEN_CALLS)
            .max_pending_accept_reset_streams(given_up_unseen(self.http2.max_concurrent_streams))
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            ended = batch.drive(connection.as_mut()) => return log_end(ended),
            () = self.drain.closing().cancelled() => {}
            () = sleep(jittered(self.http2.max_connection_age)) => {}
        }
        // GOAWAY; the calls that are running finish.
        connection.as_mut().graceful_shutdown();
        if let Ok(ended) = timeout(self.longest_call, batch.drive(connection)).await {
            log_end(ended);
        }
    }

    async fn serve_http1<S>(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S)
    where
        S: Service<Request<Incoming>, Response = Answer, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        // There is no GOAWAY here: a connection that is too old is told to go by its next answer, since one that is
        // closed while it is idle may have a request on its way.
        let (opened, age) = (Instant::now(), jittered(self.http2.max_connection_age));
        let service = service_fn(move |request: Request<Incoming>| {
            let answering = service.call(request);
            async move {
                let mut answer = answering.await?;
                if opened.elapsed() >= age {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_headers(HEADERS)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        // By then every request had its answer or its peer does not read it.
        let stuck = age.saturating_add(HEAD_LIMIT).saturating_add(self.longest_call);
        tokio::select! {
            ended = connection.as_mut() => return log_end(ended),
            () = self.drain.closing().cancelled() => {}
            () = sleep(stuck) => return,
        }
        // The call that is running finishes, and its answer says that it was the last.
        connection.as_mut().graceful_shutdown();
        if let Ok(ended) = timeout(self.longest_call, connection).await {
            log_end(ended);
        }
    }
}

/// How many calls a peer may give up before this side has seen them; one more and the connection is closed, with all
/// calls on it. Peers with short deadlines give up all that they have open, more than once while this machine is busy.
fn given_up_unseen(open: u32) -> Option<usize> {
    usize::try_from(open.saturating_mul(4)).ok()
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

/// `age` less up to a tenth, at random, so that connections that were opened together do not end together.
fn jittered(age: Duration) -> Duration {
    let permille = RandomState::new().hash_one(age).checked_rem(101).unwrap_or(0);
    age.saturating_sub(age.mul_f64(permille as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tonic::body::Body;

    use super::*;
    use crate::{
        record::Recorder,
        settings::{TlsSettings, TlsVersion},
        telemetry::DecisionLog,
    };

    const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\ny";

    /// The peer's end of a connection that is served until it is `age` old. Calls take a second.
    fn served(age: Duration) -> (DuplexStream, Drain) {
        let (connections, drain) = connections(age);
        let (peer, stream) = duplex(4096);
        tokio::spawn(connections.serve(stream, slow()));
        (peer, drain)
    }

    /// The peer's end of a connection that is waiting for a handshake, and whether it was served in the end.
    async fn shaking(tls: &Tls) -> (DuplexStream, Drain, tokio::sync::oneshot::Receiver<()>) {
        let (connections, drain) = connections(Duration::from_secs(6000));
        let (peer, stream) = duplex(4096);
        let (served, serving) = tokio::sync::oneshot::channel();
        let tls = tls.clone();
        tokio::spawn(async move {
            let service = |_| {
                let _ = served.send(());
                slow()
            };
            connections.serve_tls(&tls, stream, service).await;
        });
        (peer, drain, serving)
    }

    /// TLS with a certificate of its own.
    async fn tls() -> Tls {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let settings = TlsSettings { certificate, key, clients: None, min_version: TlsVersion::V1_3 };
        Tls::start(&settings).await.unwrap().0
    }

    /// What a client sends first.
    fn client_hello() -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
        let mut client = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        hello
    }

    fn slow() -> impl Service<Request<Incoming>, Response = Answer, Error = Infallible, Future: Send> + Send {
        service_fn(move |request: Request<Incoming>| async move {
            let _ = request.into_body().collect().await;
            sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Answer::new(Body::empty()))
        })
    }

    fn connections(age: Duration) -> (Connections, Drain) {
        let drain = Drain::new();
        let second = Duration::from_secs(1);
        let connections = Connections {
            http2: Http2Settings {
                keepalive_interval: second,
                keepalive_timeout: second,
                max_connection_age: age,
                max_concurrent_streams: 1,
            },
            tls: None,
            longest_call: second.saturating_mul(60),
            drain: drain.clone(),
            open: TaskTracker::new(),
            limit: Arc::new(ConnectionLimit::new(8, 8, Arc::new(Recorder::new(DecisionLog::silent(), None)))),
        };
        (connections, drain)
    }

    /// The next answer, up to the end of its head.
    async fn answer(peer: &mut DuplexStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(peer.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// How long the server takes to close the connection, in seconds.
    async fn closed_after(peer: &mut DuplexStream) -> u64 {
        let begun = Instant::now();
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&rest), "");
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_nothing_or_half_a_head_or_stays_idle_is_closed_in_time() {
        let old = Duration::from_secs(6000);
        let (mut silent, _drain) = served(old);
        assert_eq!(closed_after(&mut silent).await, PREFACE_LIMIT.as_secs());
        let (mut half, _drain) = served(old);
        half.write_all(&POST[..20]).await.unwrap();
        assert_eq!(closed_after(&mut half).await, HEAD_LIMIT.as_secs());
        let (mut idle, _drain) = served(old);
        for _ in 0..3 {
            idle.write_all(POST).await.unwrap();
            assert!(!answer(&mut idle).await.contains("connection"));
            sleep(HEAD_LIMIT / 2).await;
        }
        idle.write_all(&[POST, POST, &POST[..20]].concat()).await.unwrap();
        answer(&mut idle).await;
        answer(&mut idle).await;
        assert_eq!(closed_after(&mut idle).await, HEAD_LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http1_that_is_too_old_goes_with_an_answer_and_never_while_it_is_idle() {
        let (mut peer, _drain) = served(Duration::from_secs(60));
        peer.write_all(POST).await.unwrap();
        assert!(!answer(&mut peer).await.contains("connection"));
        sleep(Duration::from_secs(90)).await;
        peer.write_all(POST).await.unwrap();
        assert!(answer(&mut peer).await.contains("connection: close\r\n"));
        assert_eq!(closed_after(&mut peer).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_of_http1_that_does_not_read_its_answers_is_closed_in_the_end() {
        let (mut peer, _drain) = served(Duration::from_secs(600));
        let begun = Instant::now();
        // More answers than the pipe holds, long before the connection is old.
        while peer.write_all(POST).await.is_ok() {}
        let taken = begun.elapsed();
        assert!(taken > Duration::from_secs(600) && taken <= Duration::from_secs(600 + 120 + 60), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http1_that_is_told_to_go_finishes_its_call() {
        let (mut idle, drain) = served(Duration::from_secs(60));
        idle.write_all(POST).await.unwrap();
        answer(&mut idle).await;
        drain.close();
        assert_eq!(closed_after(&mut idle).await, 0);
        let (mut busy, drain) = served(Duration::from_secs(60));
        busy.write_all(POST).await.unwrap();
        sleep(Duration::from_millis(500)).await;
        drain.close();
        assert!(answer(&mut busy).await.contains("connection: close\r\n"));
        assert_eq!(closed_after(&mut busy).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_is_half_open_is_closed_in_time() {
        let (tls, hello) = (tls().await, client_hello());
        let begun = Instant::now();
        for sent in [&[], &hello[..1], &hello[..hello.len() - 1], &hello[..]] {
            let (mut peer, _drain, serving) = shaking(&tls).await;
            let opened = Instant::now();
            peer.write_all(sent).await.unwrap();
            let mut answer = Vec::new();
            peer.read_to_end(&mut answer).await.unwrap();
            assert_eq!(opened.elapsed().as_secs(), HANDSHAKE_LIMIT.as_secs(), "{} bytes", sent.len());
            assert_eq!(answer.is_empty(), sent.len() < hello.len(), "{} bytes", sent.len());
            assert!(serving.await.is_err(), "nobody is served");
        }
        assert_eq!(begun.elapsed().as_secs(), 4 * HANDSHAKE_LIMIT.as_secs());
        assert_eq!(tls.counts().failed_handshakes, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_handshake_is_closed_at_once_and_so_is_one_when_the_server_closes() {
        let tls = tls().await;
        let begun = Instant::now();
        for sent in [POST, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0; 100]] {
            let (mut peer, _drain, serving) = shaking(&tls).await;
            peer.write_all(sent).await.unwrap();
            let mut answer = Vec::new();
            peer.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer.first(), Some(&21), "an alert");
            assert!(serving.await.is_err(), "nobody is served");
        }
        let (mut peer, drain, serving) = shaking(&tls).await;
        peer.write_all(&client_hello()[..20]).await.unwrap();
        drain.close();
        assert_eq!(closed_after(&mut peer).await, 0);
        assert!(serving.await.is_err(), "nobody is served");
        assert_eq!((begun.elapsed().as_secs(), tls.counts().failed_handshakes), (0, 3));
    }

    #[test]
    fn ages_differ_by_at_most_a_tenth() {
        let age = Duration::from_secs(1000);
        let ages = (0..100).map(|_| jittered(age)).collect::<Vec<_>>();
        assert!(ages.iter().all(|jittered| (Duration::from_secs(899)..=age).contains(jittered)));
        assert!(ages.iter().any(|jittered| *jittered != ages[0]));
    }
}
