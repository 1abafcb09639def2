//! A hookd that says what it is told to.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hookd_proto::v1::{
    TriggerRequest, TriggerResponse,
    hook_service_server::{HookService, HookServiceServer},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// A gRPC server that gives every call the answer that is set, and remembers what it was asked. Dropping it closes it.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    script: Arc<Script>,
    serving: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Script {
    answer: Mutex<TriggerResponse>,
    asked: Mutex<Vec<TriggerRequest>>,
}

impl Scripted {
    /// On a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::<Script>::default();
        let server = Server::builder().add_service(HookServiceServer::from_arc(Arc::clone(&script)));
        let serving = tokio::spawn(async move {
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, script, serving }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it answers from now on.
    pub fn answer(&self, answer: TriggerResponse) {
        *self.script.answer.lock().unwrap() = answer;
    }

    /// What it was asked since this was looked at last.
    #[must_use]
    pub fn asked(&self) -> Vec<TriggerRequest> {
        std::mem::take(&mut self.script.asked.lock().unwrap())
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[tonic::async_trait]
impl HookService for Script {
    async fn trigger(&self, request: Request<TriggerRequest>) -> Result<Response<TriggerResponse>, Status> {
        self.asked.lock().unwrap().push(request.into_inner());
        Ok(Response::new(self.answer.lock().unwrap().clone()))
    }
}
