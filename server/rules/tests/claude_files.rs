//! Claude Code's files as sources: what becomes of each part of them, and what is said of it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use hookd_rules::{
    Catalog, Environment, Handler, Load, LoadSettings, Memory, OnError, Program, Protocol, Rule, RunOn, Shell,
    SourceSettings, Tier, Timing, ValuePart, load,
};
use secrecy::ExposeSecret as _;
use tempfile::TempDir;

struct Place {
    root: TempDir,
    settings: LoadSettings,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), settings: LoadSettings::default() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A source of `tier` with this text.
    fn source(&mut self, tier: Tier, name: &str, text: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        self.settings.tiers.get_mut(tier).sources.push(SourceSettings { path, optional: false, selector: None });
    }

    fn load(&self) -> Load {
        load(&self.settings, &mut Memory::default())
    }

    /// The problems, with the place's own path left out.
    fn problems(&self, load: &Load) -> Vec<String> {
        let root = format!("{}/", self.root.path().display());
        load.problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    }
}

/// Loads `text` as the file `s.json` of `tier`.
fn loaded(tier: Tier, text: &str) -> (Option<Catalog>, Vec<String>) {
    let mut place = Place::new();
    place.source(tier, "s.json", text);
    let load = place.load();
    let problems = place.problems(&load);
    (load.catalog, problems)
}

fn ids(catalog: &Catalog) -> Vec<&str> {
    catalog.rules.iter().map(|rule| &*rule.id).collect()
}

/// Below team, `text` gives rules with these ids, and these problems.
#[track_caller]
fn check(text: &str, expected: &[&str], problems: &[&str]) {
    let (catalog, found) = loaded(Tier::Shared, text);
    let found = found.iter().map(|line| line.strip_prefix("s.json:").unwrap_or(line)).collect::<Vec<_>>();
    let found = found.into_iter().filter(|line| *line != "no rules are loaded: everything passes").collect::<Vec<_>>();
    assert_eq!(found, problems, "{text}");
    assert_eq!(ids(&catalog.unwrap()), expected, "{text}");
}

/// One handler on `event`, below team, gives these problems, each after its key; one that is an error leaves it out.
#[track_caller]
fn check_handler(event: &str, handler: &str, is_left_out: bool, problems: &[&str]) {
    let (catalog, found) = loaded(Tier::Shared, &format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{handler}]}}]}}}}"#));
    let path = format!("hooks.{event}[0].hooks[0]");
    let found = found.iter().filter_map(|line| line.split_once(&path)).map(|(_, rest)| rest).collect::<Vec<_>>();
    let id = format!("s.json#{event}.0.0");
    let end = if is_left_out { format!("; rule `{id}` is left out") } else { String::new() };
    assert_eq!(found, problems.iter().map(|problem| format!("{problem}{end}")).collect::<Vec<_>>(), "{handler}");
    let expected = if is_left_out { vec![] } else { vec![id.as_str()] };
    assert_eq!(ids(&catalog.unwrap()), expected, "{handler}");
}

#[track_caller]
fn rule(text: &str) -> Arc<Rule> {
    let (catalog, problems) = loaded(Tier::Shared, text);
    let catalog = catalog.unwrap();
    assert_eq!(catalog.rules.len(), 1, "{problems:?}");
    Arc::clone(&catalog.rules[0])
}

