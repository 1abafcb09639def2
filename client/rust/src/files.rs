//! Files that are replaced while this process runs.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// No file that is read here is larger.
const MAX_BYTES: u64 = 1024 * 1024;
/// A file that was changed a moment ago may be changed again without its times or its size showing it.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Files that belong together are read again where one of them was replaced meanwhile, so often.
const READS: usize = 4;

/// A file of the client's cannot be used as it is. One line with its name and the reason, without anything of what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotUsable(String);

/// A file, and what it is for a person.
#[derive(Clone, Copy)]
pub(crate) struct Named<'p> {
    pub(crate) what: &'static str,
    pub(crate) path: &'p Path,
}

/// Files that belong together.
pub(crate) type Files<'p> = [Option<Named<'p>>; 3];

/// What is in them.
pub(crate) type Contents = [Option<Vec<u8>>; 3];

/// What was made of files, as long as they are the same.
pub(crate) struct Cached<T> {
    last: Mutex<Option<(Stamps, T)>>,
}

/// What changes when a file is replaced or written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

type Stamps = [Option<Stamp>; 3];

impl NotUsable {
    pub(crate) fn file(what: &str, path: &Path, why: &str) -> Self {
        Self(format!("the {what} {} {why}", path.display()))
    }

    pub(crate) fn new(message: String) -> Self {
        Self(message)
    }
}

impl<T: Clone> Cached<T> {
    /// What `make` makes of the files as they are now.
    pub(crate) fn get(
        &self,
        files: Files<'_>,
        make: impl FnOnce(Contents) -> Result<T, NotUsable>,
    ) -> Result<T, NotUsable> {
        let now = stamps(files)?;
        if let Some((stamps, value)) = &*self.last.lock().unwrap_or_else(PoisonError::into_inner)
            && *stamps == now
        {
            return Ok(value.clone());
        }
        let (contents, stamps) = read_all(files)?;
        let made = make(contents);
        let is_kept = stamps.iter().flatten().all(Stamp::is_settled);
        let kept = made.as_ref().ok().filter(|_| is_kept).map(|value| (stamps, value.clone()));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        made
    }
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn is_settled(&self) -> bool {
        let seconds = u64::try_from(self.changed.0.max(self.modified.0)).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        changed.is_some_and(|changed| changed.elapsed().is_ok_and(|ago| ago > SETTLED_AFTER))
    }
}

fn stamps(files: Files<'_>) -> Result<Stamps, NotUsable> {
    let mut stamps = Stamps::default();
    for (stamp, file) in stamps.iter_mut().zip(files) {
        let Some(file) = file else { continue };
        let metadata = fs::metadata(file.path).map_err(|error| file.unreadable(&error))?;
        if !metadata.is_file() {
            return Err(NotUsable::file(file.what, file.path, "is not a file"));
        }
        *stamp = Some(Stamp::of(&metadata));
    }
    Ok(stamps)
}

/// The contents of the files, all from one moment: a certificate is of no use with the key of the one before.
fn read_all(files: Files<'_>) -> Result<(Contents, Stamps), NotUsable> {
    let mut before = stamps(files)?;
    let mut contents = Contents::default();
    for _ in 0..READS {
        for (content, file) in contents.iter_mut().zip(files) {
            *content = file.map(|file| file.read()).transpose()?;
        }
        let after = stamps(files)?;
        if before == after {
            break;
        }
        before = after;
    }
    Ok((contents, before))
}

impl Named<'_> {
    fn read(self) -> Result<Vec<u8>, NotUsable> {
        let mut content = Vec::new();
        let file = File::open(self.path).map_err(|error| self.unreadable(&error))?;
        file.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut content).map_err(|error| self.unreadable(&error))?;
        if u64::try_from(content.len()).is_ok_and(|bytes| bytes > MAX_BYTES) {
            return Err(NotUsable::file(self.what, self.path, &format!("has more than {MAX_BYTES} bytes")));
        }
        Ok(content)
    }

    fn unreadable(self, error: &io::Error) -> NotUsable {
        NotUsable::file(self.what, self.path, &format!("cannot be read: {}", reason(error)))
    }
}

/// What the system says, in lowercase and without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    crate::one_line::one_line(text)
}
