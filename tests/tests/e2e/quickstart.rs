//! `deploy/examples/quickstart` does what its page says.

use std::{fs, os::unix::fs::symlink, path::Path};

use hookd_tests::{
    Hookd, HookdBuilder, HttpStub, Reply, TriggerRequestExt as _, event, post_tool_use, pre_tool_use, said,
};
use serde_json::{Value, json};

/// The example in a folder of its own, with free ports and another address for the notification.
pub(super) fn quickstart(notify: &str, more_settings: &str) -> HookdBuilder {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/quickstart");
    let mut builder = Hookd::builder();
    for file in ["managed/guard.json", "managed/block-node-modules.sh", "shared/tidy.yaml"] {
        builder = builder.file(file, &fs::read_to_string(example.join(file)).unwrap());
    }
    let local = fs::read_to_string(example.join("local/notify.json")).unwrap();
    let local = replaced(&local, "http://127.0.0.1:9099/notify", notify);
    let settings = fs::read_to_string(example.join("hookd.yaml")).unwrap();
    let settings = replaced(&settings, "127.0.0.1:50051", "127.0.0.1:0");
    let settings = replaced(&settings, "127.0.0.1:8081", "127.0.0.1:0") + more_settings;
    let builder = builder.file("local/notify.json", &local).file("hookd.yaml", &settings);
    let path = builder.path("hookd.yaml");
    builder.settings_file(path)
}

#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} is not in {text}");
    text.replace(from, to)
}

pub(super) fn project(hookd: &Hookd) -> std::path::PathBuf {
    let project = hookd.path("project");
    fs::create_dir_all(project.join("src")).unwrap();
    fs::create_dir_all(project.join("node_modules")).unwrap();
    fs::write(project.join("src/a.js"), "let a = 1;  \nlet b = 2;\t\n").unwrap();
    project
}

fn edit(path: &str) -> Value {
    json!({ "file_path": path })
}

#[tokio::test]
async fn the_guard_lets_sources_be_edited_and_keeps_agents_out_of_node_modules() {
    let hookd = quickstart("http://127.0.0.1:9/notify", "").start().await;
    let project = project(&hookd);
    let answer = hookd.trigger(pre_tool_use("edit_file", edit("src/a.js")).in_cwd(&project)).await;
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "results": ["managed/no-node-modules none"], "considered": 1, "matched": 1 })
    );
    let answer = hookd.trigger(pre_tool_use("edit_file", edit("node_modules/x.js")).in_cwd(&project)).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block",
            "reason": "Cannot write to node_modules",
            "decidedBy": "rule managed/no-node-modules",
            "results": ["managed/no-node-modules block"],
            "considered": 1,
            "matched": 1,
        })
    );
    assert!(answer.decided_by.unwrap().source.ends_with("/managed/guard.json"));
}

#[tokio::test]
async fn the_shared_rule_really_tidies_the_file_that_was_edited() {
    let hookd = quickstart("http://127.0.0.1:9/notify", "").start().await;
    let project = project(&hookd);
    let answer = hookd.trigger(post_tool_use("edit_file", edit("src/a.js"), json!("ok")).in_cwd(&project)).await;
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "results": ["shared/tidy-after-edit none"], "considered": 1, "matched": 1 })
    );
    assert_eq!(answer.results[0].output.as_deref(), Some("removed trailing white space: src/a.js"));
    assert_eq!(fs::read_to_string(project.join("src/a.js")).unwrap(), "let a = 1;\nlet b = 2;\n");
}

#[tokio::test]
async fn the_notification_arrives_once_and_nobody_waits_for_it() {
    let stub = HttpStub::start(|_| Reply::ok("")).await;
    let hookd = quickstart(&stub.url("/notify"), "").start().await;
    let answer = hookd.trigger(event("Stop")).await;
    assert_eq!(
        said(&answer),
        json!({ "verdict": "none", "results": ["local/tell-me-when-done queued"], "considered": 1, "matched": 1 })
    );
    let requests = stub.wait_for(1).await;
    assert!(requests[0].head.starts_with("POST /notify HTTP/1.1\r\n"), "{}", requests[0].head);
    let body: Value = serde_json::from_str(&requests[0].body).unwrap();
    assert_eq!(body["event"], "Stop");
    assert_eq!(body["sessionId"], "s1");
    assert_eq!(body["decisionId"], answer.decision_id.as_str());
    // All that was queued has ended when hookd has.
    hookd.signal(hookd_tests::Signal::TERM);
    assert_eq!(hookd.wait_exit().await.code(), Some(0));
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test]
async fn without_jq_the_guard_says_so_and_blocks_and_the_tidying_is_forgiven() {
    let builder = Hookd::builder();
    let programs = builder.path("programs");
    fs::create_dir_all(&programs).unwrap();
    symlink("/bin/sh", programs.join("sh")).unwrap();
    let commands = format!("commands: {{ path: {} }}\n", programs.display());
    let hookd = quickstart("http://127.0.0.1:9/notify", &commands).start().await;
    let project = project(&hookd);
    let answer = hookd.trigger(pre_tool_use("edit_file", edit("src/a.js")).in_cwd(&project)).await;
    let error = "block-node-modules.sh: jq is not installed, so no path can be checked";
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "block",
            "reason": format!("hook `no-node-modules` failed: {error}"),
            "decidedBy": "failure_policy managed/no-node-modules",
            "results": [format!("managed/no-node-modules failed exited blocked: {error}")],
            "considered": 1,
            "matched": 1,
        })
    );
    let answer = hookd.trigger(post_tool_use("edit_file", edit("src/a.js"), json!("ok")).in_cwd(&project)).await;
    assert_eq!(
        said(&answer),
        json!({
            "verdict": "none",
            "decidedBy": "failure_policy shared/tidy-after-edit",
            "results": ["shared/tidy-after-edit failed exited: jq is not installed"],
            "degraded": true,
            "considered": 1,
            "matched": 1,
        })
    );
}
