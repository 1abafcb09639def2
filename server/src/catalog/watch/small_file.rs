use std::path::Path;

use hookd_rules::{NotRead, read_regular};

/// How large such a file may be, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most 1 MiB: certificates, keys and the like.
///
/// # Errors
/// Why it cannot be read, as half a line that goes on after "cannot be read: ".
pub fn read_small_file(path: &Path) -> Result<Vec<u8>, String> {
    read_regular(path, MAX_BYTES).map_err(|error| match error {
        NotRead::TooLarge => format!("more than {MAX_BYTES} bytes"),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

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