fn one(event: &str, handler: &str) -> Arc<Rule> {
    rule(&format!(r#"{{"hooks":{{"{event}":[{{"hooks":[{handler}]}}]}}}}"#))
}

#[test]
fn every_part_of_a_handler_is_taken_over() {
    let text = r#"{
        "$schema": "https://json.schemastore.org/claude-code-settings.json",
        "permissions": {"allow": ["Bash"]},
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [
                    {"type": "command", "command": "jq .", "timeout": 5, "if": "Bash(git push *)",
                     "onFailure": "block", "statusMessage": "…", "description": "guards pushes"},
                    {"type": "command", "command": "/bin/x", "args": ["${CLAUDE_PROJECT_DIR}/a b"], "shell": "powershell"}
                ]}
            ]
        }
    }"#;
    let (catalog, problems) = loaded(Tier::Local, text);
    assert_eq!(problems, [] as [&str; 0]);
    let catalog = catalog.unwrap();
    assert_eq!(ids(&catalog), ["s.json#PreToolUse.0.0", "s.json#PreToolUse.0.1"]);
    let [first, second] = catalog.rules.as_slice() else { panic!("{:?}", catalog.rules) };
    assert_eq!(
        (first.tier, first.line, &*first.events[0], first.matcher.as_str(), first.timing.clone(), first.on_error),
        (Tier::Local, 7, "PreToolUse", "Bash", Timing::Sync, Some(OnError::Block))
    );
    assert_eq!(
        (first.protocol, first.run_on, &*first.description),
        (Protocol::ClaudeCode, RunOn::Server, "guards pushes")
    );
    assert_eq!(first.permission.as_ref().map(|rule| rule.as_str()), Some("Bash(git push *)"));
    assert!(!first.is_final && !first.must_decide && !first.concurrent && first.when.is_none());
    let command = |rule: &Rule| match &rule.handler {
        Handler::Command(command) => (command.program.clone(), command.timeout, command.cwd.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(command(first), (Program::Shell(Shell::Bash, "jq .".to_owned()), Duration::from_secs(5), None));
    let argv = ["/bin/x", "${CLAUDE_PROJECT_DIR}/a b"].map(str::to_owned).to_vec();
    assert_eq!(command(second), (Program::Argv(argv), Duration::from_secs(60), None));
    assert_eq!((second.on_error, second.permission.is_none()), (None, true));
}

#[test]
fn an_async_hook_is_an_async_rule() {
    let rule = one("PostToolUse", r#"{"type":"command","command":"x","async":true}"#);
    assert_eq!(rule.timing, Timing::Async);
    check_handler(
        "PreToolUse",
        r#"{"type":"command","command":"x","async":true}"#,
        false,
        &[".async: an async hook never decides, so it cannot block `PreToolUse`"],
    );
}

#[test]
fn case_057_seconds_have_a_ceiling_and_milliseconds_are_told() {
    let timeout = |event: &str, timeout: &str| {
        let handler = format!(r#"{{"type":"command","command":"x"{timeout}}}"#);
        match &one(event, &handler).handler {
            Handler::Command(command) => command.timeout.as_millis(),
            other => panic!("{other:?}"),
        }
    };
    for (event, written, millis) in [
        ("PreToolUse", "", 60_000),
        ("UserPromptSubmit", "", 30_000),
        ("MessageDisplay", "", 10_000),
        ("PreModelSwitch", "", 30_000),
        ("SessionEnd", "", 1_500),
        ("PreToolUse", r#","timeout":0.25"#, 250),
        ("PreToolUse", r#","timeout":59"#, 59_000),
        ("PreToolUse", r#","timeout":61"#, 60_000),
        ("PreToolUse", r#","timeout":5000"#, 60_000),
        ("PreToolUse", r#","timeout":1e308"#, 60_000),
        ("PreToolUse", r#","timeout":1e-30"#, 1),
        ("PreToolUse", r#","timeout":-1"#, 60_000),
        ("PreToolUse", r#","timeout":"5""#, 60_000),
    ] {
        assert_eq!(timeout(event, written), millis, "{event} {written}");
    }
    for (timeout, message) in [
        ("1000", "1000 are seconds, not milliseconds; 60 s count, the ceiling `limits.max_handler_timeout`"),
        ("90", "90 s are over `limits.max_handler_timeout`, 60 s count"),
        ("0", "must be a number of seconds above 0, not the number 0; 60 s count"),
    ] {
        let handler = format!(r#"{{"type":"command","command":"x","timeout":{timeout}}}"#);
        check_handler("PreToolUse", &handler, false, &[&format!(".timeout: {message}")]);
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (event, handler, problem) in [
        (
            "PreToolUse",
            r#"{"type":"prompt","prompt":"x"}"#,
            ".type: hooks of type `prompt` are not supported by this version of hookd",
        ),
        (
            "PreToolUse",
            r#"{"type":"agent"}"#,
            ".type: hooks of type `agent` are not supported by this version of hookd",
        ),
        (
            "PreToolUse",
            r#"{"type":"mcp_tool"}"#,
            ".type: hooks of type `mcp_tool` are not supported by this version of hookd",
        ),
        (
            "PreToolUse",
            r#"{"type":"comand"}"#,
            ".type: must be `command` or `http`, not the string \"comand\", did you mean `command`",
        ),
        ("PreToolUse", r#"{"command":"x"}"#, ": a handler needs the key `type`: `command` or `http`"),
        ("PreToolUse", r#""x""#, ": must be a handler, not the string \"x\""),
        ("PreToolUse", r#"{"type":"command"}"#, ".command: must be a string that is not empty"),
        (
            "PreToolUse",
            r#"{"type":"command","command":" "}"#,
            ".command: must be a string that is not empty, not the string \" \"",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","once":true}"#,
            ".once: `once` is not supported by this version of hookd",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","asyncRewake":true}"#,
            ".asyncRewake: `asyncRewake` is not supported by this version of hookd",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","async":"yes"}"#,
            ".async: must be true or false, not the string \"yes\"",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","shell":"powershell"}"#,
            ".shell: `powershell` is not supported by this version of hookd",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","shell":"zsh"}"#,
            ".shell: must be `bash`, not the string \"zsh\"",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","args":["a",1]}"#,
            ".args: must be a list of strings, not an array",
        ),
        (
            "PreToolUse",
            r#"{"type":"command","command":"x","args":["${user_config.k}"]}"#,
            ".args: `${user_config.k}` stands in the agent's own settings, which hookd does not read",
        ),
        (
            "Stop",
            r#"{"type":"command","command":"x","if":"Bash"}"#,
            ".if: a hook with `if` never runs on `Stop`, which is no tool event",
        ),
        (
            "SessionStart",
            r#"{"type":"http","url":"http://h/"}"#,
            ".type: there are no http hooks on `SessionStart`: that agent runs only commands there",
        ),
        ("PreToolUse", r#"{"type":"http","url":"ftp://h/"}"#, ".url: must be an http or https URL, not one of `ftp`"),
        (
            "PreToolUse",
            r#"{"type":"http","url":"http://h/","headers":["x"]}"#,
            ".headers: must be an object of strings, not an array",
        ),
    ] {
        check_handler(event, handler, true, &[problem]);
    }
    for handler in [
        r#"{"type":"command","command":"x","once":false,"asyncRewake":false,"async":false}"#,
        r#"{"type":"command","command":"x","shell":"bash","timeout":10}"#,
        r#"{"type":"command","command":"x","args":[]}"#,
        r#"{"type":"http","url":"http://h/"}"#,
    ] {
        check_handler("PreToolUse", handler, false, &[]);
    }
}

#[test]
fn case_053_a_pattern_with_look_around_is_refused_and_the_others_load() {
    check(
        r#"{"hooks":{"PreToolUse":[{"matcher":"^(?!Read$).*","hooks":[{"type":"command","command":"a"}]},
            {"matcher":"^Bash$","hooks":[{"type":"command","command":"b"}]}]}}"#,
        &["s.json#PreToolUse.1.0"],
        &[
            "1:36: hooks.PreToolUse[0].matcher: the pattern `^(?!Read$).*` for `PreToolUse`: look-around (`(?=`, `(?!`, `(?<=`, `(?<!`) is not supported; rule `s.json#PreToolUse.0.0` is left out",
        ],
    );
}

#[test]
fn case_054_one_bad_entry_leaves_the_others_in_force() {
    check(
        r#"{"hooks":{
            "PreToolUse":[
                {"hooks":[{"type":"command","command":"good"}]},
                {"matcher":{"toolName":"bash"},"hooks":[{"type":"command","command":"a"},{"type":"command","command":"b"}]},
                {"type":"command","command":"flat","matcher":"Bash"},
                "x",
                {"matcher":"Bash"}
            ],
            "Stop":{"hooks":[]},
            "PreToolUs":{"hooks":[]},
            "stop":[{"hooks":[{"type":"command","command":"c"}]}]
        }}"#,
        &["s.json#PreToolUse.0.0", "s.json#PreToolUse.2"],
        &[
            "4:28: hooks.PreToolUse[1].matcher: must be a string, not an object; rule `s.json#PreToolUse.1.0` is left out",
            "4:28: hooks.PreToolUse[1].matcher: must be a string, not an object; rule `s.json#PreToolUse.1.1` is left out",
            "5:17: hooks.PreToolUse[2]: a handler stands here without a group, and is taken for a group of its own",
            "6:17: hooks.PreToolUse[3]: must be a group of hooks, not the string \"x\"; rule `s.json#PreToolUse.3` is left out",
            "7:17: hooks.PreToolUse[4].hooks: a group needs `hooks`, a list of handlers; rule `s.json#PreToolUse.4` is left out",
            "9:20: hooks.Stop: must be a list of groups, not an object; rule `s.json#Stop` is left out",
            "10:25: hooks.PreToolUs: must be a list of groups, not an object; rule `s.json#PreToolUs` is left out",
            "11:31: hooks.stop[0].hooks[0]: event `stop` is not known, did you mean `Stop`; rule `s.json#stop.0.0` is left out",
        ],
    );
}

#[test]
fn what_is_odd_is_named_and_the_file_works() {
    check(
        r##"{"hooks":{
            "// Stop": "a comment",
            "enabled": true,
            "_disabled_Stop": [{"hooks":[{"type":"command","command":"a"}]}],
            "Stop": null,
            "ToolDisabled": [], "Stop_disabled": ["x"],
            "BeforeDeploy": [{"hooks":[{"type":"command","command":"b"}]}],
            "PreToolUse": [{"// why": "x", "matcher": "mcp__github", "enabled": false, "hooks": [
                {"type":"command","command":"c","tiemout":5,"failClosed":true,"#":1}
            ]}]
        }}"##,
        &["s.json#BeforeDeploy.0.0", "s.json#PreToolUse.0.0"],
        &[
            "2:13: hooks.// Stop: `// Stop` is taken for a comment",
            "3:13: hooks.enabled: `enabled` is true, no list of groups, and is ignored",
            "4:13: hooks._disabled_Stop: `_disabled_Stop` is no event, what stands there is switched off",
            "6:33: hooks.Stop_disabled: `Stop_disabled` is no event, what stands there is switched off",
            "7:13: hooks.BeforeDeploy: event `BeforeDeploy` is not known; its hooks run where a caller asks for it",
            "8:29: hooks.PreToolUse[0].// why: `// why` is taken for a comment",
            "8:55: hooks.PreToolUse[0].matcher: `mcp__github` is a whole name and matches no tool, a server's are `mcp__github__.*`",
            "8:70: hooks.PreToolUse[0].enabled: `enabled` is no key of a group and is ignored",
            "9:49: hooks.PreToolUse[0].hooks[0].tiemout: `tiemout` is no key of a command hook and is ignored, did you mean `timeout`",
            "9:61: hooks.PreToolUse[0].hooks[0].failClosed: `failClosed` is no key of a command hook and is ignored",
            "9:79: hooks.PreToolUse[0].hooks[0].#: `#` is taken for a comment",
        ],
    );
}

#[test]
fn law_11_a_misspelt_event_is_an_error_in_the_tiers_above_and_near_names_are_everywhere() {
    let text = r#"{"hooks":{"PreToolUs":[{"hooks":[{"type":"command","command":"a","onFailur":"block"}]}]}}"#;
    let event = "hooks.PreToolUs: event `PreToolUs` is not known, did you mean `PreToolUse`; its hooks run where a caller asks for it";
    let key = "hooks.PreToolUs[0].hooks[0].onFailur: `onFailur` is no key of a command hook and is ignored, did you mean `onFailure`";
    let problems = [format!("1:11: {event}"), format!("1:66: {key}")];
    check(text, &["s.json#PreToolUs.0.0"], &problems.each_ref().map(String::as_str));
    let (catalog, found) = loaded(Tier::Managed, text);
    assert!(catalog.is_none());
    assert_eq!(found, problems.map(|problem| format!("s.json:{problem}")));

    check(
        r#"{"hooks":{"pre_tool_use":[{"hooks":[{"type":"command","command":"a"}]}]}}"#,
        &[],
        &[
            "1:37: hooks.pre_tool_use[0].hooks[0]: event `pre_tool_use` is not known, did you mean `PreToolUse`; rule `s.json#pre_tool_use.0.0` is left out",
        ],
    );
}

#[test]
fn case_062_a_file_with_a_syntax_error_is_refused_with_its_place() {
    check(r#"asd{"hooks":{}}"#, &[], &["1:1: not valid JSON: expected value"]);
    check(r#"{"hooks":{"Stop":[],"Stop":[]}}"#, &[], &["1:28: not valid JSON: duplicate key `Stop`"]);
}

#[test]
fn case_055_the_same_text_of_two_plugins_is_two_rules() {
    let text = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"sh ${CLAUDE_PLUGIN_ROOT}/x.sh"}]}]}}"#;
    let mut place = Place::new();
    place.source(Tier::Plugin, "one/hooks/hooks.json", text);
    place.source(Tier::Plugin, "two/hooks/hooks.json", text);
    let load = place.load();
    assert_eq!(place.problems(&load), [] as [&str; 0]);
    let catalog = load.catalog.unwrap();
    let roots = catalog.rules.iter().map(|rule| hookd_rules::plugin_root(rule.tier, &rule.file).unwrap());
    assert_eq!(roots.collect::<Vec<_>>(), [place.at("one"), place.at("two")]);
    assert!(catalog.rules.iter().all(|rule| rule.twins.is_none()), "sources stay separate");
}

#[test]
fn a_root_that_is_not_known_is_told_once() {
    let handler = r#"{"type":"command","command":"python3 ${CLAUDE_PLUGIN_ROOT}/x.py"}"#;
    check(
        &format!(r#"{{"hooks":{{"Stop":[{{"hooks":[{handler},{handler}]}}]}}}}"#),
        &["s.json#Stop.0.0", "s.json#Stop.0.1"],
        &[
            "1:29: hooks.Stop[0].hooks[0]: `CLAUDE_PLUGIN_ROOT` stands for nothing here: it does in a plugin's `hooks/hooks.json` and in tier plugin",
        ],
    );
}

#[test]
fn headers_take_only_what_the_hook_and_the_settings_allow() {
    let mut place = Place::new();
    place.settings.environment =
        Environment::from_iter([("A", "secret-a"), ("B", "secret-b"), ("C", "secret-c"), ("D", "é")]);
    place.settings.tiers.get_mut(Tier::Local).allow_env = ["A", "C", "D", "E"].map(str::to_owned).to_vec();
    place.source(
        Tier::Local,
        "s.json",
        r#"{"allowedHttpHookUrls":["http://127.0.0.1:*"],"hooks":{"PreToolUse":[{"hooks":[
            {"type":"http","url":"http://127.0.0.1:9/x","timeout":2,"allowedEnvVars":["A","B","D","E"],
             "headers":{"X-All":"a $A b ${B} c $C d $D e $E f $","Content-Type":"text/plain","X-Plain":"1"}},
            {"type":"http","url":"http://elsewhere/"}
        ]}]}}"#,
    );
    let load = place.load();
    let at = "s.json:3:33: hooks.PreToolUse[0].hooks[0].headers.X-All: ";
    assert_eq!(
        place.problems(&load),
        [
            format!("{at}`$B` is put in as empty text: it is not in `tiers.local.allow_env` of the settings"),
            format!("{at}`$C` is put in as empty text: it is not in `allowedEnvVars`"),
            format!("{at}`$D` is put in as empty text: it holds more than printable ASCII characters"),
            format!("{at}`$E` is put in as empty text: it is not set"),
            "s.json:3:66: hooks.PreToolUse[0].hooks[0].headers.Content-Type: the header `content-type` is set by hookd alone, this one is ignored".to_owned(),
            "s.json:4:34: hooks.PreToolUse[0].hooks[1].url: is not in `allowedHttpHookUrls` of this file; rule `s.json#PreToolUse.0.1` is left out".to_owned(),
        ]
    );
    let catalog = load.catalog.unwrap();
    let [rule] = catalog.rules.as_slice() else { panic!("{:?}", catalog.rules) };
    let Handler::Http(http) = &rule.handler else { panic!("{:?}", rule.handler) };
    assert_eq!((http.url.as_str(), http.timeout), ("http://127.0.0.1:9/x", Duration::from_secs(2)));
    let value = |parts: &[ValuePart]| {
        let text = |part: &ValuePart| match part {
            ValuePart::Text(text) => text.clone(),
            ValuePart::Env { value, .. } => value.expose_secret().to_owned(),
            ValuePart::File(path) => panic!("{path:?}"),
        };
        parts.iter().map(text).collect::<String>()
    };
    let headers = http.headers.iter().map(|(name, parts)| (name.as_str(), value(parts))).collect::<Vec<_>>();
    assert_eq!(headers, [("x-all", "a secret-a b  c  d  e  f $".to_owned()), ("x-plain", "1".to_owned())]);
}

#[test]
fn on_failure_is_on_error_and_the_unknown_blocks() {
    let on_error =
        |value: &str| one("PreToolUse", &format!(r#"{{"type":"command","command":"x","onFailure":{value}}}"#)).on_error;
    assert_eq!(on_error(r#""continue""#), Some(OnError::Allow));
    assert_eq!(on_error(r#""block""#), Some(OnError::Block));
    assert_eq!(on_error(r#""blok""#), Some(OnError::Block));
    assert_eq!(on_error("true"), Some(OnError::Block));
    check_handler(
        "Stop",
        r#"{"type":"command","command":"x","onFailure":"block"}"#,
        false,
        &[".onFailure: failures never block on `Stop`: a broken hook must not keep an agent running"],
    );
}

#[test]
fn files_without_hooks_and_switches() {
    check(r#"{"permissions":{}}"#, &[], &[]);
    check(r#"{"hooks":{}}"#, &[], &[]);
    check(r#"{"permissions":{},"hook":{}}"#, &[], &["1:19: hook: `hook` is not read, did you mean `hooks`"]);
    check(
        r#"{"disableAllHooks":true,"allowManagedHooksOnly":true,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}"#,
        &[],
        &[
            "1:20: disableAllHooks: switches off the hooks of this file, and no others",
            "1:49: allowManagedHooksOnly: has no effect: it counts in managed and team files alone",
        ],
    );
    let (catalog, problems) = loaded(Tier::Managed, r#"{"permissions":{}}"#);
    assert!(catalog.is_some());
    assert_eq!(problems[0], "s.json:1:1: has no `hooks`, so it gives no rules");
}

#[test]
fn a_tier_is_switched_off_from_above_and_never_from_below() {
    let stop =
        |switch: &str| format!(r#"{{{switch}"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":"x"}}]}}]}}}}"#);
    let catalog = |managed: &str, below: &str| {
        let mut place = Place::new();
        place.source(Tier::Managed, "m.json", &stop(managed));
        for (tier, name) in [(Tier::Local, "l.json"), (Tier::Shared, "s.json"), (Tier::Plugin, "p.json")] {
            place.source(tier, name, &stop(below));
        }
        let load = place.load();
        (place.problems(&load), load.catalog.unwrap(), place.at("m.json"))
    };
    let (_, all, _) = catalog("", r#""disableAllHooks":true,"#);
    assert_eq!(ids(&all), ["m.json#Stop.0.0"], "each of the files below switches off itself");
    let (_, all, _) = catalog("", r#""allowManagedHooksOnly":true,"#);
    assert_eq!(ids(&all), ["m.json#Stop.0.0", "l.json#Stop.0.0", "s.json#Stop.0.0", "p.json#Stop.0.0"]);
    for value in ["true", "\"yes\""] {
        let (problems, all, file) = catalog(&format!(r#""allowManagedHooksOnly":{value},"#), "");
        assert_eq!(ids(&all), ["m.json#Stop.0.0"]);
        let line =
            format!("`allowManagedHooksOnly` in {} switches it off: no source of this tier is read", file.display());
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(line.ends_with(problems[0].rsplit("m.json").next().unwrap()), "{problems:?}");
        let enabled = Tier::ALL.map(|tier| all.settings.tiers.get(tier).permits.enabled);
        assert_eq!(enabled, [true, true, false, false, false], "for what callers offer too");
    }
    let (_, all, _) = catalog(r#""strictPluginOnlyCustomization":["hooks"],"#, "");
    assert_eq!(ids(&all), ["m.json#Stop.0.0", "p.json#Stop.0.0"]);
    let (_, all, _) = catalog(r#""strictPluginOnlyCustomization":["skills"],"allowManagedHooksOnly":false,"#, "");
    assert_eq!(ids(&all).len(), 4);
}

#[test]
fn a_matcher_where_nothing_can_be_tested_is_ignored() {
    check(
        r#"{"hooks":{"Stop":[{"matcher":"*","hooks":[]},{"matcher":"","hooks":[]},{"matcher":"Bash","hooks":[{"type":"command","command":"x"}]}]}}"#,
        &["s.json#Stop.2.0"],
        &["1:83: hooks.Stop[2].matcher: `Stop` has nothing that `Bash` could be tested on, it is ignored"],
    );
}

#[test]
fn other_agents_are_told_by_their_forms() {
    let reason = |name: &str, relay: &str| {
        format!(
            "is a hook of {name}, which hookd does not load: `hookctl import` makes a rule of it, or the agent runs it and asks hookd as well by `{relay}`"
        )
    };
    for (text, at, id, reason) in [
        (
            r#"{"version":1,"hooks":{"preToolUse":[{"bash":"x"}]}}"#,
            "1:37: hooks.preToolUse[0]",
            "preToolUse.0",
            reason("GitHub Copilot CLI", "hookctl relay --agent copilot-cli"),
        ),
        (
            r#"{"version":1,"hooks":{"preToolUse":[{"command":"x"}],"stop":[]}}"#,
            "1:37: hooks.preToolUse[0]",
            "preToolUse.0",
            reason("Cursor", "hookctl relay --agent cursor"),
        ),
        (
            r#"{"version":1,"hooks":{"PreToolUse":[{"command":"x"}]}}"#,
            "1:37: hooks.PreToolUse[0]",
            "PreToolUse.0",
            reason("GitHub Copilot CLI or Cursor", "hookctl relay"),
        ),
        (
            r#"{"hooks":{"BeforeTool":[{"hooks":[{"type":"command","command":"x"}]}]}}"#,
            "1:35: hooks.BeforeTool[0].hooks[0]",
            "BeforeTool.0.0",
            reason("Gemini CLI", "hookctl relay --agent gemini-cli"),
        ),
        (
            r#"{"hooks":{"pre_run_command":[{"command":"x","show_output":true}]}}"#,
            "1:30: hooks.pre_run_command[0]",
            "pre_run_command.0",
            reason("Windsurf", "hookctl relay --agent windsurf"),
        ),
    ] {
        check(text, &[], &[&format!("{at}: {reason}; rule `s.json#{id}` is left out")]);
    }
    // Its own events in another agent's file are Claude Code's all the same.
    check(
        r#"{"version":1,"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x"}]}]}}"#,
        &["s.json#PreToolUse.0.0"],
        &[],
    );
}

#[test]
fn commands_need_the_permission_of_their_tier() {
    let mut place = Place::new();
    place.settings.tiers.get_mut(Tier::Shared).server_commands = false;
    place.source(Tier::Shared, "s.json", r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}"#);
    let load = place.load();
    assert_eq!(
        place.problems(&load)[0],
        "s.json:1:29: hooks.Stop[0].hooks[0]: command hooks of tier shared may not run on this server, unless `tiers.shared.server_commands` is `allow`; rule `s.json#Stop.0.0` is left out"
    );
}

#[test]
fn law_09_the_revision_is_that_of_the_meaning() {
    let revision = |text: &str| loaded(Tier::Managed, text).0.unwrap().revision;
    let file = |matcher: &str, handler: &str| {
        format!(
            r#"{{"hooks":{{"PreToolUse":[{{"matcher":"{matcher}","hooks":[{{"type":"command","command":"x"{handler}}}]}}]}}}}"#
        )
    };
    let base = revision(&file("Bash", ""));
    assert_eq!(base, revision(&file("Bash", r#","statusMessage":"s","description":"d""#)));
    let mut others = vec![
        revision(&file("Bash|Edit", "")),
        revision(&file("Bash", r#","if":"Bash(ls)""#)),
        revision(&file("Bash", r#","timeout":3"#)),
        revision(&file("Bash", r#","args":[]"#)),
        revision(&file("Bash", r#","async":true"#)),
        revision(&file("Bash", r#","onFailure":"block""#)),
        revision(
            r#"{"hooks":[{"event":"PreToolUse","matcher":"Bash","handler":{"type":"command","command":"x","shell":"bash","timeout":60000}}]}"#,
        ),
        revision(
            r#"{"hooks":[{"event":"PreToolUse","matcher":"Bash","protocol":"claude-code","handler":{"type":"command","command":"x","shell":"bash","timeout":60000}}]}"#,
        ),
        base,
    ];
    let all = others.len();
    others.sort();
    others.dedup();
    assert_eq!(others.len(), all);
}
