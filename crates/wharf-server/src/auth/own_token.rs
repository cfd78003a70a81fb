//! The host's own token: created at the first start and kept in a private file.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::digest::Digest;
use super::tokens_file::{TOKEN_PREFIX, TokensFileError};

/// 52 characters of five bits: 260 random bits.
const TOKEN_CHARS: usize = 52;

/// The hash of the token. The token itself does not stay in memory.
#[derive(Debug)]
pub(super) struct OwnToken(Digest);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot use the token file {path}: {source}", path = path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the token file {path} holds no usable token; delete it and a new one is made at the next start", path = path.display())]
    Damaged { path: PathBuf },
    #[error(transparent)]
    Others(#[from] TokensFileError),
}

impl OwnToken {
    /// Reads the token file, or creates it.
    pub(super) fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        let io = |source| TokenError::Io { path: path.to_owned(), source };
        match std::fs::read_to_string(path) {
            Ok(text) if text.trim().len() >= 32 => Ok(Self(Digest::of(text.trim()))),
            Ok(_) => Err(TokenError::Damaged { path: path.to_owned() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let token = format!("{TOKEN_PREFIX}{}", wharf_host::random_text(TOKEN_CHARS));
                let half = path.with_extension("new");
                let mut file = std::fs::OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o600)
                    .open(&half)
                    .map_err(io)?;
                file.write_all(format!("{token}\n").as_bytes()).map_err(io)?;
                file.sync_all().map_err(io)?;
                std::fs::rename(&half, path).map_err(io)?;
                Ok(Self(Digest::of(&token)))
            }
            Err(error) => Err(io(error)),
        }
    }

    pub(super) fn digest(&self) -> &Digest {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_is_created_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        OwnToken::load_or_create(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let again = OwnToken::load_or_create(&path).unwrap();
        assert_eq!(again.digest(), &Digest::of(text.trim()));
        assert_ne!(again.digest(), &Digest::of("x"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn damaged_token_file_is_named_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(OwnToken::load_or_create(&path), Err(TokenError::Damaged { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}
