use serde_json::json;

use super::*;
use crate::{Handler, OnError, PerTier, SourceSettings};

const PATH: &str = "/repo/.hooks/rules.json";

fn file(tier: Tier) -> OfferedFile<'static> {
    OfferedFile { tier, path: Path::new(PATH), format: "" }
}

fn compiled(rules: serde_json::Value) -> Result<Offered, String> {
    compiled_with(rules, &LoadSettings::default())
}

fn compiled_with(rules: serde_json::Value, settings: &LoadSettings) -> Result<Offered, String> {
    Offered::compile(json!({ "hooks": rules }).to_string().as_bytes(), file(Tier::Shared), settings)
}

fn rule(id: &str) -> serde_json::Value {
    json!({ "id": id, "event": "PreToolUse", "handler": { "type": "command", "command": "true" } })
}

fn problems(offered: &Offered) -> Vec<String> {
    offered.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_rule_is_the_callers_to_run_and_is_found_again_by_its_place() {
    let mut off = rule("off");
    off["disabled"] = json!(true);
    let decide = json!({ "id": "no", "event": "Stop", "handler": { "type": "decide", "verdict": "block" } });
    let http = json!({ "id": "ask", "event": "SessionEnd", "onError": "block",
                       "handler": { "type": "http", "url": "http://localhost/x" } });
    let offered = compiled(json!([rule("a"), off, decide, http])).unwrap();
    let seen = offered.rules.iter().map(|OfferedRule { rule, index }| {
        (&*rule.id, *index, rule.tier, rule.run_on, rule.handler.kind(), rule.on_error)
    });
    let shared = Tier::Shared;
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("a", 0, shared, RunOn::Agent, "command", None),
            ("no", 2, shared, RunOn::Agent, "decide", None),
            ("ask", 3, shared, RunOn::Agent, "http", Some(OnError::Block)),
        ]
    );
    assert_eq!(problems(&offered), [] as [&str; 0]);
}

#[test]
fn nothing_of_the_server_is_theirs_to_name() {
    let mut settings =
        LoadSettings { environment: [("TOKEN", "geheim")].into_iter().collect(), ..LoadSettings::default() };
    let shared = settings.tiers.get_mut(Tier::Shared);
    shared.allow_env = vec!["TOKEN".to_owned()];
    shared.allow_files = vec!["/etc".into()];
    shared.server_commands = false;
    let header = |value: &str| json!({ "type": "http", "url": "http://localhost/", "headers": { "a": value } });
    let rules = json!([
        { "id": "env", "event": "Stop", "handler": header("${env:TOKEN}") },
        { "id": "file", "event": "Stop", "handler": header("${file:/etc/passwd}") },
        rule("command"),
    ]);
    let offered = compiled_with(rules, &settings).unwrap();
    assert_eq!(offered.rules.iter().map(|offered| &*offered.rule.id).collect::<Vec<_>>(), ["command"]);
    assert_eq!(
        offered.problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>(),
        [
            "`${env:TOKEN}` is not in `tiers.shared.allow_env` of the settings; rule `env` is left out",
            "`${file:/etc/passwd}` is not in `tiers.shared.allow_files` of the settings; rule `file` is left out",
        ]
    );
}

#[test]
fn a_hostile_file_gets_nothing_but_a_named_refusal() {
    let many = |count: usize| (0..count).map(|n| rule(&format!("r{n}"))).collect::<serde_json::Value>();
    let when = |text: &str| json!([{ "event": "PreToolUse", "when": text, "handler": { "type": "decide", "verdict": "allow" } }]);
    let matchers = (0..65).map(|n| json!({ "event": "Stop", "matcher": format!("a{n}.b"), "handler": {} }));
    let values = (0..17).map(|n| json!({ "expr": format!("params.content + '{n}'") })).collect::<serde_json::Value>();
    let computes =
        json!({ "event": "PreToolUse", "handler": { "type": "decide", "modifiedParams": { "all": values } } });
    for (rules, refused) in [
        (many(10_000), "has 818901 bytes, at most 262144 are taken".to_owned()),
        (many(257), "holds more than 256 rules".to_owned()),
        (matchers.collect(), "holds more than 64 regular expressions".to_owned()),
        (
            json!([{ "event": "Stop", "matcher": "(a|".repeat(400), "handler": {} }]),
            "a matcher has 1200 bytes, at most 1024 are taken".to_owned(),
        ),
        (
            when(&"[1].all(x, [1].exists(y, true)) && ".repeat(9)),
            "holds more than 16 macros in its conditions".to_owned(),
        ),
        (json!([computes]), "holds more than 16 values that are computed".to_owned()),
        (when(&"tool.matches('(a{90}){90}') || ".repeat(65)), "holds more than 64 regular expressions".to_owned()),
    ] {
        assert_eq!(compiled(rules).map(|offered| offered.rules.len()), Err(refused));
    }
    let bomb = json!([
        { "id": "bomb", "event": "PreToolUse", "matcher": "((a{1000}){1000}){1000}", "handler": { "type": "decide" } },
        rule("fine"),
    ]);
    let offered = compiled(bomb).unwrap();
    assert_eq!(offered.rules.len(), 1);
    assert!(problems(&offered)[0].contains("rule `bomb` is left out"), "{:?}", problems(&offered));
}

