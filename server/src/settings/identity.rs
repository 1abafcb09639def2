//! Who may call, how that is known, and what they may do then: `identity` and `permissions`.

mod pattern;

use std::{collections::BTreeSet, net::IpAddr, path::PathBuf, time::Duration};

use config::ValueKind;
use hookd_json::Value as Json;
use hookd_rules::Format;
use jsonwebtoken::Algorithm;
use serde_json::json;
use url::Url;

use super::{
    section::{
        Section,
        tables::{one_or_more, shown_value},
        text,
    },
    words::{Words, word_of},
};
use crate::model::{Grant, Labels, Permission, Permissions};

pub use pattern::{NameKind, NamePattern};

/// Longest value of a label, in bytes.
pub const MAX_LABEL_BYTES: usize = 1024;

const ISSUERS: &str = "a list of issuers, such as [ { name: prod, issuer: \"https://idp.example.com\", audiences: \
                       [hookd], jwks_url: \"https://idp.example.com/keys\" } ]";
const GRANTS: &str = "a list of grants, such as [ { match_labels: { role: admin }, may: [trigger, read] } ]";
const LABELS: &str = "a table of labels";
const MAY: &str = "a list of trigger, read and reload";
/// The algorithms with a public key. With a shared secret everybody who checks tokens can make them.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Who may call, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdentitySettings {
    /// Who is let in without any proof.
    pub anonymous: Anonymous,
    /// What client certificates say.
    pub certificates: CertificateSettings,
    /// Whose tokens are taken.
    pub issuers: Vec<IssuerSettings>,
    /// The file of static tokens.
    pub tokens_file: Option<PathBuf>,
}

/// Who is let in without any proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anonymous {
    /// Peers on loopback and unix sockets.
    #[default]
    Loopback,
    /// Everybody.
    Allow,
    /// Nobody.
    Deny,
}

/// What client certificates say. That they are genuine is seen to by the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateSettings {
    /// Of these one has to match a name of the certificate; that name is the identity's. Empty: any certificate will do.
    pub names: Vec<NamePattern>,
    /// Labels and the patterns that take their values out of names.
    pub labels: Vec<(String, Vec<NamePattern>)>,
}

/// An issuer of tokens (JWT).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerSettings {
    /// Its name in logs, metrics and names of identities. No other issuer has it.
    pub name: String,
    /// The `iss` of its tokens. Several may have the same, as clusters of Kubernetes often do: keys tell them apart.
    pub issuer: String,
    /// Of these one has to be in the `aud` of a token. Not empty.
    pub audiences: Vec<String>,
    /// Where its keys are.
    pub keys: KeySource,
    /// How far its clock may be off.
    pub clock_skew: Duration,
    /// How it may sign. Not empty, and only algorithms with a public key.
    pub algorithms: Vec<Algorithm>,
    /// Labels, and the claims whose values they have: names of claims from the outermost to the innermost.
    pub labels: Vec<(String, Vec<String>)>,
    /// Labels that all of its tokens have.
    pub fixed_labels: Labels,
}

/// Where the keys of an issuer are, as a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A server, asked again and again.
    Server(KeyServer),
    /// A file, watched.
    File(PathBuf),
}

/// A server that has keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyServer {
    /// Where: https, or http on loopback.
    pub url: Url,
    /// Certificates of the authorities that it may be certified by, in the place of the system's.
    pub ca: Option<PathBuf>,
    /// A file with a token to show to it.
    pub token_file: Option<PathBuf>,
    /// Directory in which keys outlive the process.
    pub cache: Option<PathBuf>,
    /// How often it is asked.
    pub refresh: Duration,
}

const ANONYMOUS: &Words<Anonymous> =
    &[("loopback", Anonymous::Loopback), ("allow", Anonymous::Allow), ("deny", Anonymous::Deny)];

