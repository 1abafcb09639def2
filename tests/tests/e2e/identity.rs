//! Who calls: tokens of issuers, static tokens, and what callers may do.

mod certificates;
mod issuers;
mod permissions;
mod static_tokens;

use std::time::{SystemTime, UNIX_EPOCH};

use hookd_tests::{Hookd, HookdBuilder, pre_tool_use, with_token};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The clock, in seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A hookd that lets nobody in without a proof, and whose managed rule blocks tenant `a` alone.
fn closed() -> HookdBuilder {
    let rule = json!({ "id": "of-a", "event": "PreToolUse", "when": "has(caller.labels.tenant) && caller.labels.tenant == 'a'",
                       "handler": { "type": "decide", "verdict": "block", "reason": "not for a" } });
    Hookd::builder().managed(json!([rule])).settings(json!({ "identity": { "anonymous": "deny" } }))
}

/// What comes of a call with this token: the deciding rule (empty: none), or the code and the reason of the status.
async fn asked(hookd: &Hookd, token: &str) -> Result<String, (Code, String)> {
    let answer = hookd.try_trigger(with_token(pre_tool_use("Bash", json!({})), token)).await;
    answer.map(|answer| answer.decided_by.map(|by| by.rule_id).unwrap_or_default()).map_err(|status| refusal(&status))
}

/// The code and the reason of a status, which has to be complete.
fn refusal(status: &Status) -> (Code, String) {
    assert!(status.metadata().contains_key("hookd-decision-id"), "{status:?}");
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("{status:?}"));
    assert_eq!(info.domain, "hookd");
    (status.code(), info.reason)
}

fn unauthenticated<T>(reason: &str) -> Result<T, (Code, String)> {
    Err((Code::Unauthenticated, reason.to_owned()))
}

/// Fails where one of these texts stands in what hookd tells of itself.
async fn nowhere(hookd: &Hookd, secrets: &[String]) {
    let metrics = hookd.admin_get("/metrics").await.1;
    let ready = hookd.admin_get("/readyz").await.1;
    let log = hookd.log_text();
    for secret in secrets {
        // Also not in part: claims and signature of a token stand behind dots.
        for part in secret.split('.').filter(|part| part.len() > 12) {
            for (what, text) in [("log", &log), ("metrics", &metrics), ("readyz", &ready)] {
                assert!(!text.contains(part), "{part} in the {what}:\n{text}");
            }
        }
    }
}

/// The settings of an issuer `prod` whose keys are at `url`, with more of them.
fn issuer(url: &str, more: Value) -> Value {
    let mut issuer = json!({
        "name": "prod", "issuer": "https://idp.example.com", "audiences": ["hookd"], "jwks_url": url,
        "labels": { "tenant": "tenant" },
    });
    for (key, value) in more.as_object().unwrap() {
        issuer[key] = value.clone();
    }
    json!({ "identity": { "issuers": [issuer] } })
}

/// Good claims of tenant `a`, with others in their place.
fn claims(others: Value) -> Value {
    let mut claims = json!({
        "iss": "https://idp.example.com", "aud": ["hookd"], "sub": "agent-7", "tenant": "a",
        "iat": now(), "nbf": now(), "exp": now() + 600,
    });
    for (key, value) in others.as_object().unwrap() {
        claims[key] = value.clone();
    }
    claims
}
