//! `tokens.json`: the hashes of the tokens made besides the host's own, and their roles. Programs change it under a lock
//! and replace it whole; a file that cannot be understood is never overwritten.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::identity::Access;
use super::moment;

const VERSION: u32 = 1;
/// Every login looks at all of them; a thousand take some 20 µs.
const MOST_TOKENS: usize = 1_000;
/// A label is a note in a table, not a document.
const LONGEST_LABEL: usize = 200;
const ID_PREFIX: &str = "tok_";
/// 16 characters of five bits: 80 bits, as in other ids.
const ID_LENGTH: usize = 16;
/// Lets people and secret scanners see what it is.
const TOKEN_PREFIX: &str = "wharf_";
/// 52 characters of five bits: 260 random bits.
const TOKEN_LENGTH: usize = 52;

/// A token as the file knows it. A field that is not known here may be a limit on the token, so it is an error and not
/// ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenEntry {
    pub id: Arc<str>,
    #[serde(rename = "role")]
    pub access: Access,
    pub(super) hash: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// RFC 3339, UTC.
    pub created_at: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    tokens: Vec<TokenEntry>,
}

#[derive(Debug, Deserialize)]
struct Head {
    version: u32,
}

/// A token that was just made. The text is nowhere else.
pub struct NewToken {
    pub text: String,
    pub entry: TokenEntry,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("entry", &self.entry).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokensFileError {
    #[error("cannot {verb} {path}: {source}", path = path.display())]
    Io { verb: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is damaged: {reason}; mend it, or move it away and make new tokens", path = path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} has version {version}, and this wharf knows version 1; use the newer wharf", path = path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("no token has the id {id:?}; see: wharf token list")]
    Unknown { id: String },
    #[error("the label must be 1 to {LONGEST_LABEL} characters on one line")]
    Label,
    #[error("there are {MOST_TOKENS} tokens already; revoke one that is not used: wharf token list")]
    Full,
}

/// The file of one state directory. It may not be there: then no token was made.
#[derive(Clone, Debug)]
pub struct TokensFile {
    path: PathBuf,
}

impl TokensFile {
    pub fn of(state_dir: &Path) -> Self {
        Self { path: state_dir.join("tokens.json") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn list(&self) -> Result<Vec<TokenEntry>, TokensFileError> {
        self.open()?.map_or_else(|| Ok(Vec::new()), |mut file| self.read(&mut file))
    }

    /// Makes a token and adds it.
    pub fn create(&self, access: Access, label: Option<&str>) -> Result<NewToken, TokensFileError> {
        if label.is_some_and(|label| !is_label(label)) {
            return Err(TokensFileError::Label);
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        if tokens.len() >= MOST_TOKENS {
            return Err(TokensFileError::Full);
        }
        let text = format!("{TOKEN_PREFIX}{}", wharf_host::random_text(TOKEN_LENGTH));
        let entry = TokenEntry {
            id: format!("{ID_PREFIX}{}", wharf_host::random_text(ID_LENGTH)).into(),
            access,
            hash: Digest::of(&text),
            label: label.map(ToOwned::to_owned),
            created_at: moment::text(wharf_host::Now::millis()),
        };
        tokens.push(entry.clone());
        self.replace(tokens)?;
        Ok(NewToken { text, entry })
    }

    /// Takes a token out: it opens nothing from now on.
    pub fn revoke(&self, id: &str) -> Result<TokenEntry, TokensFileError> {
        let unknown = || TokensFileError::Unknown { id: id.to_owned() };
        // Without a file there is perhaps no directory to lock either, and a wrong one must not be made.
        if self.open()?.is_none() {
            return Err(unknown());
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let place = tokens.iter().position(|entry| &*entry.id == id).ok_or_else(unknown)?;
        let revoked = tokens.remove(place);
        self.replace(tokens)?;
        Ok(revoked)
    }

    pub(super) fn open(&self) -> Result<Option<File>, TokensFileError> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("open")(error)),
        }
    }

    pub(super) fn read(&self, file: &mut File) -> Result<Vec<TokenEntry>, TokensFileError> {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(self.failed("read"))?;
        let head: Head = serde_json::from_slice(&text).map_err(|error| self.damaged(&error))?;
        match head.version {
            VERSION => {}
            0 => return Err(self.damaged(&"there is no version 0")),
            version => return Err(TokensFileError::Newer { path: self.path.clone(), version }),
        }
        let content: Content = serde_json::from_slice(&text).map_err(|error| self.damaged(&error))?;
        let mut ids = std::collections::BTreeSet::new();
        for TokenEntry { id, .. } in &content.tokens {
            if !id.starts_with(ID_PREFIX) {
                return Err(self.damaged(&format!("the id {id:?} does not begin with {ID_PREFIX}")));
            }
            if !ids.insert(id) {
                return Err(self.damaged(&format!("the id {id:?} is there twice")));
            }
        }
        Ok(content.tokens)
    }

    /// Whole or not at all, and on the disk: a revoked token must not come back with a power cut.
    fn replace(&self, tokens: Vec<TokenEntry>) -> Result<(), TokensFileError> {
        let write = || -> io::Result<()> {
            let mut text = serde_json::to_vec_pretty(&Content { version: VERSION, tokens })?;
            text.push(b'\n');
            let half = self.path.with_extension("new");
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&half, &self.path)?;
            self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
        };
        write().map_err(self.failed("write"))
    }

    /// Held until it is dropped: two programs that change the file do so one after the other.
    fn lock(&self) -> Result<File, TokensFileError> {
        let lock = || -> io::Result<File> {
            if let Some(dir) = self.path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            }
            let path = self.path.with_extension("lock");
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(self.failed("lock"))
    }

    pub(super) fn failed(&self, verb: &'static str) -> impl FnOnce(io::Error) -> TokensFileError {
        let path = self.path.clone();
        move |source| TokensFileError::Io { verb, path, source }
    }

    fn damaged(&self, reason: &dyn ToString) -> TokensFileError {
        TokensFileError::Damaged { path: self.path.clone(), reason: reason.to_string() }
    }
}

fn is_label(label: &str) -> bool {
    !label.trim().is_empty() && label.chars().count() <= LONGEST_LABEL && !label.chars().any(char::is_control)
}
