//! `tokens.json`: the hashes and the roles of all tokens but the host's own. Programs change it
//! under a lock and replace it whole; a file that cannot be understood is never overwritten.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_host::Now;
use wharf_host::core::Millis;

use super::terms::{ID_PREFIX, MAX_LABEL_CHARS, TokenEntry, TokenTerms, is_label};

/// The version with lifetimes that begin again, which older versions refuse.
const FILE_VERSION: u32 = 4;
/// The version with persons.
const VERSION_WITHOUT_RENEWALS: u32 = 3;
/// The version with limits that version 1 does not have: an older wharf must not take such a token
/// for an unlimited one.
const VERSION_WITHOUT_PERSONS: u32 = 2;
/// The version that is written while no token has such a limit.
const VERSION_WITHOUT_LIMITS: u32 = 1;
/// Every request compares its token with all of them; a thousand take about 20 µs.
const MAX_TOKENS: usize = 1_000;
/// Logins of one asker; the oldest is dropped for a new one.
const MAX_LOGINS_PER_ASKER: usize = 20;
/// 16 characters of five bits: 80 bits, as in other ids.
const ID_CHARS: usize = 16;
/// Tells people and secret scanners that a text is a token.
pub(super) const TOKEN_PREFIX: &str = "wharf_";
/// 52 characters of five bits: 260 random bits.
const TOKEN_CHARS: usize = 52;

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

/// A token that was just created. Its text is kept nowhere else.
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
    #[error("{path} has version {version}, and this wharf knows version {FILE_VERSION}; use the newer wharf", path = path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("no token has the id {id:?}; see: wharf token list")]
    Unknown { id: String },
    #[error("the label must be 1 to {MAX_LABEL_CHARS} characters on one line")]
    Label,
    #[error(
        "an admin changes the host, of which a workspace is a part: make it with --role controller or observer"
    )]
    AdminOfWorkspace,
    #[error(
        "a token lasts longer than no time, and ten years at most; leave the ttl out for one that does not expire"
    )]
    Ttl,
    #[error(
        "no person is called {name:?}; name owner, or the id or the label of one token: wharf token list"
    )]
    UnknownPerson { name: String },
    #[error("there are {MAX_TOKENS} tokens already; revoke one that is not used: wharf token list")]
    Full,
}

/// A damaged file that was moved away.
#[derive(Debug)]
pub(super) struct SetAside {
    pub(super) kept_as: PathBuf,
    pub(super) reason: String,
}

/// The file of one state directory. If it does not exist, no token was created.
#[derive(Clone, Debug)]
pub struct TokensFile {
    path: PathBuf,
}

