//! The JSON Schema in the repository is the one that the loader's table gives.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use hookd_json::Value;

/// `HOOKD_WRITE_SCHEMA=1 cargo test -p hookd-rules --test schema` writes it anew.
#[test]
fn the_schema_in_the_repository_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/rules.schema.json");
    let current = format!("{:#}\n", hookd_rules::schema());
    if std::env::var_os("HOOKD_WRITE_SCHEMA").is_some() {
        fs::write(&path, &current).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), current, "set HOOKD_WRITE_SCHEMA=1 to write it anew");
}

#[test]
fn files_that_load_fit_the_schema_and_others_do_not() {
    let schema = hookd_rules::schema();
    let good = r#"{"$schema": "x", "mode": "shadow", "hooks": [
        {"id": "a", "event": ["PreToolUse", "Stop"], "matcher": "x", "async": true, "onVerdict": ["block"],
         "handler": {"type": "command", "argv": ["a", "b"], "timeout": 5, "env": {"A": "b"}, "cwd": ".", "worker": {"pool": 2},
          "allow": {"read": "a", "write": ["b", "/c"], "connect": [443], "bind": [0]}}},
        {"event": "PreToolUse", "handler": {"type": "http", "url": "http://a/", "headers": {"a": "b"}}},
        {"event": "PreToolUse", "handler": {"type": "decide", "modifiedParams": {"a": [1]}, "halt": true}}],
        "defaults": [{"event": "PreToolUse", "verdict": "ask"}]}"#;
    assert!(
        hookd_rules::parse_rules(good, hookd_rules::Format::Json)
            .iter()
            .all(|problem| { problem.severity == hookd_rules::Severity::Warning })
    );
    assert!(fits(&schema, &hookd_json::parse(good).unwrap(), &schema));
    for (part, broken) in [
        ("\"timeout\": 5", "\"timeout\": \"5\""),
        ("\"timeout\": 5", "\"timeout\": 0"),
        ("\"pool\": 2", "\"pool\": 0"),
        ("\"pool\": 2", "\"pol\": 2"),
        ("[443]", "[]"),
        ("[443]", "[0]"),
        ("[443]", "443"),
        ("\"bind\"", "\"listen\""),
        ("\"matcher\"", "\"macher\""),
        ("\"verdict\": \"ask\"", "\"verdict\": \"none\""),
        ("[\"PreToolUse\", \"Stop\"]", "[]"),
        ("\"argv\": [\"a\", \"b\"]", "\"argv\": \"a\""),
        ("\"url\": \"http://a/\", ", ""),
        ("\"type\": \"decide\"", "\"type\": \"prompt\""),
        ("{\"a\": [1]}", "[1]"),
        ("true}}]", "\"x\"}}]"),
    ] {
        let text = good.replace(part, broken);
        assert_ne!(text, good);
        assert!(
            hookd_rules::parse_rules(&text, hookd_rules::Format::Json)
                .iter()
                .any(|problem| { problem.severity == hookd_rules::Severity::Error })
        );
        assert!(!fits(&schema, &hookd_json::parse(&text).unwrap(), &schema), "{text}");
    }
}

/// As much of JSON Schema as ours uses; a keyword that it does not know fails.
fn fits(schema: &Value, value: &Value, top: &Value) -> bool {
    let Value::Object(keywords) = schema else { panic!("{schema}") };
    keywords.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" => true,
        "$ref" => fits(top.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap(), value, top),
        "type" => match rule.as_str().unwrap() {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.as_number().is_some_and(|n| n.as_u64().is_some()),
            "object" => value.is_object(),
            "array" => value.is_array(),
            other => panic!("{other}"),
        },
        "enum" => rule.as_array().unwrap().contains(value),
        "oneOf" => rule.as_array().unwrap().iter().filter(|one| fits(one, value, top)).count() == 1,
        "required" => rule.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "properties" => value
            .as_object()
            .is_none_or(|map| map.iter().all(|(key, value)| rule.get(key).is_none_or(|rule| fits(rule, value, top)))),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = schema.get("properties");
            let mut others = map.iter().filter(|(key, _)| known.is_none_or(|known| known.get(key).is_none()));
            others.all(|(_, value)| if rule == &Value::Bool(false) { false } else { fits(rule, value, top) })
        }),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(rule, item, top))),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "uniqueItems" => value.as_array().is_none_or(|items| {
            items.iter().enumerate().all(|(at, item)| !items.iter().take(at).any(|other| other == item))
        }),
        "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
        "minimum" => value.as_u64().is_none_or(|n| n >= rule.as_u64().unwrap()),
        "maximum" => value.as_u64().is_none_or(|n| n <= rule.as_u64().unwrap()),
        other => panic!("{other}"),
    })
}
