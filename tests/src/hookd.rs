//! The real server as a child process.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use hookd_proto::v1::{
    ReloadRequest, ReloadResponse, Tier, TriggerRequest, TriggerResponse, admin_service_client::AdminServiceClient,
    hook_service_client::HookServiceClient,
};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    net::{TcpStream, UnixStream},
    process::{Child, Command},
    sync::watch,
    time::timeout,
};
use tonic::{IntoRequest, Status, transport::Channel};
use tower::util::BoxCloneService;

use crate::{Process, processes, program, within};

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
}

/// A running hookd.
#[derive(Debug)]
pub struct Hookd {
    folder: TempDir,
    child: tokio::sync::Mutex<Child>,
    pid: Pid,
    /// Addresses of gRPC, as the ready line names them.
    grpc: Vec<String>,
    admin: SocketAddr,
    stdout: Lines,
    log: Lines,
    channel: Channel,
}

/// A connection that does not watch deadlines.
pub type PatientChannel =
    BoxCloneService<hyper::Request<tonic::body::Body>, hyper::Response<hyper::body::Incoming>, hyper::Error>;

/// How a hookd ended that did not start.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it wrote on stderr.
    pub stderr: String,
}

/// The lines of an output so far.
#[derive(Debug, Clone)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    /// How many there are, and whether the output has ended.
    state: watch::Receiver<(usize, bool)>,
}

impl HookdBuilder {
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
        self.file(&format!("{}/rules.json", name(tier)), &rule_file(rules))
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
        let _too_late = timeout(START_LIMIT, stdout.first()).await;
        let ready = stdout.all();
        let Some((grpc, admin)) = ready.first().and_then(|line| ready_line(line)) else {
            let _gone = child.start_kill();
            log.ended().await;
            panic!("hookd is not ready: stdout {ready:?}, stderr:\n{}", log.all().join("\n"));
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
        let mut command = Command::new(program("hookd"));
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
            let there = self.folder.path().join(name(tier)).is_dir();
            let paths: &[&str] = if there { &[name(tier)] } else { &[] };
            json!({ "sources": paths.iter().map(|path| json!({ "path": path })).collect::<Vec<_>>() })
        };
        let mut settings = json!({
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "tiers": TIERS.iter().map(|tier| (name(*tier).to_owned(), sources(*tier))).collect::<serde_json::Map<_, _>>(),
            "drain": { "min_delay": "0s" },
            "log": { "format": "json" },
        });
        merge(&mut settings, self.settings.clone());
        settings
    }
}

impl Hookd {
    /// A hookd without rules on free ports of loopback.
    #[must_use]
    pub fn builder() -> HookdBuilder {
        HookdBuilder {
            folder: TempDir::with_prefix("hookd-test-").unwrap(),
            settings: json!({}),
            settings_file: None,
            environment: BTreeMap::new(),
            arguments: Vec::new(),
        }
    }

    /// Asks.
    ///
    /// # Panics
    /// The answer is a status.
    pub async fn trigger(&self, request: impl IntoRequest<TriggerRequest>) -> TriggerResponse {
        self.try_trigger(request).await.unwrap()
    }

    /// Asks.
    ///
    /// # Errors
    /// The status.
    pub async fn try_trigger(&self, request: impl IntoRequest<TriggerRequest>) -> Result<TriggerResponse, Status> {
        let mut client = HookServiceClient::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        Ok(within("an answer", client.trigger(request)).await?.into_inner())
    }

    /// The generated client, on a connection of its own.
    pub async fn client(&self) -> HookServiceClient<Channel> {
        let channel = Channel::from_shared(format!("http://{}", self.address())).unwrap();
        HookServiceClient::new(channel.connect().await.unwrap())
    }

    /// The generated client on a bare connection: it sends `grpc-timeout` and does not watch it, so that what comes
    /// back is always the server's own answer.
    pub async fn patient_client(&self) -> HookServiceClient<PatientChannel> {
        let stream = TokioIo::new(TcpStream::connect(self.address()).await.unwrap());
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let send = tower::service_fn(move |request| sender.clone().send_request(request));
        let origin = format!("http://{}", self.address()).parse().unwrap();
        HookServiceClient::with_origin(BoxCloneService::new(send), origin)
    }

