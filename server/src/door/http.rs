//! The admin HTTP side: `/livez`, `/readyz` and `/metrics`, on a listener of its own so that probes work whatever the
//! gRPC side is busy with.

use std::{convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};
use tracing::{debug, warn};

use crate::{drain::Readiness, record::Recorder};

/// A connection that sends no request for this long is closed. Short, since a probe that finds all places taken by such
/// connections waits for it, and a probe that waits too long gets the process killed.
const HEADER_LIMIT: Duration = Duration::from_secs(3);
/// A connection is closed after this, whatever it does.
const CONNECTION_LIMIT: Duration = Duration::from_secs(120);
/// Connections at a time; more wait to be accepted.
const CONNECTIONS: usize = 512;

/// What the pages show.
#[derive(Clone)]
pub struct Pages {
    /// What is waited for.
    pub readiness: Readiness,
    /// More lines for `/readyz`, such as sources whose last load was refused.
    pub details: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// What `/metrics` shows.
    pub recorder: Arc<Recorder>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

/// Serves the pages until the future is dropped.
pub async fn serve(listener: TcpListener, pages: Pages) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept an admin connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = pages.answer(request.method(), request.uri().path());
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_LIMIT)
                .serve_connection(TokioIo::new(stream), service);
            if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_LIMIT, connection).await {
                debug!(%error, "admin connection ended");
            }
            drop(place);
        });
    }
}

impl Pages {
    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let (status, kind, text) = match path {
            "/livez" | "/readyz" | "/metrics" if !matches!(*method, Method::GET | Method::HEAD) => {
                (StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("{method} is not served here, use GET\n"))
            }
            "/livez" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" => self.ready(),
            "/metrics" => (StatusCode::OK, METRICS, self.recorder.exposition()),
            _ => (StatusCode::NOT_FOUND, TEXT, "not found, try /livez, /readyz or /metrics\n".to_owned()),
        };
        let mut answer = Response::new(Full::new(Bytes::from(text)));
        *answer.status_mut() = status;
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        answer
    }

    fn ready(&self) -> (StatusCode, &'static str, String) {
        let waiting = self.readiness.waiting_for();
        let (status, mut text) = if waiting.is_empty() {
            (StatusCode::OK, "ready\n".to_owned())
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned())
        };
        for what in waiting {
            let _ = writeln!(text, "waiting for: {what}");
        }
        for line in (self.details)() {
            let _ = writeln!(text, "{line}");
        }
        (status, TEXT, text)
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::telemetry::DecisionLog;

    fn pages(details: &'static [&'static str]) -> Pages {
        Pages {
            readiness: Readiness::new(),
            details: Arc::new(|| details.iter().map(|line| (*line).to_owned()).collect()),
            recorder: Arc::new(Recorder::new(DecisionLog::silent(), None)),
        }
    }

    async fn get(pages: &Pages, method: Method, path: &str) -> (u16, String) {
        let answer = pages.answer(&method, path);
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_names_what_it_waits_for() {
        let pages = pages(&["stale source: managed /etc/x"]);
        let rules = pages.readiness.wait_for("rules");
        let expected = "not ready\nwaiting for: rules\nstale source: managed /etc/x\n";
        assert_eq!(get(&pages, Method::GET, "/readyz").await, (503, expected.to_owned()));
        drop(rules);
        assert_eq!(
            get(&pages, Method::GET, "/readyz").await,
            (200, "ready\nstale source: managed /etc/x\n".to_owned())
        );
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_refused() {
        let pages = pages(&[]);
        assert_eq!(get(&pages, Method::GET, "/livez").await, (200, "ok\n".to_owned()));
        assert_eq!(
            get(&pages, Method::GET, "/").await,
            (404, "not found, try /livez, /readyz or /metrics\n".to_owned())
        );
        assert_eq!(get(&pages, Method::POST, "/livez").await, (405, "POST is not served here, use GET\n".to_owned()));
        assert!(get(&pages, Method::GET, "/metrics").await.1.ends_with("# EOF\n"));
    }
}
