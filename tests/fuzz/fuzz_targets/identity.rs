//! Proofs of who calls: any certificate and any token is somebody, nobody or refused, and nothing that is not signed by whom
//! the settings name gives an identity.
#![no_main]

use std::{collections::BTreeMap, fs, process, sync::Arc, sync::LazyLock};

use hookd::{
    door::{
        connection::Arrived,
        identity::{Authenticator, Identified},
    },
    record::Recorder,
    settings::{Origin, Settings},
    telemetry::{
        DecisionLog,
        call::{Call, Peer},
    },
};
use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

static ALL: LazyLock<(Runtime, Arc<Authenticator>)> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("hookd-fuzz-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let key = r#"{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","kid":"k","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
    fs::write(folder.join("keys.json"), key).expect("keys");
    let settings = r#"
identity:
  anonymous: deny
  certificates: { labels: { tenant: "uri:spiffe://example.org/ns/{}/sa/*" } }
  issuers:
  - { name: i, issuer: "https://issuer.example", audiences: [hookd], jwks_file: keys.json, algorithms: [ES256], labels: { tenant: kubernetes.io/namespace } }
"#;
    fs::write(folder.join("hookd.yaml"), settings).expect("settings");
    let origin =
        Origin { file: Some("hookd.yaml".into()), environment: BTreeMap::new(), working_directory: folder.clone() };
    let settings = Settings::read(&origin).unwrap_or_else(|error| panic!("{error}"));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let recorder = Arc::new(Recorder::new(DecisionLog::silent(), None));
    let authenticator = runtime.block_on(Authenticator::start(&settings.identity, &[], recorder));
    let authenticator = authenticator.unwrap_or_else(|error| panic!("{error}"));
    (runtime, authenticator)
});

fuzz_target!(|bytes: &[u8]| {
    let (runtime, authenticator) = &*ALL;
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
});