    /// The generated client of the administration.
    #[must_use]
    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
    }

    /// The connection that [`Self::trigger`] uses, for other services.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Reads all rules again.
    ///
    /// # Panics
    /// The answer is a status.
    pub async fn reload(&self) -> ReloadResponse {
        let mut admin = self.admin();
        within("a reload", admin.reload(ReloadRequest {})).await.unwrap().into_inner()
    }

    /// Puts other rules in the place of a tier's `rules.json`, in one step: a list of rules, or a whole rule file.
    pub fn rewrite_rules(&self, tier: Tier, rules: Value) {
        self.replace_file(&format!("{}/rules.json", name(tier)), &rule_file(rules));
    }

    /// Puts a file in its place in one step.
    pub fn replace_file(&self, path: &str, text: &str) {
        let path = self.path(path);
        let new = self.path("tmp/new-file");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// A file in its folder.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The first TCP address of gRPC.
    ///
    /// # Panics
    /// It listens on unix sockets alone.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.grpc.iter().find_map(|address| address.parse().ok()).expect("a TCP address")
    }

    /// All addresses of gRPC, as the ready line names them.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.grpc
    }

    /// The address of the admin HTTP server.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What its handlers started and is still there, zombies included.
    #[must_use]
    pub fn children(&self) -> Vec<Process> {
        processes::of(self.pid.as_raw_nonzero().get(), &self.path("tmp"))
    }

    /// Its resident memory, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Waits until it has ended.
    pub async fn wait_exit(&self) -> ExitStatus {
        let mut child = self.child.lock().await;
        let status = within("the end of hookd", child.wait()).await.unwrap();
        self.log.ended().await;
        status
    }

    /// What it has printed on stdout so far.
    #[must_use]
    pub fn stdout_lines(&self) -> Vec<String> {
        self.stdout.all()
    }

    /// Its log so far, line by line.
    #[must_use]
    pub fn log_lines(&self) -> Vec<Value> {
        let lines = self.log.all();
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!({ "text": line }))).collect()
    }

    /// Its log so far, as it was written.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.log.all().join("\n")
    }

    /// Asks its admin HTTP server for a page: status and body.
    pub async fn admin_get(&self, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.admin).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = hyper::Request::get(path).header("host", self.admin.to_string()).body(Empty::<Bytes>::new());
        let answer = within("a page", sender.send_request(request.unwrap())).await.unwrap();
        let status = answer.status().as_u16();
        let body = within("a page", answer.into_body().collect()).await.unwrap().to_bytes();
        connection.abort();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// One number of `/metrics`, by its name with its labels as they stand there. Absent: 0.
    pub async fn metric(&self, series: &str) -> f64 {
        let (_, page) = self.admin_get("/metrics").await;
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }
}

impl Drop for Hookd {
    /// So that no test leaves anything behind: hookd itself is killed with its handle.
    fn drop(&mut self) {
        let left = self.children();
        let _ended_already = self.child.get_mut().start_kill();
        for process in left.iter().chain(&self.children()) {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ended_already = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Lines {
    fn of(output: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (sender, state) = watch::channel((0, false));
        let all = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut output = BufReader::new(output).lines();
            while let Ok(Some(line)) = output.next_line().await {
                all.lock().unwrap().push(line);
                sender.send_modify(|(count, _)| *count += 1);
            }
            sender.send_modify(|(_, ended)| *ended = true);
        });
        Self { lines, state }
    }

    fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for the first line, or for the end.
    async fn first(&self) {
        let mut state = self.state.clone();
        let _reader_is_gone = state.wait_for(|(count, ended)| *count > 0 || *ended).await;
    }

    async fn ended(&self) {
        let mut state = self.state.clone();
        let _reader_is_gone = within("the end of an output", state.wait_for(|(_, ended)| *ended)).await;
    }
}

const TIERS: [Tier; 5] = [Tier::Managed, Tier::Team, Tier::Local, Tier::Shared, Tier::Plugin];

fn name(tier: Tier) -> &'static str {
    match tier {
        Tier::Managed => "managed",
        Tier::Team => "team",
        Tier::Local => "local",
        Tier::Shared => "shared",
        Tier::Plugin => "plugin",
        Tier::Unspecified => panic!("a tier"),
    }
}

/// A list of rules as a file of them; a whole file as it is.
fn rule_file(rules: Value) -> String {
    match rules {
        Value::Array(_) => json!({ "hooks": rules }).to_string(),
        whole => whole.to_string(),
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
