//! Proofs of who calls: any certificate and any token is somebody, nobody or refused, and nothing that is not signed by whom
//! the settings name gives an identity. Claims that are signed are believed only where they name this issuer, this audience
//! and a time that is not over.
#![no_main]

use std::{
    collections::BTreeMap,
    fs, process,
    sync::{Arc, LazyLock},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hookd::{
    door::{
        arrived::Arrived,
        identity::{Authenticator, Identified},
    },
    record::Recorder,
    settings::{Origin, Settings},
    telemetry::{
        self, LastLines,
        call::{Call, Peer},
    },
};
use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// The issuer's own key.
static SIGNER: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key"));

static ALL: LazyLock<(Runtime, Arc<Authenticator>, LastLines)> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("hookd-fuzz-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let known = r#"{"kty":"EC","crv":"P-256","alg":"ES256","kid":"k","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    let own = BASE64_URL_SAFE_NO_PAD.encode(SIGNER.public_key());
    let keys = format!(r#"{{"keys":[{known},{{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"own","x":"{own}"}}]}}"#);
    fs::write(folder.join("keys.json"), keys).expect("keys");
    let settings = r#"
log: { filter: off }
identity:
  anonymous: deny
  certificates: { labels: { tenant: "uri:spiffe://example.org/ns/{}/sa/*" } }
  issuers:
  - { name: i, issuer: "https://issuer.example", audiences: [hookd], jwks_file: keys.json, algorithms: [ES256, EdDSA], labels: { tenant: kubernetes.io/namespace } }
"#;
    fs::write(folder.join("hookd.yaml"), settings).expect("settings");
    let origin =
        Origin { file: Some("hookd.yaml".into()), environment: BTreeMap::new(), working_directory: folder.clone() };
    let settings = Settings::read(&origin).unwrap_or_else(|error| panic!("{error}"));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (decisions, last_lines) = telemetry::init(&settings.log).unwrap_or_else(|error| panic!("{error}"));
    let recorder = Arc::new(Recorder::new(decisions, None));
    let authenticator = runtime.block_on(Authenticator::start(&settings.identity, &[], recorder));
    let authenticator = authenticator.unwrap_or_else(|error| panic!("{error}"));
    (runtime, authenticator, last_lines)
});

fuzz_target!(|bytes: &[u8]| {
    let (runtime, authenticator, _) = &*ALL;
    let _inside = runtime.enter();
    let peer = Peer::Remote(None);
    let call = Call::arriving(peer);
    let by_certificate = Arrived { peer, certificates: Some(Arc::from(vec![bytes.to_vec().into()])) };
    if let Identified::Now(Ok(identity)) = authenticator.visitor(&by_certificate).identify(&HeaderMap::new(), &call) {
        assert!(!identity.name.is_empty() && !identity.name.contains(char::is_control), "{identity:?}");
        assert!(identity.labels.as_slice().iter().all(|(_, value)| !value.contains(char::is_control)));
    }
    let token = [b"Bearer ".as_slice(), bytes].concat();
    for presented in [bytes, token.as_slice()] {
        let Ok(value) = HeaderValue::from_bytes(presented) else { continue };
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        let nobody = authenticator.visitor(&Arrived { peer, certificates: None });
        assert!(!matches!(nobody.identify(&headers, &call), Identified::Now(Ok(_))), "nobody has signed this");
    }
    let headers = HeaderMap::from_iter([(header::AUTHORIZATION, signed(bytes))]);
    let signer = authenticator.visitor(&Arrived { peer, certificates: None });
    if let Identified::Now(Ok(identity)) = signer.identify(&headers, &call) {
        let claims: Value = serde_json::from_slice(bytes).expect("what is believed is JSON");
        assert_eq!(claims["iss"], "https://issuer.example");
        let audience = &claims["aud"];
        assert!(
            audience == "hookd" || audience.as_array().is_some_and(|all| all.contains(&"hookd".into())),
            "{audience}"
        );
        // A minute is more than the skew of clocks that is taken as it comes.
        assert!(
            claims["exp"].as_f64().is_some_and(|until| until > (call.now_ms / 1000 - 60) as f64),
            "{}",
            claims["exp"]
        );
        assert_eq!(identity.name, format!("i/{}", claims["sub"].as_str().expect("a subject")));
        let tenant =
            identity.labels.as_slice().iter().find(|(label, _)| label == "tenant").map(|(_, value)| value.clone());
        let claimed = match &claims["kubernetes.io"]["namespace"] {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            Value::Bool(_) | Value::Number(_) => tenant.clone().filter(|tenant| !tenant.is_empty()),
            _ => None,
        };
        assert_eq!(tenant, claimed);
    }
});

/// A token of the issuer that says `claims`.
fn signed(claims: &[u8]) -> HeaderValue {
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let said = format!("{}.{}", encoded(br#"{"alg":"EdDSA","kid":"own"}"#), encoded(claims));
    let signature = encoded(SIGNER.sign(said.as_bytes()).as_ref());
    HeaderValue::from_str(&format!("Bearer {said}.{signature}")).expect("base64 is good for a header")
}
