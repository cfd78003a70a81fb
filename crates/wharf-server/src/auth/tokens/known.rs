//! The tokens that were read from `tokens.json`, and whether the file has changed since.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use wharf_host::OWNER;

use super::super::terms::{ID_PREFIX, TokenEntry};
use super::super::tokens_file::{TokensFile, TokensFileError};
use super::lifetime::{Moments, TokenLifetime, now};

/// The tokens that were read last.
#[derive(Debug, Default)]
pub(super) struct KnownTokens {
    stamp: Option<Stamp>,
    /// Held open so that no later file can get its inode number, and with it the same stamp.
    _held: Option<File>,
    /// From the last time that the file could be read.
    pub(super) entries: Vec<HeldToken>,
    pub(super) unreadable: bool,
    /// How often the file was read with tokens in it, or lost them.
    pub(super) reads: u64,
}

/// A token as this host has it.
#[derive(Debug)]
pub(super) struct HeldToken {
    pub(super) entry: TokenEntry,
    lifetime: Option<TokenLifetime>,
}

/// Changes whenever the file is replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: (file.dev(), file.ino()),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl KnownTokens {
    /// Fails once for each content that is wrong, and each time that the file cannot be reached.
    pub(super) fn refresh(&mut self, file: &TokensFile) -> Result<(), TokensFileError> {
        let stamp = match std::fs::metadata(file.path()) {
            Ok(metadata) => Some(Stamp::of(&metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                self.mark_unreadable();
                return Err(file.io_error("look at")(error));
            }
        };
        if stamp.is_some() && stamp == self.stamp {
            return Ok(());
        }
        self.mark_unreadable();
        let Some(mut held) = file.open()? else {
            self.replace_entries(Vec::new());
            self.unreadable = false;
            return Ok(());
        };
        // The stamp is taken before the content is read: a later change gives another stamp.
        let stamp = Stamp::of(&held.metadata().map_err(file.io_error("look at"))?);
        let read = file.read(&mut held);
        if !matches!(read, Err(TokensFileError::Io { .. })) {
            self.stamp = Some(stamp);
            self._held = Some(held);
        }
        self.replace_entries(read?);
        self.unreadable = false;
        Ok(())
    }

    /// Replaces the tokens. A token that was known keeps its end: reading the file again gives it
    /// no more time.
    fn replace_entries(&mut self, entries: Vec<TokenEntry>) {
        let before = std::mem::take(&mut self.entries);
        let now = now();
        let limit = |entry: &TokenEntry| {
            let known = before.iter().find(|held| {
                held.entry.id == entry.id && held.entry.expires_at == entry.expires_at
            });
            known.map_or_else(|| TokenLifetime::of(entry, now), |held| held.lifetime)
        };
        self.entries = entries
            .into_iter()
            .map(|entry| HeldToken { lifetime: limit(&entry), entry })
            .collect();
        self.reads += u64::from(!before.is_empty() || !self.entries.is_empty());
    }

    pub(super) fn is_over(&self, held: &HeldToken, now: Moments) -> bool {
        let over = |held: &HeldToken| held.lifetime.is_some_and(|limit| limit.is_over(now));
        let Some(asker) =
            held.entry.login_of.as_deref().filter(|asker| asker.starts_with(ID_PREFIX))
        else {
            return over(held);
        };
        // A login ends with the token that asked for it.
        over(held) || !self.entries.iter().any(|other| &*other.entry.id == asker && !over(other))
    }

    /// Returns the person that a token belongs to (rule 14.6). A login belongs to the person that
    /// asked for it.
    pub(super) fn person_of_token(&self, id: &str) -> Arc<str> {
        let mut id = id;
        // A login has no logins of its own; the bound is against a file that says so.
        for _ in 0..2 {
            let Some(held) = self.entries.iter().find(|held| &*held.entry.id == id) else { break };
            match (&held.entry.person, &held.entry.login_of) {
                (Some(person), _) => return Arc::clone(person),
                (None, Some(asker)) if asker.starts_with(ID_PREFIX) => id = asker,
                (None, Some(_)) => return OWNER.into(),
                (None, None) => break,
            }
        }
        id.into()
    }

    fn mark_unreadable(&mut self) {
        self.stamp = None;
        self._held = None;
        self.unreadable = true;
    }
}
