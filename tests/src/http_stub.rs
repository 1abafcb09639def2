//! An http server that answers what it is told, byte by byte, and remembers what it was asked.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{Place, eventually};

/// A request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// The first line and the headers.
    pub head: String,
    /// The body as text.
    pub body: String,
    /// The body.
    pub bytes: Vec<u8>,
}

/// What to answer, and what to do with the connection then.
#[derive(Debug, Clone)]
pub struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

/// A running server. Dropping it closes everything.
#[derive(Debug)]
pub struct HttpStub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    /// Counts how often connections were told to close.
    close: watch::Sender<usize>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Keep,
    Close,
    Hang,
}

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

impl Reply {
    /// 200 with this body, on a connection that stays open.
    #[must_use]
    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::status("200 OK", body)
    }

    /// This status with this body, on a connection that stays open.
    #[must_use]
    pub fn status(status: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        Self::raw(bytes)
    }

    /// Whether it is a success to which the connection is not left hanging.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.bytes.starts_with(b"HTTP/1.1 200 ") && !matches!(self.then, Then::Hang)
    }

    /// These bytes.
    #[must_use]
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), then: Then::Keep }
    }

    /// Then the connection is closed.
    #[must_use]
    pub fn then_close(self) -> Self {
        Self { then: Then::Close, ..self }
    }

    /// Then nothing comes any more, and the connection stays open.
    #[must_use]
    pub fn then_hang(self) -> Self {
        Self { then: Then::Hang, ..self }
    }
}

impl HttpStub {
    /// A server on a free port of loopback.
    pub async fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(&Place::free(), script).await
    }

    /// A server at `place`, where another one may have been before.
    ///
    /// # Panics
    /// Somebody listens there.
    pub async fn start_at(place: &Place, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = place.listen();
        let address = place.address();
        let (requests, connections, open) = <(Arc<Mutex<Vec<Request>>>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let close = watch::Sender::new(0);
        let accepting = tokio::spawn(accept(
            listener,
            Arc::new(script),
            Arc::clone(&requests),
            Arc::clone(&connections),
            Arc::clone(&open),
            close.clone(),
        ));
        Self { address, requests, connections, open, close, accepting }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of `path`, which starts with `/`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Everything that arrived so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until `count` requests have arrived, and gives all that have.
    pub async fn wait_for(&self, count: usize) -> Vec<Request> {
        let what = format!("{count} http requests");
        eventually(&what, async || Some(self.requests()).filter(|requests| requests.len() >= count)).await
    }

    /// How many connections were made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Closes every connection that is open and waits until they are; new ones are taken.
    pub async fn close_connections(&self) {
        self.close.send_modify(|times| *times += 1);
        eventually("all http connections are closed", async || (self.open.load(Ordering::SeqCst) == 0).then_some(()))
            .await;
    }

    /// Stops listening and closes everything.
    pub async fn stop(mut self) {
        self.accepting.abort();
        let _cancelled = (&mut self.accepting).await;
        self.close_connections().await;
    }
}

impl Drop for HttpStub {
    fn drop(&mut self) {
        self.accepting.abort();
        self.close.send_modify(|times| *times += 1);
    }
}

async fn accept(
    listener: TcpListener,
    script: Arc<Script>,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    close: watch::Sender<usize>,
) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let connection = connections.fetch_add(1, Ordering::SeqCst);
        open.fetch_add(1, Ordering::SeqCst);
        let (script, requests, open) = (Arc::clone(&script), Arc::clone(&requests), Arc::clone(&open));
        let mut close = close.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = serve(&mut stream, connection, &*script, &requests) => {}
                _ = close.changed() => {}
            }
            drop(stream);
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn serve(stream: &mut TcpStream, connection: usize, script: &Script, requests: &Mutex<Vec<Request>>) {
    let mut buffer = Vec::new();
    while let Some((head, bytes)) = read(stream, &mut buffer).await {
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let request = Request { connection, head, body, bytes };
        let reply = script(&request);
        requests.lock().unwrap().push(request);
        if stream.write_all(&reply.bytes).await.is_err() {
            return;
        }
        match reply.then {
            Then::Keep => {}
            Then::Close => return,
            Then::Hang => std::future::pending().await,
        }
    }
}

/// One request; `None` at the end of the connection. What follows it stays in `buffer`.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let body_at = end + 4;
            let head = String::from_utf8_lossy(&buffer[..body_at]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            let request_end = body_at + length.unwrap_or(0);
            if buffer.len() >= request_end {
                let body = buffer[body_at..request_end].to_vec();
                buffer.drain(..request_end);
                return Some((head, body));
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
