//! The identity of a caller: its token, role and scope.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_config::DirectoryScope;
use wharf_host::core::Role;

use super::scope::Scope;

/// The role that a token carries (rule 10.2), from less to more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Sees everything, changes and starts nothing.
    Observer,
    /// Works in sessions and starts them.
    Controller,
    /// May change the host itself too.
    Admin,
}

impl Access {
    pub const ALL: [Self; 3] = [Self::Observer, Self::Controller, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observer => "observer",
            Self::Controller => "controller",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a role; use observer, controller or admin")]
pub struct UnknownAccess(String);

impl FromStr for Access {
    type Err = UnknownAccess;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|access| access.as_str() == word)
            .ok_or_else(|| UnknownAccess(word.to_owned()))
    }
}

/// The caller of a request. `guard` puts it into the extensions of every request that it lets
/// through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id of the token that the caller showed: [`Identity::HOST_TOKEN_ID`] for the host's own
    /// token, `tok_…` for a token made with `wharf token create`. `None`: our own user over the
    /// local socket, without a token.
    pub token: Option<Arc<str>>,
    pub access: Access,
    pub scope: Scope,
}

impl Identity {
    /// Stands for the token in the file `token`. No other token can have this id: theirs begin with
    /// `tok_`.
    pub const HOST_TOKEN_ID: &str = "host";

    /// Our own user over the local socket.
    pub const LOCAL: Self = Self { token: None, access: Access::Admin, scope: Scope::Host };

    /// Returns true if the caller may change the host itself. Its scope must be the whole host,
    /// whatever its role.
    pub fn is_admin(&self) -> bool {
        self.access == Access::Admin && self.scope == Scope::Host
    }

    /// Returns the directories that the caller may name (rule 8.6).
    pub(crate) fn directory_scope(&self) -> DirectoryScope {
        self.scope.directory_scope(if self.is_admin() {
            DirectoryScope::Anywhere
        } else {
            DirectoryScope::Workspaces
        })
    }

    /// Returns the highest role that the caller may have in a session; it may ask for less (rule
    /// 4.8).
    pub const fn role(&self) -> Role {
        match self.access {
            Access::Observer => Role::Observer,
            Access::Controller | Access::Admin => Role::Controller,
        }
    }
}
