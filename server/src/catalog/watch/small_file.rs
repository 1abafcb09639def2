use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

/// How large such a file may be, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most 1 MiB: certificates, keys and the like.
///
/// # Errors
/// Why it cannot be read, as half a line that goes on after "cannot be read: ".
pub fn read_small_file(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| error.to_string();
    // Looked at before it is opened: opening a pipe would wait for its other end.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(cannot)?.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_BYTES) {
        return Err(format!("more than {MAX_BYTES} bytes"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.key");
        fs::write(&path, "abc").unwrap();
        assert_eq!(read_small_file(&path), Ok(b"abc".to_vec()));
        fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert_eq!(read_small_file(&path), Err("more than 1048576 bytes".to_owned()));
        assert_eq!(read_small_file(folder.path()), Err("not a regular file".to_owned()));
        let gone = read_small_file(&folder.path().join("gone"));
        assert_eq!(gone, Err("No such file or directory (os error 2)".to_owned()));
    }
}
