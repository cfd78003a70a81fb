//! How much of the host a caller is concerned with.

use std::sync::Arc;

use wharf_host::{AgentToken, Descriptor, Ground};

/// What a token covers (rule 10.2). What is outside is, for its holder, not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Host,
    /// The sessions of one workspace, by its slug.
    Workspace(Arc<str>),
    /// One session, and those that its agent led to: for that agent.
    Session(AgentToken),
}

impl Scope {
    pub(crate) fn covers(&self, session: &Descriptor) -> bool {
        match self {
            Self::Host => true,
            Self::Workspace(slug) => *session.workspace_slug == **slug,
            Self::Session(badge) => session.id == badge.session().as_str() || session.descends_from(badge.session()),
        }
    }

    /// Which directories may be named in this scope by those who could name `most` without one.
    pub(super) fn ground(&self, most: Ground) -> Ground {
        match self {
            Self::Host => most,
            Self::Workspace(slug) => Ground::Workspace(Arc::clone(slug)),
            // What an agent may start is where its own session is, which the host sees to.
            Self::Session(_) => Ground::Workspaces,
        }
    }

    /// The workspace that a login of this scope's holder is for, if it is for one. The error: why there is no login.
    pub(crate) fn login_workspace(&self) -> Result<Option<&Arc<str>>, &'static str> {
        match self {
            Self::Host => Ok(None),
            Self::Workspace(slug) => Ok(Some(slug)),
            Self::Session(_) => Err("agents do not log in"),
        }
    }
}
