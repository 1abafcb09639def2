//! Where to look for changes of what a path leads to.

use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

use hookd_rules::Format;

/// How many links a path may lead through; as in Linux.
const MAX_LINKS: usize = 40;

/// The directories in which something has to happen before other files stand at `path`: those of every link on the
/// way, the one it is in, itself and those of the links in it. Of what does not exist yet, the nearest one that does.
pub(super) fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let target = follow(path, &mut found);
    for entry in target.and_then(|target| fs::read_dir(target).ok()).into_iter().flatten().flatten() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if is_link && Format::of(&entry.path()).is_some() {
            follow(&entry.path(), &mut found);
        }
    }
    found
}

/// Walks along `path`, adds the directories that decide where it leads, and gives the directory that it leads to.
fn follow(path: &Path, found: &mut BTreeSet<PathBuf>) -> Option<PathBuf> {
    let mut here = PathBuf::from("/");
    let mut ahead = names(path);
    let mut links = 0_usize;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let Ok(metadata) = fs::symlink_metadata(&next) else {
            found.insert(here);
            return None;
        };
        if ahead.is_empty() || metadata.is_symlink() {
            found.insert(here.clone());
        }
        if !metadata.is_symlink() {
            here = next;
            continue;
        }
        links = links.saturating_add(1);
        let target = fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS)?;
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            ahead.push_front(name);
        }
    }
    if fs::metadata(&here).is_ok_and(|metadata| metadata.is_dir()) {
        found.insert(here.clone());
        return Some(here);
    }
    None
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[track_caller]
    fn check(path: &Path, expected: &[&Path]) {
        assert_eq!(directories(path), expected.iter().map(|path| path.to_path_buf()).collect());
    }

    #[test]
    fn every_directory_that_decides_is_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("mount/..one")).unwrap();
        fs::write(at("mount/..one/a.json"), "").unwrap();
        symlink("..one", at("mount/..data")).unwrap();
        symlink("..data/a.json", at("mount/a.json")).unwrap();
        symlink(at("mount"), at("link")).unwrap();
        fs::write(at("plain.json"), "").unwrap();

        check(&at("plain.json"), &[&root]);
        check(&at("none/yet/a.json"), &[&root]);
        check(&at("mount/a.json"), &[&at("mount"), &at("mount/..one")]);
        check(&at("mount"), &[&root, &at("mount"), &at("mount/..one")]);
        check(&at("link"), &[&root, &at("mount"), &at("mount/..one")]);
        check(&at("link/../plain.json"), &[&root]);
        symlink("loop", at("loop")).unwrap();
        check(&at("loop"), &[&root]);
    }
}
