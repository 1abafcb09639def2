//! An HTTP server that answers every POST after a while: what a guard on the network looks like to hookd.

use std::{convert::Infallible, time::Duration};

use anyhow::{Context as _, anyhow};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::{net::TcpListener, time};
use tonic::Code;

use crate::{
    args::DelayArgs,
    drive::Call,
    print,
    tally::{Refusal, Reply},
};

/// What it answers: a guard's consent.
const ANSWER: &[u8] = br#"{"decision":"allow"}"#;

/// Serves until the process is ended. Prints one line with the address when it listens.
///
/// # Errors
/// The address cannot be bound, or the listener fails.
pub(crate) async fn serve(args: &DelayArgs) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(args.listen.0).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    print(&format!("hookd-load is ready: http={}\n", listener.local_addr().context("the bound address")?))?;
    let delay = args.delay;
    loop {
        let (stream, _) = listener.accept().await.context("the listener failed")?;
        stream.set_nodelay(true).context("socket")?;
        let service = service_fn(move |request| answer(request, delay));
        let connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
        // A client that goes away is no reason to stop.
        tokio::spawn(async move { drop(connection.await) });
    }
}

async fn answer(request: Request<Incoming>, delay: Duration) -> Result<Response<Full<Bytes>>, Infallible> {
    // What was sent counts as read only when all of it is there; a body that breaks off gets its answer all the same.
    let _ = request.into_body().collect().await;
    time::sleep(delay).await;
    Ok(Response::new(Full::new(Bytes::from_static(ANSWER))))
}

/// A bare client that posts one body again and again.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    body: Bytes,
}

impl Post {
    pub(crate) fn new(url: String, body: Bytes) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), url, body }
    }

    async fn post(&self) -> anyhow::Result<Reply> {
        let request = Request::post(&self.url).header("content-type", "application/json");
        let response = self.client.request(request.body(Full::new(self.body.clone()))?).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(anyhow!("HTTP {status}"));
        }
        Ok(Reply { bytes: bytes.len(), as_expected: bytes == ANSWER })
    }
}

impl Call for Post {
    async fn call(&mut self, _turn: u64) -> Result<Reply, Refusal> {
        self.post().await.map_err(|error| Refusal { code: Code::Unknown, message: format!("{error:#}") })
    }
}
