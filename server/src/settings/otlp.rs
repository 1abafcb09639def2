//! Where telemetry goes by OTLP: to an OpenTelemetry collector, over HTTP.

use std::{path::PathBuf, time::Duration};

use config::Value;
use hookd_json::Value as Json;
use serde_json::json;
use url::Url;

use super::{
    identity,
    print::{duration, size},
    section::{Section, text},
};

/// A collector, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Where requests are posted to, with the path. `None`: nothing is exported.
    pub endpoint: Option<Url>,
    /// A file of headers, `Name: value` on each line. It is read anew for each request.
    pub headers_file: Option<PathBuf>,
    /// Certificates of the authorities that the collector may be certified by, in the place of the system's.
    pub ca: Option<PathBuf>,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// What may wait to be exported, in bytes.
    pub queue_bytes: usize,
}

const ENDPOINT: &str = "an http or https URL, such as http://collector:4318";

impl Default for OtlpSettings {
    fn default() -> Self {
        Self { endpoint: None, headers_file: None, ca: None, timeout: Duration::from_secs(10), queue_bytes: 16 << 20 }
    }
}

/// Reads a collector. `path` is where it takes what this one is for, such as `/v1/logs`: it is added to an endpoint
/// without one.
pub(super) fn otlp(mut section: Section<'_, '_>, path: &str) -> OtlpSettings {
    let defaults = OtlpSettings::default();
    let settings = OtlpSettings {
        endpoint: endpoint(&mut section, path),
        headers_file: section.path("headers_file", "a path, such as /etc/hookd/otlp-headers"),
        ca: section.path("ca", "a path, such as /etc/hookd/ca.crt"),
        timeout: section.duration("timeout", defaults.timeout),
        queue_bytes: section.size("queue_bytes", defaults.queue_bytes),
    };
    if let (Some(url), Some(_)) = (&settings.endpoint, &settings.headers_file)
        && !identity::is_safe(url)
    {
        let message = "needs an endpoint with https, or http on loopback: headers hold secrets";
        section.problem("headers_file", None, message);
    }
    section.end();
    settings
}

fn endpoint(section: &mut Section<'_, '_>, path: &str) -> Option<Url> {
    let given = section.peek("endpoint").cloned();
    let holds_more = |value: &Value| text(value).is_some_and(|text| text.contains(['@', '?', '#']));
    if given.as_ref().is_some_and(holds_more) {
        // Not shown: it may be a secret.
        let message = format!("has a user, a query or a fragment, and is not {ENDPOINT}; secrets go into headers_file");
        section.problem("endpoint", given.as_ref(), &message);
        section.read("endpoint", |_| Some(()), ENDPOINT);
        return None;
    }
    let usable = |url: &Url| url.has_host() && matches!(url.scheme(), "http" | "https");
    let mut url = section.read("endpoint", |value| Url::parse(text(value)?).ok().filter(usable), ENDPOINT)?;
    if !cfg!(feature = "otlp") {
        section.problem("endpoint", given.as_ref(), "this hookd was built without the cargo feature `otlp`");
    }
    if url.path() == "/" {
        url.set_path(path);
    }
    Some(url)
}

pub(super) fn tree(settings: &OtlpSettings) -> Json {
    let OtlpSettings { endpoint, headers_file, ca, timeout, queue_bytes } = settings;
    json!({
        "endpoint": endpoint.as_ref().map(Url::as_str),
        "headers_file": headers_file,
        "ca": ca,
        "timeout": duration(*timeout),
        "queue_bytes": size(*queue_bytes),
    })
}