impl TokensFile {
    pub fn in_directory(state_dir: &Path) -> Self {
        Self { path: state_dir.join("tokens.json") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a damaged file away and returns its new path. A file that a newer version wrote is not
    /// damaged.
    pub(super) fn set_aside_if_damaged(&self) -> Result<Option<SetAside>, TokensFileError> {
        if self.find_damage().is_none() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        // Another program may have mended it meanwhile.
        let Some(reason) = self.find_damage() else { return Ok(None) };
        let kept_as = wharf_host::set_aside(&self.path).map_err(self.io_error("rename"))?;
        Ok(Some(SetAside { kept_as, reason }))
    }

    /// Returns how the file is damaged, if it is.
    fn find_damage(&self) -> Option<String> {
        match self.list() {
            Err(TokensFileError::Damaged { reason, .. }) => Some(reason),
            Err(TokensFileError::Io { source, .. }) if wharf_host::is_damage(&source) => {
                Some(source.to_string())
            }
            _ => None,
        }
    }

    pub fn list(&self) -> Result<Vec<TokenEntry>, TokensFileError> {
        self.open()?.map_or_else(|| Ok(Vec::new()), |mut file| self.read(&mut file))
    }

    /// Creates a token and adds it.
    pub fn create(&self, terms: TokenTerms) -> Result<NewToken, TokensFileError> {
        let text = format!("{TOKEN_PREFIX}{}", wharf_host::random_text(TOKEN_CHARS));
        self.create_with_text(terms, text)
    }

    /// Creates a token with this text, which must be secret and random.
    pub(super) fn create_with_text(
        &self,
        terms: TokenTerms,
        text: String,
    ) -> Result<NewToken, TokensFileError> {
        terms.validate()?;
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        if let Some(asker) = &terms.login_of {
            drop_old_logins(&mut tokens, asker);
        }
        if tokens.len() >= MAX_TOKENS {
            return Err(TokensFileError::Full);
        }
        let id = format!("{ID_PREFIX}{}", wharf_host::random_text(ID_CHARS)).into();
        let person = terms.person.as_deref().map(|name| find_person(&tokens, name)).transpose()?;
        let entry = TokenEntry { person, ..terms.into_entry(id, &text) };
        tokens.push(entry.clone());
        self.replace_file(tokens)?;
        Ok(NewToken { text, entry })
    }

    /// Removes all tokens that have expired.
    pub fn revoke_expired(&self) -> Result<Vec<TokenEntry>, TokensFileError> {
        if self.open()?.is_none() {
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let (expired, rest): (Vec<_>, Vec<_>) =
            self.list()?.into_iter().partition(TokenEntry::is_expired);
        if !expired.is_empty() {
            self.replace_file(rest)?;
        }
        Ok(expired)
    }

    /// Removes the logins that this token asked for.
    pub(super) fn revoke_logins_of(&self, asker: &str) -> Result<(), TokensFileError> {
        if self.open()?.is_none() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let before = tokens.len();
        tokens.retain(|entry| entry.login_of.as_deref() != Some(asker));
        if tokens.len() == before { Ok(()) } else { self.replace_file(tokens) }
    }

    /// Removes a token: it is refused from now on.
    pub fn revoke(&self, id: &str) -> Result<TokenEntry, TokensFileError> {
        let unknown = || TokensFileError::Unknown { id: id.to_owned() };
        // Without a file there may be no directory to lock either, and it must not be created for a
        // wrong path.
        if self.open()?.is_none() {
            return Err(unknown());
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let place = tokens.iter().position(|entry| &*entry.id == id).ok_or_else(unknown)?;
        let revoked = tokens.remove(place);
        self.replace_file(tokens)?;
        Ok(revoked)
    }

    /// Changes the label of a token.
    pub(super) fn relabel(&self, id: &str, label: &str) -> Result<TokenEntry, TokensFileError> {
        let unknown = || TokensFileError::Unknown { id: id.to_owned() };
        if !is_label(label) {
            return Err(TokensFileError::Label);
        }
        if self.open()?.is_none() {
            return Err(unknown());
        }
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let entry = tokens.iter_mut().find(|entry| &*entry.id == id).ok_or_else(unknown)?;
        entry.label = Some(label.to_owned());
        let changed = entry.clone();
        self.replace_file(tokens)?;
        Ok(changed)
    }

    /// Begins the lifetime of a token again if that is due, and returns it in that case.
    pub(super) fn renew(&self, id: &str) -> Result<Option<Millis>, TokensFileError> {
        let _lock = self.lock()?;
        let mut tokens = self.list()?;
        let now = Now::millis();
        let entry = tokens.iter_mut().find(|entry| &*entry.id == id && !entry.is_expired());
        let due = entry.and_then(|entry| entry.due_renewal(now).map(|lifetime| (entry, lifetime)));
        let Some((entry, lifetime)) = due else { return Ok(None) };
        entry.renew(now, lifetime);
        self.replace_file(tokens)?;
        Ok(Some(lifetime))
    }

    pub(super) fn open(&self) -> Result<Option<File>, TokensFileError> {
        match wharf_host::open_regular_file(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io_error("open")(error)),
        }
    }

    pub(super) fn read(&self, file: &mut File) -> Result<Vec<TokenEntry>, TokensFileError> {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(self.io_error("read"))?;
        let head: Head = wharf_json::read_own(&text).map_err(|error| self.damaged_error(&error))?;
        match head.version {
            VERSION_WITHOUT_LIMITS..=FILE_VERSION => {}
            0 => return Err(self.damaged_error(&"there is no version 0")),
            version => return Err(TokensFileError::Newer { path: self.path.clone(), version }),
        }
        let content: Content =
            wharf_json::read_own(&text).map_err(|error| self.damaged_error(&error))?;
        let mut ids = std::collections::BTreeSet::new();
        for entry in &content.tokens {
            if let Some(fault) = entry.find_fault() {
                return Err(self.damaged_error(&fault));
            }
            let id = &entry.id;
            if !ids.insert(id) {
                return Err(self.damaged_error(&format!("the id {id:?} is there twice")));
            }
            if content.version == VERSION_WITHOUT_LIMITS && entry.is_limited() {
                return Err(self.damaged_error(&format!(
                    "{id} has a limit that version {VERSION_WITHOUT_LIMITS} does not have"
                )));
            }
        }
        Ok(content.tokens)
    }

    /// Replaces the file atomically and syncs it: a revoked token must not come back after a power
    /// cut.
    fn replace_file(&self, tokens: Vec<TokenEntry>) -> Result<(), TokensFileError> {
        let write = || -> io::Result<()> {
            let version = match &tokens {
                tokens if tokens.iter().any(|entry| entry.renews_for_seconds.is_some()) => {
                    FILE_VERSION
                }
                tokens if tokens.iter().any(|entry| entry.person.is_some()) => {
                    VERSION_WITHOUT_RENEWALS
                }
                tokens if tokens.iter().any(TokenEntry::is_limited) => VERSION_WITHOUT_PERSONS,
                _ => VERSION_WITHOUT_LIMITS,
            };
            let mut text = serde_json::to_vec_pretty(&Content { version, tokens })?;
            text.push(b'\n');
            let half = self.path.with_extension("new");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&half)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&half, &self.path)?;
            self.path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
        };
        write().map_err(self.io_error("write"))
    }

    /// Locks the file until the guard is dropped: programs change it one after the other.
    fn lock(&self) -> Result<File, TokensFileError> {
        let lock = || -> io::Result<File> {
            if let Some(dir) = self.path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            }
            let path = self.path.with_extension("lock");
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(self.io_error("lock"))
    }

    pub(super) fn io_error(&self, verb: &'static str) -> impl FnOnce(io::Error) -> TokensFileError {
        let path = self.path.clone();
        move |source| TokensFileError::Io { verb, path, source }
    }

    fn damaged_error(&self, reason: &dyn ToString) -> TokensFileError {
        TokensFileError::Damaged { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// Returns the person that is called so: the owner, or the person of the one token with this id or
/// label.
fn find_person(tokens: &[TokenEntry], name: &str) -> Result<Arc<str>, TokensFileError> {
    if name == wharf_host::OWNER {
        return Ok(name.into());
    }
    let is_called = |entry: &&TokenEntry| {
        let is_label = entry.login_of.is_none() && entry.label.as_deref() == Some(name);
        &*entry.id == name || is_label || entry.person.as_deref() == Some(name)
    };
    let mut persons: Vec<_> = tokens
        .iter()
        .filter(is_called)
        .map(|entry| entry.person.as_ref().unwrap_or(&entry.id))
        .collect();
    persons.sort();
    persons.dedup();
    match persons[..] {
        [person] => Ok(Arc::clone(person)),
        _ => Err(TokensFileError::UnknownPerson { name: name.to_owned() }),
    }
}

/// Removes logins that have ended, and the oldest of this asker if there are many: no person lists
/// logins, and they must not fill the file.
fn drop_old_logins(tokens: &mut Vec<TokenEntry>, asker: &str) {
    tokens.retain(|entry| entry.login_of.is_none() || !entry.is_expired());
    let of_asker = |entry: &TokenEntry| entry.login_of.as_deref() == Some(asker);
    let mut over = (tokens.iter().filter(|entry| of_asker(entry)).count() + 1)
        .saturating_sub(MAX_LOGINS_PER_ASKER);
    tokens.retain(|entry| {
        let goes = over > 0 && of_asker(entry);
        over -= usize::from(goes);
        !goes
    });
}
