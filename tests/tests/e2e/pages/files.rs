//! Rules and settings that pages show.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use hookd_tests::{Authority, program};
use tempfile::TempDir;

use super::{blocks, page, pages};

/// Pages whose files have tests of their own: guides, which are run; settings that need root; what Prometheus, Helm and
/// kustomize read.
fn is_tried_out_elsewhere(path: &str) -> bool {
    let is_guide = path.starts_with("deploy/docs/") && page(path).contains("\n```sh");
    let folders = ["deploy/charts/", "deploy/kustomize/", "deploy/observability/"];
    is_guide || path == "deploy/docs/commands.md" || folders.iter().any(|folder| path.starts_with(folder))
}

/// A folder for what the pages take for granted, and the pages' places in it.
fn machine() -> (TempDir, impl Fn(&str) -> String) {
    let folder = TempDir::new().unwrap();
    let file = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for source in ["managed", "payments", "production"] {
        file(&format!("hookd/{source}/rules.yaml"), "hooks: []\n");
    }
    let authority = Authority::new();
    let issued = authority.server();
    file("hookd/tls/tls.crt", &issued.certificate);
    file("hookd/tls/tls.key", &issued.key);
    file("hookd/tls/ca.crt", &authority.certificate);
    file("hookd/tokens.yaml", "tokens: [ { name: ci, value: the-token-of-an-agent, labels: { tenant: a } } ]\n");
    file("account/ca.crt", &authority.certificate);
    file("account/token", "t");
    for folder in ["lib", "log"] {
        file(&format!("{folder}/is-there"), "");
    }
    let here = folder.path().display().to_string();
    let places = [
        ("/etc/hookd", "hookd"),
        ("/var/run/secrets/kubernetes.io/serviceaccount", "account"),
        ("/var/lib/hookd", "lib"),
        ("/var/log/hookd", "log"),
    ];
    let placed = move |text: &str| {
        places.iter().fold(text.to_owned(), |text, (place, ours)| text.replace(place, &format!("{here}/{ours}")))
    };
    (folder, placed)
}

fn tried(folder: &Path, text: &str) -> Output {
    if ["hooks:", "defaults:"].iter().any(|key| text.starts_with(key)) {
        let file = folder.join("rules.yaml");
        fs::write(&file, text).unwrap();
        return Command::new(program("hookctl")).args(["check", "--tier", "managed"]).arg(file).output().unwrap();
    }
    let file = folder.join("hookd.yaml");
    fs::write(&file, text).unwrap();
    Command::new(program("hookd")).arg("--check").arg("--config").arg(file).output().unwrap()
}

#[test]
fn the_rules_and_settings_of_the_pages_are_taken() {
    let mut found = Vec::new();
    for path in pages().iter().filter(|path| !is_tried_out_elsewhere(path)) {
        for block in blocks(&page(path), "yaml") {
            let (folder, placed) = machine();
            let output = tried(folder.path(), &placed(&block));
            assert!(output.status.success(), "{path}\n{block}\n{output:?}");
            found.push(path.clone());
        }
    }
    found.dedup();
    assert_eq!(found, ["README.md", "deploy/docs/audit.md", "deploy/docs/callers.md", "deploy/docs/rules.md"]);
}
