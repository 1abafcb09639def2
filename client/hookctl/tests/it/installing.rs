//! `install`: hookd's entries in agents' own settings.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use hookd_agents::{Agent, OnUnavailable, Transport, unanswered};
use hookd_client::proto::{TriggerResponse, Verdict};
use tempfile::TempDir;

use crate::{Ran, hookctl, server::TestServer};

const HOOKCTL: &str = "/usr/local/bin/hookctl";

/// A person's home and a project.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { root: TempDir::new().unwrap() };
        fs::create_dir(place.path("home")).unwrap();
        fs::create_dir(place.path("project")).unwrap();
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn install(&self, args: &[&str]) -> Ran {
        let home = self.path("home");
        let args = [&["install", "--program", HOOKCTL], args].concat();
        hookctl(&self.path("project"), &[("HOME", home.to_str().unwrap())], &args, "")
    }

    #[track_caller]
    fn done(&self, args: &[&str]) -> String {
        let ran = self.install(args);
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{args:?}: {}", ran.out);
        ran.out
    }

    #[track_caller]
    fn refused(&self, args: &[&str], exit: i32, why: &str) {
        let ran = self.install(args);
        assert_eq!(ran, Ran { exit, out: String::new(), err: format!("hookctl: {why}\n") }, "{args:?}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Every file below a folder, with its text.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            found.push((entry.clone(), read(&entry)));
        }
    }
    found.sort();
    found
}

/// What else `agent` needs on the command line.
fn place_of(agent: Agent) -> &'static [&'static str] {
    if agent == Agent::AmazonQ { &["--file", "../home/.aws/amazonq/cli-agents/mine.json"] } else { &[] }
}

#[test]
fn every_agent_gets_its_hooks_once_and_loses_them_again() {
    for agent in Agent::ALL {
        let place = Place::new();
        let install = [&[agent.name()], place_of(agent)].concat();
        let dry = place.done(&install);
        assert!(dry.starts_with("--- /dev/null\n+++ "), "{dry}");
        assert!(dry.ends_with("nothing is written yet, `--write` does so\n"), "{dry}");
        assert_eq!(files(&place.path("home")), [], "a dry run writes nothing");

        let write = [&install[..], &["--write"]].concat();
        assert!(place.done(&write).starts_with("made "));
        let installed = files(&place.path("home"));
        assert_ne!(installed, []);
        assert!(installed.iter().all(|(_, text)| text.contains(&format!("--agent{}", separator(agent, text)))));
        assert_eq!(place.done(&write), "nothing to do\n", "{}", agent.name());
        assert_eq!(files(&place.path("home")), installed);

        let remove = [&write[..], &["--remove"]].concat();
        assert!(place.done(&remove).starts_with("removed "));
        assert_eq!(files(&place.path("home")), [], "{}", agent.name());
        assert_eq!(place.done(&remove), "nothing to do\n");
    }
}

fn separator(agent: Agent, text: &str) -> String {
    if text.contains("--agent\"") { format!("\", \"{}\"", agent.name()) } else { format!(" {}", agent.name()) }
}

