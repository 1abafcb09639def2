//! Settings as a tree and as YAML.

use std::time::Duration;

use hookd_json::Value;
use hookd_rules::{AskFallback, DeferFallback, Mode, ModifyFallback, OnError, Tier};
use serde_json::{Map, json};

use super::{
    CommandSettings, LogFormat, Plaintext, ServerCommands, Settings, TierSettings, TlsSettings, TlsVersion,
    commands::shown, selector,
};

/// Everything, with the keys of a settings file.
pub(super) fn tree(settings: &Settings) -> Value {
    let Settings {
        listen,
        hosts,
        admin_listen,
        tls,
        plaintext,
        tiers,
        limits,
        bulkheads,
        commands,
        http_handlers,
        drain,
        fallbacks,
        log,
        http2,
        audit,
        traces,
        identity,
        permissions,
    } = settings;
    let tiers = Tier::ALL.map(|tier| (tier.name().to_owned(), tier_tree(tier, tiers.get(tier))));
    json!({
        "listen": listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "hosts": hosts,
        "admin_listen": admin_listen.to_string(),
        "tls": tls_tree(tls.as_ref()),
        "plaintext": match plaintext { Plaintext::Loopback => "loopback", Plaintext::Allow => "allow" },
        "tiers": tiers.into_iter().collect::<Map<_, _>>(),
        "limits": {
            "default_deadline": duration(limits.default_deadline),
            "max_deadline": duration(limits.max_deadline),
            "max_handler_timeout": duration(limits.max_handler_timeout),
            "in_flight": limits.in_flight,
            "children": limits.children,
            "child_queue": limits.child_queue,
            "async_in_flight": limits.async_in_flight,
            "connections": limits.connections,
            "connections_of_one_address": limits.connections_of_one_address,
            "message_bytes": size(limits.message_bytes),
            "output_bytes": size(limits.output_bytes),
        },
        "bulkheads": {
            "handler_in_flight": bulkheads.handler_in_flight,
            "handler_queue": bulkheads.handler_queue,
            "breaker_failure_percent": number_or_off(bulkheads.breaker_failure_percent),
            "breaker_runs": bulkheads.breaker_runs,
            "breaker_open_for": duration(bulkheads.breaker_open_for),
            "tenant_calls_per_second": number_or_off(bulkheads.tenant_rate.map(|rate| rate.calls_per_second)),
            "tenant_burst": number_or_off(bulkheads.tenant_rate.map(|rate| rate.burst)),
        },
        "commands": commands_tree(commands),
        "http_handlers": { "ca": http_handlers.ca },
        "drain": { "min_delay": duration(drain.min_delay), "limit": duration(drain.limit) },
        "fallbacks": {
            "ask": match fallbacks.ask { AskFallback::Block => "block", AskFallback::Allow => "allow" },
            "defer": match fallbacks.defer { DeferFallback::Block => "block", DeferFallback::Ask => "ask" },
            "modify": match fallbacks.modify { ModifyFallback::Block => "block" },
        },
        "log": {
            "format": match log.format {
                LogFormat::Auto => "auto",
                LogFormat::Human => "human",
                LogFormat::Json => "json",
            },
            "filter": log.filter,
        },
        "http2": {
            "keepalive_interval": duration(http2.keepalive_interval),
            "keepalive_timeout": duration(http2.keepalive_timeout),
            "max_connection_age": duration(http2.max_connection_age),
            "max_concurrent_streams": http2.max_concurrent_streams,
        },
        "audit": super::audit::tree(audit),
        "traces": super::traces::tree(traces),
        "identity": super::identity::tree(identity),
        "permissions": super::identity::permissions_tree(permissions),
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

/// A tree as block YAML; lists of scalars and of small tables stand on one line.
pub(super) fn yaml(tree: &Value) -> String {
    let mut out = String::new();
    write_table(&mut out, tree, 0);
    out
}

fn tls_tree(tls: Option<&TlsSettings>) -> Value {
    let clients = tls.and_then(|tls| tls.clients.as_ref());
    json!({
        "certificate": tls.map(|tls| &tls.certificate),
        "key": tls.map(|tls| &tls.key),
        "client_ca": clients.map(|clients| &clients.authorities),
        "client_certificates": clients.map(|clients| if clients.required { "required" } else { "optional" }),
        "min_version": tls.map_or(TlsVersion::V1_3, |tls| tls.min_version).name(),
    })
}

fn tier_tree(tier: Tier, settings: &TierSettings) -> Value {
    let permits = &settings.permits;
    let sources = settings.sources.iter().map(|source| {
        let mut tree = json!({ "path": source.path, "optional": source.optional });
        if let (Some(selector), Some(table)) = (&source.selector, tree.as_object_mut()) {
            table.insert("selector".to_owned(), selector::tree(selector));
            table.insert("missing_label".to_owned(), selector.missing_label().name().into());
        }
        tree
    });
    let mut tree = json!({
        "sources": sources.collect::<Vec<_>>(),
        "mode": match settings.mode { Mode::Enforce => "enforce", Mode::Shadow => "shadow" },
        "on_error": match settings.on_error { OnError::Allow => "allow", OnError::Block => "block" },
        "may_allow": settings.may_allow,
        "allow_env": settings.allow_env,
        "allow_files": settings.allow_files,
        "enabled": permits.enabled,
        "handlers": permits.handlers,
        "events": permits.events,
        "http_hosts": permits.http_hosts,
        "max_timeout": permits.max_timeout.map(duration),
    });
    if let (false, Some(table)) = (tier.is_central(), tree.as_object_mut()) {
        let name = match settings.server_commands {
            ServerCommands::Loopback => "loopback",
            ServerCommands::Allow => "allow",
            ServerCommands::Deny => "deny",
        };
        table.insert("server_commands".to_owned(), name.into());
    }
    tree
}

fn number_or_off(number: Option<u32>) -> Value {
    number.map_or("off".into(), Value::from)
}

fn commands_tree(settings: &CommandSettings) -> Value {
    let size = |bytes: Option<u64>| shown(bytes.map(|bytes| size(usize::try_from(bytes).unwrap_or(usize::MAX))));
    json!({
        "path": settings.path,
        "user": shown(settings.user.as_ref()),
        "group": shown(settings.group.as_ref()),
        "no_new_privileges": settings.no_new_privileges,
        "limits": {
            "address_space": size(settings.limits.address_space),
            "cpu_time": shown(settings.limits.cpu_time.map(duration)),
            "open_files": shown(settings.limits.open_files),
            "processes": shown(settings.limits.processes),
            "file_size": size(settings.limits.file_size),
        },
        "working_directory": settings.working_directory.name(),
        "landlock": settings.landlock.name(),
        "landlock_for": settings.landlock_for.name(),
    })
}

pub(super) fn duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

pub(super) fn size(bytes: usize) -> String {
    let units = [("GiB", 30_u32), ("MiB", 20), ("KiB", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes.trailing_zeros() >= *shift && bytes >> shift > 0);
    whole.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn write_table(out: &mut String, tree: &Value, depth: usize) {
    let Value::Object(table) = tree else { return };
    for (key, value) in table {
        out.push_str(&"  ".repeat(depth));
        out.push_str(key);
        out.push(':');
        match value {
            // Keys of the user's own stand on one line.
            Value::Object(_) if key != "labels" => {
                out.push('\n');
                write_table(out, value, depth.saturating_add(1));
            }
            // JSON is YAML as well.
            _ => {
                out.push(' ');
                out.push_str(&value.to_string());
                out.push('\n');
            }
        }
    }
}
