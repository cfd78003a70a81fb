//! `tokens.json`: the hashes of the tokens made besides the host's own, and their roles. Programs change it under a lock
//! and replace it whole; a file that cannot be understood is never overwritten.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::terms::{ID_PREFIX, LONGEST_LABEL, Terms, TokenEntry};

/// With limits that version 1 did not have: an older wharf must not take such a token for an unlimited one.
const VERSION: u32 = 2;
/// What is written as long as no token has such a limit.
const WITHOUT_LIMITS: u32 = 1;
/// Every login looks at all of them; a thousand take some 20 µs.
const MOST_TOKENS: usize = 1_000;
/// Pages that one asker is logged in on; the oldest goes when another comes.
const MOST_LOGINS: usize = 20;
/// 16 characters of five bits: 80 bits, as in other ids.
const ID_LENGTH: usize = 16;
/// Lets people and secret scanners see what it is.
pub(super) const TOKEN_PREFIX: &str = "wharf_";
/// 52 characters of five bits: 260 random bits.
const TOKEN_LENGTH: usize = 52;

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
    #[error("{path} has version {version}, and this wharf knows version {VERSION}; use the newer wharf", path = path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("no token has the id {id:?}; see: wharf token list")]
    Unknown { id: String },
    #[error("the label must be 1 to {LONGEST_LABEL} characters on one line")]
    Label,
    #[error("an admin changes the host, of which a workspace is a part: make it with --role controller or observer")]
    AdminOfWorkspace,
    #[error("a token lasts longer than no time, and ten years at most; leave the ttl out for one that does not expire")]
    Ttl,
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
    pub fn create(&self, terms: Terms) -> Result<NewToken, TokensFileError> {
        let text = format!("{TOKEN_PREFIX}{}", wharf_host::random_text(TOKEN_LENGTH));
        self.create_as(terms, text)
    }

    /// The same, with a text that nobody else can know.
    pub(super) fn create_as(&self, terms: Terms, text: String) -> Result<NewToken, TokensFileError> {
        terms.check()?;
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        if let Some(asker) = &terms.login_of {
            make_room(&mut tokens, asker);
        }
        if tokens.len() >= MOST_TOKENS {
            return Err(TokensFileError::Full);
        }
        let id = format!("{ID_PREFIX}{}", wharf_host::random_text(ID_LENGTH)).into();
        let entry = terms.entry(id, &text);
        tokens.push(entry.clone());
        self.replace(tokens)?;
        Ok(NewToken { text, entry })
    }

    /// Takes out all tokens whose time has run out.
    pub fn revoke_expired(&self) -> Result<Vec<TokenEntry>, TokensFileError> {
        if self.open()?.is_none() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let (expired, rest): (Vec<_>, Vec<_>) = self.list()?.into_iter().partition(TokenEntry::is_expired);
        if !expired.is_empty() {
            self.replace(rest)?;
        }
        Ok(expired)
    }

    /// Takes out the logins that this token asked for.
    pub(super) fn end_logins_of(&self, asker: &str) -> Result<(), TokensFileError> {
        if self.open()?.is_none() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let before = tokens.len();
        tokens.retain(|entry| entry.login_of.as_deref() != Some(asker));
        if tokens.len() == before { Ok(()) } else { self.replace(tokens) }
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
        let head: Head = wharf_json::read_own(&text).map_err(|error| self.damaged(&error))?;
        match head.version {
            WITHOUT_LIMITS..=VERSION => {}
            0 => return Err(self.damaged(&"there is no version 0")),
            version => return Err(TokensFileError::Newer { path: self.path.clone(), version }),
        }
        let content: Content = wharf_json::read_own(&text).map_err(|error| self.damaged(&error))?;
        let mut ids = std::collections::BTreeSet::new();
        for entry in &content.tokens {
            if let Some(fault) = entry.fault() {
                return Err(self.damaged(&fault));
            }
            let id = &entry.id;
            if !ids.insert(id) {
                return Err(self.damaged(&format!("the id {id:?} is there twice")));
            }
            if content.version == WITHOUT_LIMITS && entry.is_limited() {
                return Err(self.damaged(&format!("{id} has a limit that version {WITHOUT_LIMITS} does not have")));
            }
        }
        Ok(content.tokens)
    }

    /// Whole or not at all, and on the disk: a revoked token must not come back with a power cut.
    fn replace(&self, tokens: Vec<TokenEntry>) -> Result<(), TokensFileError> {
        let write = || -> io::Result<()> {
            let version = if tokens.iter().any(TokenEntry::is_limited) { VERSION } else { WITHOUT_LIMITS };
            let mut text = serde_json::to_vec_pretty(&Content { version, tokens })?;
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

/// Takes logins out that are over, and the oldest of this asker if there are many: nobody lists those, and nobody shall
/// fill the file with them.
fn make_room(tokens: &mut Vec<TokenEntry>, asker: &str) {
    tokens.retain(|entry| entry.login_of.is_none() || !entry.is_expired());
    let of_asker = |entry: &TokenEntry| entry.login_of.as_deref() == Some(asker);
    let mut over = (tokens.iter().filter(|entry| of_asker(entry)).count() + 1).saturating_sub(MOST_LOGINS);
    tokens.retain(|entry| {
        let goes = over > 0 && of_asker(entry);
        over -= usize::from(goes);
        !goes
    });
}
