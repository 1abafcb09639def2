//! The laws of the design, each with real processes.

use hookd_tests::{Hookd, pre_tool_use, said};
use serde_json::json;

#[tokio::test]
async fn law_12_with_no_rules_a_warning_says_that_everything_passes() {
    let hookd = Hookd::builder().start().await;
    let answer = hookd.trigger(pre_tool_use("Bash", json!({ "command": "ls" }))).await;
    assert_eq!(said(&answer), json!({ "verdict": "none", "considered": 0, "matched": 0 }));
}
