//! Where hookd is: the command line, then a file that only its owner can write, then the environment.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use hookd_tests::{Hookd, decide, rule, v1};
use serde_json::json;

use super::{
    Relay,
    agents::{Taken, shell_call, taken},
    servers::{answering, nobody},
};

/// A hookd that says what it is called.
async fn named(name: &str) -> Hookd {
    let answer = json!({ "verdict": "block", "reason": name });
    Hookd::builder().managed(json!([rule("who", "PreToolUse", decide(answer))])).start().await
}

async fn asked(relay: Relay) -> String {
    let (input, _) = shell_call("claude-code");
    let ran = relay.run(&input).await;
    match taken("claude-code", &ran) {
        Taken::Block(reason) => reason,
        other => panic!("{other:?}: {ran:?}"),
    }
}

#[tokio::test]
async fn the_command_line_comes_before_the_file_and_the_file_before_the_environment() {
    let (argv, file, variable) = (named("argv").await, named("file").await, named("variable").await);
    let relay = || {
        let relay = Relay::of("claude-code");
        relay.config(&format!("address: {}", file.address()));
        relay.env("HOOKD_ADDRESS", &variable.address().to_string())
    };
    assert!(asked(relay().at(argv.address())).await.starts_with("argv ("));
    assert!(asked(relay()).await.starts_with("file ("));
    let only_variable = Relay::of("claude-code").env("HOOKD_ADDRESS", &variable.address().to_string());
    assert!(asked(only_variable).await.starts_with("variable ("));
    let broken = Relay::of("claude-code").env("HOOKD_ADDRESS", "nowhere");
    let reason = asked(broken).await;
    assert!(reason.contains("HOOKD_ADDRESS: `nowhere` is not an address"), "{reason}");
}

#[tokio::test]
async fn a_file_that_somebody_else_can_write_is_refused_with_a_reason_and_blocks() {
    let hookd = Hookd::builder().start().await;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (of_file, of_folder) in [(0o620, 0o700), (0o602, 0o700), (0o600, 0o770), (0o600, 0o1777)] {
        let relay = Relay::of("claude-code");
        let config = relay.config(&format!("address: {}\non_unavailable: allow", hookd.address()));
        mode(&config, of_file);
        mode(config.parent().unwrap(), of_folder);
        let reason = asked(relay).await;
        assert!(reason.contains("expected one that only its owner can write"), "{of_file:o} {of_folder:o}: {reason}");
    }
    for (text, why) in [
        ("adress: a:1", "unknown key `adress`"),
        ("on_unavailable: sometimes", "`sometimes` is not known, expected `block` or `allow`"),
        ("{", "line 1 column"),
        // One that is cut off would leave it to the environment where hookd is.
        ("", "it is empty, write a comment if that is meant"),
    ] {
        let relay = Relay::of("claude-code").at(hookd.address());
        relay.config(text);
        let reason = asked(relay).await;
        assert!(reason.contains(why), "{text}: {reason}");
    }
    let gone = Relay::bare(&["relay", "--agent", "claude-code", "--config", "/nowhere/relay.yaml"]);
    assert!(asked(gone).await.contains("/nowhere/relay.yaml is not there"));
}

#[tokio::test]
async fn a_repository_that_sets_variables_moves_neither_hookd_nor_the_home() {
    let theirs = answering(Ok(v1::TriggerResponse { verdict: v1::Verdict::Allow.into(), ..Default::default() })).await;
    let ours = named("ours").await;
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join(".config/hookd");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("relay.yaml"), format!("address: {}\non_unavailable: allow", theirs.address)).unwrap();
    let home = home.path().to_str().unwrap();
    let hostile = |relay: Relay| {
        relay
            .env("HOOKD_ADDRESS", &theirs.address.to_string())
            .env("HOOKD_ON_UNAVAILABLE", "allow")
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", &format!("{home}/.config"))
    };
    let relay = Relay::of("claude-code");
    relay.config(&format!("address: {}", ours.address()));
    assert!(asked(hostile(relay)).await.starts_with("ours ("));
    // Without a file that is named: what the variables say of the home is nothing.
    let bare = Relay::bare(&["relay", "--agent", "claude-code", "--address", &nobody().to_string()]);
    let reason = asked(hostile(bare)).await;
    assert!(reason.contains("hookd cannot be reached"), "{reason}");
}
