use std::path::Path;

use crate::disk::{NotRead, read_regular};

/// How large such a file may be, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most 1 MiB: settings, certificates, keys, tokens and the like. A pipe, which would be
/// waited for, is refused.
///
/// # Errors
/// Why it cannot be read, as half a line that goes on after "cannot be read: ".
pub fn read_small_file(path: &Path) -> Result<Vec<u8>, String> {
    read_regular(path, MAX_BYTES).map_err(|error| match error {
        NotRead::TooLarge => format!("more than {MAX_BYTES} bytes"),
        error => error.to_string(),
    })
}

/// As [`read_small_file`], of text.
///
/// # Errors
/// As there, and where it is not UTF-8.
pub fn read_small_text(path: &Path) -> Result<String, String> {
    String::from_utf8(read_small_file(path)?).map_err(|_| "not UTF-8".to_owned())
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
        assert_eq!(read_small_text(&path), Ok("abc".to_owned()));
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_small_text(&path), Err("not UTF-8".to_owned()));
        fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        assert_eq!(read_small_file(&path), Err("more than 1048576 bytes".to_owned()));
        assert_eq!(read_small_file(folder.path()), Err("not a regular file".to_owned()));
        let gone = read_small_file(&folder.path().join("gone"));
        assert_eq!(gone, Err("No such file or directory (os error 2)".to_owned()));
    }
}
