//! Tells whether a file was changed, without reading it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The traits of a file that tell whether it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Seconds and nanoseconds since 1970.
    modified_at: (i64, i64),
    /// The same for the last change of the file or of its permissions.
    changed_at: (i64, i64),
    length: u64,
    inode: u64,
}

impl FileStamp {
    /// Returns `None` if the file does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        let known = std::fs::metadata(path).ok()?;
        Some(Self {
            modified_at: (known.mtime(), known.mtime_nsec()),
            changed_at: (known.ctime(), known.ctime_nsec()),
            length: known.len(),
            inode: known.ino(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn change_of_permissions_alone_changes_the_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        assert_eq!(FileStamp::of(&file), None);
        std::fs::write(&file, "").unwrap();
        let before = FileStamp::of(&file);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
        assert_ne!(FileStamp::of(&file), before);
    }
}
