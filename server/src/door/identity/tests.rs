use std::{fs, pin::pin, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD};
use jsonwebtoken::Algorithm;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::{
    model::Labels,
    settings::{IssuerSettings, KeyServer, KeySource},
    telemetry::DecisionLog,
};

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

struct Key(EcdsaKeyPair);

impl Key {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap())
    }

    fn set(&self, kid: &str) -> String {
        let point = self.0.public_key().as_ref();
        let key =
            json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": base64(&point[1..33]), "y": base64(&point[33..]) });
        json!({ "keys": [key] }).to_string()
    }

    fn token(&self, kid: &str, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "kid": kid });
        let message = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", base64(signature.as_ref()))
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn identity(name: &str, pairs: &[(&str, &str)]) -> Identity {
    Identity { name: name.to_owned(), labels: labels(pairs) }
}

/// An authenticator with the issuer `https://k` twice, as two clusters have it, each with a key of its own, and a file of
/// tokens.
async fn two_clusters(anonymous: Anonymous) -> (Arc<Authenticator>, [Key; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let keys = [Key::new(), Key::new()];
    let issuer = |name: &str, key: &Key| {
        let file = folder.path().join(format!("{name}.json"));
        fs::write(&file, key.set(name)).unwrap();
        IssuerSettings {
            name: name.to_owned(),
            issuer: "https://k".to_owned(),
            audiences: vec!["hookd".to_owned()],
            keys: KeySource::File(file),
            clock_skew: Duration::ZERO,
            algorithms: vec![Algorithm::ES256],
            labels: vec![("tenant".to_owned(), vec!["tenant".to_owned()])],
            fixed_labels: labels(&[("cluster", name)]),
        }
    };
    let tokens_file = folder.path().join("tokens.json");
    let tokens = json!({ "tokens": [{ "name": "ci", "value": "a-static-token-for-ci", "labels": { "tenant": "a" } }] });
    fs::write(&tokens_file, tokens.to_string()).unwrap();
    let settings = IdentitySettings {
        anonymous,
        issuers: vec![issuer("one", &keys[0]), issuer("two", &keys[1])],
        tokens_file: Some(tokens_file),
        ..IdentitySettings::default()
    };
    let grants = [Grant { match_labels: labels(&[("tenant", "a")]), may: Permissions::from_iter([Permission::Read]) }];
    let recorder = Arc::new(Recorder::new(DecisionLog::silent(), None));
    (Authenticator::start(&settings, &grants, recorder).await.unwrap(), keys)
}

fn visitor(authenticator: &Arc<Authenticator>, peer: Peer, certified: Option<Result<Certified, Unproven>>) -> Visitor {
    let arrived = Arrived { peer, certificates: None };
    Visitor { certified, ..authenticator.visitor(&arrived) }
}

fn whom(visitor: &Visitor, authorization: &[&str]) -> Result<Arc<Identity>, Unproven> {
    let mut headers = HeaderMap::new();
    for value in authorization {
        headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    match visitor.identify(&headers, &Call::arriving(visitor.peer())) {
        Identified::Now(identified) => identified,
        Identified::Later(_) => panic!("files have nothing to wait for"),
    }
}

const REMOTE: Peer = Peer::Remote(None);

fn claims(tenant: &str) -> Value {
    json!({ "iss": "https://k", "aud": "hookd", "exp": 4_000_000_000_u64, "sub": "s", "tenant": tenant })
}

#[tokio::test]
async fn who_calls_is_told_by_the_key_the_token_or_nothing() {
    let (authenticator, [one, two]) = two_clusters(Anonymous::Loopback).await;
    let visitor = visitor(&authenticator, REMOTE, None);
    let bearer = |token: &str| whom(&visitor, &[&format!("Bearer {token}")]);
    for _first_and_remembered in 0..2 {
        let found = bearer(&one.token("one", &claims("a"))).unwrap();
        assert_eq!(*found, identity("one/s", &[("cluster", "one"), ("tenant", "a")]));
        let found = bearer(&two.token("two", &claims("b"))).unwrap();
        assert_eq!(*found, identity("two/s", &[("cluster", "two"), ("tenant", "b")]));
    }
    assert_eq!(*bearer("a-static-token-for-ci").unwrap(), identity("token/ci", &[("tenant", "a")]));
    let other_issuer = json!({ "iss": "https://other", "aud": "hookd", "exp": 4_000_000_000_u64, "sub": "s" });
    let refused = [
        (one.token("two", &claims("a")), Unproven::Signature),
        (one.token("three", &claims("a")), Unproven::UnknownKey),
        (one.token("one", &other_issuer), Unproven::UnknownIssuer),
        ("a-static-token-for-cI".to_owned(), Unproven::UnknownToken),
        (String::new(), Unproven::Authorization("is not one bearer token")),
        ("a b".to_owned(), Unproven::Authorization("is not one bearer token")),
    ];
    for (token, expected) in refused {
        assert_eq!(bearer(&token), Err(expected), "{token}");
    }
    let basic = whom(&visitor, &["Basic YTpi"]);
    assert_eq!(basic, Err(Unproven::Authorization("is not one bearer token")));
    let twice = whom(&visitor, &["Bearer a-static-token-for-ci", "Bearer a-static-token-for-ci"]);
    assert_eq!(twice, Err(Unproven::Authorization("stands there twice")));
    assert_eq!(*whom(&visitor, &["bEaReR  a-static-token-for-ci"]).unwrap().name, *"token/ci");
    assert_eq!(whom(&visitor, &[]), Err(Unproven::Nothing));
}

#[tokio::test]
async fn a_token_that_was_found_good_counts_until_its_end_and_no_longer() {
    let (authenticator, [one, _]) = two_clusters(Anonymous::Loopback).await;
    let visitor = visitor(&authenticator, REMOTE, None);
    let mut headers = HeaderMap::new();
    let bearer = format!("Bearer {}", one.token("one", &claims("a")));
    headers.insert(header::AUTHORIZATION, bearer.parse().unwrap());
    let at = |now_ms| {
        let mut call = Call::arriving(REMOTE);
        call.now_ms = now_ms;
        match visitor.identify(&headers, &call) {
            Identified::Now(identified) => identified.map(|identity| identity.name.clone()),
            Identified::Later(_) => panic!("files have nothing to wait for"),
        }
    };
    let end_ms = 4_000_000_000_000;
    for (now_ms, expected) in [
        (end_ms - 1000, Ok("one/s".to_owned())),
        (end_ms - 1, Ok("one/s".to_owned())),
        (end_ms, Err(Unproven::Expired)),
        (end_ms + 1, Err(Unproven::Expired)),
    ] {
        assert_eq!(at(now_ms), expected, "{now_ms}");
    }
}

#[tokio::test]
async fn a_proof_that_does_not_hold_is_refused_where_none_is_needed_too() {
    for (anonymous, peer) in [(Anonymous::Loopback, Peer::Local), (Anonymous::Allow, REMOTE)] {
        let (authenticator, _) = two_clusters(anonymous).await;
        let plain = visitor(&authenticator, peer, None);
        assert_eq!(*whom(&plain, &[]).unwrap(), Identity::default());
        assert_eq!(whom(&plain, &["Bearer x"]), Err(Unproven::UnknownToken));
        let wrong = Unproven::Certificate("has no name");
        let with_wrong = visitor(&authenticator, peer, Some(Err(wrong.clone())));
        assert_eq!(whom(&with_wrong, &[]), Err(wrong.clone()));
        assert_eq!(whom(&with_wrong, &["Bearer a-static-token-for-ci"]), Err(wrong));
    }
}

#[tokio::test]
async fn certificate_and_token_have_to_be_good_both_and_their_labels_add_up() {
    let (authenticator, [one, _]) = two_clusters(Anonymous::Deny).await;
    let certified = |pairs, until_ms| Some(Ok(Certified { identity: Arc::new(identity("dns:h", pairs)), until_ms }));
    let token = "Bearer a-static-token-for-ci";
    let good = visitor(&authenticator, REMOTE, certified(&[("host", "h"), ("tenant", "a")], i64::MAX));
    assert_eq!(whom(&good, &[]).unwrap().name, "dns:h");
    for _first_and_again in 0..2 {
        assert_eq!(*whom(&good, &[token]).unwrap(), identity("token/ci", &[("host", "h"), ("tenant", "a")]));
    }
    assert_eq!(whom(&good, &["Bearer x"]), Err(Unproven::UnknownToken));
    // Who comes next on the same connection is somebody else.
    let next = format!("Bearer {}", one.token("one", &claims("a")));
    let both = [("cluster", "one"), ("host", "h"), ("tenant", "a")];
    assert_eq!(*whom(&good, &[&next]).unwrap(), identity("one/s", &both));
    let other = visitor(&authenticator, REMOTE, certified(&[("tenant", "b")], i64::MAX));
    assert_eq!(whom(&other, &[token]), Err(Unproven::Conflict("tenant".to_owned())));
    let expired = visitor(&authenticator, REMOTE, certified(&[], 1000));
    let over = Err(Unproven::Certificate("has expired since the connection was made"));
    assert_eq!(whom(&expired, &[]), over);
    assert_eq!(whom(&expired, &[token]), over);
}

#[tokio::test]
async fn the_first_answer_of_a_key_server_is_waited_for_and_so_is_each_that_calls_want() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = KeyServer {
        url: format!("http://{}/keys", listener.local_addr().unwrap()).parse().unwrap(),
        ca: None,
        token_file: None,
        cache: None,
        refresh: Duration::from_secs(3600),
    };
    let settings = IssuerSettings {
        name: "one".to_owned(),
        issuer: "https://k".to_owned(),
        audiences: vec!["hookd".to_owned()],
        keys: KeySource::Server(server),
        clock_skew: Duration::ZERO,
        algorithms: vec![Algorithm::ES256],
        labels: Vec::new(),
        fixed_labels: Labels::default(),
    };
    let recorder = Arc::new(Recorder::new(DecisionLog::silent(), None));
    let mut start = pin!(Issuer::start(settings, recorder));
    let mut stream = tokio::select! {
        biased;
        _ = &mut start => panic!("it knows no keys yet"),
        accepted = listener.accept() => accepted.unwrap().0,
    };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0);
    }
    let set = Key::new().set("one");
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{set}", set.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    let issuer = start.await.unwrap();
    assert_eq!(issuer.trouble(), None);
    assert_eq!([issuer.ask().is_some(), issuer.ask().is_some()], [true, true], "one asks, both wait");
}

