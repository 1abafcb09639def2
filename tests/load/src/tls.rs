//! TLS on both sides, as hookd has it: ring, TLS 1.3 alone, HTTP/2, no resumed sessions.

use std::{
    fs, io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    server::NoServerSessionStorage,
    version::TLS13,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// How long a handshake with the echo server may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// What a client trusts and shows.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// A certificate with its key, as files in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// A server's pair, and the authority that issued it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) authority: PathBuf,
    pub(crate) server: Pair,
}

/// An accepted connection after its handshake.
#[derive(Debug)]
pub(crate) struct Shaken(server::TlsStream<TcpStream>);

impl TlsClient {
    /// One that trusts the authorities in this file alone, and shows `own`.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub(crate) fn new(authority: &Path, name: &str, own: Option<&Pair>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots.add(certificate).with_context(|| authority.display().to_string())?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some(own) => config.with_client_auth_cert(certificates(&own.certificate)?, key(&own.key)?)?,
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(name.to_owned()).with_context(|| format!("`{name}` is no name of a server"))?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// The server is not the one it should be, or does not take this client.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<client::TlsStream<TcpStream>> {
        TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
    }
}

/// A server's side of handshakes.
///
/// # Errors
/// The pair cannot be read or used.
pub(crate) fn acceptor(pair: &Pair) -> anyhow::Result<TlsAcceptor> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates(&pair.certificate)?, key(&pair.key)?)
        .with_context(|| pair.certificate.display().to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connections to `listener`, each after its handshake. One without is dropped.
pub(crate) fn incoming(listener: TcpListener, acceptor: TlsAcceptor) -> ReceiverStream<io::Result<Shaken>> {
    let (shaken, incoming) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, shaken) = (acceptor.clone(), shaken.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                if let Ok(Ok(stream)) = time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                    let _ = shaken.send(Ok(Shaken(stream))).await;
                }
            });
        }
    });
    ReceiverStream::new(incoming)
}

/// Makes an authority, and a certificate of it for `localhost`, in `folder`.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn make(folder: &Path) -> anyhow::Result<Made> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority = params.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["localhost".to_owned()])?;
    let server = server.signed_by(&key, &Issuer::new(params, authority_key))?;
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string()).map(|()| path)
    };
    Ok(Made {
        authority: write("ca.crt", authority.pem())?,
        server: Pair { certificate: write("tls.crt", server.pem())?, key: write("tls.key", key.serialize_pem())? },
    })
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let pem = fs::read(path).with_context(|| path.display().to_string())?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    certificates
        .ok()
        .filter(|found| !found.is_empty())
        .with_context(|| format!("{}: holds no certificate in PEM", path.display()))
}

fn key(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    let pem = fs::read(path).with_context(|| path.display().to_string())?;
    // Not what the reader says: it might show a line of the file.
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| anyhow!("{}: holds no private key in PEM", path.display()))
}

impl Connected for Shaken {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Shaken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Shaken {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
