//! A collector of OTLP over HTTP.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    logs::v1::{LogRecord, ResourceLogs},
    trace::v1::{ResourceSpans, Span},
};
use prost::Message as _;

use crate::{HttpStub, Issued, Place, Reply, Request, TlsFront, eventually};

/// A collector that remembers what it took. Dropping it closes it.
#[derive(Debug)]
pub struct Collector {
    stub: HttpStub,
    answer: Arc<Mutex<Reply>>,
    taken: Arc<Mutex<Vec<Request>>>,
    tls: Option<TlsFront>,
}

impl Collector {
    /// On a free port of loopback.
    pub async fn start() -> Self {
        Self::start_at(&Place::free()).await
    }

    /// At `place`, where there was none before.
    ///
    /// # Panics
    /// Somebody listens there.
    pub async fn start_at(place: &Place) -> Self {
        let answer = Arc::new(Mutex::new(Reply::ok("")));
        let taken = Arc::<Mutex<Vec<Request>>>::default();
        let (answers, takes) = (Arc::clone(&answer), Arc::clone(&taken));
        let script = move |request: &Request| {
            let reply = answers.lock().unwrap().clone();
            if reply.is_ok() {
                takes.lock().unwrap().push(request.clone());
            }
            reply
        };
        Self { stub: HttpStub::start_at(place, script).await, answer, taken, tls: None }
    }

    /// On a free port of loopback, over TLS with this certificate.
    ///
    /// # Panics
    /// The certificate cannot be used.
    pub async fn start_with_tls(issued: &Issued) -> Self {
        let collector = Self::start().await;
        let front = TlsFront::before(collector.stub.address(), issued).await;
        Self { tls: Some(front), ..collector }
    }

    /// Answers so from now on. What it does not answer with 200 it does not take.
    pub fn answers(&self, reply: Reply) {
        *self.answer.lock().unwrap() = reply;
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.tls {
            Some(front) => format!("https://{}", front.address()),
            None => self.stub.url(""),
        }
    }

    /// Everything that was sent, taken or not.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.stub.requests()
    }

    /// The log records that were taken, and all that stands around them.
    #[must_use]
    pub fn logs(&self) -> Vec<ResourceLogs> {
        let requests = self.taken("/v1/logs");
        requests.flat_map(|body| ExportLogsServiceRequest::decode(&*body).unwrap().resource_logs).collect()
    }

    /// The log records that were taken.
    #[must_use]
    pub fn log_records(&self) -> Vec<LogRecord> {
        let scopes = self.logs().into_iter().flat_map(|logs| logs.scope_logs);
        scopes.flat_map(|scope| scope.log_records).collect()
    }

    /// Waits until `count` log records were taken, and gives all that were.
    pub async fn wait_for_log_records(&self, count: usize) -> Vec<LogRecord> {
        let what = format!("{count} log records");
        eventually(&what, async || Some(self.log_records()).filter(|records| records.len() >= count)).await
    }

    /// The spans that were taken, and all that stands around them.
    #[must_use]
    pub fn traces(&self) -> Vec<ResourceSpans> {
        let requests = self.taken("/v1/traces");
        requests.flat_map(|body| ExportTraceServiceRequest::decode(&*body).unwrap().resource_spans).collect()
    }

    /// Waits until `count` spans were taken, and gives all that were.
    pub async fn wait_for_spans(&self, count: usize) -> Vec<Span> {
        let what = format!("{count} spans");
        let spans = || {
            let scopes = self.traces().into_iter().flat_map(|traces| traces.scope_spans);
            scopes.flat_map(|scope| scope.spans).collect::<Vec<_>>()
        };
        eventually(&what, async || Some(spans()).filter(|spans| spans.len() >= count)).await
    }

    fn taken(&self, path: &str) -> impl Iterator<Item = Vec<u8>> {
        let begin = format!("POST {path} HTTP/1.1\r\n");
        let taken = self.taken.lock().unwrap().clone();
        taken.into_iter().filter(move |request| request.head.starts_with(&begin)).map(|request| request.bytes)
    }
}
