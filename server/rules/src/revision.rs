//! The revision: a hash of what the rules mean (law 9).

use hookd_json::{Map, Value};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{LoadSettings, Tier};

/// How many hex digits a revision has.
const DIGITS: usize = 32;

/// The revision of these meanings of rules and defaults, in evaluation order, under `settings`.
///
/// Everything that can change a verdict is in it. Paths, derived ids, descriptions and the way that files are written
/// are not, so it is the same on every replica.
pub(crate) fn revision(rules: Vec<Value>, defaults: Vec<Value>, settings: &LoadSettings) -> String {
    let tiers = Tier::ALL.map(|tier| {
        let settings = settings.tiers.get(tier);
        let policy = &settings.policy;
        json!([tier.name(), settings.mode.name(), policy.may_allow, policy.on_error.name()])
    });
    let meaning = sorted(json!({
        "version": 1,
        "rules": rules,
        "defaults": defaults,
        "tiers": tiers,
        "fallbacks": settings.fallbacks.names(),
    }));
    let mut hex =
        Sha256::digest(hookd_json::to_text(&meaning)).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    hex.truncate(DIGITS);
    hex
}

/// `value` with the keys of its objects in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Object(map) => {
            let mut entries = map.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Vec<_>>();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(entries.into_iter().collect::<Map<_, _>>())
        }
        other => other,
    }
}
