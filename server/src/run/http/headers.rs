//! Headers of a request: hookd's own and the rule's.

use hookd_rules::ValuePart;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::telemetry::Secrets;

/// Set by the transport to what it sends; another value would let two readers see two requests.
const OF_THE_TRANSPORT: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE];

/// All headers of one request. Files are read now. An error says why the request cannot be sent, without any value.
pub(super) fn headers(
    of_rule: &[(String, Vec<ValuePart>)],
    traceparent: &str,
    secrets: &Secrets,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("hookd/", env!("CARGO_PKG_VERSION"))));
    if let Ok(traceparent) = HeaderValue::from_str(traceparent)
        && !traceparent.is_empty()
    {
        headers.insert("traceparent", traceparent);
    }
    for (name, parts) in of_rule {
        let known = HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` is not the name of a header"))?;
        if OF_THE_TRANSPORT.contains(&known) {
            return Err(format!("header `{name}` cannot be set by a rule"));
        }
        let text = secrets.render(parts, &format!("header `{name}`"))?;
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| format!("the value of header `{name}` holds a character that cannot be sent"))?;
        value.set_sensitive(parts.iter().any(|part| !matches!(part, ValuePart::Text(_))));
        headers.insert(known, value);
    }
    Ok(headers)
}
