//! Damaged files of the state directory: found when they are read, and kept under another name,
//! for a person to look at.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::file::sync_dir;

/// The end of the name of a file that was set aside; a number may follow.
pub const SET_ASIDE_SUFFIX: &str = ".damaged";

/// Opens a file for reading. Fails with [`ErrorKind::InvalidData`] if its place holds something
/// else, and does not wait for a pipe.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is not a regular file"));
    }
    File::open(path)
}

/// Returns true if this error of opening or reading a file means that the file is damaged: its
/// place holds something else, or the disk cannot read it. A missing permission is not damage.
pub fn is_damage(error: &io::Error) -> bool {
    let is_unreadable =
        matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::ISDIR | Errno::LOOP));
    is_unreadable || error.kind() == ErrorKind::InvalidData
}

/// Renames a damaged file, and returns its new path. A file that was set aside before is kept.
/// Callers must not do this to one file at the same time.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name_of = |nth: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(SET_ASIDE_SUFFIX);
        if nth > 1 {
            name.push(format!("-{nth}"));
        }
        PathBuf::from(name)
    };
    let mut nth = 1;
    while fs::symlink_metadata(name_of(nth)).is_ok() {
        nth += 1;
    }
    let aside = name_of(nth);
    fs::rename(path, &aside)?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_failing_disks_are_damage_and_missing_permissions_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let missing = open_regular_file(&path).unwrap_err();
        assert_eq!((missing.kind(), is_damage(&missing)), (ErrorKind::NotFound, false));
        fs::write(&path, "1").unwrap();
        assert!(open_regular_file(&path).is_ok());
        assert!(is_damage(&open_regular_file(dir.path()).unwrap_err()));
        for (errno, expected) in
            [(Errno::IO, true), (Errno::LOOP, true), (Errno::ACCESS, false), (Errno::MFILE, false)]
        {
            assert_eq!(is_damage(&errno.into()), expected, "{errno}");
        }
    }
}