/// Reads `identity`.
pub(super) fn identity(mut section: Section<'_, '_>) -> IdentitySettings {
    let anonymous = section.word("anonymous", ANONYMOUS, Anonymous::default());
    let certificates = certificates(section.section("certificates"));
    let mut names = BTreeSet::new();
    let issuers = section.tables("issuers", ISSUERS, |section| issuer(section, &mut names)).unwrap_or_default();
    let tokens_file = section.path("tokens_file", "a path, such as /etc/hookd/tokens.yaml");
    if let Some(path) = tokens_file.as_ref().filter(|path| Format::of(path).is_none()) {
        let message = format!("\"{}\" is not a file that ends in .yaml, .yml or .json", path.display());
        section.problem("tokens_file", None, &message);
    }
    section.end();
    IdentitySettings { anonymous, certificates, issuers, tokens_file }
}

/// Reads `permissions`.
pub(super) fn permissions(top: &mut Section<'_, '_>) -> Vec<Grant> {
    let grant = |section: &mut Section<'_, '_>| {
        if section.peek("match_labels").is_none_or(|value| value.kind == ValueKind::Nil) {
            section.problem("match_labels", None, "is missing, such as { role: admin }, or {} for every caller");
        }
        let match_labels = fixed_labels(section, "match_labels");
        let permission = |name: &String| Permission::ALL.into_iter().find(|known| known.name() == name);
        let given = section.peek("may").cloned();
        let names = section.strings("may", MAY);
        match &names {
            Some(names) => {
                for name in names.iter().filter(|name| permission(name).is_none()) {
                    section.problem("may", given.as_ref(), &format!("{name:?} is not trigger, read or reload"));
                }
                if names.is_empty() {
                    section.problem("may", given.as_ref(), &format!("an empty list is not {MAY}"));
                }
            }
            None if given.is_none() => section.problem("may", None, &format!("is missing, expected {MAY}")),
            None => {}
        }
        let names = names.unwrap_or_default();
        Some(Grant { match_labels, may: names.iter().filter_map(permission).collect() })
    };
    top.tables("permissions", GRANTS, grant).unwrap_or_else(default_permissions)
}

/// Whoever is let in may have events judged, and nothing else.
pub(super) fn default_permissions() -> Vec<Grant> {
    vec![Grant { match_labels: Labels::default(), may: Permissions::from_iter([Permission::Trigger]) }]
}

/// `identity` with the keys of a settings file.
pub(super) fn tree(settings: &IdentitySettings) -> Json {
    let IdentitySettings { anonymous, certificates, issuers, tokens_file } = settings;
    let texts = |patterns: &[NamePattern]| patterns.iter().map(|it| it.as_str().to_owned()).collect::<Vec<_>>();
    let labels = certificates.labels.iter().map(|(label, patterns)| (label.clone(), Json::from(texts(patterns))));
    json!({
        "anonymous": word_of(ANONYMOUS, *anonymous),
        "certificates": { "names": texts(&certificates.names), "labels": labels.collect::<Json>() },
        "issuers": issuers.iter().map(issuer_tree).collect::<Vec<_>>(),
        "tokens_file": tokens_file,
    })
}

/// `permissions` with the keys of a settings file.
pub(super) fn permissions_tree(grants: &[Grant]) -> Json {
    let grant = |grant: &Grant| {
        let may = grant.may.iter().map(Permission::name).collect::<Vec<_>>();
        json!({ "match_labels": labels_tree(&grant.match_labels), "may": may })
    };
    grants.iter().map(grant).collect()
}

fn issuer_tree(issuer: &IssuerSettings) -> Json {
    let IssuerSettings { name, issuer, audiences, keys, clock_skew, algorithms, labels, fixed_labels } = issuer;
    let labels = labels.iter().map(|(label, path)| (label.clone(), Json::from(path.clone()))).collect::<Json>();
    let mut tree = json!({
        "name": name,
        "issuer": issuer,
        "audiences": audiences,
        "clock_skew": super::print::duration(*clock_skew),
        "algorithms": algorithms.iter().map(|algorithm| format!("{algorithm:?}")).collect::<Vec<_>>(),
        "labels": labels,
        "fixed_labels": labels_tree(fixed_labels),
    });
    let keys = match keys {
        KeySource::File(path) => json!({ "jwks_file": path }),
        KeySource::Server(server) => json!({
            "jwks_url": server.url.as_str(),
            "jwks_ca": server.ca,
            "jwks_token_file": server.token_file,
            "jwks_cache": server.cache,
            "jwks_refresh": super::print::duration(server.refresh),
        }),
    };
    if let (Json::Object(tree), Json::Object(keys)) = (&mut tree, keys) {
        tree.extend(keys);
    }
    tree
}

