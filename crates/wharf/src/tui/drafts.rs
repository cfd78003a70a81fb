//! Unsent texts on disk: one file per session, for their owner alone.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use wharf_tui::DraftKey;

/// The folder in the state directory.
const FOLDER_NAME: &str = "drafts";
/// The file of the form for a new session.
const FORM_FILE: &str = "new-session";
/// A longer text is not loaded.
const MAX_DRAFT_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct DraftFolder {
    path: PathBuf,
}

impl DraftFolder {
    pub(super) fn open(state_dir: &Path) -> Self {
        Self { path: state_dir.join(FOLDER_NAME) }
    }

    /// Returns all texts. A file that cannot be read is left out.
    pub(super) fn load(&self) -> Vec<(DraftKey, String)> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let name =
                    entry.file_name().into_string().ok().filter(|name| is_plain_name(name))?;
                let is_small = entry
                    .metadata()
                    .is_ok_and(|file| file.is_file() && file.len() <= MAX_DRAFT_BYTES);
                let text =
                    is_small.then(|| std::fs::read_to_string(entry.path()).ok()).flatten()?;
                let key =
                    if name == FORM_FILE { DraftKey::NewSession } else { DraftKey::Session(name) };
                Some((key, text))
            })
            .collect()
    }

    /// Writes a text; an empty one removes the file.
    pub(super) fn save(&self, key: &DraftKey, text: &str) -> std::io::Result<()> {
        let name = match key {
            DraftKey::NewSession => FORM_FILE,
            DraftKey::Session(id) => id,
        };
        if !is_plain_name(name) {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        let path = self.path.join(name);
        if text.is_empty() {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let unfinished = self.path.join(format!(".{name}.new"));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(unfinished, path)
    }
}

/// Returns true for a name that stays in the folder. Names of unfinished files begin with a dot.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn drafts_come_back_and_are_for_their_owner_alone() -> anyhow::Result<()> {
        let state = tempfile::tempdir()?;
        let folder = DraftFolder::open(state.path());
        assert_eq!(folder.load(), []);
        let session = DraftKey::Session("sess_1".to_owned());
        folder.save(&session, "half a\nthought")?;
        folder.save(&DraftKey::NewSession, "later")?;
        let mut loaded = folder.load();
        loaded.sort();
        let expected = [
            (DraftKey::NewSession, "later".to_owned()),
            (session.clone(), "half a\nthought".to_owned()),
        ];
        assert_eq!(loaded, expected);
        let file = std::fs::metadata(state.path().join("drafts/sess_1"))?;
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        folder.save(&session, "")?;
        assert_eq!(folder.load().len(), 1);
        assert!(folder.save(&DraftKey::Session("../x".to_owned()), "no").is_err());
        Ok(())
    }
}
