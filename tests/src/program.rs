use std::{env, path::PathBuf};

/// The binary `name` that cargo built beside the tests.
///
/// # Panics
/// It is not there.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join(name);
    assert!(path.is_file(), "{} is not built: run `cargo test --workspace`", path.display());
    path
}
