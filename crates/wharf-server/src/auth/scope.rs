//! How much of the host a caller is concerned with.

use std::sync::Arc;

use wharf_host::{Descriptor, Ground};

/// What a token covers (rule 10.2). What is outside is, for its holder, not there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Host,
    /// The sessions of one workspace, by its slug.
    Workspace(Arc<str>),
}

impl Scope {
    pub(crate) fn covers(&self, session: &Descriptor) -> bool {
        match self {
            Self::Host => true,
            Self::Workspace(slug) => *session.workspace_slug == **slug,
        }
    }

    /// Which directories may be named in this scope by those who could name `most` without one.
    pub(super) fn ground(&self, most: Ground) -> Ground {
        match self {
            Self::Host => most,
            Self::Workspace(slug) => Ground::Workspace(Arc::clone(slug)),
        }
    }

    /// The slug of its workspace, if it has one.
    pub(crate) fn workspace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Host => None,
            Self::Workspace(slug) => Some(slug),
        }
    }
}
