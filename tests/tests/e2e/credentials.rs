//! The Rust client and `hookctl relay` show a certificate to the real server, and know it by its own.

use std::{fs, path::Path};

use hookd_client::{Address, CallErrorKind, Client, Credentials, Gate, OnUnavailable};
use hookd_tests::{Authority, Hookd, Issued};
use serde_json::json;

use crate::relay::{
    Relay,
    agents::{Taken, shell_call, taken},
};

const AGENT: &str = "spiffe://example.org/ns/a/agent/7";

fn write(folder: &Path, issued: &Issued) {
    fs::write(folder.join("cert.pem"), &issued.certificate).unwrap();
    fs::write(folder.join("key.pem"), &issued.key).unwrap();
}

#[tokio::test]
async fn a_client_and_the_relay_are_let_in_by_their_certificate_and_block_without_it() {
    let ours = Authority::new();
    let deny = json!([{ "id": "guard", "event": "PreToolUse",
                        "handler": { "type": "decide", "verdict": "block", "reason": "no" } }]);
    let hookd = ours.ask_for(ours.server().serve(Hookd::builder().managed(deny))).start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(folder.path(), &ours.client(AGENT));
    let address = format!("https://{}", hookd.address());
    let credentials = Credentials {
        ca_file: Some(hookd.path("tls/ca.crt")),
        client_cert_file: Some(path("cert.pem")),
        client_key_file: Some(path("key.pem")),
        ..Credentials::default()
    };
    // Where hookd cannot be asked everything goes: what is refused is so for a reason of its own.
    let client = |credentials: Credentials| {
        let builder = Client::builder(Address::parse_list(&address).unwrap(), OnUnavailable::Allow);
        builder.credentials(credentials).build().unwrap()
    };
    let asked = async |client: &Client| {
        let gate = client.session("s").pre_tool_use("Bash", "{}").await;
        assert!(matches!(gate, Gate::Refuse { .. }), "{gate:?}");
        gate.decision().error().map(|error| error.kind)
    };
    let known = client(credentials.clone());
    assert_eq!(asked(&known).await, None);
    let nobody = Credentials { client_cert_file: None, client_key_file: None, ..credentials.clone() };
    assert_eq!(asked(&client(nobody)).await, Some(CallErrorKind::NotTrusted));
    let stranger = Credentials { ca_file: Some(path("cert.pem")), ..credentials };
    assert_eq!(asked(&client(stranger)).await, Some(CallErrorKind::NotTrusted));

    let ca_file = hookd.path("tls/ca.crt");
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let shown = ["--client-cert-file", cert.to_str().unwrap(), "--client-key-file", key.to_str().unwrap()];
    let relay = || {
        let relay = Relay::of("claude-code").with(&["--on-unavailable", "allow"]).at(&address);
        relay.with(&["--ca-file", ca_file.to_str().unwrap()])
    };
    let (input, _) = shell_call("claude-code");
    let reason = async |relay: Relay| match taken("claude-code", &relay.run(&input).await) {
        Taken::Block(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(relay().with(&shown)).await.starts_with("no ("));
    let why = reason(relay()).await;
    assert!(why.contains("it may not take a client without a certificate"), "{why}");
}
