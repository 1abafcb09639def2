//! What http handlers are sent with.

use std::path::PathBuf;

use hookd_json::Value as Json;
use serde_json::json;

use super::section::Section;

/// What http handlers are sent with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpHandlerSettings {
    /// A file of authorities in PEM that are trusted besides the system's. `None`: the system's alone.
    pub ca: Option<PathBuf>,
}

pub(super) fn http_handlers(mut section: Section<'_, '_>) -> HttpHandlerSettings {
    let settings = HttpHandlerSettings { ca: section.path("ca", "a file in PEM, such as /etc/hookd/ca.crt") };
    section.end();
    settings
}

pub(super) fn tree(settings: &HttpHandlerSettings) -> Json {
    json!({ "ca": settings.ca })
}
