//! The part of the host that a token covers.

use std::sync::Arc;

use wharf_config::DirectoryScope;
use wharf_host::{AgentToken, Descriptor};

/// The sessions that a token covers (rule 10.2). For its holder, no other sessions exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Host,
    /// The sessions of one workspace, by its slug.
    Workspace(Arc<str>),
    /// One session and the sessions that its agent started: for that agent.
    Session(AgentToken),
}

impl Scope {
    pub(crate) fn covers(&self, session: &Descriptor) -> bool {
        match self {
            Self::Host => true,
            Self::Workspace(slug) => *session.workspace_slug == **slug,
            Self::Session(badge) => {
                session.id == badge.session().as_str() || session.descends_from(badge.session())
            }
        }
    }

    /// Returns the directories that a caller with this scope may name, who may name `most` without
    /// it.
    pub(super) fn directory_scope(&self, most: DirectoryScope) -> DirectoryScope {
        match self {
            Self::Host => most,
            Self::Workspace(slug) => DirectoryScope::Workspace(Arc::clone(slug)),
            // The host makes sure that an agent starts sessions in its own directory only.
            Self::Session(_) => DirectoryScope::Workspaces,
        }
    }

    /// Returns the workspace that a login with this scope is limited to, if any. Fails with the
    /// reason if this scope cannot log in.
    pub(crate) fn login_workspace(&self) -> Result<Option<&Arc<str>>, &'static str> {
        match self {
            Self::Host => Ok(None),
            Self::Workspace(slug) => Ok(Some(slug)),
            Self::Session(_) => Err("agents do not log in"),
        }
    }
}
