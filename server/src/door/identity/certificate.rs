//! Who a client certificate is about. That it leads to the client CA and that the peer holds its key is seen to by the
//! handshake; that its time is not over, by every call, since connections can live longer than certificates.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer as _,
};

use crate::{
    model::{Identity, Labels, Unproven},
    settings::{CertificateSettings, NameKind, is_label_value},
};

/// What a certificate has proved.
#[derive(Debug)]
pub(super) struct Certified {
    /// Whom it is about.
    pub(super) identity: Arc<Identity>,
    /// Last moment at which it counts, in milliseconds since 1970.
    pub(super) until_ms: i64,
}

/// A name in a certificate.
type Name = (NameKind, String);

/// Whom this certificate is about.
///
/// # Errors
/// [`Unproven::Certificate`] where it has no name that is taken, or another URI beside a SPIFFE id;
/// [`Unproven::Conflict`] where its names give a label two values.
pub(super) fn certified(
    certificate: &CertificateDer<'_>,
    settings: &CertificateSettings,
) -> Result<Certified, Unproven> {
    let unread = Unproven::Certificate("cannot be read");
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| unread.clone())?;
    let names = names(&certificate).ok_or(unread)?;
    let until_ms = certificate.validity().not_after.timestamp().saturating_mul(1000).saturating_add(999);
    Ok(Certified { identity: Arc::new(identity(&names, settings)?), until_ms })
}

/// URIs and DNS names of its alternative names, then what stands in its subject. `None`: one of them cannot be read.
fn names(certificate: &X509Certificate<'_>) -> Option<Vec<Name>> {
    let (mut names, mut hosts) = (Vec::new(), Vec::new());
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(alternative) => {
                for name in &alternative.general_names {
                    match name {
                        GeneralName::URI(uri) => names.push((NameKind::Uri, (*uri).to_owned())),
                        GeneralName::DNSName(name) => hosts.push((NameKind::Dns, name.to_ascii_lowercase())),
                        GeneralName::Invalid(..) => return None,
                        _ => {}
                    }
                }
            }
            ParsedExtension::ParseError { .. } => return None,
            _ => {}
        }
    }
    names.append(&mut hosts);
    let subject = certificate.subject();
    let common_names = subject.iter_common_name().map(|name| (NameKind::CommonName, name));
    let organizations = subject.iter_organization().map(|name| (NameKind::Organization, name));
    let units = subject.iter_organizational_unit().map(|name| (NameKind::OrganizationalUnit, name));
    for (kind, name) in common_names.chain(organizations).chain(units) {
        names.push((kind, name.as_str().ok()?.to_owned()));
    }
    Some(names)
}

fn identity(names: &[Name], settings: &CertificateSettings) -> Result<Identity, Unproven> {
    // The standard of SPIFFE: with another URI beside the id it is about nobody.
    let uris = || names.iter().filter(|(kind, _)| *kind == NameKind::Uri).map(|(_, uri)| uri);
    if uris().any(|uri| is_spiffe(uri)) && uris().count() > 1 {
        return Err(Unproven::Certificate("has another URI beside its SPIFFE id"));
    }
    let named = if settings.names.is_empty() {
        names.iter().find(|(kind, _)| kind.is_of_one()).ok_or(Unproven::Certificate("has no name"))?
    } else {
        let taken =
            |pattern: &crate::settings::NamePattern| names.iter().find(|(kind, name)| pattern.matches(*kind, name));
        settings
            .names
            .iter()
            .find_map(taken)
            .ok_or(Unproven::Certificate("has none of the names that are taken here"))?
    };
    let (kind, name) = named;
    if !is_label_value(name) {
        return Err(Unproven::Certificate("has a name that is too long, or holds control characters"));
    }
    let mut labels = Vec::new();
    for (label, patterns) in &settings.labels {
        let taken = |name: &Name| patterns.iter().find_map(|pattern| Some(pattern.taken(name.0, &name.1)?.to_owned()));
        let mut values = names.iter().filter_map(taken);
        let Some(value) = values.next() else { continue };
        if values.any(|other| other != value) {
            return Err(Unproven::Conflict(label.clone()));
        }
        if !is_label_value(&value) {
            return Err(Unproven::Certificate("has a name that is too long, or holds control characters"));
        }
        labels.push((label.clone(), value));
    }
    Ok(Identity { name: format!("{}{name}", kind.prefix()), labels: labels.into_iter().collect::<Labels>() })
}

