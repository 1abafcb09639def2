//! `import`: agents' hook files as native rules.

use std::{fs, path::Path};

use hookd_json::Value;
use hookd_rules::{Format, Handler, LoadSettings, Rule, Tier, check_paths};
use serde_json::json;
use tempfile::TempDir;

use crate::{Ran, hookctl};

fn import(path: &str, text: &str, args: &[&str]) -> Ran {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    let ran = hookctl(folder.path(), &[], &[&["import", path], args].concat(), "");
    if !ran.out.is_empty() {
        loads(&ran.out);
    }
    ran
}

/// The rules of an output, after the loader has taken all of them as a managed file.
fn loads(text: &str) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("imported.yaml");
    fs::write(&file, text).unwrap();
    let load = check_paths(&[file], Tier::Managed, &LoadSettings::default());
    assert!(!load.has_errors(), "{:?}\n{text}", load.problems);
    let rules = Format::Yaml.value(text).unwrap().get("hooks").and_then(Value::as_array).unwrap().clone();
    let is_on = |rule: &&Value| rule.get("disabled").is_none();
    assert_eq!(load.files.first().unwrap().rules, rules.iter().filter(is_on).count(), "{text}");
    rules
}

#[test]
fn claude_codes_hooks_become_rules_that_mean_the_same() {
    let settings = r#"{ "permissions": {}, "hooks": {
        "PreToolUse": [
            { "matcher": "Write|Edit", "hooks": [
                { "type": "command", "command": "guard \"$X\"", "timeout": 5, "onFailure": "block" },
                { "type": "command", "command": "node", "args": ["a b.js", "${CLAUDE_PROJECT_DIR}/x"] },
                { "type": "command", "command": "x", "if": "Bash(git *)" } ] },
            { "matcher": "mcp__.*", "hooks": [ { "type": "http", "url": "http://127.0.0.1:9/x" } ] } ],
        "Stop": [ { "hooks": [ { "type": "command", "command": "note", "async": true }, { "type": "prompt", "prompt": "x" } ] } ]
    } }"#;
    let ran = import("settings.json", settings, &[]);
    assert_eq!(ran.exit, 1);
    let expected = "\
# Made by `hookctl import` of settings.json (claude-code).
hooks:
  - id: \"settings.json#PreToolUse.0.0\"
    event: PreToolUse
    matcher: \"^(Write|apply_patch|Edit)$\"
    handler:
      type: command
      command: \"guard \\\"$X\\\"\"
      shell: bash
      timeout: 5000
    protocol: claude-code
    onError: block
  - id: \"settings.json#PreToolUse.0.1\"
    event: PreToolUse
    matcher: \"^(Write|apply_patch|Edit)$\"
    handler:
      type: command
      argv: [\"node\", \"a b.js\", \"${CLAUDE_PROJECT_DIR}/x\"]
      timeout: 60000
    protocol: claude-code
  - id: \"settings.json#PreToolUse.1.0\"
    event: PreToolUse
    matcher: \"mcp__.*\"
    handler:
      type: http
      url: \"http://127.0.0.1:9/x\"
      timeout: 60000
    protocol: claude-code
  - id: \"settings.json#Stop.0.0\"
    event: Stop
    handler:
      type: command
      command: note
      shell: bash
      timeout: 60000
    protocol: claude-code
    async: true
";
    assert_eq!(ran.out, expected);
    let left_out = ran.err.lines().filter(|line| line.starts_with("left out: ")).collect::<Vec<_>>();
    assert_eq!(left_out.len(), 2, "{}", ran.err);
    assert!(left_out[0].contains("hooks of type `prompt` are not supported"), "{}", ran.err);
    assert_eq!(
        left_out[1],
        "left out: settings.json#PreToolUse.0.2: `if` (`Bash(git *)`) cannot be said in a native rule; say it in `when`"
    );
    let ran = import("settings.json", settings, &["--output", "json"]);
    assert_eq!(hookd_json::parse(ran.out.trim_end()).unwrap(), Format::Yaml.value(expected).unwrap());
}

