//! The file of the audit trail. It is rotated here, because the first record of a new file says where those before it went
//! and a line never stands in two.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use hookd_audit::{Tail, first_record, tail};
use rustix::fs::{Access, OFlags, access};
use tokio::time::Instant;

use crate::settings::AuditFile;

/// Who may read a file that is made: whom its parameters are nobody's business, has no part in it.
const MODE: u32 = 0o600;
/// What follows the name of a rotated file, after a dot: its time, as `20261130T234452.123456Z`.
const STAMP_BYTES: usize = 23;

/// Takes lines.
#[derive(Debug)]
pub(super) struct Lines {
    settings: AuditFile,
    path: PathBuf,
    file: File,
    /// What it holds, in bytes.
    length: u64,
    /// The time of its first record.
    since: SystemTime,
    /// What of it is not on the disk yet, since when.
    unsynced: Option<Instant>,
}

impl Lines {
    /// Opens the file, or makes it. The tail says what to go on after: it is that of the newest rotated file where there
    /// is none at `path`.
    ///
    /// # Errors
    /// It cannot be opened, is in use by another hookd, or holds something else than records.
    pub(super) fn open(settings: AuditFile, path: PathBuf) -> io::Result<(Self, Tail)> {
        let mut file = open(&path)?;
        let (length, mut since) = (file.metadata()?.len(), SystemTime::now());
        let tail = if length > 0 {
            file.seek(SeekFrom::Start(0))?;
            let first = first_record(&file)?;
            since = first.and_then(|first| humantime::parse_rfc3339(&first.time).ok()).unwrap_or(since);
            tail(&mut file)?
        } else {
            match rotated(&path)?.pop() {
                Some(newest) => Tail { is_open: false, ..tail(&mut File::open(newest)?)? },
                None => Tail::default(),
            }
        };
        sync_folder(&path)?;
        Ok((Self { settings, path, file, length, since, unsynced: None }, tail))
    }

    /// Whether the file could be opened or made. It is not: another hookd may be writing it.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(path: &Path) -> io::Result<()> {
        match open_regular(path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(access(folder(path), Access::WRITE_OK | Access::EXEC_OK)?)
            }
            opened => opened.map(drop),
        }
    }

    /// Writes some of `bytes` and says how many: what is left has to come next.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if written == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.length = self.length.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        self.unsynced.get_or_insert_with(Instant::now);
        Ok(written)
    }

    /// Takes the last `bytes` out again, which are the beginning of a line that goes on elsewhere. Where that fails, a torn
    /// line stays.
    pub(super) fn take_back(&mut self, bytes: usize) {
        let left = self.length.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
        if bytes > 0 && self.file.set_len(left).is_ok() {
            self.length = left;
        }
    }

    /// Brings all of it to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced.is_some() {
            self.file.sync_data()?;
            self.unsynced = None;
        }
        Ok(())
    }

    /// How long it can wait to be brought to the disk. `None`: nothing has to be.
    pub(super) fn sync_in(&self) -> Option<Duration> {
        let since = self.unsynced.filter(|_| !self.settings.sync_interval.is_zero())?;
        Some(self.settings.sync_interval.saturating_sub(since.elapsed()))
    }

    /// Whether it is time to rotate, with `more` bytes to come.
    pub(super) fn is_full(&self, more: usize) -> bool {
        let limit = u64::try_from(self.settings.rotate_bytes).unwrap_or(u64::MAX);
        let age = self.settings.rotate_age;
        self.length.saturating_add(u64::try_from(more).unwrap_or(u64::MAX)) >= limit
            || (!age.is_zero() && self.since.elapsed().is_ok_and(|elapsed| elapsed >= age))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the file aside and begins a new one: the name of the old one. `None`: it was not there any more. An error: the
    /// old one is still written to.
    pub(super) fn rotate(&mut self) -> io::Result<Option<String>> {
        // Of one that nobody can read any more nothing can be kept, whatever its disk says.
        let is_removed = self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
        match self.sync() {
            Err(error) if !is_removed => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let now = SystemTime::now();
        let aside = self.is_there().then(|| self.aside(now));
        if let Some(aside) = &aside {
            if aside.try_exists()? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(&self.path, aside)?;
        }
        let file = open(&self.path)?;
        (self.length, self.since) = (file.metadata()?.len(), now);
        self.file = file;
        Ok(aside.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()))
    }

    /// What is left to do when a new file has begun: the folder is brought to the disk, files that are too many go.
    pub(super) fn clean_up(&self) -> io::Result<()> {
        sync_folder(&self.path)?;
        let mut rotated = rotated(&self.path)?;
        rotated.truncate(rotated.len().saturating_sub(self.settings.keep));
        rotated.into_iter().try_for_each(fs::remove_file)
    }

    fn aside(&self, now: SystemTime) -> PathBuf {
        let stamp = humantime::format_rfc3339_micros(now).to_string().replace(['-', ':'], "");
        let mut name = self.path.file_name().map(OsStr::to_owned).unwrap_or_default();
        name.push(".");
        name.push(stamp);
        self.path.with_file_name(name)
    }

    /// Whether the file is still the one at its path.
    pub(super) fn is_there(&self) -> bool {
        let same = |one: &fs::Metadata, other: &fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        let (ours, there) = (self.file.metadata(), fs::symlink_metadata(&self.path));
        matches!((ours, there), (Ok(ours), Ok(there)) if same(&ours, &there))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = open_regular(path, true)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another process writes it, each hookd needs a file of its own",
        )),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// A link is not followed: put aside, it would leave what it leads to behind, and whoever can set one could have records
/// added to any file.
fn open_regular(path: &Path, create: bool) -> io::Result<File> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Looked at before it is opened: opening a pipe would wait for its other end.
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => return refused("it is a link, name the file itself"),
        Ok(there) if !there.is_file() => return refused("not a regular file"),
        Ok(_) | Err(_) => {}
    }
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().read(true).append(true).create(create).mode(MODE).custom_flags(flags).open(path)
}

/// The files that were put aside, oldest first.
fn rotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut beginning = path.file_name().map(OsStr::to_owned).unwrap_or_default();
    beginning.push(".");
    let is_rotated = |name: &OsString| {
        let stamp = name.as_encoded_bytes().strip_prefix(beginning.as_encoded_bytes());
        stamp.is_some_and(|stamp| {
            stamp.len() == STAMP_BYTES
                && stamp.ends_with(b"Z")
                && stamp.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'.' | b'Z'))
        })
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder(path))? {
        let name = entry?.file_name();
        if is_rotated(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| path.with_file_name(name)).collect())
}

/// A file that was made or renamed is there after a power failure only if its folder is on the disk as well.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
