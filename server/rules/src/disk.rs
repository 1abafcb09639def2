//! What stands on the disk at the path of a source.

use std::{
    fs::{self, OpenOptions},
    hash::{Hash as _, Hasher},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;

use crate::Format;

/// How large a rule file may be.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// How many rule files a directory may hold.
const MAX_FILES: usize = 4096;

/// How often a directory that changes while it is read is read again at once.
const READS: usize = 5;

/// Device, inode, size and the time of the last change of a file. `None`: it cannot be looked at.
type Stamp = Option<(u64, u64, u64, (i64, i64))>;

/// What was found at the path of a source.
pub(crate) enum Found {
    /// Nothing.
    Missing,
    /// Something that cannot be looked at; why.
    Unreadable(String),
    /// A file.
    File(RuleFile),
    /// A directory with these rule files, sorted by name.
    Directory(Vec<RuleFile>),
}

/// A rule file as it is on the disk now.
pub(crate) struct RuleFile {
    pub(crate) path: Arc<Path>,
    /// Its text, or why there is none.
    pub(crate) text: Result<String, String>,
}

/// Why the content of a file is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRead {
    /// The system refused.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// It is a directory, a pipe, a device or the like.
    #[error("not a regular file")]
    NotRegular,
    /// It is larger than it may be.
    #[error("too large")]
    TooLarge,
}

/// Reads a regular file of at most `most` bytes. Whatever else has that name is not waited for, and is only opened where
/// it took the place of a file just then. Links are followed.
///
/// # Errors
/// [`NotRead`].
pub(crate) fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, NotRead> {
    // Looked at before it is opened, since opening a device can do something; and afterwards, since it may have been
    // swapped. A pipe that was would wait for its other end if it were opened in the usual way.
    if !fs::metadata(path)?.is_file() {
        return Err(NotRead::NotRegular);
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(NotRead::NotRegular);
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > most) { Err(NotRead::TooLarge) } else { Ok(bytes) }
}

/// Hashes everything that a load would read at the path of a source: other hash, other rules. Blocks on the disk.
pub fn fingerprint(path: &Path, hasher: &mut impl Hasher) {
    path.hash(hasher);
    let files = match read_source(path) {
        Found::Missing => return,
        Found::Unreadable(message) => return message.hash(hasher),
        Found::File(file) => vec![file],
        Found::Directory(files) => files,
    };
    files.len().hash(hasher);
    for file in files {
        (file.path, file.text).hash(hasher);
    }
}

/// Reads the source at `path`.
pub(crate) fn read_source(path: &Path) -> Found {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => match read_directory(path) {
            Ok(files) => Found::Directory(files),
            Err(message) => Found::Unreadable(message),
        },
        Ok(_) => match Format::of(path) {
            Some(_) => Found::File(RuleFile { path: path.into(), text: read_file(path) }),
            None => Found::Unreadable("the name of a rule file must end in .json, .yaml or .yml".to_owned()),
        },
        Err(error) if is_missing(&error) => Found::Missing,
        Err(error) => Found::Unreadable(format!("cannot be read: {error}")),
    }
}

/// Reads the rule files of a directory as they stood there together: a link that is swapped meanwhile, as Kubernetes and
/// git-sync do it, would else give one file of before and one of after.
fn read_directory(path: &Path) -> Result<Vec<RuleFile>, String> {
    let mut before = list(path)?;
    for _ in 0..READS {
        let files = before.iter().map(|(path, _)| RuleFile { path: Arc::clone(path), text: read_file(path) }).collect();
        let after = list(path)?;
        if before == after {
            return Ok(files);
        }
        before = after;
    }
    Err("changes again and again while it is read".to_owned())
}

/// The rule files of a directory, sorted by name, each with what tells it from one that takes its place. Names that
/// start with a dot are skipped: editors keep their own files there, and Kubernetes the real directories that its links
/// lead to.
fn list(path: &Path) -> Result<Vec<(Arc<Path>, Stamp)>, String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| format!("cannot be read: {error}"))? {
        let entry = entry.map_err(|error| format!("cannot be read: {error}"))?;
        let name = PathBuf::from(entry.file_name());
        if Format::of(&name).is_some() && !name.as_os_str().as_encoded_bytes().starts_with(b".") {
            names.push(name);
        }
    }
    if names.len() > MAX_FILES {
        return Err(format!("holds {} rule files, at most {MAX_FILES} are read", names.len()));
    }
    names.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    let mut files = Vec::new();
    for name in names {
        let path = path.join(name);
        let stamp = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => continue,
            Ok(file) => Some((file.dev(), file.ino(), file.len(), (file.ctime(), file.ctime_nsec()))),
            // Gone since the directory was listed, which is as if it had not been there; a link that leads nowhere is.
            Err(error) if is_missing(&error) && fs::symlink_metadata(&path).is_err_and(|e| is_missing(&e)) => continue,
            Err(_) => None,
        };
        files.push((path.into(), stamp));
    }
    Ok(files)
}

/// Files of a directory that are no rule files for the case of their extension alone, as `guard.YAML`.
pub(crate) fn overlooked(path: &Path) -> Vec<PathBuf> {
    let is_meant = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let lowercase = path.with_extension(extension.to_ascii_lowercase());
        Format::of(path).is_none() && Format::of(&lowercase).is_some()
    };
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found = entries.filter(is_meant).take(MAX_FILES).collect::<Vec<_>>();
    found.sort();
    found
}

fn read_file(path: &Path) -> Result<String, String> {
    // Its name stands in ids of rules, in logs and in messages, where it must not begin a line of its own.
    if path.file_name().is_some_and(|name| name.to_string_lossy().contains(char::is_control)) {
        return Err("has a control character in its name, rename it".to_owned());
    }
    if is_of_another(path) {
        return Err("is a link to a file of somebody else than its owner".to_owned());
    }
    let bytes = read_regular(path, MAX_FILE_BYTES).map_err(|error| match error {
        NotRead::Failed(error) => format!("cannot be read: {error}"),
        NotRead::NotRegular => "is not a regular file".to_owned(),
        NotRead::TooLarge => format!("is larger than {MAX_FILE_BYTES} bytes"),
    })?;
    String::from_utf8(bytes).map_err(|error| format!("is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
}

/// Whether `path` is a link that somebody other than root has set to what is not theirs: hookd may read more than they, and
/// what it reads stands in its messages.
fn is_of_another(path: &Path) -> bool {
    let (Ok(link), Ok(target)) = (fs::symlink_metadata(path), fs::metadata(path)) else { return false };
    link.is_symlink() && link.uid() != 0 && link.uid() != target.uid()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
