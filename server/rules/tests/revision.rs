//! The revision is the hash of what the rules mean (law 9).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;

use hookd_json::{Map, Value};
use hookd_rules::{AskFallback, LoadSettings, Memory, Mode, OnError, SourceSettings, Tier, load};
use proptest::prelude::*;

const RULES: &str = r#"{
  "hooks": [
    {"id": "a", "event": ["PreToolUse", "PermissionRequest"], "matcher": "edit|write", "onError": "block",
     "handler": {"type": "command", "command": "./a.sh", "timeout": 500, "env": {"A": "1", "B": "2"}, "cwd": "x"}},
    {"event": "PreToolUse", "handler": {"type": "decide", "verdict": "ask", "modifiedParams": {"n": 1.0, "m": [1e3]}}},
    {"event": "Stop", "async": true, "onVerdict": ["block", "ask"], "handler": {"type": "http", "url": "http://a/", "headers": {"A": "b", "C": "d"}}}
  ],
  "defaults": [{"event": "PreToolUse", "matcher": "^mcp__", "verdict": "ask", "reason": "r"}]
}"#;

type Change = fn(&mut LoadSettings);

fn revision_of(name: &str, text: &str, change: impl FnOnce(&mut LoadSettings)) -> String {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let mut settings = LoadSettings::default();
    settings.tiers.managed.sources = vec![SourceSettings { path, optional: false, selector: None }];
    change(&mut settings);
    let load = load(&settings, &mut Memory::default());
    let catalog = load.catalog.unwrap_or_else(|| panic!("{text}\n{:?}", load.problems));
    catalog.revision.to_string()
}

fn revision(text: &str) -> String {
    revision_of("a.json", text, |_| {})
}

#[test]
fn law_09_how_and_where_a_file_is_written_does_not_count() {
    let revision = revision(RULES);
    assert!(
        revision.len() == 32 && revision.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)),
        "{revision}"
    );
    for (part, other) in [
        ("\"hooks\"", "\"description\": \"x\", \"metadata\": {\"a\": 1}, \"$schema\": \"s\", \"hooks\""),
        (
            "\"id\": \"a\",",
            "\"description\": \"x\", \"id\": \"a\", \"final\": false, \"mode\": \"enforce\", \"runOn\": \"server\",",
        ),
        ("[\"PreToolUse\", \"PermissionRequest\"]", "[\"PermissionRequest\", \"PreToolUse\"]"),
        ("\"A\": \"1\", \"B\": \"2\"", "\"B\": \"2\", \"A\": \"1\""),
        ("\"n\": 1.0, \"m\": [1e3]", "\"m\": [1e3], \"n\": 1.0"),
        ("\"A\": \"b\", \"C\": \"d\"", "\"c\": \"d\", \"a\": \"b\""),
        ("{\"event\": \"Stop\"", "{\"disabled\": true}, {\"matcher\": \"*\", \"event\": [\"Stop\"]"),
        ("\"hooks\"", "\n\n\"hooks\""),
    ] {
        let text = RULES.replace(part, other);
        assert_ne!(text, RULES, "{part}");
        assert_eq!(self::revision(&text), revision, "{other}");
    }
    assert_eq!(revision_of("elsewhere/deep/b.yaml", RULES, |_| {}), revision);
}

