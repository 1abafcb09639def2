//! `check`: rule files without a server.

use std::fs;

use crate::hookctl;

const GOOD: &str = r#"{ "hooks": [
  { "id": "a", "event": "PreToolUse", "matcher": "bash", "handler": { "type": "command", "command": "true" } },
  { "id": "b", "event": "PostToolUse", "handler": { "type": "decide", "verdict": "allow" } }
] }
"#;
const BAD: &str = r#"{ "hooks": [
  { "id": "a", "event": "PreToolUse", "matchr": "bash", "handler": { "type": "command", "command": "true" } }
] }
"#;

#[test]
fn files_that_are_in_order_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    fs::write(path.join("good.json"), GOOD).unwrap();
    let ran = hookctl(&path, &[], &["check", "good.json"], "");
    let expected = format!(
        "  TIER     RULES  REFUSED  DEFAULTS  ERRORS  WARNINGS  FILE\n  managed  2      0        0         0       0         {}\n\nIN ORDER  1 file, 2 rules, 0 errors, 0 warnings\n",
        path.join("good.json").display()
    );
    assert_eq!((ran.exit, ran.out, ran.err.as_str()), (0, expected, ""));
}

#[test]
fn an_error_is_named_with_its_place_and_exits_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    fs::write(path.join("a.json"), BAD).unwrap();
    fs::write(path.join("b.json"), GOOD).unwrap();
    for tier in ["managed", "shared"] {
        let ran = hookctl(&path, &[], &["check", ".", "--tier", tier], "");
        assert_eq!((ran.exit, ran.err.as_str()), (1, ""), "{}", ran.out);
        let place = format!("error: {}:2:", path.join("a.json").display());
        assert!(ran.out.starts_with(&place), "{}", ran.out);
        assert!(ran.out.contains("did you mean `matcher`"), "{}", ran.out);
        assert!(ran.out.contains("NOT IN ORDER  2 files"), "{}", ran.out);
    }
    let ran = hookctl(&path, &[], &["check", ".", "--output", "json"], "");
    assert_eq!(ran.exit, 1);
    let value = hookd_json::parse(ran.out.trim_end()).unwrap();
    assert_eq!(value.pointer("/ok"), Some(&false.into()));
    assert_eq!(value.pointer("/problems/0/line").unwrap().to_string(), "2");
    assert_eq!(value.pointer("/files/1/path"), Some(&path.join("b.json").display().to_string().into()));
}

#[test]
fn handlers_of_an_agents_file_that_are_refused_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let settings = r#"{ "permissions": {}, "hooks": { "PreToolUse": [ { "matcher": "Bash", "hooks": [
  { "type": "command", "command": "true", "timeout": 5000 }, { "type": "prompt", "prompt": "x" }, { "type": "agent" }
] } ] } }"#;
    fs::write(path.join("settings.json"), settings).unwrap();
    let check = ["check", "settings.json", "--tier", "shared"];
    let ran = hookctl(&path, &[], &[&check[..], &["--output", "json"]].concat(), "");
    let value = hookd_json::parse(ran.out.trim_end()).unwrap();
    let file = serde_json::json!({
        "tier": "shared", "path": path.join("settings.json").display().to_string(),
        "rules": 1, "refused": 2, "defaults": 0, "errors": 2, "warnings": 1,
    });
    assert_eq!((ran.exit, value.pointer("/files/0")), (1, Some(&file)));
    let rules = value["problems"].as_array().unwrap().iter().map(|problem| problem["rule"].clone()).collect::<Vec<_>>();
    let refused = ["settings.json#PreToolUse.0.1", "settings.json#PreToolUse.0.2"].map(Into::into);
    assert_eq!(rules, [&[hookd_json::Value::Null][..], &refused].concat());
    let ran = hookctl(&path, &[], &check, "");
    assert!(ran.out.ends_with("NOT IN ORDER  1 file, 1 rule, 2 refused, 2 errors, 1 warning\n"), "{}", ran.out);
}

#[test]
fn a_path_that_is_not_there_exits_1() {
    let directory = tempfile::tempdir().unwrap();
    let ran = hookctl(directory.path(), &[], &["check", "nowhere.json"], "");
    assert_eq!(ran.exit, 1, "{}", ran.out);
    assert!(ran.out.contains("nowhere.json"), "{}", ran.out);
}

#[test]
fn without_a_path_the_places_without_a_configuration_are_checked_in_their_tiers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    fs::create_dir(path.join(".ling")).unwrap();
    fs::write(path.join(".ling/hooks.json"), GOOD).unwrap();
    let ran = hookctl(&path, &[], &["check"], "");
    let shared =
        format!("shared  2      0        0         0       0         {}", path.join(".ling/hooks.json").display());
    assert!(ran.out.contains(&shared), "{}", ran.out);
}