#[test]
fn a_plugins_root_is_written_down() {
    let hooks = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"\"$CLAUDE_PLUGIN_ROOT\"/x"},
        {"type":"command","command":"${CLAUDE_PLUGIN_ROOT}/y","args":[]}]}]}}"#;
    let ran = import("p/hooks/hooks.json", hooks, &["--agent", "claude-code"]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    let rules = loads(&ran.out);
    let root = rules[0]["handler"]["env"]["CLAUDE_PLUGIN_ROOT"].as_str().unwrap();
    assert!(root.ends_with("/p"), "{root}");
    assert_eq!(rules[1]["handler"]["argv"], json!([format!("{root}/y")]));
}

#[test]
fn guards_that_would_not_be_heard_are_kept_switched_off() {
    let cursor = r#"{ "version": 1, "hooks": {
        "beforeShellExecution": [ { "command": "guard.sh", "matcher": "rm .*", "failClosed": true } ],
        "afterFileEdit": [ { "command": "format.sh", "timeout": 3 } ],
        "stop": [ { "command": "x", "loop_limit": 3 }, { "type": "prompt", "prompt": "x" } ] } }"#;
    let ran = import(".cursor/hooks.json", cursor, &[]);
    let rules = loads(&ran.out);
    assert_eq!(
        rules[0],
        json!({
            "id": "hooks.json#beforeShellExecution.0",
            "event": "PreToolUse",
            "when": "toolKind == 'shell' && params.command.matches(\"rm .*\")",
            "handler": { "type": "command", "command": "guard.sh", "shell": "bash", "timeout": 30000 },
            "onError": "block",
            "disabled": true,
        })
    );
    assert_eq!(
        rules[1],
        json!({
            "id": "hooks.json#afterFileEdit.0",
            "event": "PostToolUse",
            "when": "toolKind == 'edit' || toolKind == 'write'",
            "handler": { "type": "command", "command": "format.sh", "shell": "bash", "timeout": 3000 },
        })
    );
    let expected = "\
left out: hooks.json#beforeShellExecution.0: is kept switched off (`disabled`): it reads and answers in cursor's own form; leave it to the agent, or change it
left out: hooks.json#stop.0: is kept switched off (`disabled`): it reads and answers in cursor's own form; leave it to the agent, or change it
left out: hooks.json#stop.1: handlers of type `prompt` cannot be said in a native rule
note: hooks.json#stop.0: `loop_limit` of the command handler is not carried over
3 rules, 2 of them switched off; 1 left out
";
    assert_eq!((ran.exit, ran.err.as_str()), (1, expected));
}

