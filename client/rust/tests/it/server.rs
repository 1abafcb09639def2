//! Servers to ask: a hookd that answers as a test says, in a runtime of its own so that it can be killed for real.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use hookd_client::{
    Client, OnUnavailable,
    proto::{
        TriggerRequest, TriggerResponse, Verdict,
        hook_service_server::{HookService, HookServiceServer},
    },
};
use tokio::{
    net::TcpSocket,
    runtime::{Builder, Runtime},
    sync::oneshot,
};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::{
    Request, Response, Status,
    metadata::MetadataMap,
    transport::{Server, ServerTlsConfig},
};

pub(crate) type Answer = Result<TriggerResponse, Status>;

/// A running server. Dropping it kills it: its connections break at once.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    stopped: std::sync::mpsc::Receiver<()>,
    runtime: Option<Runtime>,
}

#[derive(Clone)]
struct Service(Arc<dyn Fn(TriggerRequest, MetadataMap) -> BoxFuture<'static, Answer> + Send + Sync>);

#[tonic::async_trait]
impl HookService for Service {
    async fn trigger(&self, request: Request<TriggerRequest>) -> Result<Response<TriggerResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        (self.0)(request, metadata).await.map(Response::new)
    }
}

impl TestServer {
    pub(crate) fn answering(answer: impl Fn(TriggerRequest) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(free(), move |request, _| {
            let answer = answer(request);
            Box::pin(async { answer })
        })
    }

    pub(crate) fn start(
        listener: TcpListener,
        answer: impl Fn(TriggerRequest, MetadataMap) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(listener, None, answer)
    }

    pub(crate) fn start_with(
        listener: TcpListener,
        tls: Option<ServerTlsConfig>,
        answer: impl Fn(TriggerRequest, MetadataMap) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> Self {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (stop, on_stop) = oneshot::channel::<()>();
        let (report, stopped) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let shutdown = async { on_stop.await.unwrap_or(()) };
            let service = HookServiceServer::new(Service(Arc::new(answer)));
            let mut server = Server::builder();
            if let Some(tls) = tls {
                server = server.tls_config(tls).unwrap();
            }
            let server = server.add_service(service);
            server.serve_with_incoming_shutdown(TcpListenerStream::new(listener), shutdown).await.unwrap();
            report.send(()).unwrap();
        });
        Self { address, stop: Some(stop), stopped, runtime: Some(runtime) }
    }

    /// Sends GOAWAY, lets the calls end, and is gone.
    pub(crate) fn shut_down(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.stopped.recv().unwrap();
    }

    pub(crate) fn client(&self, on_unavailable: OnUnavailable) -> Client {
        Client::connect_lazy(&self.address.to_string(), on_unavailable).unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// Serves on a unix socket, on the runtime of the test.
pub(crate) fn serve_unix(path: &Path, answer: impl Fn(TriggerRequest) -> Answer + Send + Sync + 'static) {
    let listener = tokio::net::UnixListener::bind(path).unwrap();
    let service = HookServiceServer::new(Service(Arc::new(move |request, _| {
        let answer = answer(request);
        Box::pin(async { answer })
    })));
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(UnixListenerStream::new(listener)));
}

/// An address that is held, so that nobody else gets it while nobody listens there.
pub(crate) struct Place(TcpSocket);

impl Place {
    pub(crate) fn free() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Those that may be reused, as listeners of the standard library may, share an address while one of them listens.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) fn listen(&self) -> TcpListener {
        TcpListener::bind(self.address()).unwrap()
    }
}

pub(crate) fn free() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

pub(crate) fn answer(verdict: Verdict) -> TriggerResponse {
    TriggerResponse {
        verdict: verdict.into(),
        reason: "because".to_owned(),
        decision_id: "d1".to_owned(),
        policy_revision: "r1".to_owned(),
        ..TriggerResponse::default()
    }
}

/// A status as hookd sends it.
pub(crate) fn of_hookd(mut status: Status) -> Status {
    status.metadata_mut().insert("hookd-decision-id", "d9".parse().unwrap());
    status
}
