//! Peers that are not hookd, or send what nobody should.

use std::{convert::Infallible, io::Write as _, net::SocketAddr, sync::Arc};

use hookd_client::{Address, CallErrorKind, Client, Gate, OnUnavailable, proto::Verdict};
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::{Message as _, bytes::Bytes};

use crate::server::answer;

/// One answer of a plain HTTP/2 server.
#[derive(Clone)]
struct Raw {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
    trailers: Vec<(&'static str, &'static str)>,
}

impl Raw {
    fn grpc(body: Vec<u8>) -> Self {
        let headers = vec![("content-type", "application/grpc")];
        Self { status: 200, headers, body, trailers: vec![("grpc-status", "0")] }
    }
}

fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

async fn serve(raw: Raw) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let raw = Arc::new(raw);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let raw = Arc::clone(&raw);
            let service = service_fn(move |_| {
                let raw = Arc::clone(&raw);
                async move {
                    let trailers = map(&raw.trailers);
                    let body = Full::new(Bytes::from(raw.body.clone()))
                        .with_trailers(async move { (!trailers.is_empty()).then_some(Ok::<_, Infallible>(trailers)) });
                    let mut response = http::Response::new(body);
                    *response.status_mut() = raw.status.try_into().unwrap();
                    *response.headers_mut() = map(&raw.headers);
                    Ok::<_, Infallible>(response)
                }
            });
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http2.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

/// The gate on a tool call under the most lenient setting, and what the call met.
async fn gate(address: SocketAddr) -> (Gate, Option<CallErrorKind>) {
    let address: Address = address.to_string().parse().unwrap();
    let client = Client::builder(vec![address], OnUnavailable::Allow).rounds(1).build().unwrap();
    let gate = client.session("s").pre_tool_use("bash", "{}").await;
    let kind = gate.decision().error().map(|error| error.kind);
    (gate, kind)
}

#[tokio::test]
async fn law_11_an_answer_that_is_no_answer_blocks() {
    let allow = answer(Verdict::Allow).encode_to_vec();
    let bodies = [
        frame(&[0xff; 40]),
        frame(&allow[..allow.len() - 1]),
        Vec::new(),
        frame(&[]),
        [frame(&allow), frame(&allow)].concat(),
    ];
    for body in bodies {
        let (gate, kind) = gate(serve(Raw::grpc(body.clone())).await).await;
        assert!(matches!(gate, Gate::Refuse { .. }), "{body:?}: {gate:?}");
        assert_eq!(kind, Some(CallErrorKind::NotUnderstood), "{body:?}: {gate:?}");
    }
    let (gate, kind) = gate(serve(Raw::grpc(frame(&allow))).await).await;
    assert!(matches!(gate, Gate::Run { approved: true, .. }), "{gate:?}");
    assert_eq!(kind, None);
}

#[tokio::test]
async fn an_answer_counts_only_with_the_status_after_it() {
    let allow = frame(&answer(Verdict::Allow).encode_to_vec());
    let denied = Raw { trailers: vec![("grpc-status", "7"), ("grpc-message", "no")], ..Raw::grpc(allow.clone()) };
    assert_eq!(gate(serve(denied).await).await.1, Some(CallErrorKind::Refused));
    let cut = Raw { trailers: Vec::new(), ..Raw::grpc(allow) };
    let (gate, kind) = gate(serve(cut).await).await;
    assert!(!matches!(gate, Gate::Run { approved: true, .. }), "{gate:?}");
    assert_eq!(kind, Some(CallErrorKind::Unavailable));
}

#[tokio::test]
async fn broken_status_details_do_not_bring_the_agent_down() {
    let broken = [("grpc-status", "8"), ("grpc-message", "full"), ("grpc-status-details-bin", "!!!not base64!!!")];
    let content = ("content-type", "application/grpc");
    let in_headers = Raw { headers: [&[content], broken.as_slice()].concat(), ..Raw::grpc(Vec::new()) };
    let in_trailers = Raw { trailers: broken.to_vec(), ..Raw::grpc(Vec::new()) };
    for raw in [Raw { trailers: Vec::new(), ..in_headers }, in_trailers] {
        let (gate, kind) = gate(serve(raw).await).await;
        assert_eq!(kind, Some(CallErrorKind::Refused));
        assert!(matches!(&gate, Gate::Refuse { reason, .. } if reason.ends_with("full (RESOURCE_EXHAUSTED)")));
    }
}

#[tokio::test]
async fn a_peer_that_is_not_hookd_cannot_be_asked() {
    let html = |status| Raw {
        status,
        headers: vec![("content-type", "text/html")],
        body: b"<html>".to_vec(),
        trailers: Vec::new(),
    };
    for status in [200, 502, 503, 504] {
        let (gate, kind) = gate(serve(html(status)).await).await;
        assert_eq!(kind, Some(CallErrorKind::Unavailable), "{status}: {gate:?}");
        assert!(matches!(gate, Gate::Run { approved: false, .. }), "{status}: {gate:?}");
    }
    for status in [401, 403, 404] {
        let (gate, kind) = gate(serve(html(status)).await).await;
        assert_eq!(kind, Some(CallErrorKind::Refused), "{status}: {gate:?}");
        assert!(matches!(gate, Gate::Refuse { .. }), "{status}: {gate:?}");
    }

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let junk = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-nothing\r\n\r\n").unwrap();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let (gate, kind) = gate(address).await;
    assert_eq!(kind, Some(CallErrorKind::Unavailable), "{gate:?}");
    junk.join().unwrap();
}
