//! One call: the message that came, and the answer that the script has for it.

use std::{future::pending, time::Duration};

use h2::{Reason, RecvStream, server::SendResponse};
use hookd_proto::v1::TriggerResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use prost::{Message as _, bytes::Bytes};
use serde_json::Value;
use tokio::sync::Notify;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::wire;

const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// What is done with a call.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Headers, a body, and trailers if there are any.
    Http { status: u16, headers: HeaderMap, body: Vec<u8>, trailers: HeaderMap },
    /// RST_STREAM with this code.
    Reset(u32),
    /// GOAWAY that says of no call that it was taken.
    GoAway,
    /// The connection is closed.
    Close,
    /// Nothing, for ever.
    Never,
    /// Not HTTP/2 at all: these bytes, to whoever connects.
    Bytes(Vec<u8>),
}

impl Answer {
    /// An answer of the table: an object with one key, as the README says.
    pub(crate) fn read(value: &Value) -> Self {
        if let Some(response) = value.get("response") {
            let mut response = wire::response(response);
            if let Some(bytes) = value.get("padBytes") {
                response.reason = "x".repeat(usize::try_from(bytes.as_u64().unwrap()).unwrap());
            }
            return Self::response(&response);
        }
        if let Some(status) = value.get("status") {
            return Self::status(&read_status(status));
        }
        if let Some(raw) = value.get("raw") {
            return Self::Http {
                status: raw.get("status").map_or(200, |status| status.as_u64().unwrap().try_into().unwrap()),
                headers: raw.get("headers").map_or_else(grpc, map),
                body: raw.get("body").map_or_else(Vec::new, body),
                trailers: raw.get("trailers").map_or_else(HeaderMap::new, map),
            };
        }
        if let Some(code) = value.get("reset") {
            return Self::Reset(code.as_u64().unwrap().try_into().unwrap());
        }
        if let Some(text) = value.get("bytes") {
            return Self::Bytes(text.as_str().unwrap().as_bytes().to_vec());
        }
        match value.as_str() {
            Some("goaway") => Self::GoAway,
            Some("close") => Self::Close,
            Some("never") => Self::Never,
            _ => panic!("no answer: {value}"),
        }
    }

    /// A whole and proper one.
    pub(crate) fn response(response: &TriggerResponse) -> Self {
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
        Self::Http { status: 200, headers: grpc(), body: frame(&response.encode_to_vec()), trailers }
    }

    /// The request is not the one that it has to be.
    pub(crate) fn refused(message: &str) -> Self {
        Self::status(&Status::invalid_argument(message))
    }

    /// A status and nothing else.
    fn status(status: &Status) -> Self {
        let mut headers = grpc();
        status.add_header(&mut headers).unwrap();
        Self::Http { status: 200, headers, body: Vec::new(), trailers: HeaderMap::new() }
    }

    /// Does it. `close` closes the connection.
    pub(crate) async fn give(self, mut respond: SendResponse<Bytes>, close: &Notify) -> Result<(), h2::Error> {
        match self {
            Self::Http { status, headers, body, trailers } => {
                let mut response = Response::new(());
                *response.status_mut() = status.try_into().unwrap();
                *response.headers_mut() = headers;
                let bare = body.is_empty() && trailers.is_empty();
                let mut send = respond.send_response(response, bare)?;
                if !bare {
                    send.send_data(body.into(), trailers.is_empty())?;
                    if !trailers.is_empty() {
                        send.send_trailers(trailers)?;
                    }
                }
            }
            Self::Reset(code) => respond.send_reset(Reason::from(code)),
            Self::Close => close.notify_one(),
            Self::Never => pending().await,
            Self::GoAway | Self::Bytes(_) => panic!("it comes first on its connection, or not at all"),
        }
        Ok(())
    }
}

/// The message of a call, without the five bytes in front of it.
pub(crate) async fn message(request: Request<RecvStream>) -> Result<Vec<u8>, h2::Error> {
    let mut stream = request.into_body();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.data().await {
        let chunk = chunk?;
        stream.flow_control().release_capacity(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.split_off(bytes.len().min(5)))
}

/// `{ "code": NAME, "message": …, "ofHookd": bool, "retryAfterMs"?: … }`.
fn read_status(value: &Value) -> Status {
    let name = value["code"].as_str().unwrap();
    let number = CODES.iter().position(|code| *code == name).unwrap_or_else(|| panic!("no code {name}"));
    let code = Code::from_i32(number.try_into().unwrap());
    let message = value.get("message").map_or("no", |message| message.as_str().unwrap());
    let mut status = match value.get("retryAfterMs") {
        Some(ms) => {
            let after = Duration::from_millis(ms.as_u64().unwrap());
            Status::with_error_details(code, message, ErrorDetails::with_retry_info(Some(after)))
        }
        None => Status::new(code, message),
    };
    if value["ofHookd"] == true {
        status.metadata_mut().insert("hookd-decision-id", "d9".parse().unwrap());
    }
    status
}

/// The parts of a body, one after another: `{ "response": …, "cut"?: bytes }` and `{ "message": hex }` are framed as
/// gRPC does it, `{ "bytes": hex }` is not.
fn body(parts: &Value) -> Vec<u8> {
    let part = |part: &Value| {
        if let Some(response) = part.get("response") {
            let mut message = wire::response(response).encode_to_vec();
            let cut = part.get("cut").map_or(0, |cut| cut.as_u64().unwrap());
            message.truncate(message.len() - usize::try_from(cut).unwrap());
            return frame(&message);
        }
        match part.get("message") {
            Some(hex) => frame(&bytes_of(hex)),
            None => bytes_of(&part["bytes"]),
        }
    };
    parts.as_array().unwrap().iter().flat_map(part).collect()
}

fn bytes_of(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

fn grpc() -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))])
}

fn map(value: &Value) -> HeaderMap {
    let pairs = value.as_object().unwrap().iter();
    pairs.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().parse().unwrap())).collect()
}
