//! Sources on a real disk: order, law 10, and what is said.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use hookd_rules::{
    Answer, Catalog, Decide, Environment, Event, Handler, Load, LoadSettings, LoadedFile, Memory, Mode, OnError,
    Program, Rule, Severity, Shell, SourceSettings, SourceState, Tier, Timing, ValuePart, Verdict, check_paths, load,
};
use secrecy::ExposeSecret as _;
use tempfile::TempDir;

struct Place {
    root: TempDir,
    settings: LoadSettings,
    memory: Memory,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), settings: LoadSettings::default(), memory: Memory::default() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }

    fn source(&mut self, tier: Tier, name: &str, optional: bool) {
        let path = self.at(name);
        self.settings.tiers.get_mut(tier).sources.push(SourceSettings { path, optional, selector: None });
    }

    fn load(&mut self) -> Load {
        load(&self.settings, &mut self.memory)
    }

    /// The problems, with the place's own path left out.
    fn problems(&self, load: &Load) -> Vec<String> {
        let root = format!("{}/", self.root.path().display());
        load.problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    }

    #[track_caller]
    fn check(&mut self, ids: &[&str], state: SourceState, problems: &[&str]) {
        let load = self.load();
        assert_eq!(self.problems(&load), problems);
        assert_eq!(load.sources.iter().map(|source| source.state).collect::<Vec<_>>(), [state]);
        assert_eq!(load.catalog.as_ref().map(self::ids), Some(ids.iter().map(ToString::to_string).collect()));
    }

    #[track_caller]
    fn check_refused(&mut self, problems: &[&str]) {
        let load = self.load();
        assert!(load.catalog.is_none() && load.has_errors());
        assert_eq!(self.problems(&load), problems);
    }
}

fn ids(catalog: &Catalog) -> Vec<String> {
    catalog.rules.iter().map(|rule| rule.id.to_string()).collect()
}

fn rule(id: &str) -> String {
    format!(r#"{{"id":"{id}","event":"Stop","handler":{{"type":"decide","verdict":"block"}}}}"#)
}

fn hooks(ids: &[&str]) -> String {
    format!(r#"{{"hooks":[{}]}}"#, ids.iter().map(|id| rule(id)).collect::<Vec<_>>().join(","))
}

/// The one rule of a managed file with this text.
fn compiled(text: &str, name: &str) -> Arc<Rule> {
    let mut place = Place::new();
    place.write(name, text);
    place.source(Tier::Managed, name, false);
    let load = place.load();
    assert_eq!(place.problems(&load), [] as [&str; 0]);
    Arc::clone(&load.catalog.unwrap().rules[0])
}

fn matches(matcher: &str, tool: &str) -> bool {
    let text = format!(
        r#"{{"hooks":[{{"event":"PreToolUse","matcher":"{matcher}","handler":{{"type":"decide","verdict":"ask"}}}}]}}"#
    );
    compiled(&text, "a.json").matcher.matches(Some(tool))
}

#[test]
fn law_07_what_failures_come_to_is_the_rules_or_else_its_tiers_on_guarded_events_alone() {
    let native = r#"{"hooks":[
        {"event":"PreToolUse","handler":{"type":"command","command":"x"}},
        {"event":"PreToolUse","onError":"allow","handler":{"type":"command","command":"x"}},
        {"event":"PreToolUse","onError":"block","handler":{"type":"command","command":"x"}}]}"#;
    let claude = r#"{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x"}]}]}}"#;
    let (guarded, other) = (Event::known("PreToolUse").unwrap(), Event::known("PostToolUse").unwrap());
    for (tier, written, expected) in [
        (Tier::Managed, None, OnError::Block),
        (Tier::Managed, Some(OnError::Allow), OnError::Allow),
        (Tier::Team, None, OnError::Allow),
        (Tier::Shared, None, OnError::Allow),
        (Tier::Shared, Some(OnError::Block), OnError::Block),
    ] {
        let mut place = Place::new();
        if let Some(on_error) = written {
            place.settings.tiers.get_mut(tier).policy.on_error = on_error;
        }
        place.write("a/1.json", native);
        place.write("a/2.json", claude);
        place.source(tier, "a", false);
        let catalog = place.load().catalog.unwrap();
        let on = |event| catalog.rules.iter().map(|rule| rule.failure_policy(event)).collect::<Vec<_>>();
        assert_eq!(on(guarded), [expected, OnError::Allow, OnError::Block, expected], "{tier} {written:?}");
        assert_eq!(on(other), [OnError::Allow, OnError::Allow, OnError::Block, OnError::Allow], "{tier} {written:?}");
    }
}

