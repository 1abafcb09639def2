//! Equal handlers of one source run once; those of different sources stay apart.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, fs};

use hookd_rules::{LoadSettings, Memory, SourceSettings, Tier, load};

/// Groups of rules with twins, each by its ids and in order, of a load of these files; what stands before the first `/`
/// is the source, as the tier shared's.
fn twins(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = LoadSettings::default();
    for (name, text) in files {
        let source = folder.path().join(name.split('/').next().unwrap());
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        let source = SourceSettings { path: source, optional: false, selector: None };
        if !settings.tiers.shared.sources.contains(&source) {
            settings.tiers.get_mut(Tier::Shared).sources.push(source);
        }
    }
    let load = load(&settings, &mut Memory::default());
    assert!(!load.has_errors(), "{:?}", load.problems);
    let mut groups = BTreeMap::<u64, Vec<String>>::new();
    for rule in load.catalog.unwrap().rules {
        if let Some(number) = rule.twins {
            groups.entry(number).or_default().push(rule.id.to_string());
        }
    }
    let mut groups = groups.into_values().collect::<Vec<_>>();
    groups.sort_unstable();
    groups
}

/// A hook file of Claude Code: event, matcher and the rest of a handler, each.
fn settings(hooks: &[(&str, &str, &str)]) -> String {
    let mut events = BTreeMap::<&str, Vec<String>>::new();
    for (event, matcher, handler) in hooks {
        events.entry(event).or_default().push(format!(r#"{{"matcher":"{matcher}","hooks":[{{{handler}}}]}}"#));
    }
    let events = events.iter().map(|(event, groups)| format!(r#""{event}":[{}]"#, groups.join(",")));
    format!(r#"{{"hooks":{{{}}}}}"#, events.collect::<Vec<_>>().join(","))
}

const LINT: &str = r#""type":"command","command":"./lint.sh""#;

#[test]
fn equal_handlers_of_one_source_are_twins() {
    let more = |more: &str| format!("{LINT},{more}");
    for (hooks, expected) in [
        (vec![("Stop", "", LINT.to_owned()), ("Stop", "", LINT.to_owned())], &[&["Stop.0.0", "Stop.1.0"][..]][..]),
        // Whatever their matcher, `if` and time limit.
        (
            vec![("PreToolUse", "Edit|Write", LINT.to_owned()), ("PreToolUse", "Write", more(r#""timeout":5"#))],
            &[&["PreToolUse.0.0", "PreToolUse.1.0"]],
        ),
        (
            vec![
                ("PreToolUse", "Bash", more(r#""if":"Bash(rm *)""#)),
                ("PreToolUse", "Bash", more(r#""if":"Bash(mv *)""#)),
            ],
            &[&["PreToolUse.0.0", "PreToolUse.1.0"]],
        ),
        (vec![("Stop", "", LINT.to_owned()), ("SessionEnd", "", LINT.to_owned())], &[]),
        (vec![("Stop", "", LINT.to_owned()), ("Stop", "", more(r#""async":true"#))], &[]),
        (vec![("Stop", "", LINT.to_owned()), ("Stop", "", more(r#""onFailure":"block""#))], &[]),
        (vec![("Stop", "", LINT.to_owned()), ("Stop", "", more(r#""args":["x"]"#))], &[]),
    ] {
        let hooks = hooks.iter().map(|(event, matcher, handler)| (*event, *matcher, handler.as_str()));
        let text = settings(&hooks.collect::<Vec<_>>());
        let expected =
            expected.iter().map(|ids| ids.iter().map(|id| format!("settings.json#{id}")).collect::<Vec<_>>());
        assert_eq!(twins(&[("settings.json", &text)]), expected.collect::<Vec<_>>(), "{text}");
    }
    let url = r#""type":"http","url":"http://127.0.0.1/x""#;
    let other = r#""type":"http","url":"http://127.0.0.1/y""#;
    let text = settings(&[("Stop", "", url), ("Stop", "", other), ("Stop", "", url)]);
    assert_eq!(twins(&[("a.json", &text)]), [["a.json#Stop.0.0", "a.json#Stop.2.0"]]);
}

/// The files of one directory are one source.
#[test]
fn case_76297_a_handler_in_two_files_of_one_source_is_its_own_twin() {
    let text = settings(&[("Stop", "", LINT)]);
    assert_eq!(
        twins(&[("set/settings.json", &text), ("set/settings.local.json", &text)]),
        [["settings.json#Stop.0.0", "settings.local.json#Stop.0.0"]]
    );
    assert_eq!(twins(&[("one.json", &text), ("two.json", &text)]), Vec::<Vec<String>>::new());
}

/// Two plugins with the same text are two sources, and their texts differ once the plugin's directory is put in.
#[test]
fn case_055_the_same_text_in_two_plugins_runs_for_both() {
    let text = settings(&[("Stop", "", r#""type":"command","command":"${CLAUDE_PLUGIN_ROOT}/run.sh""#)]);
    let files = [("one/hooks.json", text.as_str()), ("two/hooks.json", text.as_str())];
    assert_eq!(twins(&files), Vec::<Vec<String>>::new());
}

#[test]
fn native_rules_are_what_they_say() {
    let rule = |id: &str, protocol: &str| {
        format!(
            r#"{{"id":"{id}","event":"Stop","protocol":"{protocol}","handler":{{"type":"command","command":"x"}}}}"#
        )
    };
    let rules = [rule("a", "claude-code"), rule("b", "native"), rule("c", "native"), rule("d", "claude-code")];
    let text = format!(r#"{{"hooks":[{}]}}"#, rules.join(","));
    assert_eq!(twins(&[("a.json", &text)]), [["a", "d"]]);
}