#[test]
fn broken_files_and_tiers_above_are_refused_as_a_whole() {
    let settings = LoadSettings::default();
    let compile =
        |content: &[u8], tier| Offered::compile(content, file(tier), &settings).map(|offered| offered.rules.len());
    assert_eq!(compile(b"{\"hooks\":[]}", Tier::Local), Ok(0));
    for tier in [Tier::Managed, Tier::Team] {
        assert_eq!(compile(b"{\"hooks\":[]}", tier), Err(format!("no caller can bring {tier} rules")));
    }
    assert_eq!(compile(b"\xff", Tier::Plugin), Err("is not UTF-8 from byte 0 on".to_owned()));
    assert_eq!(compile(b"", Tier::Plugin), Err("the file is empty, one without rules is `{}`".to_owned()));
    assert!(compile(b"{\"hooks\":[}", Tier::Plugin).is_err_and(|why| why.starts_with("cannot be read: line 1")));
}

#[test]
fn a_format_that_is_said_has_to_be_the_one_that_is_there() {
    let claude = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"a"},{"type":"prompt","prompt":"b"},
                     {"type":"command","command":"c"}]}]}}"#;
    let compile = |content: &str, format| {
        let file = OfferedFile { format, ..file(Tier::Shared) };
        Offered::compile(content.as_bytes(), file, &LoadSettings::default())
            .map(|offered| offered.rules.iter().map(|rule| rule.index).collect::<Vec<_>>())
    };
    for format in ["", "claude-code"] {
        assert_eq!(compile(claude, format), Ok(vec![0, 2]));
        assert_eq!(compile("{}", format), Ok(vec![]));
    }
    for format in ["", "hookd"] {
        assert_eq!(compile(r#"{"hooks":[]}"#, format), Ok(vec![]));
    }
    for (content, format, why) in [
        (claude, "hookd", "is not in the form `hookd`, as its format says"),
        (r#"{"hooks":[]}"#, "claude-code", "is not in the form `claude-code`, as its format says"),
        (claude, "toml", "its format is `toml`, not `hookd` or `claude-code`"),
    ] {
        assert_eq!(compile(content, format), Err(why.to_owned()));
    }
}

#[test]
fn problems_are_cut_and_sources_of_the_settings_do_not_matter() {
    let settings = LoadSettings {
        tiers: PerTier::from_fn(|tier| TierSettings {
            sources: vec![SourceSettings { path: "/nowhere".into(), optional: false, selector: None }],
            ..TierSettings::new(tier)
        }),
        ..LoadSettings::default()
    };
    let broken = (0..100).map(|n| json!({ "id": format!("b{n}"), "event": "Stop", "handler": { "type": "x" } }));
    let offered = compiled_with(broken.collect(), &settings).unwrap();
    assert_eq!((offered.rules.len(), offered.problems.len()), (0, MAX_PROBLEMS));
}

#[test]
fn what_a_file_becomes_is_bounded_too() {
    let rules = |command: &str| {
        let rule = |n: usize| format!("- {{event: Stop, id: r{n}, handler: {{type: command, command: {command}}}}}\n");
        let rules = (1..200).map(rule).collect::<String>();
        format!("hooks:\n- {{event: Stop, handler: {{type: command, command: &c {}}}}}\n{rules}", "x".repeat(20_000))
    };
    let weight = |text: &str| {
        let path = Path::new("/r.yaml");
        let file = OfferedFile { tier: Tier::Shared, path, format: "hookd" };
        Offered::compile(text.as_bytes(), file, &LoadSettings::default()).map(|offered| offered.weight())
    };
    let (alone, repeated) = (weight(&rules("y")).unwrap(), weight(&rules("*c")).unwrap());
    assert!(alone < 1 << 20 && repeated > 200 * 20_000, "{alone} {repeated}");
    let patterns = (0..20).map(|n| json!({ "event": "Stop", "matcher": format!("\\w{{5}}{n}."), "handler": {} }));
    let too_much = compiled(patterns.collect()).map(|offered| offered.rules.len());
    assert_eq!(too_much, Err("takes more than about 16777216 bytes when it is compiled".to_owned()));
}

#[test]
fn files_together_stay_within_the_bounds_of_one() {
    let many = |count: usize| compiled((0..count).map(|n| rule(&format!("r{n}"))).collect()).unwrap();
    let mut total = OfferedTotal::default();
    assert_eq!(total.add(&many(200)), Ok(()));
    assert_eq!(total.add(&many(57)), Err("together with those before it, it holds more than 256 rules".to_owned()));
    assert_eq!(total.add(&many(56)), Ok(()), "what was refused does not count");
    let macros = "[1].exists(x, true) && ".repeat(8) + "true";
    let one = json!([{ "event": "Stop", "when": macros, "handler": { "type": "decide", "verdict": "ask" } }]);
    let mut total = OfferedTotal::default();
    let added = (0..3).map(|_| total.add(&compiled(one.clone()).unwrap()).is_ok()).collect::<Vec<_>>();
    assert_eq!(added, [true, true, false]);
}

#[test]
fn the_revision_is_of_the_meaning() {
    let one = compiled(json!([rule("a"), rule("b")])).unwrap();
    let content = "hooks: # as YAML\n- {event: PreToolUse, id: a, handler: {type: command, command: 'true'}}\n- {id: b, event: PreToolUse, handler: {command: 'true', type: command}}\n";
    let path = Path::new("/elsewhere/rules.yaml");
    let same = OfferedFile { tier: Tier::Shared, path, format: "" };
    let same = Offered::compile(content.as_bytes(), same, &LoadSettings::default()).unwrap();
    let other = compiled(json!([rule("b"), rule("a")])).unwrap();
    assert_eq!(Offered::revision([&one]), Offered::revision([&same]));
    assert_ne!(Offered::revision([&one]), Offered::revision([&other]));
    assert_eq!(Offered::revision([&one]).len(), 32);
    assert_eq!(Offered::revision([]), "");
    assert!(matches!(one.rules[0].rule.handler, Handler::Command(_)));
}

/// The files lie beside the checkout; where they do not, there is nothing to read and the test passes.
#[test]
fn real_files_stay_within_the_bounds_and_give_the_rules_that_they_give_as_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let Ok(files) = std::fs::read_dir(&folder) else {
        return eprintln!("not there, so nothing is read: {}", folder.display());
    };
    for path in files.map(|file| file.unwrap().path()) {
        let content = std::fs::read(&path).unwrap();
        let file = OfferedFile { tier: Tier::Shared, path: &path, format: "claude-code" };
        let offered = Offered::compile(&content, file, &LoadSettings::default()).unwrap();
        let load = crate::check_paths(std::slice::from_ref(&path), Tier::Shared, &LoadSettings::default());
        let rules = load.catalog.unwrap().rules;
        let line = |rule: &Rule| (Arc::clone(&rule.id), rule.line, rule.matcher.as_str().to_owned());
        assert_eq!(
            offered.rules.iter().map(|offered| line(&offered.rule)).collect::<Vec<_>>(),
            rules.iter().map(|rule| line(rule)).collect::<Vec<_>>(),
            "{}",
            path.display()
        );
        let places = offered.rules.iter().map(|rule| rule.index).collect::<Vec<_>>();
        assert!(places.is_sorted_by(|one, other| one < other), "{}: {places:?}", path.display());
        assert!(offered.weight() < 4 << 20, "{}: {}", path.display(), offered.weight());
    }
}
