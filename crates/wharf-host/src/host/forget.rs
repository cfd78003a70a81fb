//! Forgetting a session: the one way to delete a user's history (rule 2.5).

use std::sync::Arc;

use wharf_core::{EndReason, SessionId};

use super::{Host, OpenError};
use crate::registry::Known;

impl Host {
    /// Ends the session if it runs and deletes its log and what is beside it. True if there was one.
    pub async fn forget(&self, id: &SessionId) -> Result<bool, OpenError> {
        let _one = self.inner.opening.lock().await;
        let log_id = match self.inner.registry.get(id) {
            None => return Ok(false),
            Some(Known::Live(handle)) => {
                let _ = handle.kill(EndReason::User).await;
                handle.shut_down().await;
                handle.shared.log_id.clone()
            }
            Some(Known::Cold { log_id, .. }) => log_id,
        };
        self.inner.registry.remove(id);
        self.inner.index.remove(log_id.clone());
        let engine = Arc::clone(&self.inner.engine);
        let removed = tokio::task::spawn_blocking(move || engine.remove(&log_id)).await;
        let why = match removed {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(OpenError::Unreadable { id: id.clone(), why })
    }

    /// Takes over start parameters that a client sends anew for a session that is not running.
    pub fn renew(&self, id: &SessionId, frame: &[u8]) {
        let log_id = match self.inner.registry.get(id) {
            Some(Known::Live(handle)) if handle.descriptor().status.is_alive() => return,
            Some(Known::Live(handle)) => handle.shared.log_id.clone(),
            Some(Known::Cold { log_id, .. }) => log_id,
            None => return,
        };
        if let Err(error) = self.inner.renew_start_inputs(&log_id, frame) {
            tracing::warn!(session = %id, error, "the start parameters cannot be renewed");
        }
    }

    /// Live sessions of an adapter.
    pub fn running(&self, adapter: &str) -> Vec<crate::SessionHandle> {
        let live = self.inner.registry.live().into_iter();
        live.filter(|handle| handle.descriptor().adapter_slug == adapter).collect()
    }
}
