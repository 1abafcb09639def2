//! What can stand before a server.

use std::{net::SocketAddr, sync::Arc};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::Issued;

/// Speaks TLS for a server that does not. Dropping it stops it.
#[derive(Debug)]
pub struct TlsFront {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// A proxy that opens tunnels, all of them to one place. Dropping it stops it.
#[derive(Debug)]
pub struct TunnelProxy {
    address: SocketAddr,
    asked: watch::Receiver<Vec<String>>,
    accepting: JoinHandle<()>,
}

impl TlsFront {
    /// Shows this certificate on a free port of loopback, and passes on to `plain`.
    ///
    /// # Panics
    /// The certificate cannot be used.
    pub async fn before(plain: SocketAddr, issued: &Issued) -> Self {
        Self::accept(issued, &[], move |mut stream| async move {
            let mut plain = TcpStream::connect(plain).await.unwrap();
            let _ended = copy_bidirectional(&mut stream, &mut plain).await;
        })
        .await
    }

    /// Speaks HTTP/2 and nothing else, and answers 200 with this body.
    ///
    /// # Panics
    /// The certificate cannot be used.
    pub async fn answering_in_http2(issued: &Issued, body: &'static str) -> Self {
        Self::accept(issued, &[b"h2"], move |stream| async move {
            let answer = service_fn(move |request: hyper::Request<Incoming>| async move {
                request.into_body().collect().await?;
                Ok::<_, hyper::Error>(hyper::Response::new(Full::new(Bytes::from_static(body.as_bytes()))))
            });
            let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
            let _ended = connection.await;
        })
        .await
    }

    async fn accept<F: Future<Output = ()> + Send>(
        issued: &Issued,
        protocols: &[&[u8]],
        serve: impl Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, serve) = (acceptor.clone(), serve.clone());
                tokio::spawn(async move {
                    // A peer that does not trust the certificate ends it.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream).await;
                    }
                });
            }
        });
        Self { address, accepting }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl TunnelProxy {
    /// On a free port of loopback; every tunnel leads to `end`.
    ///
    /// # Panics
    /// It is asked for something else than a tunnel.
    pub async fn to(end: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = watch::channel(Vec::new());
        let accepting = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.unwrap());
                    }
                    let head = String::from_utf8(head).unwrap();
                    assert!(head.starts_with("CONNECT "), "{head}");
                    sender.send_modify(|asked| asked.push(head));
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    let mut end = TcpStream::connect(end).await.unwrap();
                    let _ended = copy_bidirectional(&mut stream, &mut end).await;
                });
            }
        });
        Self { address, asked, accepting }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it was asked for: the first line and the headers of each request.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Drop for TunnelProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
