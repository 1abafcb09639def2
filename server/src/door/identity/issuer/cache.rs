//! Keys on the disk, so that they outlive the process.
//!
//! Who can write there says who hookd believes, so what others can write is not read.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use hookd_json::Value;
use rustix::{fs::OFlags, process::geteuid};
use serde_json::json;

use crate::door::identity::keys::{KeySet, MAX_BYTES};

/// Where the keys of one issuer are kept.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    file: PathBuf,
    /// Whose keys they are, the issuer and where its keys are: those of another are none.
    of: [String; 2],
}

impl Cache {
    /// That of the issuer `name` in `directory`.
    pub(super) fn new(directory: &Path, name: &str, of: [String; 2]) -> Self {
        Self { file: directory.join(format!("{name}.json")), of }
    }

    /// The keys that were kept. `None`: there are none, or they are another issuer's.
    ///
    /// # Errors
    /// Why what is there is not taken, in one line.
    pub(super) async fn read(&self) -> Result<Option<KeySet>, String> {
        let cache = self.clone();
        let read = tokio::task::spawn_blocking(move || cache.read_now()).await;
        read.map_err(|error| error.to_string())?.map_err(|why| format!("{}: {why}", self.file.display()))
    }

    /// Keeps this key set in the place of the one before.
    ///
    /// # Errors
    /// Why that cannot be done, in one line.
    pub(super) async fn write(&self, text: String) -> Result<(), String> {
        let cache = self.clone();
        let written = tokio::task::spawn_blocking(move || cache.write_now(&text)).await;
        written.map_err(|error| error.to_string())?.map_err(|why| format!("{}: {why}", self.file.display()))
    }

    fn read_now(&self) -> Result<Option<KeySet>, String> {
        let cannot = |error: io::Error| format!("cannot be read: {error}");
        // A pipe must not be waited for, and a link could lead to what somebody else has written.
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(error)),
        };
        let metadata = file.metadata().map_err(cannot)?;
        if !metadata.is_file() {
            return Err("is not a regular file".to_owned());
        }
        // A group may write: Kubernetes gives it that in the volumes of a pod (`fsGroup`).
        let is_ours = [0, geteuid().as_raw()].contains(&metadata.uid());
        if !is_ours || metadata.mode() & 0o002 != 0 {
            return Err("can be written by others, so its keys are not believed".to_owned());
        }
        let (mut text, most) = (String::new(), 2 * MAX_BYTES);
        let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        file.take(limit).read_to_string(&mut text).map_err(cannot)?;
        if text.len() > most {
            return Err(format!("has more than {most} bytes"));
        }
        let kept = hookd_json::parse(&text).map_err(|error| format!("is not JSON: {error}"))?;
        let of = kept.get("of").and_then(Value::as_array).ok_or("does not say whose keys it holds")?;
        if !of.iter().filter_map(Value::as_str).eq(self.of.iter().map(String::as_str)) {
            return Ok(None);
        }
        KeySet::parse(&text).map(Some)
    }

    fn write_now(&self, text: &str) -> Result<(), String> {
        let keys = hookd_json::parse(text).map_err(|error| error.to_string())?;
        let kept = hookd_json::to_text(&json!({ "of": self.of, "keys": keys.get("keys") }));
        self.replace(kept.as_bytes()).map_err(|error| error.to_string())
    }

    /// Whole or not at all.
    fn replace(&self, kept: &[u8]) -> io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let new = self.file.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // What is there by now is somebody else's, and is not written to.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?.write_all(kept)?;
        fs::rename(&new, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn cache(directory: &Path) -> Cache {
        Cache::new(directory, "prod", ["https://idp".to_owned(), "https://idp/keys".to_owned()])
    }

    fn set() -> String {
        let key = json!({ "kty": "EC", "crv": "P-256", "kid": "a", "x": "A".repeat(43), "y": "A".repeat(43) });
        json!({ "keys": [key], "more": 1 }).to_string()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn keys_are_kept_for_their_issuer_alone_and_nobody_else_can_write_them() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, file) = (folder.path().join("deep/keys"), folder.path().join("deep/keys/prod.json"));
        let cache = cache(&directory);
        assert!(cache.read_now().unwrap().is_none());
        cache.write_now(&set()).unwrap();
        cache.write_now(&set()).unwrap();
        assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert!(!cache.read_now().unwrap().unwrap().is_empty());
        let other = Cache { of: ["https://idp".to_owned(), "https://other/keys".to_owned()], ..cache };
        assert!(other.read_now().unwrap().is_none());
    }

    #[test]
    fn a_link_in_the_place_of_what_is_written_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let theirs = folder.path().join("theirs");
        fs::write(&theirs, "x").unwrap();
        symlink(&theirs, folder.path().join("prod.new")).unwrap();
        cache.write_now(&set()).unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "x");
        assert!(!cache.read_now().unwrap().unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_believed_or_used_is_told_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, file) = (cache(folder.path()), folder.path().join("prod.json"));
        let refused = || cache.read_now().map(|keys| keys.is_some()).unwrap_err();
        let others = "can be written by others, so its keys are not believed";
        cache.write_now(&set()).unwrap();
        let good = fs::read_to_string(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o602)).unwrap();
        assert_eq!(refused(), others);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o660)).unwrap();
        assert!(cache.read_now().unwrap().is_some());
        if geteuid().is_root() {
            chown(&file, Some(65_534), None).unwrap();
            assert_eq!(refused(), others);
        }
        let whole = folder.path().join("whole");
        fs::rename(&file, &whole).unwrap();
        symlink(&whole, &file).unwrap();
        assert_eq!(refused(), "cannot be read: Too many levels of symbolic links (os error 40)");
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert_eq!(refused(), "is not a regular file");
        fs::remove_file(&file).unwrap();
        let torn = good.strip_suffix("}]}").unwrap();
        let long = " ".repeat(2 * MAX_BYTES + 1);
        for (text, expected) in [
            (torn, "is not JSON: EOF while parsing "),
            ("", "is not JSON: EOF while parsing a value at line 1 column "),
            (r#"{"keys":[]}"#, "does not say whose keys it holds"),
            (r#"{"of":["https://idp","https://idp/keys"]}"#, "has no list `keys`"),
            (long.as_str(), "has more than 2097152 bytes"),
        ] {
            fs::write(&file, text).unwrap();
            assert!(refused().starts_with(expected), "{}", refused());
        }
    }
}
