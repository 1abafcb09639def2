//! Handlers that tell that they have begun, and end when the test says so.

use hookd_tests::{Hookd, eventually};
use serde_json::{Value, json};
use std::fs;

/// A rule on `PreToolUse` with such a handler, which has nothing to say in the end.
pub fn gated(id: &str) -> Value {
    json!({ "id": id, "event": "PreToolUse", "matcher": "^Gated$", "handler": gated_handler() })
}

/// Such a handler.
pub fn gated_handler() -> Value {
    let command = r#"echo begun >> "$TMPDIR/../begun"; until [ -e "$TMPDIR/../gate" ]; do sleep 0.02; done"#;
    json!({ "type": "command", "command": command, "timeout": 60_000 })
}

/// Waits until so many of them have begun.
pub async fn begun(hookd: &Hookd, count: usize) {
    let lines = || fs::read_to_string(hookd.path("begun")).unwrap_or_default().lines().count();
    eventually("handlers have begun", async || (lines() >= count).then_some(())).await;
}

/// Lets all of them end.
pub fn open(hookd: &Hookd) {
    fs::write(hookd.path("gate"), "").unwrap();
}
