use std::{path::Path, time::Duration};

use hookd_rules::read_small_text;
use reqwest::{Certificate, Client, header, redirect::Policy};

use crate::{door::identity::keys::MAX_BYTES, settings::KeyServer, telemetry};

/// How long a server may take for all of its answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The text of the key set that the server has now. The client is made anew each time, so that certificates and tokens
/// that were replaced meanwhile are those in use.
///
/// # Errors
/// Why there is none, in one line.
pub(super) async fn fetch(server: &KeyServer) -> Result<String, String> {
    // The builder panics without a provider. Already installed: just as well.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    // Nobody but this server is asked, whatever it answers.
    let mut client = Client::builder().redirect(Policy::none()).timeout(LIMIT);
    if server.url.scheme() == "http" {
        // Loopback, which no proxy reaches.
        client = client.no_proxy().tls_certs_only([]);
    } else if let Some(ca) = &server.ca {
        let pem = read(ca).await?;
        let certificates = Certificate::from_pem_bundle(pem.as_bytes()).ok().filter(|all| !all.is_empty());
        let certificates = certificates.ok_or_else(|| format!("{}: has no certificates in PEM", ca.display()))?;
        client = client.tls_certs_only(certificates);
    }
    let client = client.build().map_err(|error| causes(&error))?;
    let mut request = client.get(server.url.clone()).header(header::ACCEPT, "application/json");
    if let Some(file) = &server.token_file {
        request = request.bearer_auth(read(file).await?.trim());
    }
    let mut answer = request.send().await.map_err(|error| causes(&error))?;
    if !answer.status().is_success() {
        return Err(format!("the answer is {}", answer.status()));
    }
    let mut bytes = Vec::new();
    while let Some(more) = answer.chunk().await.map_err(|error| causes(&error))? {
        bytes.extend_from_slice(&more);
        if bytes.len() > MAX_BYTES {
            return Err(format!("the answer has more than {MAX_BYTES} bytes"));
        }
    }
    String::from_utf8(bytes).map_err(|_| "the answer is not UTF-8".to_owned())
}

async fn read(path: &Path) -> Result<String, String> {
    let owned = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read_small_text(&owned)).await;
    reading.map_err(|error| error.to_string())?.map_err(|why| format!("{}: {why}", path.display()))
}

/// What went wrong, without what stands in the URL.
fn causes(error: &reqwest::Error) -> String {
    if error.is_timeout() { format!("no answer within {} s", LIMIT.as_secs()) } else { telemetry::causes(error) }
}
