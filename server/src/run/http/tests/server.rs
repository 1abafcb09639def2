//! An http server that is told byte by byte what to answer.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::run::testing::LONG;

/// What to send for one request, and what to do then.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    bytes: String,
    then: Then,
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Keep,
    Close,
    Hang,
}

impl Reply {
    pub(super) fn close(bytes: &str) -> Self {
        Self { bytes: bytes.to_owned(), then: Then::Close }
    }

    pub(super) fn hang(bytes: &str) -> Self {
        Self { bytes: bytes.to_owned(), then: Then::Hang }
    }
}

/// 200 with this body, on a connection that stays open.
pub(super) fn ok(body: &str) -> Reply {
    let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    Reply { bytes, then: Then::Keep }
}

/// A request that arrived.
#[derive(Debug)]
pub(super) struct Request {
    /// Which connection, from 0.
    pub(super) connection: usize,
    /// Which request of the connection, from 0.
    pub(super) number: usize,
    pub(super) head: String,
    pub(super) body: String,
}

type Script = Arc<dyn Fn(usize, usize) -> Reply + Send + Sync>;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    requests: mpsc::UnboundedReceiver<Request>,
    connections: TaskTracker,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl Server {
    /// `script` gets the number of the connection and of the request on it.
    pub(super) async fn start(script: impl Fn(usize, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    pub(super) async fn start_at(
        address: SocketAddr,
        script: impl Fn(usize, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::unbounded_channel();
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        let accepting = tokio::spawn(accept(listener, Arc::new(script), sender, connections.clone(), stop.clone()));
        Self { address, requests, connections, stop, accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The next request.
    pub(super) async fn request(&mut self) -> Request {
        tokio::time::timeout(LONG, self.requests.recv()).await.unwrap().unwrap()
    }

    /// Holds that no request is left that was not looked at.
    #[track_caller]
    pub(super) fn nothing_more(&mut self) {
        assert!(self.requests.try_recv().is_err());
    }

    /// Closes everything and waits until it is closed.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.connections.close();
        self.accepting.await.unwrap();
        self.connections.wait().await;
    }
}

async fn accept(
    listener: TcpListener,
    script: Script,
    sender: mpsc::UnboundedSender<Request>,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    for connection in 0.. {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            () = stop.cancelled() => return,
        };
        let (script, sender, stop) = (Arc::clone(&script), sender.clone(), stop.clone());
        connections.spawn(async move {
            tokio::select! {
                () = serve(stream, connection, &script, &sender) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn serve(mut stream: TcpStream, connection: usize, script: &Script, sender: &mpsc::UnboundedSender<Request>) {
    let mut buffer = Vec::new();
    for number in 0.. {
        let Some((head, body)) = read(&mut stream, &mut buffer).await else { return };
        let _nobody_looks = sender.send(Request { connection, number, head, body });
        let reply = script(connection, number);
        if stream.write_all(reply.bytes.as_bytes()).await.is_err() {
            return;
        }
        match reply.then {
            Then::Keep => {}
            Then::Close => return,
            Then::Hang => std::future::pending().await,
        }
    }
}

/// Reads one request; `None` at the end of the connection.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let end = end.saturating_add(4);
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse().unwrap())
                })
                .unwrap_or(0_usize);
            if buffer.len() >= end.saturating_add(length) {
                let rest = buffer.split_off(end.saturating_add(length));
                let body = String::from_utf8(std::mem::replace(buffer, rest)[end..].to_vec()).unwrap();
                return Some((head, body));
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