fn labels_tree(labels: &Labels) -> Json {
    labels.as_slice().iter().map(|(label, value)| (label.clone(), Json::from(value.clone()))).collect()
}

fn certificates(mut section: Section<'_, '_>) -> CertificateSettings {
    section.refuse_null("names", "is empty, so any name would do: leave it out if that is meant");
    let given = section.peek("names").cloned();
    let mut names = Vec::new();
    let texts = section.strings("names", "a list of patterns, such as [\"uri:spiffe://example.org/**\"]");
    for pattern in texts.unwrap_or_default() {
        match NamePattern::parse(&pattern, false) {
            Ok(pattern) => names.push(pattern),
            Err(wrong) => section.problem("names", given.as_ref(), &format!("{pattern:?} {wrong}")),
        }
    }
    let pattern = |text: &str| NamePattern::parse(text, true).map_err(|wrong| format!("{text:?} {wrong}"));
    let labels = section.map("labels", LABELS, |label, value| {
        check_label(label)?;
        let expected =
            || format!("{} is not a pattern such as \"uri:spiffe://example.org/ns/{{}}/**\"", shown_value(value));
        one_or_more(value).ok_or_else(expected)?.into_iter().map(pattern).collect()
    });
    section.end();
    CertificateSettings { names, labels: labels.unwrap_or_default() }
}

fn issuer(section: &mut Section<'_, '_>, names: &mut BTreeSet<String>) -> Option<IssuerSettings> {
    let name = section.needed("name", "a name of its own, such as prod");
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if let Some(name) = name.as_ref().filter(|name| !is_name(name) || !names.insert((*name).clone())) {
        let message = format!("{name:?} is not a name of its own of letters, digits, `-` and `_`");
        section.problem("name", None, &message);
    }
    let issuer = section.needed("issuer", "what stands in `iss`, such as https://idp.example.com");
    let audiences = section.strings("audiences", "a list of audiences, such as [hookd]").unwrap_or_default();
    if audiences.is_empty() {
        section.problem("audiences", None, "is missing, expected what stands in `aud`, such as [hookd]");
    }
    let keys = key_source(section);
    let skew = section.duration_or_zero("clock_skew", Duration::from_secs(60));
    if skew > Duration::from_secs(600) {
        section.problem("clock_skew", None, "is longer than 10m, set the clocks instead");
    }
    let algorithms = algorithms(section);
    let claims = "a claim, such as tenant or kubernetes.io/namespace, or the list of its names";
    let labels = section.map("labels", LABELS, |label, value| {
        check_label(label)?;
        let names = match &value.kind {
            ValueKind::String(path) => path.split('/').map(str::to_owned).collect(),
            _ => one_or_more(value).unwrap_or_default().into_iter().map(str::to_owned).collect::<Vec<_>>(),
        };
        let good = !names.is_empty() && names.iter().all(|name| !name.is_empty());
        if good { Ok(names) } else { Err(format!("{} is not {claims}", shown_value(value))) }
    });
    let labels = labels.unwrap_or_default();
    let fixed_labels = fixed_labels(section, "fixed_labels");
    if let Some((label, _)) = labels.iter().find(|(label, _)| fixed_labels.get(label).is_some()) {
        section.problem("fixed_labels", None, &format!("the label `{label}` stands in labels too"));
    }
    Some(IssuerSettings {
        name: name?,
        issuer: issuer?,
        audiences,
        keys: keys?,
        clock_skew: skew,
        algorithms,
        labels,
        fixed_labels,
    })
}

