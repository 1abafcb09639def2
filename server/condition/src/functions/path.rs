//! `under(path, directory)`: whether a path leads to a directory or into it, by its text alone.
//!
//! `.`, `..` and repeated `/` are worked out first, so `a/../../etc` does not slip by; `..` at the root stays there.
//! Relative paths start at `cwd`. No file is looked at: symbolic links are not followed, and `~` is a name like any
//! other.

/// Whether `path` is `directory` or lies under it.
///
/// # Errors
/// One of the two is relative and `cwd` is no absolute path, or one is empty.
pub(crate) fn under(path: &str, directory: &str, cwd: Option<&str>) -> Result<bool, String> {
    let path = normal(path, cwd)?;
    let directory = normal(directory, cwd)?;
    Ok(path.starts_with(&directory))
}

/// The names on the way from the root.
fn normal<'p>(path: &'p str, cwd: Option<&'p str>) -> Result<Vec<&'p str>, String> {
    if path.is_empty() {
        return Err("`under` takes paths, this one is empty".to_owned());
    }
    let start = match cwd {
        _ if path.starts_with('/') => "",
        Some(cwd) if cwd.starts_with('/') => cwd,
        _ => return Err(format!("`under`: the path `{path}` is relative, and `cwd` is no absolute path")),
    };
    let mut names = Vec::new();
    for name in start.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    Ok(names)
}
