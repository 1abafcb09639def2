//! What a relay can find where hookd should be.

use std::{net::SocketAddr, sync::LazyLock};

use hookd_tests::{
    Place,
    v1::{
        TriggerRequest, TriggerResponse,
        hook_service_server::{HookService, HookServiceServer},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// Something that listens, until it is dropped.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An address where nobody listens, and nobody else can either as long as the tests run.
pub fn nobody() -> SocketAddr {
    static PLACE: LazyLock<Place> = LazyLock::new(Place::free);
    PLACE.address()
}

/// Takes connections and never says anything.
pub async fn hung() -> Peer {
    serve(|mut stream| async move {
        let mut read = vec![0; 4096];
        while stream.read(&mut read).await.is_ok_and(|count| count > 0) {}
    })
    .await
}

/// Says something that is no HTTP/2.
pub async fn garbage() -> Peer {
    serve(|mut stream| async move {
        let garbage = (0..=255_u8).cycle().take(5000).collect::<Vec<_>>();
        let _gone = stream.write_all(&garbage).await;
    })
    .await
}

/// A web server: it answers everything with a page.
pub async fn page() -> Peer {
    serve(|mut stream| async move {
        let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    })
    .await
}

/// Closes the connection in the middle of a call.
pub async fn cuts() -> Peer {
    serve(|mut stream| async move {
        // Its own settings, so that the client sends its call.
        let _gone = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
        let mut read = vec![0; 4096];
        let mut count = 0;
        // The preface and the settings are shorter.
        while count < 150 {
            match stream.read(&mut read).await {
                Ok(0) | Err(_) => return,
                Ok(more) => count += more,
            }
        }
    })
    .await
}

/// A server that gives every call this answer.
pub async fn answering(answer: Result<TriggerResponse, Status>) -> Peer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(HookServiceServer::new(Answering(answer)));
    let serving = tokio::spawn(async move {
        server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    });
    Peer { address, serving }
}

struct Answering(Result<TriggerResponse, Status>);

#[tonic::async_trait]
impl HookService for Answering {
    async fn trigger(&self, _: Request<TriggerRequest>) -> Result<Response<TriggerResponse>, Status> {
        self.0.clone().map(Response::new)
    }
}

async fn serve<C, F>(connection: C) -> Peer
where
    C: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        // Those that hang end with the runtime.
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream));
        }
    });
    Peer { address, serving }
}
