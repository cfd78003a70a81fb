//! Every token that this host knows: its own, and those of `tokens.json`, which is read again
//! whenever it has changed.

mod known;
mod lifetime;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subtle::{ConditionallySelectable, ConstantTimeEq};
use tokio::sync::watch;
use wharf_host::Now;
use wharf_host::core::Millis;

use super::digest::Digest;
use super::identity::{Access, Identity};
use super::own_token::{OwnToken, TokenError};
use super::scope::Scope;
use super::terms::{ID_PREFIX, TokenEntry, TokenTerms};
use super::tokens_file::{NewToken, SetAside, TokensFile, TokensFileError};
use known::KnownTokens;
use lifetime::now;

/// Checks tokens. They are created and revoked in the file, by any program of its owner, with or
/// without a host.
#[derive(Debug)]
pub struct Tokens {
    own: OwnToken,
    file: TokensFile,
    /// True if the file was damaged at the start. Its owner may mend it: the persons and the push
    /// subscriptions of its tokens are kept meanwhile.
    was_set_aside: bool,
    known: Mutex<KnownTokens>,
    /// When each login of a page was last used, since this host was started.
    last_uses: Mutex<HashMap<Arc<str>, Millis>>,
    /// Changes when a token may have ended.
    news: watch::Sender<News>,
}

/// The number of times that the file was read, and the number of its tokens that have ended.
type News = (u64, usize);

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefused {
    /// Never created, or revoked.
    Unknown,
    /// The token has expired, or it is a login whose asker's token has ended.
    Expired,
    /// The token may be in the file, which cannot be read. The file may hold a revocation, so none
    /// of its tokens counts.
    Unreadable,
}

/// The reason why a token is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenEnd {
    Revoked,
    Expired,
    /// The agent that the token belongs to has ended.
    AgentGone,
}

impl TokenEnd {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Revoked => "the token was revoked",
            Self::Expired => "the token has expired",
            Self::AgentGone => "the agent that this token was given to has ended",
        }
    }
}

impl Tokens {
    /// Reads both files of the state directory, and creates the host's own token if it is missing.
    /// Moves a damaged `tokens.json` away: its content is lost, and the host must not take a token
    /// that may have been revoked.
    pub fn open(state_dir: &Path) -> Result<Self, TokenError> {
        let own = state_dir.join("token");
        let file = TokensFile::in_directory(state_dir);
        let set_aside = file.set_aside_if_damaged()?;
        if let Some(SetAside { kept_as, reason }) = &set_aside {
            tracing::error!(kept_as = %kept_as.display(), reason,
                "tokens.json was damaged: all tokens but the host's own are refused until new ones are made");
        }
        if !own.exists() {
            // Logins of the former token must not outlive it.
            file.revoke_logins_of(Identity::HOST_TOKEN_ID)?;
        }
        let own = OwnToken::load_or_create(&own)?;
        let mut known = KnownTokens::default();
        known.refresh(&file)?;
        let was_set_aside = set_aside.is_some();
        let known = Mutex::new(known);
        Ok(Self {
            own,
            file,
            was_set_aside,
            known,
            last_uses: Mutex::default(),
            news: watch::Sender::default(),
        })
    }

    /// Returns the identity of a token. Takes the same time for wrong tokens and for each right
    /// one.
    pub fn authenticate(&self, token: &str) -> Result<Identity, TokenRefused> {
        let given = Digest::of(token);
        let known = self.read_known();
        let digests = std::iter::once(self.own.digest())
            .chain(known.entries.iter().map(|held| &held.entry.hash));
        let mut place = 0_u32;
        for (number, digest) in (1..).zip(digests) {
            place.conditional_assign(&number, digest.ct_eq(&given));
        }
        match place {
            1 => Ok(Identity {
                token: Some(Identity::HOST_TOKEN_ID.into()),
                access: Access::Admin,
                scope: Scope::Host,
            }),
            _ if known.unreadable => Err(TokenRefused::Unreadable),
            // 0 means no match: it wraps to an index that no entry has.
            _ => {
                let held = known
                    .entries
                    .get(place.wrapping_sub(2) as usize)
                    .ok_or(TokenRefused::Unknown)?;
                if known.is_over(held, now()) {
                    Err(TokenRefused::Expired)
                } else {
                    Ok(held.entry.identity())
                }
            }
        }
    }

