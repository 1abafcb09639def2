//! A hookd that answers as a test says.

use std::{net::SocketAddr, sync::Mutex, sync::mpsc};

use hookd_client::proto::{
    ExplainRequest, ExplainResponse, GetStatusRequest, GetStatusResponse, ListRulesRequest, ListRulesResponse,
    ReloadRequest, ReloadResponse, RuleSummary, Tier, TriggerRequest, TriggerResponse,
    admin_service_server::{AdminService, AdminServiceServer},
    hook_service_server::{HookService, HookServiceServer},
};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Server, ServerTlsConfig},
};

/// A running server, on threads of its own until it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    asked: mpsc::Receiver<TriggerRequest>,
    tokens: mpsc::Receiver<Option<String>>,
    _runtime: Runtime,
}

struct Service {
    answer: Result<TriggerResponse, Status>,
    reload_ok: bool,
    asked: Mutex<mpsc::Sender<TriggerRequest>>,
}

impl TestServer {
    pub(crate) fn answering(answer: Result<TriggerResponse, Status>) -> Self {
        Self::start(answer, true, None)
    }

    pub(crate) fn with_tls(answer: Result<TriggerResponse, Status>, tls: ServerTlsConfig) -> Self {
        Self::start(answer, true, Some(tls))
    }

    pub(crate) fn reloading(ok: bool) -> Self {
        Self::start(Ok(TriggerResponse::default()), ok, None)
    }

    /// The request that was asked, once.
    pub(crate) fn asked(&self) -> TriggerRequest {
        self.asked.try_recv().unwrap()
    }

    /// What came as `authorization`, call by call.
    pub(crate) fn token(&self) -> Option<String> {
        self.tokens.try_recv().unwrap()
    }

    fn start(answer: Result<TriggerResponse, Status>, reload_ok: bool, tls: Option<ServerTlsConfig>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, asked) = mpsc::channel();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let service = |sender| Service { answer: answer.clone(), reload_ok, asked: Mutex::new(sender) };
        let (seen, tokens) = mpsc::channel();
        let look = move |request: Request<()>| {
            let token = request.metadata().get("authorization").map(|it| it.to_str().unwrap().to_owned());
            // Nobody looks any more once the test is over.
            let _ = seen.send(token);
            Ok(request)
        };
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let server = server
            .add_service(HookServiceServer::with_interceptor(service(sender.clone()), look.clone()))
            .add_service(AdminServiceServer::with_interceptor(service(sender), look));
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, asked, tokens, _runtime: runtime }
    }
}

#[tonic::async_trait]
impl HookService for Service {
    async fn trigger(&self, request: Request<TriggerRequest>) -> Result<Response<TriggerResponse>, Status> {
        self.asked.lock().unwrap().send(request.into_inner()).unwrap();
        self.answer.clone().map(Response::new)
    }
}

#[tonic::async_trait]
impl AdminService for Service {
    async fn get_status(&self, _: Request<GetStatusRequest>) -> Result<Response<GetStatusResponse>, Status> {
        Ok(Response::new(GetStatusResponse { version: "9.9.9".into(), rules: 1, ..Default::default() }))
    }

    async fn list_rules(&self, request: Request<ListRulesRequest>) -> Result<Response<ListRulesResponse>, Status> {
        let rule = RuleSummary {
            rule_id: "guard".into(),
            tier: Tier::Managed.into(),
            events: vec![request.into_inner().event],
            ..Default::default()
        };
        Ok(Response::new(ListRulesResponse { rules: vec![rule], policy_revision: "r1".into() }))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        self.asked.lock().unwrap().send(request.into_inner().trigger.unwrap()).unwrap();
        Ok(Response::new(ExplainResponse { block_means: "it does not happen".into(), ..Default::default() }))
    }

    async fn reload(&self, _: Request<ReloadRequest>) -> Result<Response<ReloadResponse>, Status> {
        Ok(Response::new(ReloadResponse { ok: self.reload_ok, policy_revision: "r2".into(), ..Default::default() }))
    }
}
