//! The client of a collector. What it says of failures holds no header and no URL.

use std::time::Duration;

use hookd_rules::{read_small_file, read_small_text};
use hyper::body::Bytes;
use reqwest::{
    Certificate, Client, Response, StatusCode,
    header::{self, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use url::Url;

use super::OtlpError;
use crate::{settings::OtlpSettings, telemetry::causes};

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    url: Url,
    settings: OtlpSettings,
    /// `None`: it is to be made anew.
    client: Option<Client>,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Posted {
    /// It was taken; the collector may say in its answer that not all of it was.
    Taken(Vec<u8>),
    /// The collector will never take it.
    Refused(String),
    /// It may be taken later.
    NotNow {
        /// Why not now.
        why: String,
        /// Not before so long.
        after: Duration,
    },
}

impl Collector {
    /// The collector that `settings` name, if any.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(super) fn new(settings: &OtlpSettings) -> Result<Option<Self>, OtlpError> {
        let Some(url) = settings.endpoint.clone() else { return Ok(None) };
        headers(settings)?;
        let client = client(&url, settings)?;
        Ok(Some(Self { url, settings: settings.clone(), client: Some(client) }))
    }

    /// Posts a request.
    pub(super) async fn post(&mut self, request: Bytes) -> Posted {
        let posted = match self.prepared() {
            Ok((client, headers)) => send(client.post(self.url.clone()).headers(headers).body(request), self).await,
            Err(error) => Posted::NotNow { why: error.to_string(), after: Duration::ZERO },
        };
        if matches!(posted, Posted::NotNow { .. }) {
            // Made anew, with the authorities as they are then.
            self.client = None;
        }
        posted
    }

    fn prepared(&mut self) -> Result<(Client, HeaderMap), OtlpError> {
        let headers = headers(&self.settings)?;
        let client = match self.client.take() {
            Some(client) => client,
            None => client(&self.url, &self.settings)?,
        };
        self.client = Some(client.clone());
        Ok((client, headers))
    }
}

async fn send(request: reqwest::RequestBuilder, collector: &Collector) -> Posted {
    let limit = collector.settings.timeout;
    let failed = |error: &reqwest::Error| {
        let why = if error.is_timeout() {
            format!("no answer within {}", humantime::format_duration(limit))
        } else {
            causes(error)
        };
        Posted::NotNow { why, after: Duration::ZERO }
    };
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return failed(&error),
    };
    let status = response.status();
    if status.is_success() {
        return Posted::Taken(answer(response).await);
    }
    let why = format!("the answer is {status}");
    // Headers are read anew each time, so that another token may help.
    let may_prove_later =
        collector.settings.headers_file.is_some() && matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Posted::NotNow { why, after: retry_after(&response) },
        _ if may_prove_later => Posted::NotNow { why, after: Duration::ZERO },
        _ => Posted::Refused(why),
    }
}

/// The beginning of an answer. One that breaks off was taken all the same.
async fn answer(mut response: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ANSWER
        && let Ok(Some(more)) = response.chunk().await
    {
        bytes.extend_from_slice(&more);
    }
    bytes
}

fn retry_after(response: &Response) -> Duration {
    let seconds = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

fn client(url: &Url, settings: &OtlpSettings) -> Result<Client, OtlpError> {
    // The builder panics without a provider. Already installed: just as well.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let mut client = Client::builder().redirect(Policy::none()).timeout(settings.timeout).no_proxy();
    if url.scheme() == "http" {
        client = client.tls_certs_only([]);
    } else if let Some(path) = &settings.ca {
        let unusable = |why: String| OtlpError::File { path: path.clone(), what: "certificates of authorities", why };
        let pem = read_small_file(path).map_err(unusable)?;
        let certificates = Certificate::from_pem_bundle(&pem).ok().filter(|all| !all.is_empty());
        client = client.tls_certs_only(certificates.ok_or_else(|| unusable("no certificates in PEM".to_owned()))?);
    }
    client.build().map_err(|error| OtlpError::Client(causes(&error)))
}

/// The headers of a request. The file is small and in memory, as secrets are mounted.
fn headers(settings: &OtlpSettings) -> Result<HeaderMap, OtlpError> {
    let mut headers = HeaderMap::new();
    if let Some(path) = &settings.headers_file {
        let unusable = |why: String| OtlpError::File { path: path.clone(), what: "headers of the collector", why };
        let text = read_small_text(path).map_err(unusable)?;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let parsed = line.split_once(':').and_then(|(name, value)| {
                let name = HeaderName::try_from(name.trim()).ok()?;
                let mut value = HeaderValue::try_from(value.trim()).ok()?;
                value.set_sensitive(true);
                Some((name, value))
            });
            let (name, value) =
                parsed.ok_or_else(|| unusable(format!("line {} is not `Name: value`", at.saturating_add(1))))?;
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("hookd/", env!("CARGO_PKG_VERSION"))));
    Ok(headers)
}
