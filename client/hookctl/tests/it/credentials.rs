//! Tokens, certificates and TLS for every subcommand that asks hookd.

use std::{fs, path::PathBuf};

use hookd_client::proto::{TriggerResponse, Verdict};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::{hookctl, server::TestServer};

/// A server with a certificate that it signed itself, and a folder with that and a token.
fn tls_server() -> (TestServer, TempDir) {
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(cert.pem(), key.serialize_pem()));
    let block = TriggerResponse { verdict: Verdict::Block.into(), ..TriggerResponse::default() };
    let server = TestServer::with_tls(Ok(block), tls);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ca.pem"), cert.pem()).unwrap();
    fs::write(folder.path().join("token"), "a-secret\n").unwrap();
    (server, folder)
}

#[test]
fn options_and_variables_name_the_files_of_every_subcommand() {
    let (server, folder) = tls_server();
    let address = format!("https://{}", server.address);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (ca, token) = (path("ca.pem"), path("token"));
    let variables = [("HOOKD_ADDRESS", &*address), ("HOOKD_CA_FILE", &ca), ("HOOKD_TOKEN_FILE", &token)];
    let options = ["--address", &address, "--ca-file", &ca, "--token-file", &token];
    for (args, exit) in [
        (&["trigger", "PreDeploy"][..], 2),
        (&["rules"], 0),
        (&["explain", "PreDeploy"], 0),
        (&["status"], 0),
        (&["reload"], 0),
    ] {
        let by_variables = hookctl(folder.path(), &variables, args, "");
        let by_options = hookctl(folder.path(), &[], &[args, &options[..]].concat(), "");
        for ran in [by_variables, by_options] {
            assert_eq!((ran.exit, ran.err.as_str()), (exit, ""), "{args:?}");
            assert_eq!(server.token(), Some("Bearer a-secret".to_owned()), "{args:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_wrong_usage_and_what_is_not_trusted_is_said() {
    let (server, folder) = tls_server();
    let address = format!("https://{}", server.address);
    let gone: PathBuf = folder.path().join("gone");
    let gone = gone.to_str().unwrap();
    let run = |args: &[&str]| {
        let ran = hookctl(folder.path(), &[], &[&["status"], args].concat(), "");
        (ran.exit, ran.err)
    };
    assert_eq!(
        run(&["--address", "h:1", "--token-file", "token"]),
        (
            64,
            "hookctl: the token in token would travel to `h:1` in the clear, expected `https://host:port`\n".to_owned()
        )
    );
    assert_eq!(
        run(&["--address", &address, "--ca-file", gone]),
        (
            1,
            format!(
                "hookctl: hookd at {address} is not asked: the CA file {gone} cannot be read: no such file or directory\n"
            )
        )
    );
}

#[test]
fn the_relay_shows_what_its_command_names_and_blocks_where_that_is_not_trusted() {
    let (server, folder) = tls_server();
    let address = format!("https://{}", server.address);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let input = r#"{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}"#;
    let relay = |more: &[&str], variables: &[(&str, &str)]| {
        let own = ["relay", "--agent", "claude-code", "--on-unavailable", "allow", "--address", &address];
        hookctl(folder.path(), variables, &[&own, more].concat(), input)
    };
    let ran = relay(&["--ca-file", &path("ca.pem"), "--token-file", &path("token")], &[]);
    assert!(ran.out.contains("\"deny\""), "{ran:?}");
    assert_eq!(server.token(), Some("Bearer a-secret".to_owned()));

    // Files of the environment are none; and whoever is not trusted is no server that is merely away.
    let ran = relay(&["--ca-file", &path("ca.pem")], &[("HOOKD_TOKEN_FILE", &path("token"))]);
    assert!(ran.out.contains("\"deny\""), "{ran:?}");
    assert_eq!(server.token(), None);
    let ran = relay(&["--ca-file", &path("gone")], &[("HOOKD_CA_FILE", &path("ca.pem"))]);
    let why =
        "cannot be read: no such file or directory; HOOKD_CA_FILE in the environment counts not here, name the file";
    assert!(ran.out.contains("\"deny\"") && ran.out.contains(why), "{ran:?}");
}
