//! TLS: by what hookd is known, and what is shown to it.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, Error as TlsError, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::{
    Credentials,
    files::{Cached, Named, NotUsable},
};

const HTTP2: &[u8] = b"h2";

/// Makes what connections over TLS are made with, from the files as they are then.
pub(crate) struct Tls {
    credentials: Credentials,
    config: Cached<Arc<ClientConfig>>,
}

impl Tls {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, config: Cached::default() }
    }

    /// The name that hookd's certificate must be for, where it is not the host of the address.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.credentials.server_name.as_deref()
    }

    /// What a new connection is made with.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, NotUsable> {
        let Credentials { ca_file, client_cert_file, client_key_file, .. } = &self.credentials;
        let files = [("CA file", ca_file), ("client certificate", client_cert_file), ("client key", client_key_file)];
        let files = files.map(|(what, file)| file.as_deref().map(|path| Named { what, path }));
        self.config.get(files, |[ca, cert, key]| {
            let roots = match (ca, ca_file) {
                (Some(ca), Some(file)) => roots_of(&ca, file)?,
                _ => roots_of_system()?,
            };
            let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
            // TLS 1.3 and 1.2.
            let builder =
                builder.with_safe_default_protocol_versions().map_err(|error| NotUsable::new(error.to_string()))?;
            let builder = builder.with_root_certificates(roots);
            let mut config = match (cert, key, client_cert_file, client_key_file) {
                (Some(cert), Some(key), Some(cert_file), Some(key_file)) => {
                    let chain = certificates(&cert, "client certificate", cert_file)?;
                    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| {
                        NotUsable::file(
                            "client key",
                            key_file,
                            "holds no private key, expected PEM (PKCS#8, PKCS#1 or SEC1)",
                        )
                    })?;
                    builder.with_client_auth_cert(chain, key).map_err(|error| match error {
                        TlsError::InconsistentKeys(_) => {
                            let why = format!("is not the key of the client certificate {}", cert_file.display());
                            NotUsable::file("client key", key_file, &why)
                        }
                        error => NotUsable::file("client certificate", cert_file, &format!("cannot be used: {error}")),
                    })?
                }
                _ => builder.with_no_client_auth(),
            };
            config.alpn_protocols = vec![HTTP2.to_owned()];
            // A session that is taken up again is not looked at again: neither hookd's certificate nor this client's.
            config.resumption = Resumption::disabled();
            Ok(Arc::new(config))
        })
    }

    /// Why the two ends do not trust each other, for a person.
    pub(crate) fn reason(&self, error: &TlsError, server_name: &str) -> String {
        match error {
            TlsError::InvalidCertificate(error) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "its certificate has expired".to_owned()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "its certificate is not valid yet".to_owned()
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    format!("its certificate is not for `{server_name}`")
                }
                CertificateError::UnknownIssuer => match &self.credentials.ca_file {
                    Some(file) => format!("its certificate is by nobody in the CA file {}", file.display()),
                    None => "its certificate is by nobody whom this system trusts; name a CA file".to_owned(),
                },
                // `openssl req -x509` makes such, unless it is told otherwise.
                CertificateError::Other(error) if error.to_string() == "CaUsedAsEndEntity" => {
                    "its certificate is that of an authority (CA:TRUE), expected one of a server".to_owned()
                }
                error => format!("its certificate is not valid: {error}"),
            },
            TlsError::AlertReceived(alert) => {
                let shown = if self.credentials.client_cert_file.is_some() {
                    "this client's certificate"
                } else {
                    "a client without a certificate"
                };
                format!("it ended the TLS handshake, it may not take {shown} ({alert:?})")
            }
            TlsError::InvalidMessage(_) => "it does not speak TLS".to_owned(),
            error => format!("the TLS handshake failed: {error}"),
        }
    }
}

/// The other end has agreed to speak HTTP/2.
pub(crate) fn is_http2(agreed: Option<&[u8]>) -> bool {
    agreed == Some(HTTP2)
}

fn roots_of(pem: &[u8], file: &Path) -> Result<RootCertStore, NotUsable> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "CA file", file)? {
        roots.add(certificate).map_err(|_| {
            NotUsable::file("CA file", file, "holds a certificate that cannot be read, expected X.509 in PEM")
        })?;
    }
    Ok(roots)
}

fn roots_of_system() -> Result<RootCertStore, NotUsable> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
    Err(NotUsable::new(format!("this system has no certificates of CAs{why}; name a CA file")))
}

fn certificates(pem: &[u8], what: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, NotUsable> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(NotUsable::file(what, file, "holds no certificate, expected PEM")),
    }
}
