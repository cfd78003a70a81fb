//! Forgetting a session: the one way to delete a user's history (rule 2.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{EndReason, SessionId};

use super::{CreateError, Host, OpenError, StartInputs};
use crate::registry::Known;
use crate::workspaces::Ground;

/// What a client that brings a session back sends anew.
#[derive(Clone, Debug)]
pub struct Renewal<'a> {
    /// Its `session/load` or `session/resume`.
    pub frame: &'a [u8],
    /// Its environment, of which the agent gets what the adapter names.
    pub env: &'a BTreeMap<String, String>,
    /// Which directories it may name.
    pub ground: Ground,
}

impl Host {
    /// Ends the session if it runs and deletes its log and what is beside it. True if there was one.
    pub async fn forget(&self, id: &SessionId) -> Result<bool, OpenError> {
        // Before the lock: an agent has seconds for its end, and others open their sessions meanwhile.
        if let Some(Known::Live(handle)) = self.inner.registry.get(id) {
            let _ = handle.kill(EndReason::User).await;
            handle.shut_down().await;
        }
        let _one = self.inner.opening.lock().await;
        let log_id = match self.inner.registry.get(id) {
            // One that cannot be read can be forgotten all the same.
            None => match self.inner.unreadable().get(id) {
                Some(log) => log.log_id.clone(),
                None => return Ok(false),
            },
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
            Ok(Ok(())) => {
                self.inner.unreadable().remove(id);
                return Ok(true);
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(OpenError::Unreadable { id: id.clone(), why })
    }

    /// Takes over start parameters that a client sends anew for a session that is not running. The error: it may not
    /// name these directories.
    pub fn renew(&self, id: &SessionId, renewal: &Renewal<'_>) -> Result<(), CreateError> {
        let (log_id, known) = match self.inner.registry.get(id) {
            Some(Known::Live(handle)) if handle.descriptor().status.is_alive() => return Ok(()),
            Some(Known::Live(handle)) => (handle.shared.log_id.clone(), handle.descriptor()),
            Some(Known::Cold { log_id, descriptor, .. }) => (log_id, descriptor),
            None => return Ok(()),
        };
        if renewal.ground != Ground::Anywhere {
            self.inner.allow(&renewal.ground, &StartInputs::directories(renewal.frame)?)?;
        }
        let agent = self.inner.agent(&known.adapter_slug, None, &BTreeMap::new());
        let env = agent.map(|agent| self.inner.config.adapters().environment(&agent, renewal.env)).unwrap_or_default();
        if let Err(error) = self.inner.renew_start_inputs(&log_id, renewal.frame, env) {
            tracing::warn!(session = %id, error, "the start parameters cannot be renewed");
        }
        Ok(())
    }

    /// Live sessions of an adapter.
    pub fn running(&self, adapter: &str) -> Vec<crate::SessionHandle> {
        let live = self.inner.registry.live().into_iter();
        live.filter(|handle| handle.descriptor().adapter_slug == adapter).collect()
    }
}
