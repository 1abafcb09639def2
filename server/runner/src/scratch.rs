use std::collections::hash_map::RandomState;
use std::fs::DirBuilder;
use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};

use tokio::runtime::Handle;

use crate::place::Place;
use crate::removal;

/// How an empty directory of a program's own is made. The program finds it as its working directory and as `TMPDIR`; it is
/// removed with all that is in it once the program's group is gone, or the program has exited by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// Where it is made.
    pub parent: PathBuf,
    /// The user and group that it belongs to; those of this process where there are none. Nobody else has access.
    pub owner: Option<(u32, u32)>,
}

impl Scratch {
    /// Makes one and removes it again. Blocks.
    ///
    /// # Errors
    /// One line: what cannot be done.
    pub fn try_out(&self) -> Result<(), String> {
        let mut made = self.make()?;
        let Some(path) = made.path.take() else { return Ok(()) };
        removal::remove(&path)
            .map_err(|error| format!("cannot remove the directory of a command, `{}`: {error}", path.display()))
    }

    /// Makes the directory. The error is one line.
    pub(crate) fn make(&self) -> Result<Directory, String> {
        let cannot = |error: io::Error| format!("cannot make a directory in `{}`: {error}", self.parent.display());
        // Nobody can know it before; one that is there all the same is not taken.
        let name = format!("hookd-run-{}-{:016x}", std::process::id(), RandomState::new().hash_one(0));
        let path = self.parent.join(name);
        DirBuilder::new().mode(0o700).create(&path).map_err(cannot)?;
        let directory = Directory { path: Some(path) };
        if let (Some((user, group)), Some(path)) = (self.owner, directory.path()) {
            chown(path, Some(user), Some(group)).map_err(cannot)?;
        }
        Ok(directory)
    }
}

/// A directory that is there. Dropping it removes it, whatever is in it, which can take long.
#[derive(Debug)]
pub(crate) struct Directory {
    path: Option<PathBuf>,
}

impl Directory {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Removes it. One that is not empty any more is removed on a thread where that may take its time, and keeps `place`
    /// until it is gone.
    pub(crate) fn remove(mut self, place: Place) {
        match self.path.take() {
            Some(path) if std::fs::remove_dir(&path).is_err() => self.path = Some(path),
            _ => return,
        }
        let removal = move || {
            drop(self);
            drop(place);
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(removal)),
            Err(_) => removal(),
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let Some(path) = self.path.take() else { return };
        match removal::remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "the directory of a command could not be removed");
            }
            _ => {}
        }
    }
}
