//! The identity of a state directory: a copy of the directory is another one, and the agents of the
//! first are not its own.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wharf_config::write_private;

use crate::ids::random_text;

const DIRECTORY_ID_LENGTH: usize = 20;

/// Names one state directory. A copy has another inode or device, and gets an id of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(crate) id: String,
}

impl DirectoryIdentity {
    /// Reads the identity from the file `id` in the directory. Creates a new identity if the file
    /// is missing, cannot be read, or belongs to another directory.
    pub(crate) fn load_or_create(root: &Path) -> io::Result<Self> {
        let path = root.join("id");
        let directory = fs::metadata(root)?;
        let known = fs::read(&path).ok().and_then(|text| wharf_json::read_own::<Self>(&text).ok());
        if let Some(known) = known
            && (known.device, known.inode) == (directory.dev(), directory.ino())
        {
            return Ok(known);
        }
        let id = random_text(DIRECTORY_ID_LENGTH);
        let made = Self { device: directory.dev(), inode: directory.ino(), id };
        write_private(&path, &serde_json::to_vec(&made)?)?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_keeps_its_identity_and_a_copy_gets_its_own() {
        let temp = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| temp.path().join(name));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        let made = DirectoryIdentity::load_or_create(&one).unwrap();
        assert_eq!(DirectoryIdentity::load_or_create(&one).unwrap(), made);
        fs::copy(one.join("id"), two.join("id")).unwrap();
        let copied = DirectoryIdentity::load_or_create(&two).unwrap();
        assert_ne!(copied.id, made.id);
        // As versions before this wrote it: it does not say of which directory it is.
        fs::write(one.join("id"), "abcdefghij0123456789").unwrap();
        assert_ne!(DirectoryIdentity::load_or_create(&one).unwrap().id, "abcdefghij0123456789");
    }
}
