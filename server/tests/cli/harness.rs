//! Starts the real binary in a folder of its own and waits for what it says.

use std::{
    fs,
    future::Future,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use hookd_proto::v1::{
    ToolCall, TriggerRequest, admin_service_client::AdminServiceClient, hook_service_client::HookServiceClient,
};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    process::Child,
    sync::{Mutex, mpsc},
    time::timeout,
};
use tonic::transport::{Channel, Endpoint, Uri};

/// Far above what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rule that blocks every tool call.
pub(crate) const RULE: &str = r#"{"hooks": [{"id": "guard", "event": "PreToolUse", "handler": {"type": "decide", "verdict": "block", "reason": "no"}}]}"#;

/// A folder for the files of one server.
pub(crate) struct Folder(TempDir);

/// A running server.
pub(crate) struct Server {
    /// Where gRPC is served, as the ready line says.
    pub(crate) grpc: String,
    /// Where admin HTTP is served.
    pub(crate) admin_address: String,
    child: Mutex<Child>,
    pid: Pid,
    log: Mutex<Log>,
}

struct Log {
    coming: mpsc::UnboundedReceiver<Value>,
    passed_over: Vec<Value>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, whole or not at all.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = self.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// Writes the settings file: free ports on loopback, and `more`.
    pub(crate) fn settings(&self, more: &str) {
        self.settings_with(&format!("listen: 127.0.0.1:0\n{more}"));
    }

    /// Makes a pipe with a name. The future gives what is first written to it.
    pub(crate) fn fifo(&self, name: &str) -> impl Future<Output = String> + use<> {
        let path = self.path().join(name);
        mkfifo(&path);
        let reading = tokio::task::spawn_blocking(move || fs::read_to_string(path).unwrap());
        async move { timeout(PATIENCE, reading).await.expect("nothing was written to the pipe").unwrap() }
    }

    /// Starts a server on free ports, with these settings besides.
    pub(crate) async fn serve(&self, more: &str) -> Server {
        self.settings(more);
        self.start().await
    }

    /// Starts a server with these settings, which say where to listen.
    pub(crate) async fn serve_with(&self, settings: &str) -> Server {
        self.settings_with(settings);
        self.start().await
    }

    fn settings_with(&self, text: &str) {
        // Without sources of their own the tiers would look outside of the folder.
        let tiers = if text.contains("tiers:") { "" } else { "\ntiers: { managed: { sources: [] } }" };
        self.write("hookd.yaml", &format!("admin_listen: 127.0.0.1:0\n{text}{tiers}\n"));
    }

    async fn start(&self) -> Server {
        let mut command = tokio::process::Command::from(hookd(self, &["--config", "hookd.yaml"]));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        let stderr = child.stderr.take().unwrap().into_owned_fd().unwrap();
        let (sender, coming) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(fs::File::from(stderr)).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).unwrap_or(Value::String(line)));
            }
        });
        let mut stdout = tokio::io::BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        let reading = tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut ready);
        timeout(PATIENCE, reading).await.expect("the server did not get ready").unwrap();
        let addresses = ready.trim_end().strip_prefix("hookd is ready: grpc=").unwrap_or_else(|| panic!("{ready:?}"));
        let (grpc, admin_address) = addresses.split_once(" admin=").unwrap();
        Server {
            grpc: grpc.to_owned(),
            admin_address: admin_address.to_owned(),
            child: Mutex::new(child),
            pid,
            log: Mutex::new(Log { coming, passed_over: Vec::new() }),
        }
    }
}

impl Server {
    pub(crate) async fn channel(&self) -> Channel {
        match self.grpc.strip_prefix("unix:").map(PathBuf::from) {
            None => Channel::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap(),
            Some(path) => {
                let connect = move |_: Uri| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                };
                Endpoint::from_static("http://hookd").connect_with_connector(tower::service_fn(connect)).await.unwrap()
            }
        }
    }

    pub(crate) async fn hooks(&self) -> HookServiceClient<Channel> {
        HookServiceClient::new(self.channel().await)
    }

    pub(crate) async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel().await)
    }

    /// Status and body of an admin page.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.admin_address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: hookd\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Waits for the process's exit code.
    pub(crate) async fn exit(&self) -> Option<i32> {
        let mut child = self.child.lock().await;
        timeout(PATIENCE, child.wait()).await.expect("the server did not exit").unwrap().code()
    }

    /// Waits for a log line with this message; each is given once.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        self.logged_where(message, |_| true).await
    }

    /// Waits for a log line with this message of which `wanted` holds.
    pub(crate) async fn logged_where(&self, message: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let wanted = |line: &Value| line["message"] == message && wanted(line);
        let mut log = self.log.lock().await;
        if let Some(found) = log.passed_over.iter().position(&wanted) {
            return log.passed_over.remove(found);
        }
        loop {
            let next = timeout(PATIENCE, log.coming.recv()).await;
            let Ok(Some(line)) = next else { panic!("`{message}` was not logged: {:#?}", log.passed_over) };
            if wanted(&line) {
                return line;
            }
            log.passed_over.push(line);
        }
    }
}

/// Runs the binary to its end: exit code, stdout, stderr.
pub(crate) fn run(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let output = hookd(folder, arguments).envs(environment.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A managed rule file with one command that must decide.
pub(crate) fn command_rule(command: &str) -> String {
    format!(
        r#"{{"hooks": [{{"id": "slow", "event": "PreToolUse", "mustDecide": true, "handler": {{"type": "command", "command": "{command}", "timeout": 60000, "cwd": ".."}}}}]}}"#
    )
}

/// A call of this tool that is about to run.
pub(crate) fn trigger(tool: &str) -> TriggerRequest {
    TriggerRequest {
        event: "PreToolUse".to_owned(),
        tool_call: Some(ToolCall { tool: tool.to_owned(), ..ToolCall::default() }),
        ..TriggerRequest::default()
    }
}

pub(crate) fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Asserts that the process whose id this is, as text, is no more.
pub(crate) fn assert_gone(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    assert!(test_kill_process(pid).is_err(), "process {pid:?} lives");
}

fn hookd(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookd"));
    command.args(arguments).current_dir(folder.path()).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}
