//! TLS, client certificates and tokens against a real server; every certificate is made here.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use hookd_client::{Address, CallError, CallErrorKind, Client, Credentials, Gate, OnUnavailable, proto::Verdict};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use tempfile::TempDir;
use tonic::{
    Status,
    transport::{Certificate, Identity, ServerTlsConfig},
};

use crate::server::{Place, TestServer, answer, free, of_hookd};

/// Who signs certificates.
struct Ca(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
struct Pair {
    cert: String,
    key: String,
}

/// The files of a client.
struct Files {
    folder: TempDir,
}

impl Ca {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn signs(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Pair { cert: params.signed_by(&key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }

    fn server(&self) -> Pair {
        self.signs(&["127.0.0.1", "localhost"], |_| {})
    }
}

impl Pair {
    fn identity(&self) -> Identity {
        Identity::from_pem(&self.cert, &self.key)
    }

    fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.identity())
    }
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }
}

fn blocking(tls: ServerTlsConfig) -> TestServer {
    blocking_at(free(), tls)
}

fn blocking_at(listener: TcpListener, tls: ServerTlsConfig) -> TestServer {
    TestServer::start_with(listener, Some(tls), |_, _| Box::pin(async { Ok(answer(Verdict::Block)) }))
}

/// A client that lets everything go where hookd cannot be asked: whatever blocks does not do so for want of an answer.
fn client(server: &TestServer, credentials: Credentials) -> Client {
    let address: Address = format!("https://{}", server.address).parse().unwrap();
    Client::builder(vec![address], OnUnavailable::Allow).credentials(credentials).build().unwrap()
}

fn trusting(ca_file: PathBuf) -> Credentials {
    Credentials { ca_file: Some(ca_file), ..Credentials::default() }
}

/// Asks about a call, and says why it was refused. `None`: by the rules.
async fn refused(client: &Client) -> Option<CallError> {
    let gate = client.session("s").pre_tool_use("bash", "{}").await;
    assert!(matches!(gate, Gate::Refuse { .. }), "{gate:?}");
    gate.decision().error().cloned()
}

/// The reason of a refusal for want of trust, less its beginning.
async fn why_not(client: &Client, server: &TestServer) -> String {
    let error = refused(client).await.unwrap();
    assert_eq!((error.kind, error.code, &error.decision_id), (CallErrorKind::NotTrusted, None, &None), "{error}");
    let start = format!("hookd at https://{} is not asked: ", server.address);
    error.message.strip_prefix(&start).unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[tokio::test]
async fn a_server_is_known_by_its_ca_and_its_name_and_everyone_else_blocks() {
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let files = Files::new();
    let ca_file = files.write("ca.pem", &format!("{}{}", other.pem(), ca.pem()));
    let other_file = files.write("other.pem", &other.pem());
    let shown = other_file.display();

    let server = blocking(ca.server().server());
    assert_eq!(refused(&client(&server, trusting(ca_file.clone()))).await, None);
    let why = why_not(&client(&server, trusting(other_file.clone())), &server).await;
    assert_eq!(why, format!("its certificate is by nobody in the CA file {shown}"));
    let why = why_not(&client(&server, Credentials::default()), &server).await;
    assert!(
        why.starts_with("its certificate is by nobody whom this system trusts")
            || why.starts_with("this system has no certificates"),
        "{why}"
    );
    let named = Credentials { server_name: Some("localhost".into()), ..trusting(ca_file.clone()) };
    assert_eq!(refused(&client(&server, named)).await, None);
    let named = Credentials { server_name: Some("hookd.example".into()), ..trusting(ca_file.clone()) };
    assert_eq!(why_not(&client(&server, named), &server).await, "its certificate is not for `hookd.example`");
    let named = Credentials { server_name: Some("no name".into()), ..trusting(ca_file.clone()) };
    assert_eq!(why_not(&client(&server, named), &server).await, "`no name` is no name that a certificate can be for");

    let foreign = blocking(ca.signs(&["hookd.example"], |_| {}).server());
    assert_eq!(
        why_not(&client(&foreign, trusting(ca_file.clone())), &foreign).await,
        "its certificate is not for `127.0.0.1`"
    );
    let named = Credentials { server_name: Some("hookd.example".into()), ..trusting(ca_file.clone()) };
    assert_eq!(refused(&client(&foreign, named)).await, None);

    let expired = ca.signs(&["127.0.0.1"], |params| {
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 1, 2));
    });
    let expired = blocking(expired.server());
    assert_eq!(why_not(&client(&expired, trusting(ca_file.clone())), &expired).await, "its certificate has expired");
    let early = ca.signs(&["127.0.0.1"], |params| params.not_before = date_time_ymd(2090, 1, 1));
    let early = blocking(early.server());
    assert_eq!(why_not(&client(&early, trusting(ca_file.clone())), &early).await, "its certificate is not valid yet");

    let plain = TestServer::answering(|_| panic!("asked"));
    assert_eq!(why_not(&client(&plain, trusting(ca_file)), &plain).await, "it does not speak TLS");
}

