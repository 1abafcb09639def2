//! The real server as a child process.

mod builder;
mod lines;

use std::{fs, net::SocketAddr, path::PathBuf, process::ExitStatus};

use hookd_proto::v1::{
    ReloadRequest, ReloadResponse, Tier, TriggerRequest, TriggerResponse, admin_service_client::AdminServiceClient,
    hook_service_client::HookServiceClient,
};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::{TcpStream, UdpSocket},
    process::Child,
};
use tonic::{IntoRequest, Status, transport::Channel};
use tower::util::BoxCloneService;

pub use self::builder::{HookdBuilder, Refused};
use self::lines::{Lines, Reading};
use crate::{
    HttpAnswer, Process, eventually, processes,
    rules::{rule_file, tier_name},
    within,
};

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

impl Hookd {
    /// A hookd without rules on free ports of loopback.
    #[must_use]
    pub fn builder() -> HookdBuilder {
        HookdBuilder::new()
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
        self.replace_file(&format!("{}/rules.json", tier_name(tier)), &rule_file(rules));
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

    /// Nobody reads its standard output any more, until somebody does again.
    pub fn read_stdout(&self, reads: bool) {
        self.stdout.read(if reads { Reading::On } else { Reading::Off });
    }

    /// Closes the end of its standard output at which it is read.
    pub async fn close_stdout(&self) {
        self.stdout.read(Reading::Closed);
        self.stdout.ended().await;
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

    /// The first line of its log that `wanted` takes. Lines come a moment after what they are about.
    ///
    /// # Panics
    /// There is none for a long time.
    pub async fn logged(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually("a line in the log", async || self.log_lines().into_iter().find(|line| wanted(line))).await
    }

    /// Its log so far, as it was written.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.log.all().join("\n")
    }

    /// Posts JSON in HTTP/2, on a connection of its own.
    pub async fn post_http2(&self, path: &str, body: &str) -> HttpAnswer {
        self.post_http2_as(path, "application/json", body).await
    }

    /// As [`Self::post_http2`], of another kind of content.
    pub async fn post_http2_as(&self, path: &str, content_type: &str, body: &str) -> HttpAnswer {
        let stream = TokioIo::new(TcpStream::connect(self.address()).await.unwrap());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = hyper::Request::post(format!("http://{}{path}", self.address()))
            .header("content-type", content_type)
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())));
        let answer = within("an answer", sender.send_request(request.unwrap())).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = within("an answer", body.collect()).await.unwrap().to_bytes();
        connection.abort();
        let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        HttpAnswer {
            status: head.status.as_u16(),
            headers: head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Where it can be reached, if it listens on all addresses, by connections that it takes for another machine's: under
    /// this machine's own address. `None`: this machine has loopback alone, and so no peers elsewhere.
    pub async fn address_as_from_elsewhere(&self) -> Option<SocketAddr> {
        // No packet is sent: it only asks which address of ours leads out.
        let outside = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        outside.connect("192.0.2.1:9").await.ok()?;
        Some((outside.local_addr().unwrap().ip(), self.address().port()).into())
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
