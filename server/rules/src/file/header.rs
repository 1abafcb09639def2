//! Headers of http handlers.

use hookd_json::Entry;

use super::{
    Context,
    value::{self, Holder},
};
use crate::{
    ValuePart,
    problem::{Issues, KeyPath, shown},
};

/// Headers that belong to the connection or to hookd itself.
const RESERVED: [&str; 11] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The header of this entry, its name in lowercase. Errors name templates, never what they stand for.
pub(super) fn header(
    entry: &Entry,
    value: &str,
    path: KeyPath<'_>,
    context: &Context<'_>,
    issues: &mut Issues,
) -> Option<(String, Vec<ValuePart>)> {
    let before = issues.errors();
    let path = KeyPath::Key(&path, &entry.key);
    let name = header_name(&entry.key).unwrap_or_else(|message| {
        issues.error(entry.place, path, message);
        String::new()
    });
    if is_reserved_header(&name) {
        issues.error(entry.place, path, format!("the header `{name}` is set by hookd alone"));
    }
    let parts = value::parts(value, Holder::Header, context).unwrap_or_else(|message| {
        issues.error(entry.node.place, path, message);
        Vec::new()
    });
    (issues.errors() == before).then_some((name, parts))
}

/// The name of a header that `text` is, in lowercase.
///
/// # Errors
/// It is none.
pub(crate) fn header_name(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_part) {
        return Err(format!("`{}` is not the name of a header", shown(text)));
    }
    Ok(text.to_ascii_lowercase())
}

/// Whether the header of this name, in lowercase, belongs to the connection or to hookd itself.
pub(crate) fn is_reserved_header(name: &str) -> bool {
    RESERVED.contains(&name)
}