#[test]
fn other_agents_forms_are_read() {
    for (path, text, args, expected) in [
        (
            "x.json",
            r#"{"version":1,"hooks":{"sessionStart":[{"type":"command","bash":"log","cwd":"it's","env":{"A":"b"},"timeoutSec":5,"matcher":"new"}]}}"#,
            &[][..],
            json!({ "event": "SessionStart", "matcher": "^(?:new)$", "handler": {
                "type": "command", "command": "cd -- 'it'\\''s' || exit 1\nlog", "shell": "bash", "env": { "A": "b" }, "timeout": 5000 } }),
        ),
        (
            ".qwen/settings.json",
            r#"{"hooks":{"PreToolUse":[{"matcher":"write_file","hooks":[{"type":"command","command":"g","timeout":2500,"failMode":"closed"}]}]}}"#,
            &[],
            json!({ "event": "PreToolUse", "matcher": "write_file", "handler": {
                "type": "command", "command": "g", "shell": "bash", "timeout": 2500 }, "protocol": "claude-code", "onError": "block" }),
        ),
        (
            "hooks.json",
            r#"{"hooks":{"PreToolUse":[{"matcher":"shell","hooks":[{"type":"command","command":"g","on_failure":"block"}]}]}}"#,
            &["--agent", "goose"],
            json!({ "event": "PreToolUse", "matcher": "shell", "handler": {
                "type": "command", "command": "g", "shell": "bash", "timeout": 30000 }, "protocol": "claude-code", "onError": "block" }),
        ),
        (
            "x.json",
            r#"{"hooks":{"post_write_code":[{"command":"fmt","working_directory":"/w","show_output":true}]}}"#,
            &[],
            json!({ "event": "PostToolUse", "when": "toolKind == 'edit' || toolKind == 'write'", "handler": {
                "type": "command", "command": "cd -- '/w' || exit 1\nfmt", "shell": "bash", "timeout": 30000 } }),
        ),
        (
            ".gemini/settings.json",
            r#"{"hooks":{"enabled":true,"SessionEnd":[{"hooks":[{"type":"command","command":"x","name":"n"}]}]}}"#,
            &[],
            json!({ "event": "SessionEnd", "handler": {
                "type": "command", "command": "x", "shell": "bash", "timeout": 60000 } }),
        ),
        (
            ".kiro/hooks/a.json",
            r#"{"version":"v1","hooks":[{"name":"n","trigger":"PostFileSave","action":{"type":"command","command":"x"},"timeout":9}]}"#,
            &[],
            json!({ "event": "PostFileSave", "customEvent": true, "handler": {
                "type": "command", "command": "x", "shell": "bash", "timeout": 9000 }, "description": "n" }),
        ),
    ] {
        let ran = import(path, text, args);
        assert_eq!(ran.exit, 0, "{}", ran.err);
        let mut rules = loads(&ran.out);
        rules[0].as_object_mut().unwrap().remove("id");
        assert_eq!(rules, [expected], "{text}");
    }
}

#[test]
fn what_is_no_hook_file_is_refused() {
    for (text, why) in [
        ("{", "x.json: not valid JSON: "),
        ("{\"hooks\":{},\"hooks\":{}}", "x.json: not valid JSON: duplicate key `hooks`"),
        ("[]", "x.json: it has no `hooks`"),
        ("{\"hooks\":[]}", "x.json: it is a file of native rules already, or no agent's that is known"),
    ] {
        let ran = import("x.json", text, &[]);
        assert_eq!((ran.exit, ran.out.as_str()), (1, ""), "{text}");
        assert!(ran.err.starts_with(&format!("hookctl: {why}")), "{}", ran.err);
    }
    let ran = import("config.toml", "[hooks]", &[]);
    let why = "hookctl: config.toml: hooks in TOML are not read, only those in JSON; Codex reads them from `hooks.json` too\n";
    assert_eq!((ran.exit, ran.err.as_str()), (1, why));
    let ran = import("x.json", "{}", &["--agent", "nobody"]);
    assert_eq!(ran.exit, 64);
    let ran = import("x.json", "{}", &["--agent", "cline"]);
    assert_eq!((ran.exit, ran.err.as_str()), (1, "hookctl: x.json: Cline has no hook file, its hooks are programs\n"));
}

/// Every file of the corpus: what comes of it, and that it loads.
#[test]
fn the_corpus_is_imported_and_what_is_imported_loads() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let Ok(entries) = fs::read_dir(&corpus) else {
        return println!("there is no corpus at {}, so nothing is read", corpus.display());
    };
    let mut files = entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut total = [0; 4];
    println!("{:<24} {:>8} {:>6} {:>4} {:>9}", "FILE", "HANDLERS", "RULES", "OFF", "LEFT OUT");
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let folder = TempDir::new().unwrap();
        fs::copy(file, folder.path().join(name)).unwrap();
        let agent = name.rsplit_once('-').unwrap().0;
        let agent = match agent {
            "copilot" => "copilot-cli",
            "grok" => "claude-code",
            other => other,
        };
        let ran = hookctl(folder.path(), &[], &["import", name, "--agent", agent], "");
        let told = hookctl(folder.path(), &[], &["import", name], "");
        if !["codex", "grok"].iter().any(|like_claude| name.starts_with(like_claude)) {
            assert_eq!(told.out, ran.out, "{name} is known by what is in it: {}", told.err);
        }
        assert!(ran.exit == 0 || ran.err.contains("left out: "), "{name}: {}", ran.err);
        let rules = loads(&ran.out);
        let off = rules.iter().filter(|rule| rule.get("disabled").is_some()).count();
        let lost = ran.err.lines().filter(|line| line.starts_with("left out: ")).count() - off;
        assert_eq!(ran.exit == 0, lost + off == 0, "{name}");
        let handlers = handlers(&hookd_json::parse(&fs::read_to_string(file).unwrap()).unwrap()["hooks"]);
        println!("{name:<24} {handlers:>8} {:>6} {off:>4} {lost:>9}", rules.len());
        assert!(rules.len() + lost >= handlers, "{name}: a handler is gone without a word: {}", ran.err);
        for (sum, count) in total.iter_mut().zip([handlers, rules.len(), off, lost]) {
            *sum += count;
        }
    }
    println!(
        "{} files: {} handlers, {} rules ({} of them off), {} left out",
        files.len(),
        total[0],
        total[1],
        total[2],
        total[3]
    );
}

