//! Every token that this host knows: its own, and those of `tokens.json`, which is read again whenever it has changed.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::digest::Digest;
use super::identity::{Access, Identity};
use super::scope::Scope;
use super::token::{Token, TokenError};
use super::tokens_file::{TokenEntry, TokensFile, TokensFileError};

/// Checks tokens. Making and revoking them is done in the file, by whoever owns it, with or without a host.
#[derive(Debug)]
pub struct Tokens {
    own: Token,
    file: TokensFile,
    known: Mutex<Known>,
}

/// Why a token opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Never made, or revoked.
    Unknown,
    /// It may be in the file, which cannot be read: a revocation could be hidden there, so nothing in it counts.
    Unreadable,
}

/// What was read last.
#[derive(Debug, Default)]
struct Known {
    stamp: Option<Stamp>,
    /// Held open so that no later file can get its inode number, and with it the same stamp.
    _held: Option<File>,
    /// Of the last time that the file could be read.
    entries: Vec<TokenEntry>,
    unreadable: bool,
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

impl Tokens {
    /// Reads both files of the state directory, and makes the host's own token if there is none.
    pub fn open(state_dir: &Path) -> Result<Self, TokenError> {
        let own = Token::load_or_make(&state_dir.join("token"))?;
        let file = TokensFile::of(state_dir);
        let mut known = Known::default();
        known.refresh(&file)?;
        Ok(Self { own, file, known: Mutex::new(known) })
    }

    /// Whose token is this? Takes as long for a wrong one, and for each of the right ones.
    pub fn authenticate(&self, token: &str) -> Result<Identity, Refused> {
        let given = Digest::of(token);
        let known = self.known();
        let digests = std::iter::once(self.own.digest()).chain(known.entries.iter().map(|entry| &entry.hash));
        let mut place = 0_u32;
        for (number, digest) in (1..).zip(digests) {
            place.conditional_assign(&number, digest.ct_eq(&given));
        }
        match place {
            1 => Ok(Identity { token: Some(Identity::HOST.into()), access: Access::Admin, scope: Scope::Host }),
            _ if known.unreadable => Err(Refused::Unreadable),
            // 0 stands for none: it wraps to a place that no entry has.
            _ => known.entries.get(place.wrapping_sub(2) as usize).map(identity).ok_or(Refused::Unknown),
        }
    }

    /// Is it still good, for a connection that was let in before? A file that cannot be read revokes nobody.
    pub fn is_valid(&self, identity: &Identity) -> bool {
        match identity.token.as_deref() {
            None | Some(Identity::HOST) => true,
            Some(id) => {
                let known = self.known();
                known.entries.iter().any(|entry| &*entry.id == id && entry.access == identity.access)
            }
        }
    }

    /// What the file says now; a `stat` when it has not changed.
    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let was_unreadable = known.unreadable;
        match known.refresh(&self.file) {
            // Said once: a caller without a token must not be able to fill the log.
            Err(error) if !was_unreadable => {
                tracing::error!(%error, "only the host's own token is taken until this is mended");
            }
            Ok(()) if was_unreadable && !known.unreadable => tracing::info!("the tokens can be read again"),
            Ok(()) | Err(_) => {}
        }
        known
    }
}

impl Known {
    /// Fails once for each content that is wrong, and each time that the file cannot be reached.
    fn refresh(&mut self, file: &TokensFile) -> Result<(), TokensFileError> {
        let stamp = match std::fs::metadata(file.path()) {
            Ok(metadata) => Some(Stamp::of(&metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                self.forget();
                return Err(file.failed("look at")(error));
            }
        };
        if stamp.is_some() && stamp == self.stamp {
            return Ok(());
        }
        self.forget();
        let Some(mut held) = file.open()? else {
            (self.entries, self.unreadable) = (Vec::new(), false);
            return Ok(());
        };
        // The stamp is of what is read, and older than it: a change from now on gives another one.
        let stamp = Stamp::of(&held.metadata().map_err(file.failed("look at"))?);
        let read = file.read(&mut held);
        if !matches!(read, Err(TokensFileError::Io { .. })) {
            self.stamp = Some(stamp);
            self._held = Some(held);
        }
        self.entries = read?;
        self.unreadable = false;
        Ok(())
    }

    fn forget(&mut self) {
        self.stamp = None;
        self._held = None;
        self.unreadable = true;
    }
}

fn identity(entry: &TokenEntry) -> Identity {
    Identity { token: Some(Arc::clone(&entry.id)), access: entry.access, scope: Scope::Host }
}

#[cfg(test)]
mod tests;