/// What agents tell their hooks before a tool runs.
fn before_a_tool(agent: Agent) -> (&'static str, &'static str) {
    let claude = r#"{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t"}"#;
    match agent {
        Agent::GeminiCli => (
            "BeforeTool",
            r#"{"session_id":"s","cwd":"/","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}}"#,
        ),
        Agent::Cursor => (
            "preToolUse",
            r#"{"conversation_id":"s","cwd":"/","hook_event_name":"preToolUse","tool_name":"Shell","tool_input":{"command":"ls"},"tool_use_id":"t"}"#,
        ),
        Agent::Windsurf => (
            "pre_run_command",
            r#"{"agent_action_name":"pre_run_command","trajectory_id":"s","tool_info":{"command_line":"ls","cwd":"/"}}"#,
        ),
        Agent::Goose => (
            "PreToolUse",
            r#"{"event":"PreToolUse","session_id":"s","tool_name":"developer__shell","tool_input":{},"working_dir":"/"}"#,
        ),
        Agent::Cline => {
            ("PreToolUse", r#"{"hookName":"PreToolUse","taskId":"s","preToolUse":{"toolName":"x","parameters":{}}}"#)
        }
        Agent::AmazonQ => {
            ("preToolUse", r#"{"hook_event_name":"preToolUse","cwd":"/","tool_name":"fs_read","tool_input":{}}"#)
        }
        Agent::Kiro => ("PreToolUse", r#"{"session_id":"s","cwd":"/","tool_name":"fs_read","tool_input":{}}"#),
        _ => ("PreToolUse", claude),
    }
}

/// The words that an agent starts for its hook on `event`, from its settings: by a shell unless they are a list.
fn started(settings: &str, event: &str) -> Vec<String> {
    let settings = hookd_json::parse(settings).unwrap();
    let hooks = settings.get("hooks").unwrap();
    let entry = match hooks {
        hookd_json::Value::Array(all) => all.iter().find(|hook| hook.get("trigger").unwrap() == event).unwrap(),
        events => events.pointer(&format!("/{event}/0")).unwrap(),
    };
    let handler = entry.pointer("/hooks/0").or(entry.get("action")).unwrap_or(entry);
    let text = |value: &hookd_json::Value| value.as_str().unwrap().to_owned();
    match handler.get("args") {
        None => ["sh".to_owned(), "-c".to_owned(), text(&handler["command"])].to_vec(),
        Some(args) => {
            let program = handler.get("exec").unwrap_or(&handler["command"]);
            std::iter::once(program).chain(args.as_array().unwrap()).map(text).collect()
        }
    }
}

#[test]
fn what_is_installed_asks_hookd() {
    for agent in Agent::ALL {
        let place = Place::new();
        fs::create_dir(place.path("it's $HOME")).unwrap();
        let program = place.path("it's $HOME/hookctl");
        symlink(env!("CARGO_BIN_EXE_hookctl"), &program).unwrap();
        let none = TriggerResponse { verdict: Verdict::None.into(), ..TriggerResponse::default() };
        let server = TestServer::answering(Ok(none));
        let address = server.address.to_string();
        let options = ["--write", "--address", &address, "--program", program.to_str().unwrap()];
        let install = [&["install", agent.name()], place_of(agent), &options].concat();
        let home = place.path("home");
        let ran = hookctl(&place.path("project"), &[("HOME", home.to_str().unwrap())], &install, "");
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{}", agent.name());
        let (event, input) = before_a_tool(agent);
        let settings = files(&home);
        let argv = match agent {
            Agent::Cline => vec![home.join("Documents/Cline/Hooks/PreToolUse").to_str().unwrap().to_owned()],
            _ => started(&settings.first().unwrap().1, event),
        };
        let mut child = std::process::Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(&home)
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("HOOKD_ADDRESS", "127.0.0.1:1")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{} {argv:?}: {output:?}", agent.name());
        let asked = server.asked();
        let caller = asked.caller.unwrap_or_default();
        assert_eq!((asked.event.as_str(), caller.agent.as_str()), ("PreToolUse", agent.name()));
    }
}

#[test]
fn an_agent_that_wants_to_stop_is_not_held_by_an_input_that_does_not_come() {
    for agent in Agent::ALL {
        let place = Place::new();
        let own = ["--write", "--address", "127.0.0.1:1", "--program", env!("CARGO_BIN_EXE_hookctl")];
        let install = [&["install", agent.name()], place_of(agent), &own].concat();
        let home = place.path("home");
        let ran = hookctl(&place.path("project"), &[("HOME", home.to_str().unwrap())], &install, "");
        assert_eq!((ran.exit, ran.err.as_str()), (0, ""), "{}", agent.name());
        let settings = files(&home);
        let is_there = |event: &&str| {
            settings.iter().any(|(_, text)| text.contains(&format!("--event {event} ")))
                || settings.iter().any(|(_, text)| text.contains(&format!("\"--event\", \"{event}\"")))
        };
        let stop = agent.events().filter(|event| agent.event(event) == Some("Stop")).find(is_there).unwrap();
        let argv = match agent {
            Agent::Cline => vec![home.join("Documents/Cline/Hooks").join(stop).to_str().unwrap().to_owned()],
            _ => started(&settings.first().unwrap().1, stop),
        };
        let output = std::process::Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(&home)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let lets = unanswered(agent, Some(stop), None, Transport::Command, OnUnavailable::Allow, "");
        let said = (output.status.code(), String::from_utf8(output.stdout).unwrap());
        assert_eq!(said, (Some(lets.exit_code.into()), lets.stdout), "{} {argv:?}", agent.name());
    }
}

#[test]
fn what_else_is_in_a_file_stays_as_it_is_byte_by_byte() {
    let settings = [
        "{\"model\":\"x\"}",
        "{\n\t\"b\": 1.0e2,\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{ \"hooks\": [] }\n\t\t]\n\t},\n\t\"a\": \"\\u00e9\"\n}",
        "{\r\n    \"z\": [1,2 , 3],\r\n    \"hooks\": { \"PreToolUse\": [{ \"matcher\": \"Bash\",\r\n  \"hooks\": [{ \"type\": \"command\", \"command\": \"x\" }] }], \"// Stop\": \"off\" }\r\n}\r\n\r\n",
        "\u{feff}{\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"x\" }] },\n      { \"hooks\": [] }\n    ]\n  }\n}\n",
    ];
    for before in settings {
        let place = Place::new();
        let file = place.write("home/.claude/settings.json", before);
        place.done(&["claude-code", "--write"]);
        let after = read(&file);
        assert!(after.matches("\"relay\"").count() > 20, "{after}");
        // All of it stands there still, in its order.
        let mut chars = after.chars();
        assert!(before.chars().all(|char| chars.any(|other| other == char)), "{before}\n{after}");
        assert_eq!(place.done(&["claude-code", "--write"]), "nothing to do\n");
        place.done(&["claude-code", "--write", "--remove"]);
        assert_eq!(read(&file), before);
    }
}

#[test]
fn entries_that_are_not_as_they_should_be_are_brought_up_to_date_in_their_place() {
    let place = Place::new();
    let theirs = r#"{ "command": "theirs relay --agent nobody" }"#;
    let before = format!(
        "{{\n  \"version\": 1,\n  \"hooks\": {{\n    \"stop\": [{{ \"command\": \"/old/hookctl relay --agent cursor\" }}, {theirs}],\n    \"beforeShellExecution\": [{{ \"command\": \"/old/hookctl relay --agent cursor\" }}],\n    \"sessionEnd\": [{theirs}, {{ \"command\": \"/old/hookctl relay --agent cursor\" }}, {{ \"command\": \"/old/hookctl relay --agent cursor\" }}]\n  }}\n}}\n"
    );
    let file = place.write("project/.cursor/hooks.json", &before);
    let install = [
        "cursor",
        "--scope",
        "project",
        "--events",
        "stop,SessionEnd",
        "--address",
        "h:1",
        "--deadline",
        "40s",
        "--write",
    ];
    place.done(&install);
    let ours = |event| {
        let line = format!("{HOOKCTL} relay --agent cursor --event {event} --address h:1 --deadline 40s");
        format!(r#"{{ "command": "{line}", "timeout": 50 }}"#)
    };
    let (stop, end) = (ours("stop"), ours("sessionEnd"));
    let after = format!(
        "{{\n  \"version\": 1,\n  \"hooks\": {{\n    \"stop\": [{stop}, {theirs}],\n    \"sessionEnd\": [{theirs}, {end}]\n  }}\n}}\n"
    );
    assert_eq!(read(&file), after);
    assert_eq!(place.done(&install), "nothing to do\n");
    place.done(&["cursor", "--scope", "project", "--remove", "--write"]);
    let left = format!(
        "{{\n  \"version\": 1,\n  \"hooks\": {{\n    \"stop\": [{theirs}],\n    \"sessionEnd\": [{theirs}]\n  }}\n}}\n"
    );
    assert_eq!(read(&file), left);
}

#[test]
fn a_handler_among_others_of_a_group_is_taken_out_alone() {
    let place = Place::new();
    let group = |ours: &str| {
        format!(
            r#"{{"hooks":{{"PreToolUse":[{{"matcher":"Bash","hooks":[{{"type":"command","command":"x"}}{ours}]}}]}}}}"#
        )
    };
    let mixed = group(r#",{"type":"command","command":"hookctl","args":["relay","--agent","claude-code"]}"#);
    let file = place.write("home/.claude/settings.json", &mixed);
    place.done(&["claude-code", "--remove", "--write"]);
    assert_eq!(read(&file), group(""));
}

#[test]
fn fail_closed_switches_stand_on_what_can_be_blocked() {
    for (agent, key, guards) in [
        (
            "cursor",
            "\"failClosed\": true",
            &["preToolUse", "beforeTabFileRead", "beforeSubmitPrompt", "subagentStart"][..],
        ),
        ("goose", "\"on_failure\": \"block\"", &["PreToolUse"]),
        (
            "qwen-code",
            "\"failMode\": \"closed\"",
            &[
                "PreToolUse",
                "PermissionRequest",
                "PostToolBatch",
                "UserPromptSubmit",
                "UserPromptExpansion",
                "TodoCreated",
                "TodoCompleted",
            ],
        ),
    ] {
        let place = Place::new();
        let text = place.done(&[agent]);
        let events = |text: &str, key: &str| {
            let lines = text.lines().filter(|line| line.contains("relay") && line.contains(key));
            lines.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(events(&text, key), guards, "{agent}");
        let allowing = place.done(&[agent, "--on-unavailable", "allow"]);
        assert_eq!(events(&allowing, key), [""; 0], "{agent}");
        assert!(allowing.contains("--on-unavailable allow"));
    }
    let place = Place::new();
    let claude = place.done(&["claude-code"]);
    for (event, is_guard) in [("PreToolUse", true), ("UserPromptSubmit", true), ("PostToolUse", false), ("Stop", false)]
    {
        let line = claude.lines().find(|line| line.contains(&format!("\"{event}\""))).unwrap();
        assert_eq!(line.contains("\"onFailure\": \"block\""), is_guard, "{line}");
    }
    assert!(!claude.contains("WorktreeCreate"));
}

#[test]
fn http_is_used_where_a_failure_is_no_allow() {
    let place = Place::new();
    let text = place.done(&[
        "claude-code",
        "--http",
        "--address",
        "http://hookd.svc:50051/",
        "--events",
        "SessionStart,PreToolUse,Stop",
    ]);
    for (event, switch) in [("PreToolUse", ", \"onFailure\": \"block\""), ("Stop", "")] {
        let url = format!("http://hookd.svc:50051/v1/hooks/claude-code?event={event}");
        let handler = format!("{{ \"type\": \"http\", \"url\": \"{url}\", \"timeout\": 600{switch} }}");
        assert!(text.contains(&format!("\"{event}\": [{{ \"hooks\": [{handler}] }}]")), "{text}");
    }
    assert!(text.contains("note: a command asks on `SessionStart`: the agent runs no http hooks there\n"), "{text}");
    assert!(text.contains("note: hookd answers under the name `hookd.svc` only where "), "{text}");
    let text = place.done(&["claude-code", "--http", "--on-unavailable", "allow", "--events", "PreToolUse"]);
    let url = "http://127.0.0.1:50051/v1/hooks/claude-code?on_unavailable=allow&event=PreToolUse";
    assert!(text.contains(&format!("\"{url}\", \"timeout\": 600 }}")), "{text}");
    for agent in ["copilot-cli", "qwen-code"] {
        let text = place.done(&[agent, "--http"]);
        for line in text.lines().filter(|line| line.contains("/v1/hooks/")) {
            assert!(!line.contains("\"PreToolUse\"") && !line.contains("\"PermissionRequest\""), "{line}");
        }
        assert!(text.contains("\"PostToolUse\""), "{text}");
    }
    place.refused(&["cursor", "--http"], 64, "cursor has no http hooks");
    place.refused(
        &["claude-code", "--http", "--address", "a:1,b:1"],
        64,
        "an http hook posts to one address, `--address` names several",
    );
    place.refused(
        &["qwen-code", "--http", "--address", "unix:/s"],
        64,
        "an http hook cannot post to `unix:/s`, expected `host:port`",
    );
    place.refused(
        &["copilot-cli", "--http", "--address", "h:1"],
        64,
        "copilot-cli posts without TLS to this machine alone, not to `h:1`",
    );
}

#[test]
fn a_repository_cannot_say_where_hookd_is() {
    // A repository's settings can set HOOKD_ADDRESS for the hooks of an agent: so it stands in the command.
    let place = Place::new();
    let text = place.done(&["codex"]);
    assert!(
        text.contains(&format!("{HOOKCTL} relay --agent codex --event PreToolUse --address 127.0.0.1:50051\"")),
        "{text}"
    );
}

#[test]
fn what_is_shown_to_hookd_stands_beside_where_it_is() {
    let place = Place::new();
    let named = ["--address", "https://h:1", "--token-file", "token", "--ca-file", "/etc/ca.pem"];
    let text = place.done(&[&["codex"], &named[..]].concat());
    let token = place.path("project/token");
    let line = format!(
        "{HOOKCTL} relay --agent codex --event PreToolUse --address https://h:1 --token-file {} --ca-file /etc/ca.pem\"",
        token.display()
    );
    assert!(text.contains(&line), "{text}");

    // Of the environment too: the relay would not believe it.
    let home = place.path("home");
    let variables = [
        ("HOME", home.to_str().unwrap()),
        ("HOOKD_ADDRESS", "https://h:1"),
        ("HOOKD_CLIENT_CERT_FILE", "/c"),
        ("HOOKD_CLIENT_KEY_FILE", "/k"),
    ];
    let install = ["install", "--program", HOOKCTL, "codex"];
    let ran = hookctl(&place.path("project"), &variables, &install, "");
    let line = format!(
        "{HOOKCTL} relay --agent codex --event PreToolUse --address https://h:1 --client-cert-file /c --client-key-file /k\""
    );
    assert!(ran.exit == 0 && ran.out.contains(&line), "{ran:?}");

    place.refused(
        &["codex", "--address", "h:1", "--token-file", "/t"],
        64,
        "the token in /t would travel to `h:1` in the clear, expected `https://host:port`",
    );
    place.refused(
        &["qwen-code", "--http", "--token-file", "/t"],
        64,
        "an http hook shows hookd no credentials, but `--token-file` or its variable is set; leave out `--http`",
    );
    place.refused(
        &["qwen-code", "--http", "--address", "https://h:1"],
        64,
        "an http hook cannot post to `https://h:1`, expected `host:port`",
    );
}

#[test]
fn no_hook_runs_twice() {
    let place = Place::new();
    let settings = place.write("home/managed.json", "{\n  \"permissions\": {}\n}\n");
    let file = ["--file", "../home/managed.json", "--scope", "managed", "--write"];
    let take_over = [&["claude-code", "--take-over"], &file[..]].concat();
    place.done(&take_over);
    let after = read(&settings);
    assert!(after.contains("\"--offer\", \"project,user,plugins\""), "{after}");
    assert!(after.ends_with("  },\n  \"allowManagedHooksOnly\": true\n}\n"), "{after}");
    assert!(place.done(&take_over).starts_with("nothing to do\n"));
    let removed = place.done(&[&["claude-code", "--remove", "--take-over"], &file[..]].concat());
    assert!(removed.starts_with("changed "), "{removed}");
    assert_eq!(read(&settings), "{\n  \"permissions\": {}\n}\n");

    // Without the word, a switch that somebody may have set stays.
    place.done(&take_over);
    let removed = place.done(&[&["claude-code", "--remove"], &file[..]].concat());
    assert!(removed.contains("note: `allowManagedHooksOnly` stays"), "{removed}");
    assert_eq!(read(&settings), "{\n  \"permissions\": {},\n  \"allowManagedHooksOnly\": true\n}\n");

    // The agent runs the hooks of plugins that these settings switch on in any case.
    fs::write(&settings, r#"{ "enabledPlugins": { "a@m": true } }"#).unwrap();
    let forced = place.done(&take_over);
    assert!(forced.contains("note: plugins' hooks are not offered: "), "{forced}");
    assert!(read(&settings).contains("\"--offer\", \"project,user\""));

    for scope in ["user", "project"] {
        place.refused(
            &["claude-code", "--take-over", "--scope", scope],
            64,
            "claude-code can leave its other hook files to hookd only in its managed settings (`--scope managed`, by \
             `allowManagedHooksOnly`): what switches them off elsewhere (`disableAllHooks`) switches this entry off too",
        );
    }
    place.refused(
        &["gemini-cli", "--take-over"],
        64,
        "hookd does not read hook files of gemini-cli, so it cannot run them in its place",
    );

    // Two files of one agent that ask.
    place.done(&["claude-code", "--write"]);
    let other = place.path("home/.claude/settings.json");
    let note = format!("note: {} asks hookd too: with both, each call is asked about twice\n", other.display());
    let second = place.done(&["claude-code", "--scope", "project"]);
    assert!(second.contains(&note), "{second}");

    let note = format!("note: {} asks hookd as claude-code, and vscode runs those hooks too: ", other.display());
    assert!(place.done(&["vscode"]).contains(&note));

    // Two events of one call, and two agents that read one file.
    place.refused(
        &["cursor", "--events", "preToolUse,beforeShellExecution"],
        64,
        "`beforeShellExecution` and `preToolUse` are fired for the same call, which would be asked about twice; take one",
    );
    place.done(&["vscode", "--write"]);
    let shared = place.path("home/.copilot/hooks/hookd.json");
    place.refused(
        &["copilot-cli"],
        1,
        &format!(
            "{}: it asks hookd as vscode already, and copilot-cli would do so too; take that out (`hookctl install \
             vscode --remove`) or name another file with `--file`; it is left as it is",
            shared.display()
        ),
    );
}

#[test]
fn files_that_are_not_understood_are_refused_and_not_touched() {
    let place = Place::new();
    for (agent, text, why) in [
        ("claude-code", "{\"hooks\": {}, \"hooks\": {}}", "duplicate key `hooks` at line 1 column 23"),
        ("claude-code", "[]", "it is an array, expected an object"),
        ("claude-code", "{\"hooks\": []}", "`hooks` is an array, expected an object"),
        ("claude-code", "{\"hooks\": {\"Stop\": {}}}", "`hooks.Stop` is an object, expected a list"),
        ("kiro", "{\"hooks\": {\"Stop\": []}}", "`hooks` is an object, expected a list"),
    ] {
        let file = place.write("home/x.json", text);
        let why = format!("{}: {why}; it is left as it is", file.display());
        place.refused(&[agent, "--file", file.to_str().unwrap(), "--write"], 1, &why);
        assert_eq!(read(&file), text);
    }
    for text in ["{", "{\"a\": 1,}", "\u{0}", &"[".repeat(100_000), "{\"hooks\": {\"Stop\": [1e999999]}} x"] {
        let file = place.write("home/x.json", text);
        assert_eq!(place.install(&["cursor", "--file", "../home/x.json", "--write"]).exit, 1, "{}", text.len());
        assert_eq!(read(&file), text);
    }
    fs::write(place.path("home/x.json"), b"{\"a\": \"\xff\"}").unwrap();
    assert_eq!(place.install(&["cursor", "--file", "../home/x.json", "--write"]).exit, 1);
    let comments = "{\n  // mine\n  \"theme\": \"dark\"\n}\n";
    let file = place.write("home/.gemini/settings.json", comments);
    let ran = place.install(&["gemini-cli", "--write", "--events", "BeforeTool"]);
    let by_hand = format!(
        "A JSON file with comments is not changed, since they could be lost; put this under `hooks`:\n  \
         \"BeforeTool\": [{{ \"hooks\": [{{ \"type\": \"command\", \"command\": \"{HOOKCTL} relay --agent gemini-cli \
         --event BeforeTool --address 127.0.0.1:50051\", \"timeout\": 60000 }}] }}],\n"
    );
    assert_eq!(ran.exit, 1);
    assert!(
        ran.err.starts_with(&format!("hookctl: {}: ", file.display())) && ran.err.ends_with(&by_hand),
        "{}",
        ran.err
    );
    assert_eq!(read(&file), comments);
}

#[test]
fn codexs_requirements_keep_their_comments_and_their_order() {
    let place = Place::new();
    let before = "# policy\nallowed_sandbox_modes = [ 'read-only' ]   # no more\n\n[hooks]\n# here\nmanaged_dir = '/opt'\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"/opt/mine\"\n\n[other]\na = 1\n";
    let file = place.write("home/requirements.toml", before);
    let install = ["codex", "--scope", "managed", "--file", file.to_str().unwrap(), "--write"];
    place.done(&install);
    let after = read(&file);
    for line in before.lines() {
        assert!(after.lines().any(|other| other == line), "{line}\n{after}");
    }
    assert!(after.contains("hooks = true # hookctl install"), "{after}");
    assert_eq!(after.matches(" relay --agent codex").count(), 11, "{after}");
    let again = place.done(&install);
    assert!(again.starts_with("nothing to do\n"), "{again}");
    place.done(&[&install[..], &["--remove"]].concat());
    assert_eq!(read(&file), before);

    let off = place.write("home/requirements.toml", "[features]\nhooks = false\n");
    place.refused(
        &install,
        1,
        &format!("{}: `features.hooks` is not true, so no hook of this file would run; set it", off.display()),
    );
    place.write("home/requirements.toml", "[features\n");
    assert_eq!(place.install(&install).exit, 1);
    assert_eq!(read(&off), "[features\n");
}

#[test]
fn clines_programs_are_made_and_others_are_left() {
    let place = Place::new();
    place.done(&["cline", "--scope", "project", "--write"]);
    let guard = place.path("project/.cline/hooks/PreToolUse");
    let line = format!("{HOOKCTL} relay --agent cline --event PreToolUse --address 127.0.0.1:50051");
    let text = format!(
        "#!/bin/sh\n{line} ||\n    printf '%s\\n' '{{\"cancel\":true,\"errorMessage\":\"hookd could not be asked\"}}'\n"
    );
    assert_eq!(read(&guard), text);
    assert_eq!(fs::metadata(&guard).unwrap().mode() & 0o777, 0o755);
    let watching = read(&place.path("project/.cline/hooks/TaskComplete"));
    assert_eq!(watching, format!("#!/bin/sh\nexec {}\n", line.replace("PreToolUse", "TaskComplete")));

    fs::write(&guard, "#!/bin/sh\nexit 0\n").unwrap();
    let why = format!("{} is there already and is left as it is; call `{line}` from it", guard.display());
    place.refused(&["cline", "--scope", "project", "--write"], 1, &why);
    place.done(&["cline", "--scope", "project", "--write", "--remove"]);
    assert_eq!(files(&place.path("project")), [(guard, "#!/bin/sh\nexit 0\n".to_owned())]);
}

#[test]
fn links_are_written_through_but_not_out_of_a_project() {
    let place = Place::new();
    let real = place.write("home/dotfiles/claude.json", "{}\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(place.path("home/.claude")).unwrap();
    let link = place.path("home/.claude/settings.json");
    symlink(&real, &link).unwrap();
    place.done(&["claude-code", "--write"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(read(&real).contains("claude-code"));
    assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o600, "the mode stays");
    assert_eq!(files(&place.path("home/dotfiles")).len(), 1, "nothing is left beside it");

    // A repository that leads to a file of the person's.
    let mine = place.write("home/mine.json", "{}\n");
    fs::create_dir(place.path("project/.claude")).unwrap();
    symlink(&mine, place.path("project/.claude/settings.json")).unwrap();
    symlink(place.path("home"), place.path("project/.cursor")).unwrap();
    for (agent, path, leads) in
        [("claude-code", ".claude/settings.json", "mine.json"), ("cursor", ".cursor/hooks.json", "hooks.json")]
    {
        let (path, leads) = (place.path("project").join(path), place.path("home").join(leads));
        let project = place.path("project");
        let why = format!(
            "{} leads to {}, out of {}; name that with `--file` if it is meant",
            path.display(),
            leads.display(),
            project.display()
        );
        place.refused(&[agent, "--scope", "project", "--write"], 1, &why);
    }
    assert_eq!(read(&mine), "{}\n");
    let nowhere = place.path("project/.windsurf");
    symlink("nowhere", &nowhere).unwrap();
    let why = format!("{} is a link that leads nowhere (no such file or directory)", nowhere.display());
    place.refused(&["windsurf", "--scope", "project", "--write"], 1, &why);
}

#[test]
fn what_cannot_be_written_is_left_and_nothing_stays_behind() {
    let place = Place::new();
    let file = place.write("home/.claude/settings.json", "{}\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let why = format!("{} is read-only (mode 0444) and is left as it is", file.display());
    place.refused(&["claude-code", "--write"], 1, &why);
    assert!(place.done(&["claude-code"]).contains("--- "), "a dry run reads it");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    place.refused(&["claude-code", "--write"], 1, &format!("{} is not a file", file.display()));
    place.write("home/.cursor", "");
    let ran = place.install(&["cursor", "--write"]);
    assert_eq!((ran.exit, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert_eq!(files(&place.path("home")), [(place.path("home/.cursor"), String::new())]);
}

#[test]
fn wrong_usage_is_named() {
    let place = Place::new();
    for (args, why) in [
        (
            &["amazon-q"][..],
            "no settings of amazon-q for a person, whatever their agents, are known, name their file with `--file`",
        ),
        (
            &["goose", "--scope", "managed"],
            "no settings of goose for a whole machine (linux) are known, name their file with `--file`",
        ),
        (
            &["windsurf", "--events", "PreCompact"],
            "windsurf has no event `PreCompact`, it has pre_run_command, pre_read_code, pre_write_code, pre_mcp_tool_use, post_run_command, post_read_code, post_write_code, post_mcp_tool_use, pre_user_prompt, post_cascade_response, post_cascade_response_with_transcript, post_setup_worktree",
        ),
    ] {
        place.refused(args, 64, why);
    }
    let home = place.path("home");
    let ran = hookctl(&home, &[("HOME", "/x")], &["install", "cursor", "--program", "hookctl"], "");
    assert_eq!((ran.exit, ran.err.as_str()), (64, "hookctl: `--program` is `hookctl`, expected an absolute path\n"));
    assert_eq!(place.install(&["nobody"]).exit, 64);
}

#[test]
fn a_program_says_the_same_as_json() {
    let place = Place::new();
    let ran = place.done(&["windsurf", "--events", "pre_user_prompt", "--output", "json", "--write"]);
    let value = hookd_json::parse(ran.trim_end()).unwrap();
    assert_eq!(value["agent"], "windsurf");
    assert_eq!(value["written"], true);
    assert_eq!(value["files"][0]["path"], place.path("home/.codeium/windsurf/hooks.json").to_str().unwrap());
    assert_eq!(value["files"][0]["change"], "made");
    assert!(value["files"][0]["diff"].as_str().unwrap().contains("+    \"pre_user_prompt\""));
    let program = env!("CARGO_BIN_EXE_hookctl");
    let home = place.path("home");
    let own = hookctl(&home, &[("HOME", home.to_str().unwrap())], &["install", "codex"], "");
    assert!(own.out.contains(&format!("{program} relay --agent codex")), "{}", own.out);
}