#[tokio::test]
async fn files_that_cannot_be_used_block_by_name() {
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let server = blocking(ca.server().server());
    let files = Files::new();
    let ca_file = files.write("ca.pem", &ca.pem());
    let (pair, another) = (other.server(), other.server());
    let cert = files.write("cert.pem", &pair.cert);
    let key = files.write("key.pem", &pair.key);
    let wrong_key = files.write("another.pem", &another.key);
    let empty = files.write("empty.pem", "");
    let gone = files.path("gone.pem");
    let folder = files.folder.path().to_owned();
    let with = |cert: &Path, key: &Path| Credentials {
        client_cert_file: Some(cert.to_owned()),
        client_key_file: Some(key.to_owned()),
        ..trusting(ca_file.clone())
    };
    let token = |path: &Path| Credentials { token_file: Some(path.to_owned()), ..trusting(ca_file.clone()) };
    let show = |path: &Path| path.display().to_string();
    for (credentials, why) in [
        (trusting(gone.clone()), format!("the CA file {} cannot be read: no such file or directory", show(&gone))),
        (trusting(folder.clone()), format!("the CA file {} is not a file", show(&folder))),
        (trusting(empty.clone()), format!("the CA file {} holds no certificate, expected PEM", show(&empty))),
        (trusting(key.clone()), format!("the CA file {} holds no certificate, expected PEM", show(&key))),
        (
            with(&gone, &key),
            format!("the client certificate {} cannot be read: no such file or directory", show(&gone)),
        ),
        (with(&empty, &key), format!("the client certificate {} holds no certificate, expected PEM", show(&empty))),
        (with(&cert, &gone), format!("the client key {} cannot be read: no such file or directory", show(&gone))),
        (
            with(&cert, &cert),
            format!("the client key {} holds no private key, expected PEM (PKCS#8, PKCS#1 or SEC1)", show(&cert)),
        ),
        (
            with(&cert, &wrong_key),
            format!("the client key {} is not the key of the client certificate {}", show(&wrong_key), show(&cert)),
        ),
        (token(&gone), format!("the token file {} cannot be read: no such file or directory", show(&gone))),
        (token(&empty), format!("the token file {} is empty, expected a token", show(&empty))),
        (token(&key), format!("the token file {} is not one token, expected one line of visible ASCII", show(&key))),
    ] {
        assert_eq!(why_not(&client(&server, credentials), &server).await, why);
    }
}

#[tokio::test]
async fn the_server_asks_for_a_certificate_and_takes_none_but_its_own() {
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let files = Files::new();
    let ca_file = files.write("ca.pem", &ca.pem());
    let server = blocking(ca.server().server().client_ca_root(Certificate::from_pem(ca.pem())));
    let with = |name: &str, pair: &Pair| Credentials {
        client_cert_file: Some(files.write(&format!("{name}-cert.pem"), &pair.cert)),
        client_key_file: Some(files.write(&format!("{name}-key.pem"), &pair.key)),
        ..trusting(ca_file.clone())
    };
    let own = ca.signs(&["agent.example"], |_| {});
    assert_eq!(refused(&client(&server, with("own", &own))).await, None);

    let why = why_not(&client(&server, trusting(ca_file.clone())), &server).await;
    assert_eq!(why, "it ended the TLS handshake, it may not take a client without a certificate (CertificateRequired)");
    let foreign = other.signs(&["agent.example"], |_| {});
    let why = why_not(&client(&server, with("foreign", &foreign)), &server).await;
    assert!(why.starts_with("it ended the TLS handshake, it may not take this client's certificate ("), "{why}");
    let expired = ca.signs(&["agent.example"], |params| {
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 1, 2));
    });
    let why = why_not(&client(&server, with("expired", &expired)), &server).await;
    assert_eq!(why, "it ended the TLS handshake, it may not take this client's certificate (CertificateExpired)");
}

