//! The file of a unix socket: made for the server's user alone, watched while it serves, and removed at the end.

use std::{
    fmt, fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{Mode, fchmod};
use tokio::{
    net::{UnixListener, UnixSocket, UnixStream},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use crate::{
    drain::{Drain, Readiness},
    settings::Listen,
};

/// Connections that wait to be accepted; the system may have a lower limit.
const BACKLOG: u32 = 1024;
/// How often a file is looked for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The file of a socket that is listened on. Dropping it removes the file, unless another process has put its own in the
/// place.
#[derive(Debug)]
pub(super) struct SocketFile(SocketPlace);

/// Where callers look for a socket, and which file it was when it was made.
#[derive(Debug, Clone)]
pub(super) struct SocketPlace {
    path: PathBuf,
    /// Device and inode.
    is: (u64, u64),
}

/// Listens at `path`, where a file that nobody answers on is replaced.
///
/// # Errors
/// Why that cannot be done, in one line.
pub(super) async fn bind(path: &Path) -> Result<(UnixListener, SocketFile), String> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            // Only this says that nobody listens: one whose queue is full gives another error.
            if !UnixStream::connect(path).await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                return Err("another process answers there".to_owned());
            }
            fs::remove_file(path).map_err(|error| format!("cannot replace the stale socket: {error}"))?;
        }
        Ok(_) => return Err("a file that is no socket is there".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.to_string()),
    }
    let listener = listen(path).map_err(|error| error.to_string())?;
    let is = identity(path).map_err(|error| error.to_string())?;
    Ok((listener, SocketFile(SocketPlace { path: path.to_owned(), is })))
}

/// Whoever can connect can have rules evaluated: only the user of the server. The file takes the mode of the socket that it
/// is made from, less the umask, so it is never open to more, as it would be for a moment if its own mode were changed.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

/// Which file it is, whatever its name is.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl SocketFile {
    pub(super) fn place(&self) -> SocketPlace {
        self.0.clone()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.0.holds() {
            let _ = fs::remove_file(&self.0.path);
        }
    }
}

impl SocketPlace {
    /// See [`super::Listener::watch`].
    pub(super) async fn watch(self, readiness: Readiness, drain: Drain) {
        let mut looks = interval(BETWEEN_LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lost = None;
        loop {
            tokio::select! {
                () = drain.closing().cancelled() => return,
                _ = looks.tick() => {}
            }
            let place = self.clone();
            let Ok(holds) = spawn_blocking(move || place.holds()).await else { return };
            // The server takes its own files away, but not before it closes.
            if drain.closing().is_cancelled() {
                return;
            }
            if holds && lost.take().is_some() {
                info!(address = %self, "the file of a unix socket is back");
            } else if !holds && lost.is_none() {
                warn!(address = %self, "nobody can connect: the file of a unix socket was removed or replaced, and a restart makes it anew");
                lost = Some(readiness.wait_for(format!("{self}, whose file was removed or replaced")));
            }
        }
    }

    fn holds(&self) -> bool {
        identity(&self.path).is_ok_and(|is| is == self.is)
    }
}

impl fmt::Display for SocketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Listen::Unix(self.path.clone()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn the_file_is_its_users_alone_from_the_moment_that_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.sock");
        // Nothing changes its mode after it was made.
        let _listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).await.is_ok());
    }
}
