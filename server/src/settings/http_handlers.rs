//! What http handlers are sent with.

use std::path::PathBuf;

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
