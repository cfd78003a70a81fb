//! How much of the host a caller is concerned with.

use std::sync::Arc;

use wharf_host::Descriptor;

/// What a token covers (rule 10.2). What is outside is, for its holder, not there.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}