    /// Checks the token of a connection that was let in before. A file that cannot be read revokes
    /// no token.
    pub fn check(&self, identity: &Identity) -> Result<(), TokenEnd> {
        let Some(id) = Self::revocable_id(identity) else { return Ok(()) };
        let known = self.read_known();
        match known.entries.iter().find(|held| &*held.entry.id == id) {
            Some(held) if held.entry.identity() != *identity => Err(TokenEnd::Revoked),
            Some(held) if known.is_over(held, now()) => Err(TokenEnd::Expired),
            Some(_) => Ok(()),
            None => Err(TokenEnd::Revoked),
        }
    }

    /// Returns the token's id if the token may be revoked or expire while its holder is connected.
    pub(crate) fn revocable_id(identity: &Identity) -> Option<&str> {
        identity.token.as_deref().filter(|id| id.starts_with(ID_PREFIX))
    }

    /// Completes when the token is no longer valid, as far as [`Tokens::look`] has seen.
    pub(crate) async fn wait_for_end(&self, identity: &Identity) -> TokenEnd {
        let mut news = self.news.subscribe();
        loop {
            if let Err(ending) = self.check(identity) {
                return ending;
            }
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Checks whether a token was revoked or has expired, and wakes the tasks that wait for it.
    pub(crate) fn check_for_ends(&self) {
        let known = self.read_known();
        let now = now();
        let news =
            (known.reads, known.entries.iter().filter(|held| known.is_over(held, now)).count());
        drop(known);
        self.news.send_if_modified(|before| std::mem::replace(before, news) != news);
    }

    /// Returns the person that the marks of this caller belong to (rule 14.6). An agent has none.
    pub(crate) fn person_of(&self, identity: &Identity) -> Option<Arc<str>> {
        if identity.agent_session().is_some() {
            return None;
        }
        let Some(id) = Self::revocable_id(identity) else { return Some(wharf_host::OWNER.into()) };
        Some(self.read_known().person_of_token(id))
    }

    /// Returns the name of the person that a token belongs to: `owner`, or the label or id of the
    /// person's own token.
    pub(crate) fn person_name(&self, token: Option<&str>) -> String {
        let Some(id) = token.filter(|id| id.starts_with(ID_PREFIX)) else {
            return wharf_host::OWNER.to_owned();
        };
        let known = self.read_known();
        let person = known.person_of_token(id);
        let own = known.entries.iter().find(|held| held.entry.id == person);
        own.and_then(|held| held.entry.label.clone())
            .unwrap_or_else(|| person.to_string())
    }

    /// Returns the persons of all tokens if the file was read again since `reads`. A file that
    /// cannot be read removes no person.
    pub(crate) fn persons_since(&self, reads: &mut Option<u64>) -> Option<HashSet<String>> {
        let known = self.read_known();
        if !self.is_complete(&known) || *reads == Some(known.reads) {
            return None;
        }
        *reads = Some(known.reads);
        Some(
            known
                .entries
                .iter()
                .map(|held| known.person_of_token(&held.entry.id).to_string())
                .collect(),
        )
    }

    /// Returns true if every token that is valid is known. After damage to the file its owner may
    /// mend it, so what belongs to a missing token must be kept.
    pub(crate) fn are_all_known(&self) -> bool {
        self.is_complete(&self.read_known())
    }

    const fn is_complete(&self, known: &KnownTokens) -> bool {
        !known.unreadable && !self.was_set_aside
    }

    /// Logs a page in: creates a token of these two halves, which are valid only together.
    pub(crate) fn log_in(
        &self,
        terms: TokenTerms,
        halves: (&str, &str),
    ) -> Result<NewToken, TokensFileError> {
        self.file.create_with_text(terms, join_halves(halves.0, halves.1))
    }

    /// Notes that a login was used. Returns true if its lifetime should begin again: see
    /// [`Tokens::renew`].
    pub(crate) fn note_use(&self, id: &Arc<str>) -> bool {
        let now = Now::millis();
        self.last_uses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(Arc::clone(id), now);
        let known = self.read_known();
        known
            .entries
            .iter()
            .any(|held| held.entry.id == *id && held.entry.due_renewal(now).is_some())
    }

    /// Returns when a login was last used.
    pub(crate) fn last_use(&self, entry: &TokenEntry) -> Option<Millis> {
        let uses = self.last_uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.get(&entry.id).copied().or_else(|| entry.last_renewed_at())
    }

    /// Begins the lifetime of a login again if that is due, and returns it. Waits for the disk.
    pub(crate) fn renew(&self, id: &str) -> Option<Millis> {
        self.file.renew(id).unwrap_or_else(|error| {
            tracing::warn!(%error, "a login is not renewed, and ends sooner");
            None
        })
    }

    /// Removes a token from the file, for a page that logs out.
    pub(crate) fn revoke(&self, id: &str) -> Result<(), TokensFileError> {
        let done = self.file.revoke(id).map(drop);
        self.check_for_ends();
        done
    }

    /// Returns how much longer the token is valid, if it expires.
    pub(crate) fn time_left(&self, id: &str) -> Option<Millis> {
        let known = self.read_known();
        let held = known.entries.iter().find(|held| &*held.entry.id == id)?;
        held.entry.ends_at().map(|at| Millis(at.0.saturating_sub(Now::millis().0)))
    }

    /// Returns true if the token is a login of the web page.
    pub(crate) fn is_login(&self, id: &str) -> bool {
        self.read_known()
            .entries
            .iter()
            .any(|held| &*held.entry.id == id && held.entry.login_of.is_some())
    }

    /// Returns the logins of web pages that are valid.
    pub(crate) fn logins(&self) -> Vec<TokenEntry> {
        let known = self.read_known();
        let now = now();
        let good = known
            .entries
            .iter()
            .filter(|held| !known.is_over(held, now))
            .map(|held| &held.entry);
        good.filter(|entry| entry.login_of.is_some()).cloned().collect()
    }

    /// Gives a token another label.
    pub(crate) fn relabel(&self, id: &str, label: &str) -> Result<TokenEntry, TokensFileError> {
        self.file.relabel(id, label)
    }

    /// Returns the ids of the valid tokens of one workspace.
    pub(crate) fn ids_of_workspace(&self, slug: &str) -> Vec<String> {
        let known = self.read_known();
        let now = now();
        let good = known
            .entries
            .iter()
            .filter(|held| !known.is_over(held, now))
            .map(|held| &held.entry);
        good.filter(|entry| entry.workspace.as_deref() == Some(slug))
            .map(|entry| entry.id.to_string())
            .collect()
    }

    /// Returns the tokens of the file. If it has not changed, this costs a `stat`.
    fn read_known(&self) -> MutexGuard<'_, KnownTokens> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let was_unreadable = known.unreadable;
        match known.refresh(&self.file) {
            // Logged once: a caller without a token must not be able to fill the log.
            Err(error) if !was_unreadable => {
                tracing::error!(%error, "only the host's own token is taken until this is mended");
            }
            Ok(()) if was_unreadable && !known.unreadable => {
                tracing::info!("the tokens can be read again")
            }
            Ok(()) | Err(_) => {}
        }
        known
    }
}

/// Returns the token of a page: the half in its cookie and the half in its storage.
pub(super) fn join_halves(cookie: &str, page: &str) -> String {
    format!("{cookie}.{page}")
}
