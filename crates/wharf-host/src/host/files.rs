//! Finds files beneath the directories of a session, or of a session that is about to be started
//! (rule 17.6).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_config::DirectoryScope;
use wharf_core::SessionId;

use super::{CreateError, Host};
use crate::file_search::{FoundFiles, find_files};

impl Host {
    /// Finds files beneath the directories of a session. Returns `None` if there is no such
    /// session.
    pub async fn find_session_files(
        &self,
        session: &SessionId,
        query: &str,
        limit: usize,
    ) -> Option<FoundFiles> {
        let known = self.inner.registry.get(session)?;
        let log_id = known.log_id().clone();
        let cwd = PathBuf::from(&known.descriptor().cwd);
        let inner = Arc::clone(&self.inner);
        let roots = tokio::task::spawn_blocking(move || {
            let inputs = inner.start_inputs(&log_id).ok();
            let more = inputs
                .as_ref()
                .map(|inputs| super::Inner::directories_of(&inputs.new_frame))
                .unwrap_or_default();
            let directories = std::iter::once(cwd).chain(more);
            // As of the time when they were named: a directory that is replaced by a link later is
            // not followed.
            let noted =
                |path: &Path| inputs.as_ref().and_then(|inputs| inputs.real.get(path).cloned());
            directories
                .filter_map(|path| noted(&path).or_else(|| path.canonicalize().ok()))
                .collect::<Vec<_>>()
        });
        Some(find_files(roots.await.unwrap_or_default(), query, limit).await)
    }

    /// Finds files beneath a directory that a caller with this scope may name.
    pub async fn find_files_in(
        &self,
        scope: DirectoryScope,
        directory: PathBuf,
        query: &str,
        limit: usize,
    ) -> Result<FoundFiles, CreateError> {
        let inner = Arc::clone(&self.inner);
        let checked = tokio::task::spawn_blocking(move || {
            let usable = directory.is_absolute() && directory.is_dir();
            if !inner.workspaces.allows_path(&scope, &directory) {
                return Err(CreateError::CwdNotAllowed { path: directory });
            }
            let real = directory.canonicalize().ok().filter(|_| usable);
            real.ok_or(CreateError::Cwd { path: directory })
        });
        let root = checked
            .await
            .unwrap_or_else(|_| Err(CreateError::Cwd { path: PathBuf::new() }))?;
        Ok(find_files(vec![root], query, limit).await)
    }
}
