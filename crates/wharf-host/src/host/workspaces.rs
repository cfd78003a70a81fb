//! The registry of workspaces together with the sessions that are kept under its names.

use wharf_config::{Workspace, WorkspaceError, Workspaces};
use wharf_core::SessionId;

use super::Host;

/// The result of removing a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedWorkspace {
    pub workspace: Workspace,
    /// Sessions that were forgotten with it.
    pub purged: usize,
}

impl Host {
    pub fn workspaces(&self) -> &Workspaces {
        &self.inner.workspaces
    }

    /// Takes a workspace out of the registry. Its sessions stay, with their logs, unless `purge`
    /// says otherwise; that is refused while one of them runs.
    pub async fn remove_workspace(
        &self,
        slug: &str,
        purge: bool,
    ) -> Result<RemovedWorkspace, WorkspaceError> {
        let of_slug =
            || self.descriptors().into_iter().filter(|known| known.workspace_slug == slug);
        let mut purged = 0;
        if purge && self.inner.workspaces.list()?.get(slug).is_some() {
            let live = of_slug().filter(|known| known.status.is_alive()).count();
            if live > 0 {
                return Err(WorkspaceError::InUse { slug: slug.to_owned(), live });
            }
            // Purges before the name is removed, so that the caller can repeat a removal that fails
            // here. A session that starts in the meantime stays.
            for known in of_slug().filter(|known| !known.status.is_alive()) {
                let forgotten = self.forget(&SessionId::new(known.id.as_str())).await;
                let why = |error: super::OpenError| WorkspaceError::Purge {
                    slug: slug.to_owned(),
                    why: error.to_string(),
                };
                purged += usize::from(forgotten.map_err(why)?.is_some());
            }
        }
        let workspace = self.inner.workspaces.remove(slug)?;
        Ok(RemovedWorkspace { workspace, purged })
    }
}