#[test]
fn law_09_whatever_changes_a_verdict_counts() {
    let revision = revision(RULES);
    let mut seen = vec![revision];
    let mut differs = |other: String, what: &str| {
        assert!(!seen.contains(&other), "{what}");
        seen.push(other);
    };
    for (part, other) in [
        ("\"id\": \"a\"", "\"id\": \"b\""),
        ("\"id\": \"a\",", ""),
        ("edit|write", "edit"),
        ("\"onError\": \"block\"", "\"onError\": \"allow\""),
        // What those after this have alike.
        ("\"onError\": \"block\",", ""),
        ("\"onError\": \"block\"", "\"concurrent\": true"),
        ("\"onError\": \"block\"", "\"final\": true"),
        ("\"onError\": \"block\"", "\"mustDecide\": true"),
        ("\"onError\": \"block\"", "\"mode\": \"shadow\""),
        ("\"timeout\": 500", "\"timeout\": 501"),
        ("\"command\": \"./a.sh\"", "\"argv\": [\"./a.sh\"]"),
        ("\"cwd\": \"x\"", "\"cwd\": \"y\""),
        ("\"A\": \"1\"", "\"A\": \"2\""),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"worker\": {}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"worker\": {\"pool\": 2}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"worker\": {\"maxCalls\": 2}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"allow\": {}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"allow\": {\"read\": [\"y\"]}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"allow\": {\"write\": [\"y\"]}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"allow\": {\"connect\": [1]}"),
        ("\"cwd\": \"x\"", "\"cwd\": \"x\", \"allow\": {\"bind\": [1]}"),
        ("\"onError\": \"block\"", "\"protocol\": \"claude-code\""),
        ("\"onError\": \"block\"", "\"runOn\": \"agent\""),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("\"verdict\": \"ask\", \"mod", "\"verdict\": \"defer\", \"mod"),
        ("\"async\": true, \"onVerdict\": [\"block\", \"ask\"]", "\"async\": true"),
        ("http://a/", "http://b/"),
        ("\"reason\": \"r\"", "\"reason\": \"s\""),
        ("\"hooks\"", "\"mode\": \"shadow\", \"hooks\""),
    ] {
        let text = RULES.replace(part, other);
        assert_ne!(text, RULES, "{part}");
        differs(self::revision(&text), other);
    }
    let hides = |result: &str| {
        let handler = format!(r#"{{"type":"decide","modifiedResult":{result}}}"#);
        self::revision(&format!(r#"{{"hooks":[{{"event":"PostToolUse","handler":{handler}}}]}}"#))
    };
    differs(hides("1"), "result");
    differs(hides("null"), "result");
    let one = r#"{"event":"Stop","handler":{"type":"decide","verdict":"block","reason":"1"}}"#;
    let two = one.replace("\"1\"", "\"2\"");
    differs(self::revision(&format!(r#"{{"hooks":[{one},{two}]}}"#)), "order");
    differs(self::revision(&format!(r#"{{"hooks":[{two},{one}]}}"#)), "order");
    let settings: [(&str, Change); 5] = [
        ("mode", |s| s.tiers.managed.mode = Mode::Shadow),
        ("may_allow", |s| s.tiers.plugin.policy.may_allow = true),
        ("on_error", |s| s.tiers.managed.policy.on_error = OnError::Allow),
        ("fallbacks", |s| s.fallbacks.ask = AskFallback::Allow),
        ("tier", |s| {
            let sources = std::mem::take(&mut s.tiers.managed.sources);
            s.tiers.get_mut(Tier::Team).sources = sources;
        }),
    ];
    for (what, change) in settings {
        differs(revision_of("a.json", RULES, change), what);
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é\n\t]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[ -~é]{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(map) => Value::Object(map.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect()),
        other => other.clone(),
    }
}

/// Block-style YAML of `value`.
fn yaml(value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(|item| format!("\n{pad}-{}", yaml(item, indent.saturating_add(2)))).collect()
        }
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .map(|(key, value)| {
                format!("\n{pad}{}: # a comment{}", Value::from(key.as_str()), yaml(value, indent.saturating_add(2)))
            })
            .collect(),
        Value::Array(_) | Value::Object(_) => format!("\n{pad}{value}"),
        leaf => format!("\n{pad}{leaf}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn law_09_formatting_and_format_do_not_count(params in json()) {
        let mut file = hookd_json::parse(RULES).unwrap();
        let rule = file.pointer_mut("/hooks/1/handler/modifiedParams").unwrap();
        *rule = Value::Object(Map::from_iter([("p".to_owned(), params)]));
        let plain = revision(&file.to_string());
        prop_assert_eq!(&revision(&format!("{:#}", reversed(&file))), &plain);
        prop_assert_eq!(&revision_of("a.yaml", &format!("---{}\n", yaml(&file, 0)), |_| {}), &plain);
    }
}
