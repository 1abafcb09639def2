//! One unary call whose bodies are bytes as they are, so that any method can be called and no time goes into encoding.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::ValueEnum;
use hookd_proto::v1::Verdict;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::bytes::{Buf as _, BufMut as _, Bytes};
use tokio::net::TcpStream;
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Channel, Endpoint},
};

use crate::{
    answers,
    drive::Call,
    tally::{Refusal, Reply},
    tls::TlsClient,
};

/// Whom to call, with what.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// The server.
    pub(crate) address: SocketAddr,
    /// How to speak TLS with it. `None`: plain text.
    pub(crate) tls: Option<TlsClient>,
    /// The method.
    pub(crate) method: PathAndQuery,
    /// Deadline of each call; it also travels to the server.
    pub(crate) timeout: Duration,
    /// Bodies, used in turns, each with the verdict that its answer has to hold.
    pub(crate) bodies: Vec<(Bytes, Option<ExpectedVerdict>)>,
}

/// A verdict by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExpectedVerdict {
    None,
    Allow,
    Ask,
    Defer,
    Block,
}

impl From<ExpectedVerdict> for Verdict {
    fn from(expected: ExpectedVerdict) -> Self {
        match expected {
            ExpectedVerdict::None => Self::None,
            ExpectedVerdict::Allow => Self::Allow,
            ExpectedVerdict::Ask => Self::Ask,
            ExpectedVerdict::Defer => Self::Defer,
            ExpectedVerdict::Block => Self::Block,
        }
    }
}

/// One connection, ready for calls.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    grpc: Grpc<Channel>,
    client: Arc<Client>,
}

/// Opens `count` connections.
///
/// # Errors
/// The server cannot be reached.
pub(crate) async fn connect(client: &Client, count: usize) -> anyhow::Result<Vec<Connection>> {
    let shared = Arc::new(client.clone());
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let endpoint = Endpoint::from_shared(format!("http://{}", client.address))?.connect_timeout(client.timeout);
        let channel = match client.tls.clone() {
            None => endpoint.connect().await,
            Some(tls) => {
                let address = client.address;
                let connect = move |_| {
                    let tls = tls.clone();
                    async move {
                        let stream = TcpStream::connect(address).await?;
                        stream.set_nodelay(true)?;
                        tls.connect(stream).await.map(TokioIo::new)
                    }
                };
                endpoint.connect_with_connector(tower::service_fn(connect)).await
            }
        };
        let channel = channel.with_context(|| format!("cannot connect to {}", client.address))?;
        connections.push(Connection { grpc: Grpc::new(channel), client: Arc::clone(&shared) });
    }
    Ok(connections)
}

impl Connection {
    /// Sends one body and gives the answer's bytes.
    ///
    /// # Errors
    /// Whatever status came back, or what the transport made of its own failure.
    pub(crate) async fn send(&mut self, body: Bytes) -> Result<Bytes, Status> {
        self.grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let mut request = Request::new(body);
        request.set_timeout(self.client.timeout);
        let response = self.grpc.unary(request, self.client.method.clone(), RawCodec).await?;
        Ok(response.into_inner())
    }
}

impl Call for Connection {
    async fn call(&mut self, turn: u64) -> Result<Reply, Refusal> {
        let turn = usize::try_from(turn).unwrap_or_default();
        let turn = turn.checked_rem(self.client.bodies.len()).unwrap_or_default();
        let Some((body, expected)) = self.client.bodies.get(turn).cloned() else {
            return Err(Refusal { code: Code::Internal, message: "no body to send".to_owned() });
        };
        match self.send(body).await {
            Ok(bytes) => Ok(Reply {
                bytes: bytes.len(),
                as_expected: expected.is_none_or(|expected| answers::verdict(&bytes) == Some(expected.into())),
            }),
            Err(status) => Err(Refusal { code: status.code(), message: status.message().to_owned() }),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        *self
    }

    fn decoder(&mut self) -> Self::Decoder {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}