#[test]
fn law_01_order_is_tier_then_source_then_file_name_then_position() {
    let mut place = Place::new();
    for tier in [Tier::Plugin, Tier::Managed, Tier::Shared, Tier::Team, Tier::Local] {
        for source in ["z", "a"] {
            place.source(tier, &format!("{tier}-{source}"), false);
            for file in ["c.yml", "b.yaml", "a.json", "skipped.txt", ".hidden.json"] {
                let ids = ["2", "1"].map(|n| format!("{tier}-{source}-{file}-{n}"));
                place.write(&format!("{tier}-{source}/{file}"), &hooks(&ids.each_ref().map(String::as_str)));
            }
            fs::create_dir(place.at(&format!("{tier}-{source}/d.json"))).unwrap();
        }
    }
    let load = place.load();
    assert_eq!(place.problems(&load), [] as [&str; 0]);
    let mut expected = Vec::new();
    for tier in ["managed", "team", "local", "shared", "plugin"] {
        for source in ["z", "a"] {
            for file in ["a.json", "b.yaml", "c.yml"] {
                expected.extend(["2", "1"].map(|n| format!("{tier}-{source}-{file}-{n}")));
            }
        }
    }
    let catalog = load.catalog.unwrap();
    assert_eq!(ids(&catalog), expected);
    assert_eq!(catalog.rules_of("Stop").count(), expected.len());
    assert!(catalog.rules_of("PreToolUse").next().is_none());
}

