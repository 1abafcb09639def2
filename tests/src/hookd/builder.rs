//! What a hookd is started with.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use hookd_proto::v1::Tier;
use hyper_util::rt::TokioIo;
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::UnixStream,
    process::{Child, Command},
    time::timeout,
};
use tonic::transport::Channel;

use super::{Hookd, lines::Lines};
use crate::{
    program,
    rules::{TIERS, rule_file, tier_name},
    within,
};

/// How long it may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A hookd to be.
#[derive(Debug)]
pub struct HookdBuilder {
    folder: TempDir,
    settings: Value,
    settings_file: Option<PathBuf>,
    environment: BTreeMap<String, String>,
    arguments: Vec<OsString>,
    program: PathBuf,
}

/// How a hookd ended that did not start.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it wrote on stderr.
    pub stderr: String,
}

impl HookdBuilder {
    pub(super) fn new() -> Self {
        Self {
            folder: TempDir::with_prefix("hookd-test-").unwrap(),
            settings: json!({}),
            settings_file: None,
            environment: BTreeMap::new(),
            arguments: Vec::new(),
            program: program("hookd"),
        }
    }

    /// The managed rules: a list of rules, or a whole rule file.
    #[must_use]
    pub fn managed(self, rules: Value) -> Self {
        self.rules(Tier::Managed, rules)
    }

    /// The team's rules.
    #[must_use]
    pub fn team(self, rules: Value) -> Self {
        self.rules(Tier::Team, rules)
    }

    /// A person's rules.
    #[must_use]
    pub fn local(self, rules: Value) -> Self {
        self.rules(Tier::Local, rules)
    }

    /// A project's rules.
    #[must_use]
    pub fn shared(self, rules: Value) -> Self {
        self.rules(Tier::Shared, rules)
    }

    /// A plugin's rules.
    #[must_use]
    pub fn plugin(self, rules: Value) -> Self {
        self.rules(Tier::Plugin, rules)
    }

    /// The rules of `tier`, in `TIER/rules.json`: a list of rules, or a whole rule file.
    #[must_use]
    pub fn rules(self, tier: Tier, rules: Value) -> Self {
        self.file(&format!("{}/rules.json", tier_name(tier)), &rule_file(rules))
    }

    /// A file in the folder of hookd. What lies in a folder with a tier's name is a source of that tier.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> Self {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Settings that are merged into the harness's own: tables key by key, all else replaced.
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        merge(&mut self.settings, settings);
        self
    }

    /// A settings file that is taken as it is, in the place of the harness's own. It has to listen on free ports.
    #[must_use]
    pub fn settings_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings_file = Some(path.into());
        self
    }

    /// A variable in the environment of hookd.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Another file to run than the one that cargo built.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = path.into();
        self
    }

    /// A file in the folder that hookd will have.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// It does not, within 20 s.
    pub async fn start(self) -> Hookd {
        let mut child = self.spawn();
        let log = Lines::of(child.stderr.take().unwrap());
        let stdout = Lines::of(child.stdout.take().unwrap());
        let ready = timeout(START_LIMIT, stdout.find(ready_line)).await;
        let Ok(Some((grpc, admin))) = ready else {
            let _gone = child.start_kill();
            log.ended().await;
            panic!("hookd is not ready: stdout {:?}, stderr:\n{}", stdout.all(), log.all().join("\n"));
        };
        let address = grpc.iter().find(|address| !address.starts_with("unix:"));
        let channel = address.map_or_else(
            || unix_channel(grpc[0].trim_start_matches("unix:")),
            |address| Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy(),
        );
        let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        Hookd { folder: self.folder, child: child.into(), pid, grpc, admin, stdout, log, channel }
    }

    /// Starts it and waits until it has ended, which it must do before it serves.
    ///
    /// # Panics
    /// It serves, or does not end.
    pub async fn start_refused(self) -> Refused {
        let child = self.spawn();
        let output = within("the end of a hookd that must not start", child.wait_with_output()).await.unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(!stdout.contains("is ready"), "it was ready: {stdout}");
        Refused { code: output.status.code(), stderr: String::from_utf8_lossy(&output.stderr).into_owned() }
    }

    fn spawn(&self) -> Child {
        let folder = self.folder.path();
        fs::create_dir_all(folder.join("tmp")).unwrap();
        let settings = self.settings_file.clone().unwrap_or_else(|| {
            let path = folder.join("hookd.json");
            fs::write(&path, self.complete_settings().to_string()).unwrap();
            path
        });
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy().to_ascii_uppercase();
            if text.starts_with("HOOKD") || text.ends_with("_PROXY") {
                command.env_remove(name);
            }
        }
        command.env("TMPDIR", folder.join("tmp")).envs(&self.environment);
        command.arg("--config").arg(settings).args(&self.arguments).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    /// The harness's own settings, with a source for every tier that has a folder, and what the test asked for.
    fn complete_settings(&self) -> Value {
        let sources = |tier: Tier| {
            let there = self.folder.path().join(tier_name(tier)).is_dir();
            let paths: &[&str] = if there { &[tier_name(tier)] } else { &[] };
            json!({ "sources": paths.iter().map(|path| json!({ "path": path })).collect::<Vec<_>>() })
        };
        let mut settings = json!({
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "tiers": TIERS.iter().map(|tier| (tier_name(*tier).to_owned(), sources(*tier))).collect::<serde_json::Map<_, _>>(),
            "drain": { "min_delay": "0s" },
            "log": { "format": "json" },
        });
        merge(&mut settings, self.settings.clone());
        settings
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// `hookd is ready: grpc=127.0.0.1:1,unix:/path admin=127.0.0.1:2`.
fn ready_line(line: &str) -> Option<(Vec<String>, SocketAddr)> {
    let (grpc, admin) = line.strip_prefix("hookd is ready: grpc=")?.split_once(" admin=")?;
    Some((grpc.split(',').map(str::to_owned).collect(), admin.parse().ok()?))
}

fn unix_channel(path: &str) -> Channel {
    let path = Path::new(path).to_owned();
    let connect = move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    Channel::from_static("http://hookd").connect_with_connector_lazy(tower::service_fn(connect))
}
