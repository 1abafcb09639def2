//! Http handlers: one POST with the input as its body, and what the answer means.

mod client;
mod connect;
mod headers;

use std::{
    collections::HashMap,
    ffi::OsString,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    time::Duration,
};

use hookd_rules::HttpHandler;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{CONTENT_ENCODING, TRANSFER_ENCODING},
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, timeout};
use url::Url;

use self::client::Client;
pub use self::client::HttpError;
use super::{
    cut,
    output::{self, Expect},
};
use crate::{
    model::{Failed, Failure, Ran, Rule, Trigger},
    telemetry::{Secrets, all_causes},
};

/// Longest body that is told of an answer that is not 2xx, in bytes.
const MESSAGE_BYTES: usize = 4096;

/// Sends the requests of http handlers.
#[derive(Debug)]
pub(super) struct Http {
    /// Reaches any address.
    open: Client,
    /// Reaches public addresses only.
    public: Client,
    output_bytes: usize,
    secrets: Secrets,
}

/// One request to send.
#[derive(Debug)]
pub(super) struct Post<'a> {
    pub(super) rule: &'a Rule,
    pub(super) trigger: &'a Trigger,
    pub(super) handler: &'a HttpHandler,
    pub(super) body: Vec<u8>,
}

/// What was seen on the way, whatever came of it.
#[derive(Debug, Default)]
struct Seen {
    /// The request was sent a second time.
    retried: AtomicBool,
    /// The status of an answer that is none of success. 0: there was no such answer.
    refused: AtomicU16,
}

/// Says whether the certificates of authorities in a file can be used.
///
/// # Errors
/// [`HttpError`] with what is wrong with it.
pub fn check_authorities(path: &Path) -> Result<(), HttpError> {
    client::authorities(path).map(|_| ())
}

impl Http {
    /// `server` is where proxies are named, `ca` a file of authorities in PEM that are trusted besides the system's;
    /// `output_bytes` caps the body of an answer.
    pub(super) fn new(
        server: &HashMap<OsString, OsString>,
        ca: Option<&Path>,
        output_bytes: usize,
        secrets: Secrets,
    ) -> Result<Self, HttpError> {
        let tls = client::tls(ca.map(client::authorities).transpose()?.unwrap_or_default())?;
        let (open, public) = (Client::new(server, Arc::clone(&tls))?, Client::to_public_addresses(tls));
        Ok(Self { open, public, output_bytes, secrets })
    }

    /// Sends the request and waits for the whole answer within `granted`.
    pub(super) async fn run(&self, post: Post<'_>, granted: Duration) -> Ran {
        let mut expect = Expect { http: true, ..Expect::of(post.rule, post.trigger) };
        let seen = Seen::default();
        let started = Instant::now();
        let body = match timeout(granted, self.exchange(post, &seen)).await {
            Ok(body) => body,
            Err(_) => Err(Failed::timed_out(granted)),
        };
        let mut ran = Ran {
            elapsed: Some(started.elapsed()),
            retried: seen.retried.load(Ordering::Relaxed),
            http_status: Some(seen.refused.load(Ordering::Relaxed)).filter(|status| *status > 0),
            ..Ran::said(Ok(Default::default()))
        };
        let failed = match body {
            Ok(body) => {
                let text = expect.text(&body).into_owned();
                return output::take(ran, text, &expect);
            }
            Err(failed) => failed,
        };
        ran.truncated = failed.kind == Failure::TooLarge;
        if failed.kind == Failure::DidNotStart {
            ran.elapsed = None;
        }
        ran.said = Err(failed);
        ran
    }

    /// The body of the answer, if it is one of success.
    async fn exchange(&self, post: Post<'_>, seen: &Seen) -> Result<Vec<u8>, Failed> {
        let client = if post.handler.public_only { &self.public } else { &self.open };
        let mut response = client.send(request(post, &self.secrets)?, &seen.retried).await?;
        let status = response.status();
        if !status.is_success() {
            seen.refused.store(status.as_u16(), Ordering::Relaxed);
            return Err(refused(status, &mut response).await);
        }
        // None was asked for: what is in it cannot be read, be it a denial.
        if let Some(encoding) = encoded(response.headers()) {
            return Err(Failed::new(Failure::BadOutput, format!("the body has the encoding {encoding:?}")));
        }
        let mut body = Vec::new();
        while let Some(chunk) = chunk(&mut response).await.map_err(|error| broken(&error))? {
            if body.len().saturating_add(chunk.len()) > self.output_bytes {
                let message = format!("a body of more than {} bytes", self.output_bytes);
                return Err(Failed::new(Failure::TooLarge, message));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn request(post: Post<'_>, secrets: &Secrets) -> Result<Request<Full<Bytes>>, Failed> {
    let cannot = |why: String| Failed::new(Failure::DidNotStart, why);
    let headers = headers::headers(&post.handler.headers, &post.trigger.traceparent, secrets).map_err(cannot)?;
    let mut request = Request::new(Full::new(post.body.into()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target(&post.handler.url).map_err(|why| cannot(format!("the url cannot be used: {why}")))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// What of a URL is asked for: not what it says of who asks, nor its fragment.
fn target(url: &str) -> Result<Uri, String> {
    let mut url = Url::parse(url).map_err(|error| error.to_string())?;
    // Fails only for URLs without a host, which are none that can be asked.
    let _ignored = (url.set_username(""), url.set_password(None));
    url.set_fragment(None);
    url.as_str().parse().map_err(|error: http::uri::InvalidUri| error.to_string())
}

/// How the body is encoded, of itself or on its way, other than in chunks. A header can be there more than once.
fn encoded(headers: &HeaderMap) -> Option<&HeaderValue> {
    let other = |name, known: &'static [u8]| {
        headers.get_all(name).into_iter().find(move |value| !value.as_bytes().eq_ignore_ascii_case(known))
    };
    other(CONTENT_ENCODING, b"identity").or_else(|| other(TRANSFER_ENCODING, b"chunked"))
}

/// The next part of the body. `None`: it has ended.
async fn chunk(response: &mut Response<Incoming>) -> Result<Option<Bytes>, hyper::Error> {
    while let Some(frame) = response.frame().await {
        // Trailers say nothing here.
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// `HTTP 503: body`.
async fn refused(status: StatusCode, response: &mut Response<Incoming>) -> Failed {
    let mut body = Vec::new();
    while body.len() < MESSAGE_BYTES
        && let Ok(Some(chunk)) = chunk(response).await
    {
        body.extend_from_slice(&chunk);
    }
    let code = status.as_u16();
    let message = match String::from_utf8_lossy(&body).trim() {
        "" => format!("HTTP {code}"),
        text => format!("HTTP {code}: {}", cut(text, MESSAGE_BYTES)),
    };
    Failed::new(Failure::HttpStatus, message)
}

fn broken(error: &hyper::Error) -> Failed {
    Failed::new(Failure::Connection, format!("the connection broke in the middle of the answer: {}", all_causes(error)))
}

#[cfg(test)]
mod tests;