fn key_source(section: &mut Section<'_, '_>) -> Option<KeySource> {
    let file = section.path("jwks_file", "a path, such as /etc/hookd/keys.json");
    let expected = "an https URL, such as https://idp.example.com/keys (http is for loopback only)";
    let given = section.peek("jwks_url").cloned();
    let has_url = given.is_some();
    let url = if given.as_ref().and_then(text).is_some_and(holds_a_user) {
        let message =
            "holds a user or a password, which may be printed; a token for the server goes into jwks_token_file";
        section.problem("jwks_url", given.as_ref(), message);
        section.read("jwks_url", |_| Some(()), expected);
        None
    } else {
        section.read("jwks_url", |value| Url::parse(text(value)?).ok().filter(is_safe), expected)
    };
    let ca = section.path("jwks_ca", "a path, such as /etc/hookd/ca.crt");
    let token_file = section.path("jwks_token_file", "a path, such as /var/run/secrets/token");
    let cache = section.path("jwks_cache", "a path, such as /var/lib/hookd/keys");
    let refresh = section.duration("jwks_refresh", Duration::from_secs(300));
    match (file, url) {
        (Some(file), None) if !has_url => {
            if file.extension().is_none_or(|extension| extension != "json") {
                section.problem("jwks_file", None, &format!("\"{}\" does not end in .json", file.display()));
            }
            if ca.is_some() || token_file.is_some() || cache.is_some() {
                section.problem("jwks_file", None, "jwks_ca, jwks_token_file and jwks_cache are for jwks_url");
            }
            Some(KeySource::File(file))
        }
        (None, Some(url)) => Some(KeySource::Server(KeyServer { url, ca, token_file, cache, refresh })),
        (None, None) if has_url => None,
        _ => {
            section.problem("jwks_url", None, "expected jwks_url or jwks_file, and not both");
            None
        }
    }
}

/// Whether a text is a URL with somebody before its host. What is none may be one all the same.
fn holds_a_user(text: &str) -> bool {
    let has_user = |url: Url| !url.username().is_empty() || url.password().is_some();
    text.contains('@') && Url::parse(text).map_or(true, has_user)
}

/// Whether nobody on the way can read or change what is said.
pub(super) fn is_safe(url: &Url) -> bool {
    let local = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(url::Host::Ipv6(address)) => IpAddr::from(address).to_canonical().is_loopback(),
        None => false,
    };
    url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && local)
}

fn algorithms(section: &mut Section<'_, '_>) -> Vec<Algorithm> {
    let expected = "a list of algorithms with a public key, such as [RS256, ES256]";
    let known = |name: &String| ALGORITHMS.into_iter().find(|known| name.parse::<Algorithm>() == Ok(*known));
    let Some(names) = section.strings("algorithms", expected) else { return vec![Algorithm::RS256, Algorithm::ES256] };
    for name in names.iter().filter(|name| known(name).is_none()) {
        let all = ALGORITHMS.map(|algorithm| format!("{algorithm:?}")).join(", ");
        section.problem("algorithms", None, &format!("{name:?} is not one of {all}"));
    }
    if names.is_empty() {
        section.problem("algorithms", None, &format!("an empty list is not {expected}"));
    }
    names.iter().filter_map(known).collect()
}

fn fixed_labels(section: &mut Section<'_, '_>, key: &'static str) -> Labels {
    let labels = section.map(key, LABELS, |label, value| {
        check_label(label)?;
        let label = text(value).filter(|text| is_label_value(text)).map(str::to_owned);
        label.ok_or_else(|| format!("{} is not a text without control characters", shown_value(value)))
    });
    labels.unwrap_or_default().into_iter().collect()
}

/// Whether a text can be the value of a label.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_LABEL_BYTES && !text.chars().any(char::is_control)
}

/// Whether a text can be the name of a label: the error says what it is instead.
///
/// # Errors
/// What is wrong.
pub fn check_label(label: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let good = !label.is_empty() && label.len() <= 253 && label.chars().all(plain);
    if good { Ok(()) } else { Err("the name of a label has letters, digits, `-`, `_`, `.` and `/` only".to_owned()) }
}
