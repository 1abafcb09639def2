//! `hookctl relay` as agents run it: the real binary, each agent's own input, and what that agent makes of the answer.

pub mod agents;
mod failures;
pub mod offers;
pub mod servers;
mod whereabouts;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use hookd_tests::{Hookd, decide, pre_tool_use, program, rule, within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::unix::pipe, process::Command};

use self::agents::{AGENTS, STOPPING, Taken, shell_call, stop_call, stops, taken};

/// What every empty pipe takes without blocking.
const PIPE_BYTES: usize = 4096;

/// What one run of the relay gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

/// A relay to be run, with nothing of this machine's own settings.
#[derive(Debug)]
pub struct Relay {
    folder: TempDir,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    cwd: Option<PathBuf>,
}

impl Relay {
    /// `hookctl relay --agent AGENT`, with a `relay.yaml` that says nothing.
    pub fn of(agent: &str) -> Self {
        let folder = TempDir::with_prefix("hookd-relay-").unwrap();
        let relay = Self {
            folder,
            arguments: ["relay", "--agent", agent].map(str::to_owned).to_vec(),
            variables: Vec::new(),
            cwd: None,
        };
        let config = relay.config("# nothing");
        relay.with(&["--config", config.to_str().unwrap()])
    }

    /// A bare `hookctl` with these arguments.
    pub fn bare(arguments: &[&str]) -> Self {
        let folder = TempDir::with_prefix("hookd-relay-").unwrap();
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        Self { folder, arguments, variables: Vec::new(), cwd: None }
    }

    /// With more arguments.
    pub fn with<A: AsRef<str>>(mut self, arguments: &[A]) -> Self {
        self.arguments.extend(arguments.iter().map(|it| it.as_ref().to_owned()));
        self
    }

    /// Of the hookd at this address.
    pub fn at(self, address: impl ToString) -> Self {
        self.with(&["--address".to_owned(), address.to_string()])
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Started in this folder.
    pub fn cwd(mut self, cwd: &Path) -> Self {
        self.cwd = Some(cwd.to_owned());
        self
    }

    /// What its `relay.yaml` says; only its owner can write it.
    pub fn config(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("relay.yaml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(program("hookctl"));
        command.args(&self.arguments).env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir(self.cwd.as_deref().unwrap_or(self.folder.path()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    pub async fn run(&self, input: &Value) -> Ran {
        self.run_text(&input.to_string()).await
    }

    pub async fn run_text(&self, input: &str) -> Ran {
        // One that is late may be gone before it has read anything.
        self.run_and_see(input).await.0
    }

    /// Also says whether it has read all of its input.
    pub async fn run_and_see(&self, input: &str) -> (Ran, bool) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // What every pipe takes is there before the relay starts, and with it its time.
        let (first, rest) = input.as_bytes().split_at(input.len().min(PIPE_BYTES));
        writer.write_all(first).unwrap();
        let rest = (!rest.is_empty()).then(|| (pipe::Sender::from_owned_fd(writer.into()).unwrap(), rest));
        let child = self.command().stdin(reader).spawn().unwrap();
        let writing = async move {
            match rest {
                Some((mut writer, rest)) => writer.write_all(rest).await.is_ok(),
                None => true,
            }
        };
        let both = async { tokio::join!(writing, child.wait_with_output()) };
        let (written, output) = within("the end of a relay", both).await;
        let output = output.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let exit = output.status.code().unwrap_or_else(|| panic!("{:?}", output.status));
        (Ran { exit, out: text(output.stdout), err: text(output.stderr) }, written)
    }
}

#[tokio::test]
async fn every_agent_gets_its_block_its_allow_and_its_nothing_in_its_own_words() {
    let says_no = json!({ "verdict": "block", "reason": "not here" });
    let hookd = Hookd::builder().managed(json!([rule("no-shell", "PreToolUse", decide(says_no))])).start().await;
    let says_yes = json!({ "verdict": "allow", "reason": "known" });
    let yes = Hookd::builder().managed(json!([rule("known", "PreToolUse", decide(says_yes))])).start().await;
    let silent = Hookd::builder().start().await;
    for agent in AGENTS {
        let (input, arguments) = shell_call(agent);
        let ran = Relay::of(agent).with(arguments).at(hookd.address()).run(&input).await;
        let Taken::Block(reason) = taken(agent, &ran) else { panic!("{agent}: {ran:?}") };
        assert!(reason.starts_with("not here (no-shell, 0"), "{agent}: {reason}");
        let ran = Relay::of(agent).with(arguments).at(silent.address()).run(&input).await;
        assert_eq!(taken(agent, &ran), Taken::Nothing, "{agent}: {ran:?}");
        // Those that have no word for it go by their own prompts.
        let has_allow = !matches!(agent, "codex" | "windsurf" | "cline" | "amazon-q" | "kiro");
        let ran = Relay::of(agent).with(arguments).at(yes.address()).run(&input).await;
        let expected = if has_allow { Taken::Allow } else { Taken::Nothing };
        assert_eq!(taken(agent, &ran), expected, "{agent}: {ran:?}");
    }
}

#[tokio::test]
async fn an_agent_that_must_go_on_is_told_so_and_one_that_may_stop_stops() {
    let says_no = json!({ "verdict": "block", "reason": "run the tests" });
    let hookd = Hookd::builder().managed(json!([rule("tests", "Stop", decide(says_no))])).start().await;
    let silent = Hookd::builder().start().await;
    for agent in STOPPING {
        let (input, arguments) = stop_call(agent);
        let ran = Relay::of(agent).with(arguments).at(hookd.address()).run(&input).await;
        assert!(!stops(agent, &ran), "{agent}: {ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains("run the tests"), "{agent}: {ran:?}");
        let ran = Relay::of(agent).with(arguments).at(silent.address()).run(&input).await;
        assert!(stops(agent, &ran), "{agent}: {ran:?}");
    }
}

#[tokio::test]
async fn hookd_sees_who_asks_and_what_for() {
    let when = "caller.claimed.agent == 'goose' && toolKind == 'shell' && params.command == 'ls' && cwd == '/tmp'";
    let guard = json!({
        "id": "guard", "event": "PreToolUse", "when": when, "handler": { "type": "decide", "verdict": "block" },
    });
    let hookd = Hookd::builder().managed(json!([guard])).start().await;
    let (input, _) = shell_call("goose");
    let ran = Relay::of("goose").at(hookd.address()).run(&input).await;
    assert!(matches!(taken("goose", &ran), Taken::Block(_)), "{ran:?}");
    // The same over its unix socket, and from another agent it is none of that rule's business.
    let builder = Hookd::builder().managed(json!([rule("all", "PreToolUse", decide(json!({ "verdict": "block" })))]));
    let socket = format!("unix:{}", builder.path("h.sock").display());
    let hookd = builder.settings(json!({ "listen": socket })).start().await;
    let ran = Relay::of("goose").at(&socket).run(&input).await;
    assert!(matches!(taken("goose", &ran), Taken::Block(_)), "{ran:?}");
    drop(hookd.trigger(pre_tool_use("Bash", json!({}))).await);
}
