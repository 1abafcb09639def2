//! The rule files of the caller's own that hookd is offered.

use std::path::{Path, PathBuf};

/// Where a project keeps rule files that can be offered.
const OF_PROJECTS: [&str; 4] =
    [".ling/hooks.local.json", ".ling/hooks.json", ".claude/settings.local.json", ".claude/settings.json"];

/// Where the project in `folder` has its rule files, whether they are there or not.
pub(crate) fn of_projects(folder: &Path) -> Vec<PathBuf> {
    OF_PROJECTS.iter().map(|path| folder.join(path)).collect()
}
