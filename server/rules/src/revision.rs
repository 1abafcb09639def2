//! The revision: a hash of what the rules mean (law 9).

use hookd_json::{Map, Value};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{LoadSettings, Selector, Tier};

/// How many hex digits a revision has.
const DIGITS: usize = 32;

/// The meaning of one rule or default, as a hash: of thousands of rules the meanings themselves would take more memory
/// than the rules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning(pub(crate) [u8; 32]);

impl Meaning {
    /// The hash of `value`, which holds everything that can change a verdict.
    pub(crate) fn of(value: Value) -> Self {
        Self(Sha256::digest(hookd_json::to_text(&sorted(value))).into())
    }

    /// The same for the callers of `selector` alone.
    pub(crate) fn within(self, selector: &Selector) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(hookd_json::to_text(&selector.meaning()));
        Self(hash.finalize().into())
    }
}

/// The revision of these meanings of rules and defaults, in evaluation order, under `settings`; `needed` are the labels
/// that every caller must have, sorted.
///
/// Everything that can change a verdict is in it. Paths, derived ids, descriptions and the way that files are written
/// are not, so it is the same on every replica.
pub(crate) fn revision(rules: &[Meaning], defaults: &[Meaning], needed: &[&str], settings: &LoadSettings) -> String {
    let tiers = Tier::ALL.map(|tier| {
        let settings = settings.tiers.get(tier);
        let policy = &settings.policy;
        json!([tier.name(), settings.mode.name(), policy.may_allow, policy.on_error.name()])
    });
    let mut settings = json!({
        "version": 1,
        "rules": rules.len(),
        "defaults": defaults.len(),
        "tiers": tiers,
        "fallbacks": settings.fallbacks.names(),
    });
    if let (Some(settings), false) = (settings.as_object_mut(), needed.is_empty()) {
        settings.insert("labels".to_owned(), json!(needed));
    }
    let mut hash = Sha256::new();
    hash.update(hookd_json::to_text(&sorted(settings)));
    for Meaning(meaning) in rules.iter().chain(defaults) {
        hash.update(meaning);
    }
    hex(&hash.finalize())
}

/// A hash as revisions are written.
pub(crate) fn hex(hash: &[u8]) -> String {
    let mut hex = hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
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