#[tokio::test]
async fn each_call_carries_the_token_that_is_in_its_file_then() {
    let ca = Ca::new("ca");
    let files = Files::new();
    let ca_file = files.write("ca.pem", &ca.pem());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = TestServer::start_with(free(), Some(ca.server().server()), move |_, metadata| {
        let said = metadata.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        log.lock().unwrap().push(said);
        Box::pin(async { Ok(answer(Verdict::Block)) })
    });
    // As Kubernetes projects it: the name is a link into a folder that is a link, which is swapped.
    let versions = ["one", "two", "six"];
    for version in versions {
        fs::create_dir(files.path(version)).unwrap();
        files.write(&format!("{version}/token"), &format!("token-{version}\n"));
    }
    let swap = |version: &str| {
        std::os::unix::fs::symlink(version, files.path("..new")).unwrap();
        fs::rename(files.path("..new"), files.path("..data")).unwrap();
    };
    swap(versions[0]);
    std::os::unix::fs::symlink("..data/token", files.path("token")).unwrap();
    let client = client(&server, Credentials { token_file: Some(files.path("token")), ..trusting(ca_file) });
    assert!(!format!("{client:?}").contains("token-"));
    for version in versions {
        swap(version);
        assert_eq!(refused(&client).await, None);
        assert_eq!(refused(&client).await, None);
    }
    // In place, of the same length.
    files.write("six/token", "token-ten\n");
    assert_eq!(refused(&client).await, None);
    fs::remove_file(files.path("token")).unwrap();
    assert!(why_not(&client, &server).await.contains("/token cannot be read"));
    let bearer = |token: &str| Some(format!("Bearer token-{token}"));
    let expected = ["one", "one", "two", "two", "six", "six", "ten"].map(bearer);
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_new_connection_is_made_with_the_files_as_they_are_then() {
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let files = Files::new();
    let ca_file = files.write("ca.pem", &old.pem());
    let (cert, key) = (files.path("cert.pem"), files.path("key.pem"));
    let show = |pair: &Pair| {
        files.write("cert.pem", &pair.cert);
        files.write("key.pem", &pair.key);
    };
    show(&old.signs(&["agent.example"], |_| {}));
    let credentials = Credentials { client_cert_file: Some(cert), client_key_file: Some(key), ..trusting(ca_file) };
    let tls = |ca: &Ca| ca.server().server().client_ca_root(Certificate::from_pem(ca.pem()));
    let place = Arc::new(Place::free());
    let server = blocking_at(place.listen(), tls(&old));
    let client = client(&server, credentials);
    assert_eq!(refused(&client).await, None);

    // The server is replaced by one of another CA: the client learns of it by its files, not by a restart.
    let restarted = |server: TestServer, tls: ServerTlsConfig| {
        let place = Arc::clone(&place);
        tokio::task::spawn_blocking(move || {
            server.shut_down();
            blocking_at(place.listen(), tls)
        })
    };
    let server = restarted(server, tls(&new)).await.unwrap();
    assert!(why_not(&client, &server).await.starts_with("its certificate is by nobody in the CA file"));
    files.write("ca.pem", &new.pem());
    let why = why_not(&client, &server).await;
    assert!(why.starts_with("it ended the TLS handshake, it may not take this client's certificate"), "{why}");
    show(&new.signs(&["agent.example"], |_| {}));
    assert_eq!(refused(&client).await, None);
}

#[tokio::test]
async fn who_is_refused_by_hookd_blocks_whatever_is_said_for_its_absence() {
    for status in [Status::unauthenticated("the token has expired"), Status::permission_denied("not for this caller")] {
        let of_hookd = of_hookd(status.clone());
        let server = TestServer::answering(move |_| Err(of_hookd.clone()));
        let error = refused(&server.client(OnUnavailable::Allow)).await.unwrap();
        assert_eq!((error.kind, error.code), (CallErrorKind::Refused, Some(status.code())));
        assert_eq!(error.decision_id.as_deref(), Some("d9"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_passed_over_and_its_refusal_is_not_forgotten() {
    let (ca, other) = (Ca::new("ca"), Ca::new("other"));
    let files = Files::new();
    let ca_file = files.write("ca.pem", &ca.pem());
    let (right, wrong) = (blocking(ca.server().server()), blocking(other.server().server()));
    let gone = Place::free();
    let at = |places: &[std::net::SocketAddr]| {
        let addresses = places.iter().map(|place| format!("https://{place}").parse().unwrap()).collect();
        let builder = Client::builder(addresses, OnUnavailable::Allow).rounds(2);
        builder.credentials(trusting(ca_file.clone())).build().unwrap()
    };
    for _ in 0..4 {
        assert_eq!(refused(&at(&[wrong.address, right.address])).await, None);
        // One is away, the other is not hookd: that does not add up to an allow.
        let error = refused(&at(&[wrong.address, gone.address()])).await.unwrap();
        assert_eq!(error.kind, CallErrorKind::NotTrusted, "{error}");
    }
}

#[tokio::test]
async fn an_authority_is_no_server_and_says_so() {
    let ca = Ca::new("ca");
    let own = ca.signs(&["127.0.0.1"], |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let server = blocking(own.server());
    let files = Files::new();
    let expected = "its certificate is that of an authority (CA:TRUE), expected one of a server";
    assert_eq!(why_not(&client(&server, trusting(files.write("ca.pem", &ca.pem()))), &server).await, expected);
}
