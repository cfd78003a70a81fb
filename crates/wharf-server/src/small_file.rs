//! Reads small files that a person names in the settings, such as a secret: bounded, and without
//! waiting for a pipe.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Returns the content of a regular file of at most `max_bytes` bytes.
pub(crate) fn read_small_file(path: &Path, max_bytes: usize) -> Result<Vec<u8>> {
    // Without this flag, opening a pipe that has no writer would wait for ever.
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut content)?;
    if content.len() > max_bytes {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("it has more than {max_bytes} bytes"),
        ));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(read_small_file(&path, 4).unwrap(), b"1234");
        assert_eq!(read_small_file(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        for other in [dir.path(), Path::new("/dev/zero")] {
            assert_eq!(
                read_small_file(other, 4).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{}",
                other.display()
            );
        }
    }
}
