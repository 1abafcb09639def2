//! Certificates that are made in the test, and connections over TLS.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hookd_proto::v1::hook_service_client::HookServiceClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    version::TLS13,
};
use serde_json::json;
use tokio::net::TcpStream;
use tower::util::BoxCloneService;

pub use rcgen::{DnType, date_time_ymd};

use crate::{HookdBuilder, PatientChannel, within};

/// A connection over TLS.
pub type TlsStream = tokio_rustls::client::TlsStream<TcpStream>;

/// Issues certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate in PEM.
    pub certificate: String,
}

/// A certificate with its key, both in PEM.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// What a caller trusts, shows and speaks.
#[derive(Debug, Clone)]
pub struct TlsCaller {
    roots: RootCertStore,
    shown: Option<Issued>,
    versions: Vec<&'static SupportedProtocolVersion>,
    protocols: Vec<Vec<u8>>,
    name: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// One with a name of its own.
    #[must_use]
    pub fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(1);
        Self::named(&format!("authority {}", MADE.fetch_add(1, Ordering::SeqCst)))
    }

    /// One with a key of its own.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate as `params` have it.
    #[must_use]
    pub fn issue(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// A certificate of a server on this machine: `localhost` and `127.0.0.1`.
    #[must_use]
    pub fn server(&self) -> Issued {
        self.issue(&server(["localhost", "127.0.0.1"]))
    }

    /// A certificate of a caller, with this URI as its only name.
    #[must_use]
    pub fn client(&self, uri: &str) -> Issued {
        self.issue(&client(uri))
    }

    /// Settings of `hookd` by which callers have to show a certificate of this authority; see [`Issued::serve`].
    #[must_use]
    pub fn ask_for(&self, hookd: HookdBuilder) -> HookdBuilder {
        let hookd = hookd.file("tls/ca.crt", &self.certificate);
        let path = hookd.path("tls/ca.crt");
        hookd.settings(json!({ "tls": { "client_ca": path } }))
    }

    /// A caller that trusts this authority alone and shows nothing.
    #[must_use]
    pub fn caller(&self) -> TlsCaller {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()).unwrap();
        let name = "localhost".to_owned();
        TlsCaller { roots, shown: None, versions: vec![&TLS13], protocols: vec![b"h2".to_vec()], name }
    }
}

impl Issued {
    /// One that nobody but itself has issued.
    #[must_use]
    pub fn by_itself(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    /// Settings and files by which `hookd` speaks TLS with this certificate: `tls/tls.crt`, `tls/tls.key`.
    #[must_use]
    pub fn serve(&self, hookd: HookdBuilder) -> HookdBuilder {
        let hookd = hookd.file("tls/tls.crt", &self.certificate).file("tls/tls.key", &self.key);
        let (certificate, key) = (hookd.path("tls/tls.crt"), hookd.path("tls/tls.key"));
        hookd.settings(json!({ "tls": { "certificate": certificate, "key": key } }))
    }
}

impl TlsCaller {
    /// Shows a certificate.
    #[must_use]
    pub fn showing(self, issued: &Issued) -> Self {
        Self { shown: Some(issued.clone()), ..self }
    }

    /// Expects another name than `localhost`.
    #[must_use]
    pub fn expecting(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Speaks these versions instead of 1.3.
    #[must_use]
    pub fn speaking(self, versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self { versions: versions.to_vec(), ..self }
    }

    /// Offers these protocols instead of `h2`.
    #[must_use]
    pub fn offering(self, protocols: &[&str]) -> Self {
        Self { protocols: protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect(), ..self }
    }

    /// What it says to a server.
    #[must_use]
    pub fn config(&self) -> ClientConfig {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_protocol_versions(&self.versions).unwrap().with_root_certificates(self.roots.clone());
        let mut config = match &self.shown {
            None => config.with_no_client_auth(),
            Some(issued) => {
                let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        config
    }

    /// Shakes hands. What the server thinks of this caller's certificate is only told with the first thing that is read.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream> {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(self.config()));
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from(self.name.clone()).unwrap();
        within("a handshake", connector.connect(name, stream)).await
    }

    /// The generated client on a connection of its own, and the serial of the certificate that the server has shown.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn client(&self, address: SocketAddr) -> io::Result<(HookServiceClient<PatientChannel>, u64)> {
        let stream = self.connect(address).await?;
        let serial = serial(&stream);
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let send = tower::service_fn(move |request| sender.clone().send_request(request));
        let origin = format!("https://localhost:{}", address.port()).parse().unwrap();
        Ok((HookServiceClient::with_origin(BoxCloneService::new(send), origin), serial))
    }
}

/// A caller's certificate with this URI as its only name, to be issued.
#[must_use]
pub fn client(uri: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params
}

/// A server's certificate with these names or addresses, to be issued.
#[must_use]
pub fn server<const N: usize>(names: [&str; N]) -> CertificateParams {
    let mut params = CertificateParams::new(names.map(str::to_owned)).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

/// The last 8 bytes of the serial of the certificate that the server has shown.
#[must_use]
pub fn serial(stream: &TlsStream) -> u64 {
    let shown = stream.get_ref().1.peer_certificates().unwrap();
    let (_, certificate) = x509_parser::parse_x509_certificate(&shown[0]).unwrap();
    let bytes = certificate.raw_serial();
    bytes.iter().fold(0, |serial, byte| (serial << 8) | u64::from(*byte))
}

/// Makes `link` lead to `target` in one step, as Kubernetes does it.
pub fn replace_link(link: &Path, target: &str) {
    let new = link.with_file_name("link-to-be");
    symlink(target, &new).unwrap();
    fs::rename(&new, link).unwrap();
}
