//! The terms of a token, and its entry in the file.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_api::quote_visibly;
use wharf_config::Slug;
use wharf_host::core::Millis;
use wharf_host::{Now, format_timestamp_in_seconds, parse_timestamp};

use super::digest::Digest;
use super::identity::{Access, Identity};
use super::scope::Scope;
use super::tokens_file::TokensFileError;

/// A label is a note in a table, not a document.
pub(super) const MAX_LABEL_CHARS: usize = 200;
/// The longest lifetime. A longer one could as well be without end.
const MAX_TTL: Millis = Millis(10 * 366 * 86_400_000);
pub(super) const ID_PREFIX: &str = "tok_";
/// A use renews a lifetime only after this much of it has passed, or after a thirtieth of a shorter
/// one: each renewal writes the file.
const RENEWAL_INTERVAL: Millis = Millis(86_400_000);

/// Returns the end of a lifetime, rounded up to the second so that a token lives no shorter than
/// asked for.
fn format_end(now: Millis, lifetime: Millis) -> String {
    format_timestamp_in_seconds(Millis((now.0 + lifetime.0).next_multiple_of(1_000)))
}

/// The rights and the lifetime of a new token.
#[derive(Clone, Debug)]
pub struct TokenTerms {
    pub access: Access,
    pub label: Option<String>,
    /// The slug of the only workspace that it covers. The caller checks that it is registered.
    pub workspace: Option<Arc<str>>,
    /// Counted from now; `None`: until it is revoked.
    pub ttl: Option<Millis>,
    /// True if the lifetime begins again whenever the token is used.
    pub renews: bool,
    /// For a login of the web page: its asker, [`Identity::HOST`] or the id of a token.
    pub login_of: Option<Arc<str>>,
    /// The person that the token joins: `owner`, or the label or id of a token. `None`: a person of
    /// its own (rule 14.6).
    pub person: Option<String>,
}

impl TokenTerms {
    /// Returns terms for the whole host, without an end.
    pub const fn new(access: Access) -> Self {
        Self {
            access,
            label: None,
            workspace: None,
            ttl: None,
            renews: false,
            login_of: None,
            person: None,
        }
    }

    pub(super) fn validate(&self) -> Result<(), TokensFileError> {
        if self.label.as_deref().is_some_and(|label| !is_label(label)) {
            return Err(TokensFileError::Label);
        }
        if self.workspace.is_some() && self.access == Access::Admin {
            return Err(TokensFileError::AdminOfWorkspace);
        }
        if self.ttl.is_some_and(|ttl| ttl == Millis(0) || ttl > MAX_TTL) {
            return Err(TokensFileError::Ttl);
        }
        Ok(())
    }

    /// Returns the entry of a token with this text.
    pub(super) fn into_entry(self, id: Arc<str>, text: &str) -> TokenEntry {
        let now = Now::millis();
        let renews_for_seconds = self.ttl.filter(|_| self.renews).map(|ttl| ttl.0.div_ceil(1_000));
        TokenEntry {
            id,
            access: self.access,
            workspace: self.workspace,
            hash: Digest::of(text),
            label: self.label,
            created_at: format_timestamp_in_seconds(now),
            expires_at: self.ttl.map(|ttl| format_end(now, ttl)),
            renews_for_seconds,
            login_of: self.login_of,
            person: None,
        }
    }
}

/// A token as the file knows it. A field that is not known here may be a limit on the token, so it
/// is an error and not ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenEntry {
    pub id: Arc<str>,
    #[serde(rename = "role")]
    pub access: Access,
    /// The slug of the only workspace that it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Arc<str>>,
    pub(super) hash: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// RFC 3339, UTC, as are all instants here.
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The lifetime in seconds, if it begins again whenever the token is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) renews_for_seconds: Option<u64>,
    /// A login of the web page ends with the token that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_of: Option<Arc<str>>,
    /// The person that the token joined: `owner`, or the id of that person's first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<Arc<str>>,
}

impl TokenEntry {
    /// Returns true if the entry has a limit that version 1 of the file does not have.
    pub(super) fn is_limited(&self) -> bool {
        self.workspace.is_some() || self.expires_at.is_some() || self.login_of.is_some()
    }

    /// Returns the time at which the token expires.
    pub(super) fn ends_at(&self) -> Option<Millis> {
        // Reading the file refuses text that is not a timestamp; an entry that has such text all
        // the same counts as expired.
        self.expires_at.as_deref().map(|at| parse_timestamp(at).unwrap_or_default())
    }

    /// Returns the lifetime to begin again, if enough of the present one has passed to be worth a
    /// write.
    pub(super) fn due_renewal(&self, now: Millis) -> Option<Millis> {
        let lifetime = Millis(self.renews_for_seconds? * 1_000);
        let left = self.ends_at()?.0.saturating_sub(now.0);
        let passed = lifetime.0.saturating_sub(left);
        (passed >= RENEWAL_INTERVAL.0.min(lifetime.0 / 30)).then_some(lifetime)
    }

    /// Begins the lifetime again.
    pub(super) fn renew(&mut self, now: Millis, lifetime: Millis) {
        self.expires_at = Some(format_end(now, lifetime));
    }

    /// Returns the time of its last use, as exact as renewals are.
    pub(crate) fn last_renewed_at(&self) -> Option<Millis> {
        let lifetime = self.renews_for_seconds? * 1_000;
        self.ends_at().map(|end| Millis(end.0.saturating_sub(lifetime)))
    }

    /// Returns true if the token has expired by the wall clock.
    pub fn is_expired(&self) -> bool {
        self.ends_at().is_some_and(|at| Now::millis() >= at)
    }

    /// Returns the caller that the token stands for.
    pub(crate) fn identity(&self) -> Identity {
        let scope = self.workspace.clone().map_or(Scope::Host, Scope::Workspace);
        Identity {
            token: Some(Arc::clone(&self.id)),
            access: self.access,
            scope,
        }
    }

    /// Returns the first fault in an entry that was read from a file, if it has any.
    pub(super) fn find_fault(&self) -> Option<String> {
        let Self { id, workspace, expires_at, .. } = self;
        if !id.starts_with(ID_PREFIX) {
            let id = quote_visibly(id);
            return Some(format!("the id {id} does not begin with {ID_PREFIX}"));
        }
        if let Some(slug) = workspace.as_deref().filter(|slug| slug.parse::<Slug>().is_err()) {
            let slug = quote_visibly(slug);
            return Some(format!("the workspace {slug} of {id} is not a slug"));
        }
        if workspace.is_some() && self.access == Access::Admin {
            return Some(format!("{id} is an admin of one workspace, which there is not"));
        }
        let at = expires_at.as_deref().filter(|at| parse_timestamp(at).is_none())?;
        Some(format!("{at:?}, when {id} expires, is not like 2026-08-01T09:30:00Z"))
    }
}

pub(crate) fn is_label(label: &str) -> bool {
    !label.trim().is_empty()
        && label.chars().count() <= MAX_LABEL_CHARS
        && !label.chars().any(char::is_control)
}
