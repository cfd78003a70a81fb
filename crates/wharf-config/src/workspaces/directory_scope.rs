//! The directories in which a caller may let agents work (rule 8.6).

use std::path::Path;
use std::sync::Arc;

use super::{
    SpawnLocation, Workspace, WorkspaceError, WorkspaceList, Workspaces, find_innermost,
    unknown_in_scope, unknown_workspace,
};

/// The directories that a caller may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectoryScope {
    Anywhere,
    /// Directories inside of registered workspaces.
    #[default]
    Workspaces,
    /// Directories inside of this workspace. The caller knows of no other workspace. The sessions
    /// that it creates are kept under this workspace's slug.
    Workspace(Arc<str>),
}

impl DirectoryScope {
    /// Returns the only workspace that the caller knows of; `None` if it knows all.
    pub fn only_workspace(&self) -> Option<&str> {
        match self {
            Self::Anywhere | Self::Workspaces => None,
            Self::Workspace(slug) => Some(slug),
        }
    }
}

impl Workspaces {
    /// Returns the part of the registry that a caller with this scope may see. Errors in the rest
    /// are hidden from it too.
    pub fn list_in_scope(&self, scope: &DirectoryScope) -> Result<WorkspaceList, WorkspaceError> {
        let Some(only) = scope.only_workspace() else { return self.list() };
        let mut list = self.list().map_err(|error| {
            tracing::warn!(%error, "the registry of workspaces cannot be read");
            WorkspaceError::Hidden
        })?;
        list.keep_only(only);
        Ok(list)
    }

    /// Returns the registered workspace of this name that a caller with this scope may see.
    pub fn find_in_scope(
        &self,
        scope: &DirectoryScope,
        slug: &str,
    ) -> Result<Workspace, WorkspaceError> {
        let list = self.list_in_scope(scope)?;
        list.get(slug).cloned().ok_or_else(|| match scope.only_workspace() {
            Some(_) => unknown_in_scope(scope, slug),
            None => unknown_workspace(&list, slug),
        })
    }

    /// Tells whether a caller with this scope may name `path`. Links are followed; a path that
    /// cannot be resolved is not allowed.
    pub fn allows_path(&self, scope: &DirectoryScope, path: &Path) -> bool {
        match scope {
            DirectoryScope::Anywhere => true,
            DirectoryScope::Workspaces => {
                self.list().is_ok_and(|list| find_innermost(&list, path).is_some())
            }
            DirectoryScope::Workspace(slug) => {
                self.list().is_ok_and(|list| is_inside_workspace(&list, slug, path))
            }
        }
    }

    /// Returns where a spawn runs, like [`Workspaces::resolve_location`]. For a caller that knows
    /// only one workspace, that one is the active one, and no other slug exists.
    pub fn resolve_in_scope(
        &self,
        scope: &DirectoryScope,
        cwd: Option<&Path>,
        slug: Option<&str>,
    ) -> Result<SpawnLocation, WorkspaceError> {
        let Some(own) = scope.only_workspace() else { return self.resolve_location(cwd, slug) };
        let list = self.list_in_scope(scope)?;
        let wanted = slug.unwrap_or(own);
        let known = list
            .get(own)
            .filter(|_| wanted == own)
            .ok_or_else(|| unknown_in_scope(scope, wanted))?;
        let cwd = cwd.unwrap_or(&known.path).to_owned();
        Ok(SpawnLocation { cwd, bucket: known.slug.to_string(), warnings: Vec::new() })
    }
}

fn is_inside_workspace(list: &WorkspaceList, slug: &str, path: &Path) -> bool {
    let root = list.get(slug).and_then(|known| known.path.canonicalize().ok());
    root.is_some_and(|root| path.canonicalize().is_ok_and(|path| path.starts_with(root)))
}