#[tokio::test]
async fn a_chain_of_certificates_is_about_the_holder_of_the_first() {
    let (authenticator, _) = two_clusters(Anonymous::Deny).await;
    let certificates = ["holder", "authority"].map(|name| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
    });
    let arrived = Arrived { peer: REMOTE, certificates: Some(certificates.to_vec().into()) };
    assert_eq!(*whom(&authenticator.visitor(&arrived), &[]).unwrap(), identity("cn:holder", &[]));
}

#[tokio::test]
async fn what_a_caller_may_do_follows_from_its_labels_or_from_being_on_this_machine() {
    let all = |visitor: &Visitor, identity: &Identity| {
        let may = Permission::ALL.into_iter().filter(|permission| visitor.may(identity, *permission));
        may.map(Permission::name).collect::<Vec<_>>()
    };
    let (tenant_a, nobody) = (identity("token/ci", &[("tenant", "a")]), Identity::default());
    for (anonymous, local) in [
        (Anonymous::Loopback, ["trigger", "read", "reload"].as_slice()),
        (Anonymous::Allow, ["trigger", "read", "reload"].as_slice()),
        (Anonymous::Deny, [].as_slice()),
    ] {
        let (authenticator, _) = two_clusters(anonymous).await;
        assert_eq!(all(&visitor(&authenticator, Peer::Local, None), &nobody), local);
        let remote = visitor(&authenticator, REMOTE, None);
        assert_eq!(all(&remote, &nobody), [] as [&str; 0]);
        assert_eq!(all(&remote, &tenant_a), ["read"]);
    }
}
