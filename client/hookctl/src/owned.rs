//! Files that decide something here are read only where nobody else can have written them.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// No file that is read here is larger.
pub(crate) const MAX_BYTES: u64 = 1024 * 1024;

/// A file that could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// Where it really is, every link followed.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a file that only root and the user of this process can have written: it belongs to one of them, and neither it
/// nor the folders that it is found in can be written by a group or by everyone. `None`: it is not there.
///
/// # Errors
/// One line with the path, the reason, and what would be right.
pub(crate) fn read_owned(path: &Path) -> Result<Option<Read>, String> {
    let Some((read, metadata)) = open(path)? else { return Ok(None) };
    check_owner(path, &metadata)?;
    // The folder of a link decides where it leads, the folder of the file what is there.
    for folder in [path.parent(), read.path.parent()].into_iter().flatten() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let metadata = fs::metadata(folder).map_err(|error| cannot("read", folder, &error))?;
        check_owner(folder, &metadata)?;
    }
    Ok(Some(read))
}

/// Reads a file, whoever wrote it. `None`: it is not there.
///
/// # Errors
/// One line with the path and the reason.
pub(crate) fn read_any(path: &Path) -> Result<Option<Read>, String> {
    Ok(open(path)?.map(|(read, _)| read))
}

fn open(path: &Path) -> Result<Option<(Read, Metadata)>, String> {
    // Not blocking: a pipe with this name must not hold the agent.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(cannot("open", path, &error)),
    };
    let metadata = file.metadata().map_err(|error| cannot("read", path, &error))?;
    if !metadata.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let bytes = bounded(&mut file, path)?;
    let real = fs::canonicalize(path).map_err(|error| cannot("read", path, &error))?;
    Ok(Some((Read { path: real, bytes }, metadata)))
}

fn bounded(file: &mut File, path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut bytes);
    let count = read.map_err(|error| cannot("read", path, &error))?;
    if u64::try_from(count).is_ok_and(|count| count > MAX_BYTES) {
        return Err(format!("{} has more than {MAX_BYTES} bytes", path.display()));
    }
    Ok(bytes)
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != 0 && metadata.uid() != user {
        let (path, owner) = (path.display(), metadata.uid());
        return Err(format!("{path} belongs to user {owner}, expected root or user {user}"));
    }
    if metadata.mode() & 0o022 != 0 {
        let (path, mode) = (path.display(), metadata.mode() & 0o7777);
        return Err(format!("{path} has mode {mode:04o}, expected one that only its owner can write"));
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {}", path.display(), crate::report::reason(error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_counts_only_where_its_owner_alone_can_write_it_and_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        mode(&folder, 0o755);
        let file = folder.join("relay.yaml");
        assert_eq!(read_owned(&file), Ok(None));
        assert_eq!(read_owned(&file.join("below")), Ok(None));
        fs::write(&file, "a: b").unwrap();
        let expected = Read { path: fs::canonicalize(&file).unwrap(), bytes: b"a: b".to_vec() };
        for (of_file, of_folder, right) in [
            (0o644, 0o755, true),
            (0o600, 0o700, true),
            (0o664, 0o755, false),
            (0o646, 0o755, false),
            (0o644, 0o775, false),
            (0o644, 0o1777, false),
        ] {
            mode(&file, of_file);
            mode(&folder, of_folder);
            let read = read_owned(&file);
            if right {
                assert_eq!(read, Ok(Some(expected.clone())), "{of_file:o} {of_folder:o}");
            } else {
                let (path, mode) = if of_folder == 0o755 { (&file, of_file) } else { (&folder, of_folder) };
                let path = path.display();
                let why = format!("{path} has mode {mode:04o}, expected one that only its owner can write");
                assert_eq!(read, Err(why), "{of_file:o} {of_folder:o}");
            }
        }
        mode(&folder, 0o755);
        mode(&file, 0o644);
        assert_eq!(read_any(&file), Ok(Some(expected.clone())));

        // A link is as good as the folder that it leads to.
        let open = root.path().join("open");
        fs::create_dir(&open).unwrap();
        symlink(&file, open.join("link")).unwrap();
        mode(&open, 0o755);
        assert_eq!(read_owned(&open.join("link")), Ok(Some(expected)));
        mode(&open, 0o777);
        assert!(read_owned(&open.join("link")).unwrap_err().contains("mode 0777"));
    }

    #[test]
    fn what_is_no_file_or_has_no_end_is_refused() {
        let root = tempfile::tempdir().unwrap();
        assert!(read_any(root.path()).unwrap_err().ends_with(" is not a file"));
        let pipe = root.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(read_any(&pipe).unwrap_err().ends_with(" is not a file"));
        assert!(read_any(Path::new("/dev/zero")).unwrap_err().ends_with(" is not a file"));
        let large = root.path().join("large");
        fs::write(&large, vec![b' '; 1024 * 1024 + 1]).unwrap();
        assert!(read_any(&large).unwrap_err().ends_with(" has more than 1048576 bytes"));
    }
}
