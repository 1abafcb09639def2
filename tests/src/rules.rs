//! Rules, shorter to write.

use hookd_proto::v1::Tier;
use serde_json::{Value, json};

/// A rule with only what it must have.
#[must_use]
pub fn rule(id: &str, event: &str, handler: Value) -> Value {
    json!({ "id": id, "event": event, "handler": handler })
}

/// `rule` (or a handler) with more keys.
///
/// # Panics
/// One of the two is no object.
#[must_use]
pub fn with(mut rule: Value, more: Value) -> Value {
    let (Value::Object(all), Value::Object(more)) = (&mut rule, more) else { panic!("two objects") };
    all.extend(more);
    rule
}

/// A handler that runs `script` with `sh`.
#[must_use]
pub fn sh(script: &str) -> Value {
    json!({ "type": "command", "command": script })
}

/// A handler that posts to `url`.
#[must_use]
pub fn http(url: &str) -> Value {
    json!({ "type": "http", "url": url })
}

/// A handler that gives `answer` in process.
#[must_use]
pub fn decide(answer: Value) -> Value {
    with(json!({ "type": "decide" }), answer)
}

/// All tiers, the highest first.
pub(crate) const TIERS: [Tier; 5] = [Tier::Managed, Tier::Team, Tier::Local, Tier::Shared, Tier::Plugin];

/// The name of a tier in settings, and of its folder here.
pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Managed => "managed",
        Tier::Team => "team",
        Tier::Local => "local",
        Tier::Shared => "shared",
        Tier::Plugin => "plugin",
        Tier::Unspecified => panic!("a tier"),
    }
}

/// A list of rules as a file of them; a whole file as it is.
pub(crate) fn rule_file(rules: Value) -> String {
    match rules {
        Value::Array(_) => json!({ "hooks": rules }).to_string(),
        whole => whole.to_string(),
    }
}
