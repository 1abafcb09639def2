use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::{TLS12, TLS13},
};

use hookd_rules::read_small_file;

use crate::settings::{ClientCertificates, TlsSettings, TlsVersion};

static SINCE_1_2: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
static SINCE_1_3: &[&SupportedProtocolVersion] = &[&TLS13];

/// Why files cannot be used for TLS: one line with the file. Nothing of a key stands in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// What was read, ready for handshakes.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) config: Arc<ServerConfig>,
    /// The certificate's number, in hexadecimal.
    pub(super) serial: String,
    /// Its end, in seconds since 1970.
    pub(super) not_after: i64,
    /// The same for people.
    pub(super) not_after_text: String,
    certificate: PathBuf,
}

/// The files that are read.
pub(super) fn files(settings: &TlsSettings) -> Vec<PathBuf> {
    let authorities = settings.clients.as_ref().map(|clients| clients.authorities.clone());
    [settings.certificate.clone(), settings.key.clone()].into_iter().chain(authorities).collect()
}

/// Says whether a server could start with these files.
///
/// # Errors
/// What is wrong with them, in one line.
pub fn check(settings: &TlsSettings) -> Result<(), TlsError> {
    load(settings).map(|_| ())
}

/// As [`load`], not on a thread of the runtime.
pub(super) async fn load_off_thread(settings: &TlsSettings) -> Result<Loaded, TlsError> {
    let settings = settings.clone();
    let loading = tokio::task::spawn_blocking(move || load(&settings));
    loading.await.unwrap_or_else(|_| Err(TlsError("reading the certificate was broken off".to_owned())))
}

fn load(settings: &TlsSettings) -> Result<Loaded, TlsError> {
    let TlsSettings { certificate, key, clients, min_version } = settings;
    let chain = certificates(certificate)?;
    let provider = Arc::new(ring::default_provider());
    let private_key = PrivateKeyDer::from_pem_slice(&read(key, "key")?)
        // Not what the reader says: it might show a line of the file.
        .map_err(|_| TlsError(format!("{}: holds no private key in PEM that is not encrypted", key.display())))?;
    let verifier = clients.as_ref().map(|clients| verifier(clients, &provider)).transpose()?;
    let (serial, not_after, not_after_text) = described(&chain, certificate)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(*min_version))
        .map_err(|error| TlsError(format!("tls.min_version: {error}")))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, private_key).map_err(|error| {
        TlsError(match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("{}: is not the key of the certificate in {}", key.display(), certificate.display())
            }
            error => format!("{}: cannot be used with {}: {error}", certificate.display(), key.display()),
        })
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would not be held against a client CA that has changed or a certificate that has expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Loaded { config: Arc::new(config), serial, not_after, not_after_text, certificate: certificate.clone() })
}

impl Loaded {
    /// Whether its time is over.
    pub(super) fn has_expired(&self) -> bool {
        is_past(self.not_after, SystemTime::now())
    }

    /// Takes it only if its time is not over: the one before it can but be better.
    pub(super) fn refuse_expired(self) -> Result<Self, TlsError> {
        if self.has_expired() {
            let (path, end) = (self.certificate.display(), &self.not_after_text);
            return Err(TlsError(format!("{path}: has expired, its end was {end}")));
        }
        Ok(self)
    }
}

/// Whether a point in time, in seconds since 1970, lies before `now`.
pub(super) fn is_past(seconds: i64, now: SystemTime) -> bool {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u64::try_from(seconds).map_or(true, |seconds| seconds < now)
}

fn versions(min: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    match min {
        TlsVersion::V1_2 => SINCE_1_2,
        TlsVersion::V1_3 => SINCE_1_3,
    }
}

fn verifier(
    clients: &ClientCertificates,
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let path = clients.authorities.display();
    let mut roots = RootCertStore::empty();
    for authority in certificates(&clients.authorities)? {
        roots.add(authority).map_err(|error| TlsError(format!("{path}: holds no usable authority: {error}")))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = if clients.required { verifier } else { verifier.allow_unauthenticated() };
    verifier.build().map_err(|error| TlsError(format!("{path}: cannot be used: {error}")))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path, "certificate")?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(TlsError(format!("{}: holds no certificate in PEM", path.display()))),
        Err(_) => Err(TlsError(format!("{}: is not well-formed PEM", path.display()))),
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, TlsError> {
    read_small_file(path).map_err(|why| TlsError(format!("{}: cannot read the {what}: {why}", path.display())))
}

/// Serial, and the end in seconds since 1970 and for people.
fn described(chain: &[CertificateDer<'_>], path: &Path) -> Result<(String, i64, String), TlsError> {
    let parsed = chain.first().and_then(|own| x509_parser::parse_x509_certificate(own).ok());
    let Some((_, certificate)) = parsed else {
        return Err(TlsError(format!("{}: its first certificate is not one of X.509", path.display())));
    };
    let not_after = certificate.validity().not_after;
    Ok((certificate.raw_serial_as_string(), not_after.timestamp(), not_after.to_string()))
}
