//! All settings as one tree.

use hookd_json::Value;
use serde_json::json;

use super::{
    Settings, audit, bulkheads, commands, drain, fallbacks, http_handlers, http2, identity, limits, log, tiers, tls,
    traces,
};

/// Everything, with the keys of a settings file.
pub(super) fn tree(settings: &Settings) -> Value {
    json!({
        "listen": settings.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "hosts": settings.hosts,
        "admin_listen": settings.admin_listen.to_string(),
        "tls": tls::tree(settings.tls.as_ref()),
        "plaintext": tls::plaintext_word(settings.plaintext),
        "tiers": tiers::tree(&settings.tiers),
        "limits": limits::tree(&settings.limits),
        "bulkheads": bulkheads::tree(&settings.bulkheads),
        "commands": commands::tree(&settings.commands),
        "http_handlers": http_handlers::tree(&settings.http_handlers),
        "drain": drain::tree(&settings.drain),
        "fallbacks": fallbacks::tree(&settings.fallbacks),
        "log": log::tree(&settings.log),
        "http2": http2::tree(&settings.http2),
        "audit": audit::tree(&settings.audit),
        "traces": traces::tree(&settings.traces),
        "identity": identity::tree(&settings.identity),
        "permissions": identity::permissions_tree(&settings.permissions),
    })
}

/// The dotted keys outside `tiers` and `fallbacks` in which the two differ.
pub(super) fn differing_cold_keys(one: &Settings, other: &Settings) -> Vec<String> {
    let (Value::Object(one), Value::Object(other)) = (tree(one), tree(other)) else { return Vec::new() };
    let mut keys = Vec::new();
    for (key, value) in one.iter().filter(|(key, _)| !matches!(key.as_str(), "tiers" | "fallbacks")) {
        match (value, other.get(key)) {
            (Value::Object(section), Some(Value::Object(newer))) => {
                let differing = section.iter().filter(|(inner, value)| newer.get(*inner) != Some(*value));
                keys.extend(differing.map(|(inner, _)| format!("{key}.{inner}")));
            }
            (value, newer) if newer != Some(value) => keys.push(key.clone()),
            _ => {}
        }
    }
    keys
}
