//! The list of what is trusted: `~/.local/share/hookd/trust`, a line per file with its SHA-256 and its path, as
//! `sha256sum` writes it. Only its owner can read and write it; it is replaced whole.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::owned::read_owned;

/// Its folder, in the person's home.
const FOLDER: &str = ".local/share/hookd";

/// What is trusted: a path has one content that is trusted, the last one.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    files: BTreeMap<String, String>,
}

/// SHA-256 of a file's content, 64 lowercase hex digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Store {
    /// The list of the person whose home this is; empty where there is none yet.
    ///
    /// # Errors
    /// One line: somebody else can have written it, or it is broken.
    pub(crate) fn read(home: &Path) -> Result<Self, String> {
        let path = home.join(FOLDER).join("trust");
        let Some(read) = read_owned(&path)? else { return Ok(Self::default()) };
        let text = String::from_utf8(read.bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?;
        let mut files = BTreeMap::new();
        for (number, line) in (1_usize..).zip(text.lines()) {
            let entry = line.split_once("  ").filter(|(sha256, file)| is_hash(sha256) && file.starts_with('/'));
            let (sha256, file) = entry.ok_or_else(|| {
                let path = path.display();
                format!("{path}:{number}: expected a SHA-256, two spaces and an absolute path; remove the line")
            })?;
            files.insert(file.to_owned(), sha256.to_owned());
        }
        Ok(Self { files })
    }

    /// Changes the list, or leaves it as it is where `change` fails. One at a time, whoever else does so.
    ///
    /// # Errors
    /// One line: what `change` says, or why it cannot be read or written.
    pub(crate) fn change(home: &Path, change: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        let folder = home.join(FOLDER);
        let failed = |error: io::Error| {
            format!(
                "cannot write the list of what is trusted in {}: {}",
                folder.display(),
                crate::report::reason(&error)
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        let lock = private(&folder.join("trust.lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut store = Self::read(home)?;
        change(&mut store)?;
        let new = folder.join("trust.new");
        let mut file = private(&new).map_err(failed)?;
        file.write_all(store.text().as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(new, folder.join("trust")).map_err(failed)
    }

    /// Trusts this content of the file at this path, which is absolute and has no links in it, and no other.
    ///
    /// # Errors
    /// One line: the list cannot hold such a path.
    pub(crate) fn put(&mut self, path: &Path, sha256: &str) -> Result<String, String> {
        let text = path.to_str().filter(|text| !text.contains(char::is_control));
        let text = text.ok_or_else(|| format!("{path:?}: a path with such characters cannot be trusted"))?;
        self.files.insert(text.to_owned(), sha256.to_owned());
        Ok(text.to_owned())
    }

    /// Trusts the file no more, and says which content it was.
    pub(crate) fn remove(&mut self, path: &Path) -> Option<String> {
        self.files.remove(path.to_str()?)
    }

    /// Whether this content at this path is trusted.
    pub(crate) fn holds(&self, path: &Path, sha256: &str) -> bool {
        path.to_str().and_then(|path| self.files.get(path)).is_some_and(|trusted| trusted == sha256)
    }

    /// Paths and hashes, by path.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, sha256)| (path.as_str(), sha256.as_str()))
    }

    fn text(&self) -> String {
        self.entries().map(|(path, sha256)| format!("{sha256}  {path}\n")).collect()
    }
}

/// A file that only its owner can read and write, empty, for writing.
fn private(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const ONE: &str = "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0";
    const OTHER: &str = "3e744b9dc39389baf0c5a0660589b8402f3dbb49b89b3e75f2c9355852a3c677";

    #[test]
    fn what_is_trusted_is_kept_by_path_and_content_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Store::read(home.path()), Ok(Store::default()));
        let (a, b) = (Path::new("/p/a b.json"), Path::new("/p/b.json"));
        Store::change(home.path(), |store| {
            store.put(a, ONE)?;
            store.put(b, OTHER).map(drop)
        })
        .unwrap();
        let path = home.path().join(FOLDER).join("trust");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{ONE}  /p/a b.json\n{OTHER}  /p/b.json\n"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let folder = fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, 0o700);
        let store = Store::read(home.path()).unwrap();
        assert!(store.holds(a, ONE) && store.holds(b, OTHER));
        assert!(!store.holds(a, OTHER) && !store.holds(Path::new("/p"), ONE));

        // The last content counts, and no other any more.
        Store::change(home.path(), |store| {
            assert_eq!(store.remove(b).as_deref(), Some(OTHER));
            assert_eq!(store.remove(b), None);
            store.put(a, OTHER).map(drop)
        })
        .unwrap();
        let store = Store::read(home.path()).unwrap();
        assert_eq!(store.entries().collect::<Vec<_>>(), [("/p/a b.json", OTHER)]);

        // What fails changes nothing.
        let failed = Store::change(home.path(), |store| {
            store.remove(a);
            store.put(Path::new("/p/\n"), ONE).map(drop)
        });
        assert_eq!(failed, Err("\"/p/\\n\": a path with such characters cannot be trusted".to_owned()));
        assert_eq!(Store::read(home.path()), Ok(store));
    }

    #[test]
    fn a_list_that_others_can_write_or_that_is_broken_trusts_nothing() {
        let home = tempfile::tempdir().unwrap();
        Store::change(home.path(), |store| store.put(Path::new("/p/a"), ONE).map(drop)).unwrap();
        let path = home.path().join(FOLDER).join("trust");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(Store::read(home.path()).unwrap_err().contains("mode 0620"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for line in
            ["x", "  ", &format!("{ONE} /p/b"), &format!("{ONE}  p/b"), &format!("{}  /p/b", ONE.to_uppercase())]
        {
            fs::write(&path, format!("{ONE}  /p/a\n{line}\n")).unwrap();
            let why =
                format!("{}:2: expected a SHA-256, two spaces and an absolute path; remove the line", path.display());
            assert_eq!(Store::read(home.path()), Err(why), "{line}");
        }
    }
}
