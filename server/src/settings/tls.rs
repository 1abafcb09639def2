//! How calls come in: over TLS or as plain text.

use std::path::PathBuf;

use config::{Value, ValueKind};
use hookd_json::Value as Json;
use serde_json::json;

use super::{
    Listen,
    section::Section,
    words::{Words, word_of},
};

/// TLS of the TCP addresses that are listened on. What stands in the files is hot, the paths are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificate in PEM, then those that issued it, without the root.
    pub certificate: PathBuf,
    /// The private key of the certificate, in PEM, not encrypted.
    pub key: PathBuf,
    /// Which callers have to show a certificate. `None`: they are not asked for one.
    pub clients: Option<ClientCertificates>,
    /// The oldest version that is spoken.
    pub min_version: TlsVersion,
}

/// What is asked of callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities that issue them, in PEM.
    pub authorities: PathBuf,
    /// Whether a caller may come without. One that it shows has to be good in any case.
    pub required: bool,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2, with authenticated encryption and forward secrecy only.
    V1_2,
    /// 1.3.
    V1_3,
}

/// Where plain text is spoken while there is no TLS. Unix sockets and the admin side always speak it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plaintext {
    /// On loopback alone: hookd does not start on any other address.
    Loopback,
    /// On every address.
    Allow,
}

const PLAINTEXT: &Words<Plaintext> = &[("loopback", Plaintext::Loopback), ("allow", Plaintext::Allow)];
const CLIENT_CERTIFICATES: &Words<bool> = &[("required", true), ("optional", false)];

impl TlsVersion {
    /// As it stands in settings and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        }
    }
}

/// Reads `tls` and `plaintext` and holds them against the addresses; `listen_value` is what those were read from.
pub(super) fn transport(
    top: &mut Section<'_, '_>,
    listen: &[Listen],
    listen_value: Option<&Value>,
) -> (Option<TlsSettings>, Plaintext) {
    let section = top.section("tls");
    // The version alone asks for nothing.
    let asks = ["certificate", "key", "client_ca", "client_certificates"];
    let is_given = asks.iter().any(|key| section.peek(key).is_some_and(|value| value.kind != ValueKind::Nil));
    let tls = tls(section, is_given);
    let plaintext = top.word("plaintext", PLAINTEXT, Plaintext::Loopback);
    let wide = listen.iter().find(|address| !address.is_local());
    if let (false, Plaintext::Loopback, Some(address)) = (is_given, plaintext, wide) {
        let message = format!(
            "{address} can be reached from other machines and calls would be plain text, set tls.certificate and tls.key, or `plaintext: allow` if that is meant"
        );
        top.problem("listen", listen_value, &message);
    }
    (tls, plaintext)
}

fn tls(mut section: Section<'_, '_>, is_given: bool) -> Option<TlsSettings> {
    let certificate = path(&mut section, "certificate", "a path, such as /etc/hookd/tls/tls.crt", is_given);
    let key = path(&mut section, "key", "a path, such as /etc/hookd/tls/tls.key", is_given);
    let authorities = section.path("client_ca", "a path, such as /etc/hookd/tls/ca.crt");
    let asked = section.peek("client_certificates").cloned().filter(|value| value.kind != ValueKind::Nil);
    let is_required = section.word("client_certificates", CLIENT_CERTIFICATES, true);
    if authorities.is_none() && asked.is_some() {
        let message = "needs tls.client_ca, the file of the authorities that issue them";
        section.problem("client_certificates", asked.as_ref(), message);
    }
    // Without quotes YAML takes it for a number.
    let parse = |value: &Value| match value.to_string().as_str() {
        "1.2" => Some(TlsVersion::V1_2),
        "1.3" => Some(TlsVersion::V1_3),
        _ => None,
    };
    let min_version = section.read("min_version", parse, "\"1.2\" or \"1.3\"").unwrap_or(TlsVersion::V1_3);
    section.end();
    let clients = authorities.map(|authorities| ClientCertificates { authorities, required: is_required });
    Some(TlsSettings { certificate: certificate?, key: key?, clients, min_version })
}

/// `tls` as it is read.
pub(super) fn tree(tls: Option<&TlsSettings>) -> Json {
    let clients = tls.and_then(|tls| tls.clients.as_ref());
    json!({
        "certificate": tls.map(|tls| &tls.certificate),
        "key": tls.map(|tls| &tls.key),
        "client_ca": clients.map(|clients| &clients.authorities),
        "client_certificates": clients.map(|clients| word_of(CLIENT_CERTIFICATES, clients.required)),
        "min_version": tls.map_or(TlsVersion::V1_3, |tls| tls.min_version).name(),
    })
}

/// `plaintext` as it is read.
pub(super) fn plaintext_word(plaintext: Plaintext) -> &'static str {
    word_of(PLAINTEXT, plaintext)
}

fn path(
    section: &mut Section<'_, '_>,
    key: &'static str,
    expected: &'static str,
    is_required: bool,
) -> Option<PathBuf> {
    let is_given = section.peek(key).is_some_and(|value| value.kind != ValueKind::Nil);
    let path = section.path(key, expected);
    if is_required && !is_given {
        section.problem(key, None, &format!("is missing: {expected}"));
    }
    path
}
