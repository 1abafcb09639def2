//! One call over one connection: bytes out, a message or a [`Status`] back.

use std::{
    marker::PhantomData,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode, Uri,
    header::{CONTENT_TYPE, USER_AGENT},
    uri::PathAndQuery,
};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::SendRequest;
use prost::{
    Message,
    bytes::{BufMut as _, Bytes},
};
use tonic::{
    Status,
    body::Body,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataMap,
};
use tower::Service;

/// Carries the details of a status, in base64.
const DETAILS: &str = "grpc-status-details-bin";

/// The bytes of an answer are not the message that they should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotUnderstood(String);

/// A status and the headers that came before it.
pub(crate) type Failed = Box<(Status, MetadataMap)>;

/// A connection that is made.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
    /// Which one it is, among all of this process.
    number: u64,
}

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

impl Connection {
    pub(crate) fn new(sender: SendRequest<Body>, origin: Uri) -> Self {
        Self { sender, origin, number: CONNECTIONS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// Whether it takes no more calls: it is lost, or the other end has sent GOAWAY.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends `request` to the method at `path` and reads its one answer.
    pub(crate) async fn call<A: Message + Default + 'static>(
        &self,
        path: &'static str,
        request: tonic::Request<Bytes>,
        answer_limit: usize,
    ) -> Result<A, Failed> {
        let mut grpc = self.grpc(answer_limit);
        let path = PathAndQuery::from_static(path);
        let codec = WireCodec(PhantomData::<A>);
        let (headers, mut messages, _) =
            grpc.server_streaming(request, path, codec).await.map_err(no_headers)?.into_parts();
        let answer = match messages.message().await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(Box::new((not_understood("it is empty".to_owned()), headers))),
            Err(status) => return Err(Box::new((status, headers))),
        };
        // The answer counts only with the status that follows it.
        match messages.message().await {
            Ok(None) => Ok(answer),
            Ok(Some(_)) => Err(Box::new((not_understood("there is more than one".to_owned()), headers))),
            Err(status) => Err(Box::new((status, headers))),
        }
    }

    /// Opens a stream to the method at `path` that sends `requests`, and gives what comes back and the headers before
    /// it.
    #[cfg(feature = "agent-commands")]
    pub(crate) async fn open<A: Message + Default + 'static>(
        &self,
        path: &'static str,
        requests: tonic::Request<impl tokio_stream::Stream<Item = Bytes> + Send + 'static>,
        answer_limit: usize,
    ) -> Result<(MetadataMap, tonic::Streaming<A>), Failed> {
        let mut grpc = self.grpc(answer_limit);
        let codec = WireCodec(PhantomData::<A>);
        let opened = grpc.streaming(requests, PathAndQuery::from_static(path), codec).await.map_err(no_headers)?;
        let (headers, messages, _) = opened.into_parts();
        Ok((headers, messages))
    }

    fn grpc(&self, answer_limit: usize) -> Grpc<Self> {
        Grpc::with_origin(self.clone(), self.origin.clone()).max_decoding_message_size(answer_limit)
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let user_agent = HeaderValue::from_static(concat!("hookd-client/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, user_agent);
        let response = self.sender.send_request(request);
        Box::pin(async move { Ok(checked(response.await?.map(Body::new))) })
    }
}

fn no_headers(status: Status) -> Failed {
    Box::new((status, MetadataMap::new()))
}

/// Keeps from the layer above what it does not check: status details that are not base64, on which it panics, and the
/// page of a peer that does not speak gRPC, which it would read as a message. (What is left is the HTTP status.)
fn checked(mut response: Response<Body>) -> Response<Body> {
    check_details(response.headers_mut());
    let content_type = response.headers().get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
    if response.status() != StatusCode::OK || !content_type.starts_with(b"application/grpc") {
        return response.map(|_| Body::empty());
    }
    response.map(|body| {
        Body::new(body.map_frame(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                check_details(trailers);
            }
            frame
        }))
    })
}

fn check_details(headers: &mut HeaderMap) {
    let Some(details) = headers.get(DETAILS) else { return };
    let mut alone = HeaderMap::new();
    alone.insert(DETAILS, details.clone());
    if MetadataMap::from_headers(alone).get_bin(DETAILS).is_none_or(|details| details.to_bytes().is_err()) {
        headers.remove(DETAILS);
    }
}

/// Encoded messages out, decoded ones in; what cannot be decoded is told apart from a broken connection.
struct WireCodec<A>(PhantomData<A>);

struct BytesEncoder;

struct AnswerDecoder<A>(PhantomData<A>);

impl<A: Message + Default + 'static> Codec for WireCodec<A> {
    type Encode = Bytes;
    type Decode = A;
    type Encoder = BytesEncoder;
    type Decoder = AnswerDecoder<A>;

    fn encoder(&mut self) -> BytesEncoder {
        BytesEncoder
    }

    fn decoder(&mut self) -> AnswerDecoder<A> {
        AnswerDecoder(PhantomData)
    }
}

impl Encoder for BytesEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl<A: Message + Default> Decoder for AnswerDecoder<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        A::decode(buffer).map(Some).map_err(|error| not_understood(error.to_string()))
    }
}

fn not_understood(message: String) -> Status {
    let mut status = Status::internal(message.clone());
    status.set_source(Arc::new(NotUnderstood(message)));
    status
}