/// Every rule of a file of Claude Code's, as it is loaded and as it is imported.
#[test]
fn what_is_imported_of_the_corpus_means_the_same() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let Ok(entries) = fs::read_dir(&corpus) else {
        return println!("there is no corpus at {}, so nothing is read", corpus.display());
    };
    let mut compared = 0;
    for file in entries.map(|entry| entry.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if !["claude-code", "codex", "grok"].iter().any(|agent| name.starts_with(agent)) {
            continue;
        }
        let folder = TempDir::new().unwrap();
        let own = folder.path().join(name);
        fs::copy(&file, &own).unwrap();
        let ran = hookctl(folder.path(), &[], &["import", name, "--agent", "claude-code"], "");
        let native = folder.path().join("native.yaml");
        fs::write(&native, ran.out).unwrap();
        let load = |path| check_paths(&[path], Tier::Shared, &LoadSettings::default()).catalog.unwrap();
        let (own, native) = (load(own), load(native));
        assert_eq!(own.rules.len(), native.rules.len(), "{name}");
        for (own, native) in own.rules.iter().zip(&native.rules) {
            let facts = |rule: &Rule| {
                let Handler::Command(command) = &rule.handler else { return format!("{:?}", rule.handler) };
                format!("{:?} {:?}", command.program, command.timeout)
            };
            let id = &own.id;
            assert_eq!(facts(own), facts(native), "{id}");
            assert_eq!((id, &own.events, &own.timing), (&native.id, &native.events, &native.timing));
            assert_eq!((own.on_error, own.protocol), (native.on_error, native.protocol), "{id}");
            for tool in TOOLS {
                let matches = |rule: &Rule| rule.matcher.matches(Some(tool));
                assert_eq!(matches(own), matches(native), "{id} on {tool}: {}", native.matcher.as_str());
            }
            compared += 1;
        }
    }
    println!("{compared} rules compared");
}

/// Subjects of matchers: tools of several agents, and others.
const TOOLS: [&str; 24] = [
    "Bash",
    "BashOutput",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "NotebookRead",
    "Task",
    "Agent",
    "TaskCreate",
    "TaskStop",
    "KillShell",
    "Skill",
    "WebFetch",
    "TodoWrite",
    "mcp__git__log",
    "mcp__memory__x",
    "apply_patch",
    "spawn_agent",
    "startup",
    "resume",
    "auto",
    "package.json",
];

/// How many handlers stand under events in `hooks`; those of groups that are switched off by their names do not.
fn handlers(hooks: &Value) -> usize {
    let is_event =
        |name: &str| name.starts_with(|first: char| first.is_ascii_alphabetic()) && !name.starts_with("disabled");
    let lists = hooks.as_object().into_iter().flatten().filter(|(name, _)| is_event(name));
    let entries = lists.filter_map(|(_, list)| list.as_array()).flatten();
    entries.map(|entry| entry.get("hooks").and_then(Value::as_array).map_or(1, Vec::len)).sum()
}