/// Whether a URI is a SPIFFE id. Schemes are the same in any case.
fn is_spiffe(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("spiffe"))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, date_time_ymd};

    use super::*;
    use crate::settings::NamePattern;

    fn settings(names: &[&str], labels: &[(&str, &[&str])]) -> CertificateSettings {
        let label = |text: &&str| NamePattern::parse(text, true).unwrap();
        CertificateSettings {
            names: names.iter().map(|text| NamePattern::parse(text, false).unwrap()).collect(),
            labels: labels.iter().map(|(key, all)| ((*key).to_owned(), all.iter().map(label).collect())).collect(),
        }
    }

    fn names(names: &[&str]) -> Vec<Name> {
        let kinds =
            [NameKind::Uri, NameKind::Dns, NameKind::CommonName, NameKind::Organization, NameKind::OrganizationalUnit];
        let name = |text: &&str| {
            kinds.into_iter().find_map(|kind| Some((kind, text.strip_prefix(kind.prefix())?.to_owned()))).unwrap()
        };
        names.iter().map(name).collect()
    }

    #[test]
    fn names_and_labels_are_taken_by_the_patterns() {
        type Case<'c> = (&'c [&'c str], &'c [&'c str], Result<(&'c str, Option<&'c str>), Unproven>);
        let spiffe = "uri:spiffe://example.org/ns/a/sa/x";
        let tenant: &[(&str, &[&str])] = &[("tenant", &["uri:spiffe://example.org/ns/{}/sa/*", "cn:{}", "o:team {}"])];
        let refused = |why| Err(Unproven::Certificate(why));
        let two = refused("has another URI beside its SPIFFE id");
        let cases: [Case<'_>; 18] = [
            (&[spiffe], &[], Ok((spiffe, Some("a")))),
            (&[spiffe, "cn:a"], &[], Ok((spiffe, Some("a")))),
            (&[spiffe, "cn:b"], &[], Err(Unproven::Conflict("tenant".to_owned()))),
            (&["dns:h.example.org", "cn:b"], &[], Ok(("dns:h.example.org", Some("b")))),
            (&["dns:h.example.org"], &[], Ok(("dns:h.example.org", None))),
            (&["dns:h.example.org", spiffe], &["uri:spiffe://example.org/**"], Ok((spiffe, Some("a")))),
            (
                &["uri:spiffe://evil.org/ns/a/sa/x", "dns:h.example.org"],
                &["uri:spiffe://example.org/**"],
                refused("has none of the names that are taken here"),
            ),
            (&[spiffe, "uri:spiffe://example.org/ns/b/sa/x"], &[], two.clone()),
            (&["uri:SPIFFE://example.org/ns/b/sa/x", spiffe], &[], two.clone()),
            (&["uri:https://example.org", spiffe], &["uri:spiffe://example.org/**"], two),
            (
                &["uri:https://example.org", "uri:https://example.com", "cn:b"],
                &[],
                Ok(("uri:https://example.org", Some("b"))),
            ),
            (&["dns:h.example.org", "o:team c", "o:all", "ou:team d"], &[], Ok(("dns:h.example.org", Some("c")))),
            (&["dns:h.example.org", "o:team c", "o:team d"], &[], Err(Unproven::Conflict("tenant".to_owned()))),
            (&["o:team c", "cn:c"], &[], Ok(("cn:c", Some("c")))),
            (&["o:team c"], &[], refused("has no name")),
            (&[], &[], refused("has no name")),
            (
                &["dns:h.example.org", "o:team b\u{7}"],
                &[],
                refused("has a name that is too long, or holds control characters"),
            ),
            (&["cn:a\nb"], &[], refused("has a name that is too long, or holds control characters")),
        ];
        for (of, taken, expected) in cases {
            let found = identity(&names(of), &settings(taken, tenant));
            let found = found.as_ref().map(|found| (found.name.as_str(), found.labels.get("tenant")));
            assert_eq!(found.map_err(Clone::clone), expected, "{of:?}");
        }
    }

    /// A certificate of `h.Example.org`, which says more of its holder in its subject.
    fn made(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["h.Example.org".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2031, 2, 3);
        params.distinguished_name.push(DnType::OrganizationName, "org");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "team c");
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn what_stands_in_a_certificate_is_taken_until_its_last_moment() {
        let settings = settings(&["dns:h.example.org"], &[("org", &["o:{}"]), ("tenant", &["ou:team {}"])]);
        let found = certified(&made(|_| {}), &settings).unwrap();
        let labels = [("org", "org"), ("tenant", "c")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let identity = Identity { name: "dns:h.example.org".to_owned(), labels: labels.into_iter().collect() };
        assert_eq!((&*found.identity, found.until_ms), (&identity, 1_927_843_200_999));
    }

    #[test]
    fn one_of_whose_names_some_cannot_be_read_proves_nothing() {
        let settings = settings(&["cn:agent"], &[]);
        let named = |names: &[u8]| {
            let certificate = made(|params| {
                params.subject_alt_names.clear();
                params.distinguished_name.push(DnType::CommonName, "agent");
                params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 5, 29, 17], names.to_vec())];
            });
            certified(&certificate, &settings).map(|found| found.identity.name.clone())
        };
        // A list with the host `h`, one whose host is no text, and none.
        assert_eq!(named(&[0x30, 3, 0x82, 1, b'h']), Ok("cn:agent".to_owned()));
        for names in [&[0x30, 3, 0x82, 1, 0xff][..], &[0x04, 0]] {
            assert_eq!(named(names), Err(Unproven::Certificate("cannot be read")), "{names:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_proves_nothing() {
        let refused = certified(&CertificateDer::from(vec![0x30, 0x03, 0x02, 0x01]), &settings(&[], &[])).unwrap_err();
        assert_eq!(refused, Unproven::Certificate("cannot be read"));
    }
}
