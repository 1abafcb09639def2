use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;
use tokio::time::Instant;

/// How long a removal may take. What is then left stays, and its place is free again.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is begun, for what somebody puts in meanwhile.
const ROUNDS: usize = 3;

/// Removes a directory and all that is in it, and follows no link. Blocks.
///
/// Whoever filled it may be hostile. A tree can be deeper than there are descriptors or stack to walk down with, so nothing
/// walks: what has something in it is moved up to the top, and emptied there. And a process that was left behind can go on
/// filling it, so there is a limit.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    let end = Instant::now().checked_add(LIMIT);
    for _ in 1..ROUNDS {
        take_apart(directory, end)?;
        match fs::remove_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            removed => return removed,
        }
    }
    take_apart(directory, end)?;
    fs::remove_dir(directory)
}

fn take_apart(directory: &Path, end: Option<Instant>) -> io::Result<()> {
    Removal { top: open(&CWD, directory)?, raised: 0, waiting: Vec::new(), end }.run()
}

struct Removal {
    top: OwnedFd,
    /// How many directories were moved up.
    raised: u64,
    /// Directories at the top that are not empty.
    waiting: Vec<CString>,
    end: Option<Instant>,
}

impl Removal {
    fn run(mut self) -> io::Result<()> {
        self.empty(None)?;
        while let Some(name) = self.waiting.pop() {
            let directory = match open(&self.top, &*name) {
                Ok(directory) => directory,
                // Somebody else is at it as well.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            self.empty(Some(&directory))?;
            match unlinkat(&self.top, &*name, AtFlags::REMOVEDIR) {
                // Found by the next round.
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes what is in `directory`, or else at the top, and moves up what cannot be removed yet.
    fn empty(&mut self, directory: Option<&OwnedFd>) -> io::Result<()> {
        for entry in Dir::read_from(directory.unwrap_or(&self.top))? {
            if self.end.is_some_and(|end| end <= Instant::now()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let within = directory.unwrap_or(&self.top);
            match unlinkat(within, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // What unlinking a directory is called: the second one is POSIX's word.
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
            match unlinkat(within, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => match directory {
                    Some(directory) => self.raise(directory, name)?,
                    None => self.waiting.push(name.to_owned()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Moves a directory up, under a name that nothing at the top has.
    fn raise(&mut self, from: &OwnedFd, name: &CStr) -> io::Result<()> {
        // Opened for the rights alone: its `..` changes, and who is not root must be able to write it for that.
        open(from, name)?;
        loop {
            self.raised = self.raised.saturating_add(1);
            let raised = CString::new(format!("raised-{}", self.raised))?;
            match renameat(from, name, &self.top, &*raised) {
                Ok(()) => {
                    self.waiting.push(raised);
                    return Ok(());
                }
                Err(Errno::NOENT) => return Ok(()),
                // Something has that name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens a directory that is no link. Its owner may always do with it what it takes, and root anyway.
fn open(within: &impl AsFd, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |more| openat(within, name, flags | more, Mode::empty());
    if !geteuid().is_root() {
        // Opened as a place alone, which takes no right, and then by that place: a name could be another's by now.
        let place = format!("/proc/self/fd/{}", open(OFlags::PATH)?.as_raw_fd());
        let _not_the_owner = fs::set_permissions(place, fs::Permissions::from_mode(0o700));
    }
    Ok(open(OFlags::RDONLY)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory so deep that no path leads to its end.
    fn deep(parent: &Path, depth: usize) {
        let (inner, outer) = (parent.join("d"), parent.join("outer"));
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), "x").unwrap();
        for _ in 0..depth {
            fs::create_dir(&outer).unwrap();
            fs::rename(&inner, outer.join("d")).unwrap();
            fs::rename(&outer, &inner).unwrap();
        }
    }

    #[test]
    fn what_is_deeper_than_any_stack_is_removed() {
        // On some disks each of these directories takes milliseconds.
        let parent = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let directory = parent.path().join("run");
        fs::create_dir(&directory).unwrap();
        deep(&directory, 20_000);
        remove(&directory).unwrap();
        assert!(!directory.is_dir());
    }

    #[test]
    fn everything_goes_and_nothing_that_links_lead_to() {
        let parent = tempfile::tempdir().unwrap();
        let (kept, directory) = (parent.path().join("kept"), parent.path().join("run"));
        fs::create_dir_all(kept.join("inner")).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        for path in ["a/b/c", "raised-1/x", "raised-2", "closed/in/it"] {
            fs::create_dir_all(directory.join(path)).unwrap();
        }
        fs::write(directory.join("a/b/file"), "x").unwrap();
        fs::write(directory.join("raised-3"), "x").unwrap();
        symlink(&kept, directory.join("a/b/link")).unwrap();
        symlink(kept.join("file"), directory.join("link")).unwrap();
        for path in ["closed/in", "closed"] {
            fs::set_permissions(directory.join(path), fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove(&directory).unwrap();
        assert!(!directory.is_dir() && kept.join("inner").is_dir() && kept.join("file").is_file());

        symlink(&kept, &directory).unwrap();
        assert_eq!(remove(&directory).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(remove(&parent.path().join("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(kept.join("file").is_file());
    }
}