#[test]
fn every_key_reaches_the_compiled_rule() {
    let text = "
mode: shadow
hooks:
  - event: [PostToolUse, Deploy]
    customEvent: true
    matcher: edit_file|write_file
    async: true
    onVerdict: [block, none]
    onError: block
    final: true
    mustDecide: true
    description: lints
    handler: {type: command, command: ./lint.sh, shell: bash, timeout: 99000, env: {B: '1', A: '2'}, cwd: sub, worker: {pool: 3, maxCalls: 9}}
";
    let mut place = Place::new();
    place.write("rules/a.yaml", text);
    place.source(Tier::Managed, "rules", false);
    let load = place.load();
    assert_eq!(
        place.problems(&load),
        [
            "rules/a.yaml:7:12: hooks[0].async: an async rule never decides, so it cannot block `Deploy`",
            "rules/a.yaml:9:14: hooks[0].onError: `onError` has no effect on an async rule, which never decides",
            "rules/a.yaml:10:12: hooks[0].final: `final` has no effect on an async rule, which never decides",
            "rules/a.yaml:11:17: hooks[0].mustDecide: `mustDecide` has no effect on an async rule, which never decides",
            "rules/a.yaml:13:72: hooks[0].handler.timeout: 99000 ms is over `limits.max_handler_timeout`, 60000 ms count",
        ]
    );
    let catalog = load.catalog.unwrap();
    let rule = &catalog.rules[0];
    assert_eq!(
        (&*rule.id, rule.tier, &*rule.file, rule.line),
        ("a.yaml#0", Tier::Managed, &*place.at("rules/a.yaml"), 4)
    );
    assert_eq!(rule.events.iter().map(|event| &**event).collect::<Vec<_>>(), ["PostToolUse", "Deploy"]);
    assert_eq!(rule.matcher.as_str(), "edit_file|write_file");
    assert_eq!(rule.timing, Timing::AfterVerdict(vec![Verdict::Block, Verdict::None]));
    assert_eq!((rule.mode, rule.on_error), (Mode::Shadow, Some(OnError::Block)));
    assert!(rule.is_final && rule.must_decide);
    assert_eq!(rule.description, "lints");
    let Handler::Command(command) = &rule.handler else { panic!("{rule:?}") };
    assert_eq!(command.program, Program::Shell(Shell::Bash, "./lint.sh".to_owned()));
    assert_eq!(command.timeout, Duration::from_secs(60));
    let env = command.env.iter().map(|(name, value)| (name.as_str(), ValuePart::literal(value)));
    assert_eq!(env.collect::<Vec<_>>(), [("B", "1".to_owned()), ("A", "2".to_owned())]);
    assert_eq!(command.cwd, Some(place.at("rules/sub")));
    assert_eq!(command.worker.as_ref().map(|worker| (worker.pool, worker.max_calls)), Some((3, Some(9))));
    assert_eq!(catalog.rules_of("Deploy").count(), 1);

    let decide = compiled(
        r#"{"hooks":[{"event":"PreToolUse","handler":{"type":"decide","verdict":"ask","reason":"r","modifiedParams":{"n":1.0},
           "additionalContext":"c","systemMessage":"s","halt":true,"haltReason":"h"}}]}"#,
        "a.json",
    );
    let Handler::Decide(Decide { answer, .. }) = &decide.handler else { panic!("{decide:?}") };
    let expected = Answer {
        verdict: Verdict::Ask,
        reason: "r".to_owned(),
        modified_params: Some(hookd_json::parse(r#"{"n":1.0}"#).unwrap()),
        modified_result: None,
        additional_context: Some("c".to_owned()),
        system_message: Some("s".to_owned()),
        halt: Some("h".to_owned()),
        ..Answer::default()
    };
    assert_eq!(**answer, expected);
}

#[test]
fn header_templates_take_what_the_tier_allows_and_never_show_it() {
    let mut place = Place::new();
    place.settings.environment =
        Environment::from_iter([("TOKEN", "s3cret"), ("TOKEN_2", "x"), ("OTHER", "x"), ("BAD", "a\nb")]);
    let managed = place.settings.tiers.get_mut(Tier::Managed);
    managed.allow_env = ["TOKEN", "UNSET", "BAD"].map(str::to_owned).to_vec();
    managed.allow_files = vec![PathBuf::from("/run/secrets")];
    place.source(Tier::Managed, "a.json", false);
    let text = |value: &str| {
        format!(
            r#"{{"hooks":[{{"event":"Stop","handler":{{"type":"http","url":"https://EXAMPLE.com","headers":{{"X-Key":"{value}"}}}}}}]}}"#
        )
    };
    place.write("a.json", &text("Bearer ${env:TOKEN}/${file:/run/secrets/a}"));
    let load = place.load();
    assert!(!format!("{load:?} {:?}", place.settings).contains("s3cret"));
    let catalog = load.catalog.unwrap();
    let Handler::Http(http) = &catalog.rules[0].handler else { panic!() };
    assert_eq!((http.url.as_str(), http.headers[0].0.as_str()), ("https://example.com/", "x-key"));
    match http.headers[0].1.as_slice() {
        [ValuePart::Text(bearer), ValuePart::Env { name, value }, ValuePart::Text(slash), ValuePart::File(file)] => {
            assert_eq!((bearer.as_str(), name.as_str(), slash.as_str()), ("Bearer ", "TOKEN", "/"));
            assert_eq!((value.expose_secret(), file), ("s3cret", &PathBuf::from("/run/secrets/a")));
        }
        parts => panic!("{parts:?}"),
    }
    // The value has no part in the revision.
    let revision = Arc::clone(&catalog.revision);
    place.settings.environment = Environment::from_iter([("TOKEN", "other")]);
    assert_eq!(place.load().catalog.unwrap().revision, revision);

    for (value, message) in [
        ("${env:OTHER}", "`${env:OTHER}` is not in `tiers.managed.allow_env` of the settings"),
        ("${env:TOKEN_2}", "`${env:TOKEN_2}` is not in `tiers.managed.allow_env` of the settings"),
        ("${env:UNSET}", "the variable `UNSET` is not set"),
        ("${file:/run/secretsx}", "`${file:/run/secretsx}` is not in `tiers.managed.allow_files` of the settings"),
        ("${file:/run/secrets/../x}", "`${file:/run/secrets/../x}` must name a file without `..`"),
    ] {
        place.write("a.json", &text(value));
        place.check_refused(&[&format!("a.json:1:99: hooks[0].handler.headers.X-Key: {message}")]);
    }
    place.settings.environment = Environment::from_iter([("BAD", "a\nb")]);
    place.write("a.json", &text("${env:BAD}"));
    place.check_refused(&[
        "a.json:1:99: hooks[0].handler.headers.X-Key: the variable `BAD` holds more than printable ASCII characters",
    ]);
}

#[test]
fn variables_of_commands_take_what_the_tier_allows_and_any_other_text() {
    let mut place = Place::new();
    place.settings.environment = Environment::from_iter([("TOKEN", "s3cret")]);
    place.settings.tiers.get_mut(Tier::Managed).allow_env = vec!["TOKEN".to_owned()];
    place.source(Tier::Managed, "a.json", false);
    let write = |place: &Place, value: &str, run_on: &str| {
        let handler = format!(r#"{{"type":"command","command":"x","env":{{"KEY":"{value}"}}}}"#);
        place.write("a.json", &format!(r#"{{"hooks":[{{"event":"Stop","runOn":"{run_on}","handler":{handler}}}]}}"#));
    };
    write(&place, "${HOME} ${a:b} ${env:TOKEN} ${", "server");
    let load = place.load();
    assert!(!format!("{load:?}").contains("s3cret"));
    let catalog = load.catalog.unwrap();
    let Handler::Command(command) = &catalog.rules[0].handler else { panic!() };
    let (name, parts) = &command.env[0];
    assert_eq!((name.as_str(), ValuePart::literal(parts).as_str()), ("KEY", "${HOME} ${a:b}  ${"));
    assert!(
        matches!(&parts[1], ValuePart::Env { name, value } if name == "TOKEN" && value.expose_secret() == "s3cret")
    );

    let at = "a.json:1:99: hooks[0].handler.env.KEY: ";
    write(&place, "${env:OTHER}", "server");
    place.check_refused(&[&format!("{at}`${{env:OTHER}}` is not in `tiers.managed.allow_env` of the settings")]);
    write(&place, "${env:TOKEN}", "agent");
    place.check_refused(&[
        "a.json:1:98: hooks[0].handler.env.KEY: what `${env:…}` and `${file:…}` stand for is not sent to callers, who run this rule",
    ]);
}

#[test]
fn case_043_047_051_matchers_are_searched_and_never_dropped() {
    for (matcher, tool, expected) in [
        ("*", "Bash", true),
        ("", "Bash", true),
        ("^Bash$", "Bash", true),
        ("^Bash$", "BashOutput", false),
        ("mcp__.*", "mcp__some_server__list", true),
        ("Read", "Edit", false),
        ("rit", "Write", true),
    ] {
        assert_eq!(matches(matcher, tool), expected, "{matcher} {tool}");
    }
}

#[test]
fn case_054_one_bad_entry_leaves_the_good_ones_below_team() {
    let mut place = Place::new();
    place.source(Tier::Shared, "hooks.json", true);
    let bad = r#"{"matcher":{"toolName":"bash"},"hooks":[]}"#;
    place.write("hooks.json", &format!(r#"{{"hooks":[{},{bad},{}]}}"#, rule("a"), rule("b")));
    place.check(
        &["a", "b"],
        SourceState::Partial,
        &[
            "hooks.json:1:83: hooks[1]: a rule needs the key `event`; rule `hooks.json#1` is left out",
            "hooks.json:1:83: hooks[1]: a rule needs the key `handler`; rule `hooks.json#1` is left out",
            "hooks.json:1:94: hooks[1].matcher: must be a string, not an object; rule `hooks.json#1` is left out",
            "hooks.json:1:114: hooks[1].hooks: unknown key `hooks`, a rule has `id`, `event`, `matcher`, `when`, `handler`, `async`, `onVerdict`, `onError`, `final`, `mustDecide`, `concurrent`, `mode`, `customEvent`, `protocol`, `runOn`, `disabled`, `description`, `metadata`; rule `hooks.json#1` is left out",
        ],
    );
}

#[test]
fn case_054_what_is_wrong_beside_the_rules_of_a_file_takes_none_of_them_below_team() {
    let text = format!(r#"{{"version":1,"mode":"shadwo","hooks":[{}]}}"#, rule("a"));
    let problems = [
        "hooks.json:1:2: version: unknown key `version`, a rule file has `$schema`, `description`, `metadata`, `mode`, `hooks`, `defaults`",
        "hooks.json:1:21: mode: must be `enforce` or `shadow`, not the string \"shadwo\", did you mean `shadow`",
    ];
    let mut place = Place::new();
    place.source(Tier::Shared, "hooks.json", true);
    place.write("hooks.json", &text);
    place.check(&["a"], SourceState::Partial, &problems);
    assert_eq!(place.load().catalog.unwrap().rules[0].mode, Mode::Enforce, "nothing is widened");

    let mut place = Place::new();
    place.source(Tier::Team, "hooks.json", true);
    place.write("hooks.json", &text);
    place.check_refused(&problems);
}

#[test]
fn case_055_the_same_text_in_two_sources_stays_two_rules() {
    let mut place = Place::new();
    place.write("one/hooks.json", &hooks(&["same"]));
    place.write("two/hooks.json", &hooks(&["same"]));
    place.source(Tier::Plugin, "one/hooks.json", true);
    place.source(Tier::Plugin, "two/hooks.json", true);
    let load = place.load();
    assert_eq!(place.problems(&load), [] as [&str; 0]);
    let files = load.catalog.unwrap().rules.iter().map(|rule| rule.file.to_path_buf()).collect::<Vec<_>>();
    assert_eq!(files, [place.at("one/hooks.json"), place.at("two/hooks.json")]);
}

#[test]
fn ids_are_unique_in_a_source() {
    let mut place = Place::new();
    place.write("rules/a.json", &hooks(&["x"]));
    place.write("rules/b.json", &hooks(&["y", "x"]));
    place.source(Tier::Local, "rules", false);
    let twice = "rules/b.json:1:83: hooks[1]: the id `x` stands twice in this source";
    place.check(&["x", "y"], SourceState::Partial, &[&format!("{twice}; rule `x` is left out")]);
    place.settings.tiers.local.sources.clear();
    place.source(Tier::Team, "rules", false);
    place.check_refused(&[twice]);
}

#[test]
fn law_10_central_sources_are_whole_or_not_at_all() {
    for tier in [Tier::Managed, Tier::Team] {
        let mut place = Place::new();
        place.source(tier, "rules", false);
        place.write("rules/a.json", &hooks(&["a"]));
        place.write("rules/b.yaml", "hooks: [");
        let place_of_error = "rules/b.yaml:1:8: not valid YAML: unclosed bracket '['";
        place.check_refused(&[place_of_error]);
        place.write("rules/b.yaml", &hooks(&["b"]));
        place.check(&["a", "b"], SourceState::Loaded, &[]);
        place.write("rules/b.yaml", "hooks: [");
        place.check_refused(&[place_of_error]);
        // One bad rule, one unknown key.
        place.write(
            "rules/b.yaml",
            r#"{"hooks":[{"event":"Stop","whn":"x","handler":{"type":"decide","verdict":"block"}}]}"#,
        );
        place.check_refused(&["rules/b.yaml:1:27: hooks[0].whn: unknown key `whn`, did you mean `when`"]);
    }
}

#[test]
fn law_10_a_file_takes_its_rules_along_and_a_source_does_not() {
    let mut place = Place::new();
    place.source(Tier::Managed, "rules", true);
    place.check(&[], SourceState::Absent, &["no rules are loaded: everything passes"]);
    place.write("rules/a.json", &hooks(&["a"]));
    place.write("rules/b.json", &hooks(&["b"]));
    place.check(&["a", "b"], SourceState::Loaded, &[]);
    fs::remove_file(place.at("rules/b.json")).unwrap();
    place.check(&["a"], SourceState::Loaded, &["rules/b.json: is gone, and its rules with it"]);
    place.check(&["a"], SourceState::Loaded, &[]);
    fs::rename(place.at("rules"), place.at("away")).unwrap();
    place.check_refused(&["rules: is gone as a whole, its rules stay in force until it is back"]);
    fs::rename(place.at("away"), place.at("rules")).unwrap();
    place.check(&["a"], SourceState::Loaded, &[]);
}

#[test]
fn law_10_below_team_each_file_has_a_last_good_of_its_own() {
    let mut place = Place::new();
    place.source(Tier::Shared, "rules", false);
    place.write("rules/a.json", &hooks(&["a"]));
    place.write("rules/b.json", "{");
    let message = "rules/b.json:1:1: not valid JSON: EOF while parsing an object";
    place.check(&["a"], SourceState::Partial, &[message]);
    place.write("rules/b.json", &hooks(&["b1", "b2"]));
    place.check(&["a", "b1", "b2"], SourceState::Loaded, &[]);
    place.write("rules/b.json", "{");
    place.check(&["a", "b1", "b2"], SourceState::Stale, &[message]);
    place.write("rules/a.json", &hooks(&["a2"]));
    place.check(&["a2", "b1", "b2"], SourceState::Stale, &[message]);
    // The last good text is judged by the settings of now.
    place.settings.tiers.shared.mode = Mode::Shadow;
    assert!(place.load().catalog.unwrap().rules.iter().all(|rule| rule.mode == Mode::Shadow));
    // A source that cannot be read keeps all of them.
    fs::rename(place.at("rules"), place.at("away")).unwrap();
    place.check(
        &["a2", "b1", "b2"],
        SourceState::Stale,
        &["rules: is not there, and not marked as `optional` in the settings"],
    );
    place.write("rules", "is a file now");
    place.check(
        &["a2", "b1", "b2"],
        SourceState::Stale,
        &["rules: the name of a rule file must end in .json, .yaml or .yml"],
    );
    fs::remove_file(place.at("rules")).unwrap();
    fs::rename(place.at("away"), place.at("rules")).unwrap();
    fs::remove_file(place.at("rules/b.json")).unwrap();
    place.check(&["a2"], SourceState::Loaded, &[]);
    place.write("rules/b.json", "{");
    place.check(&["a2"], SourceState::Partial, &[message]);
}

#[test]
fn a_source_that_is_named_twice_in_a_tier_gives_its_rules_once() {
    let mut place = Place::new();
    place.write("a.json", &hooks(&["a"]));
    place.source(Tier::Shared, "a.json", false);
    place.source(Tier::Shared, "a.json", false);
    let load = place.load();
    assert_eq!(place.problems(&load), ["a.json: is named twice as a source of this tier"]);
    assert_eq!(load.catalog.as_ref().map(ids), Some(vec!["a".to_owned()]));
    place.settings.tiers.team.sources = std::mem::take(&mut place.settings.tiers.shared.sources);
    place.check_refused(&["a.json: is named twice as a source of this tier"]);
}

#[test]
fn law_10_a_source_that_is_not_there_stops_the_start() {
    for tier in Tier::ALL {
        let mut place = Place::new();
        place.source(tier, "rules", false);
        place.check_refused(&["rules: is not there, and not marked as `optional` in the settings"]);
    }
}

#[test]
fn a_source_knows_its_files_by_name_and_by_where_links_lead() {
    let mut place = Place::new();
    place.write("real/a.json", r#"{"hooks":[]}"#);
    place.write("real/b.txt", "");
    place.write("elsewhere/c.json", r#"{"hooks":[]}"#);
    std::os::unix::fs::symlink(place.at("elsewhere/c.json"), place.at("real/d.json")).unwrap();
    std::os::unix::fs::symlink("real", place.at("rules")).unwrap();
    place.source(Tier::Shared, "rules", false);
    let load = place.load();
    let real = place.root.path().canonicalize().unwrap();
    let expected =
        [place.at("rules/a.json"), real.join("real/a.json"), place.at("rules/d.json"), real.join("elsewhere/c.json")];
    assert_eq!(load.sources[0].files, expected.into());
}

#[test]
fn files_that_are_no_text_are_refused() {
    let mut place = Place::new();
    place.source(Tier::Managed, "rules", false);
    place.write("rules/a.json", "");
    fs::write(place.at("rules/a.json"), [b'{', 0xff]).unwrap();
    std::os::unix::fs::symlink("nowhere", place.at("rules/b.json")).unwrap();
    fs::write(place.at("rules/c.json"), vec![b' '; 1_048_577]).unwrap();
    place.check_refused(&[
        "rules/a.json: is not UTF-8 from byte 1 on",
        "rules/b.json: cannot be read: No such file or directory (os error 2)",
        "rules/c.json: is larger than 1048576 bytes",
    ]);
    let mut place = Place::new();
    place.write("rules.toml", "");
    place.source(Tier::Managed, "rules.toml", false);
    place.check_refused(&["rules.toml: the name of a rule file must end in .json, .yaml or .yml"]);
}

#[test]
fn law_11_below_team_a_mistyped_key_drops_its_rule_only() {
    let mut place = Place::new();
    place.source(Tier::Plugin, "hooks.json", true);
    let bad = r#"{"id":"typo","event":"Stop","whn":"x","handler":{"type":"decide","verdict":"block"}}"#;
    place.write("hooks.json", &format!(r#"{{"hooks":[{bad},{}]}}"#, rule("good")));
    place.check(
        &["good"],
        SourceState::Partial,
        &["hooks.json:1:39: hooks[0].whn: unknown key `whn`, did you mean `when`; rule `typo` is left out"],
    );
}

#[test]
fn law_12_defaults_are_central_and_by_event() {
    let text = r#"{"defaults":[{"event":["PreToolUse","Stop"],"matcher":"^mcp__","verdict":"ask","reason":"r"}]}"#;
    let mut place = Place::new();
    place.source(Tier::Team, "rules.json", false);
    place.write("rules.json", text);
    let load = place.load();
    assert_eq!(place.problems(&load), [] as [&str; 0]);
    let defaults = load.catalog.unwrap().defaults;
    let defaults = defaults.iter().map(|d| (d.tier, &*d.event, d.matcher.as_str(), d.verdict, d.reason.as_str()));
    assert_eq!(
        defaults.collect::<Vec<_>>(),
        [(Tier::Team, "PreToolUse", "^mcp__", Verdict::Ask, "r"), (Tier::Team, "Stop", "^mcp__", Verdict::Ask, "r")]
    );
    let mut place = Place::new();
    place.source(Tier::Local, "rules.json", false);
    place.write("rules.json", &text.replacen('{', &format!("{{\"hooks\":[{}],", rule("a")), 1));
    place.check(
        &["a"],
        SourceState::Partial,
        &["rules.json:1:95: defaults: only managed and team files may have `defaults`, not local ones"],
    );
}

#[test]
fn law_12_defaults_of_a_file_or_tier_in_shadow_mode_are_in_shadow_mode() {
    let loaded = |file_mode: &str, tier_mode: Mode| {
        let mut place = Place::new();
        place.source(Tier::Managed, "rules.json", false);
        let defaults = r#"[{"event":"PreToolUse","verdict":"block"}]"#;
        place
            .write("rules.json", &format!(r#"{{"mode":"{file_mode}","hooks":[{}],"defaults":{defaults}}}"#, rule("a")));
        place.settings.tiers.managed.mode = tier_mode;
        let catalog = place.load().catalog.unwrap();
        let counts = [Mode::Enforce, Mode::Shadow].map(|mode| catalog.count_in(Tier::Managed, mode));
        (catalog.defaults[0].mode, counts, catalog.count_in(Tier::Team, Mode::Enforce))
    };
    assert_eq!(loaded("enforce", Mode::Enforce), (Mode::Enforce, [2, 0], 0));
    assert_eq!(loaded("shadow", Mode::Enforce), (Mode::Shadow, [0, 2], 0));
    assert_eq!(loaded("enforce", Mode::Shadow), (Mode::Shadow, [0, 2], 0));
}

#[test]
fn case_098_101_a_default_is_per_event_and_matcher() {
    let mut place = Place::new();
    place.source(Tier::Managed, "rules.json", false);
    place.write(
        "rules.json",
        r#"{"defaults":[{"event":"PreToolUse","matcher":"^safe_","verdict":"allow"},{"event":"PreToolUse","verdict":"block"}]}"#,
    );
    let catalog = place.load().catalog.unwrap();
    let verdict = |tool: &str| catalog.defaults.iter().find(|d| d.matcher.matches(Some(tool))).map(|d| d.verdict);
    assert_eq!((verdict("safe_read"), verdict("other")), (Some(Verdict::Allow), Some(Verdict::Block)));
}

#[test]
fn case_099_no_rules_are_said() {
    let mut place = Place::new();
    let load = place.load();
    assert_eq!(place.problems(&load), ["no rules are loaded: everything passes"]);
    assert_eq!(load.problems[0].severity, Severity::Warning);
    assert!(load.catalog.is_some());
}

#[test]
fn case_099_a_directory_that_gives_less_than_it_seems_to_says_so() {
    let mut place = Place::new();
    place.source(Tier::Managed, "managed", false);
    place.write("managed/nested/guard.yaml", "hooks: []");
    place.write("managed/README.md", "");
    let nothing = "managed: holds no file that ends in .json, .yaml or .yml (directories in it are not read)";
    place.check(&[], SourceState::Loaded, &[nothing, "no rules are loaded: everything passes"]);
    place.write("managed/Guard.YAML", "hooks: []");
    place.write("managed/more.yml", "hooks: []");
    let lowercase = "managed/Guard.YAML: is not read: its name has to end in lowercase";
    place.check(&[], SourceState::Loaded, &[lowercase, "no rules are loaded: everything passes"]);
}

#[test]
fn lower_tiers_run_commands_here_only_where_the_settings_allow_it() {
    let mut place = Place::new();
    place.source(Tier::Shared, "hooks.json", true);
    place.write(
        "hooks.json",
        &format!(r#"{{"hooks":[{{"event":"Stop","handler":{{"type":"command","command":"x"}}}},{}]}}"#, rule("a")),
    );
    place.check(&["hooks.json#0", "a"], SourceState::Loaded, &[]);
    place.settings.tiers.shared.server_commands = false;
    place.write(
        "hooks.json",
        r#"{"hooks":[{"event":"Stop","runOn":"agent","handler":{"type":"command","command":"x"}}]}"#,
    );
    place.check(&["hooks.json#0"], SourceState::Loaded, &[]);
    place.write(
        "hooks.json",
        &format!(r#"{{"hooks":[{{"event":"Stop","handler":{{"type":"command","command":"x"}}}},{}]}}"#, rule("a")),
    );
    place.check(
        &["a"],
        SourceState::Partial,
        &["hooks.json:1:37: hooks[0].handler: command rules of tier shared may not run on this server, unless `tiers.shared.server_commands` is `allow` or the rule says `runOn: agent`; rule `hooks.json#0` is left out"],
    );
}

#[test]
fn disabled_rules_are_left_out_silently_and_keep_their_position() {
    let mut place = Place::new();
    place.source(Tier::Managed, "a.json", false);
    place.write(
        "a.json",
        r#"{"hooks":[{"disabled":true,"event":"Stop","when":"x"},{"disabled":false,"event":"Stop","handler":{"type":"decide","verdict":"block"}}]}"#,
    );
    place.check(&["a.json#1"], SourceState::Loaded, &[]);
}

#[test]
fn check_counts_what_each_file_gives() {
    let place = Place::new();
    place.write("rules/a.json", &hooks(&["a", "b"]));
    place.write("rules/b.json", r#"{"hooks":[{"event":"Stop"}]}"#);
    place.write("c.json", r#"{"defaults":[{"event":"Stop","verdict":"ask"}]}"#);
    let load = check_paths(&[place.at("rules"), place.at("c.json")], Tier::Managed, &LoadSettings::default());
    assert!(load.has_errors() && load.catalog.is_none());
    let file = |name: &str, [rules, defaults, refused]: [usize; 3]| LoadedFile {
        tier: Tier::Managed,
        path: place.at(name),
        rules,
        defaults,
        refused,
    };
    let files = [file("rules/a.json", [2, 0, 0]), file("rules/b.json", [0, 0, 1]), file("c.json", [0, 1, 0])];
    assert_eq!(load.files, files);
    assert_eq!(place.problems(&load), ["rules/b.json:1:11: hooks[0]: a rule needs the key `handler`"]);
}
