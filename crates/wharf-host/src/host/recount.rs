//! Counts the tokens of sessions again whose index rows have sums of an older rule (rule 15.1).

use std::sync::Arc;

use wharf_core::SessionId;

use super::Host;
use crate::index::SessionRow;
use crate::registry::KnownSession;

impl Host {
    /// Reads the logs of these sessions again in the background, one after the other.
    pub(super) fn recount_tokens(&self) {
        let outdated = self.list_outdated_sums();
        if outdated.is_empty() {
            return;
        }
        let host = self.clone();
        tokio::spawn(async move {
            host.announced().await;
            tracing::info!(sessions = outdated.len(), "the tokens of older sessions are counted again");
            for id in &outdated {
                host.recount_session(id).await;
            }
        });
    }

    fn list_outdated_sums(&self) -> Vec<SessionId> {
        let mut outdated = Vec::new();
        self.inner.registry.for_each_session(|known| {
            if let KnownSession::Cold { descriptor, .. } = known
                && !descriptor.has_current_sums
            {
                outdated.push(SessionId::new(descriptor.id.as_str()));
            }
        });
        outdated
    }

    /// Opens the session, which folds its log, and writes its row. Its task ends by itself.
    async fn recount_session(&self, id: &SessionId) {
        let handle = match self.open(id).await {
            Ok(handle) => handle,
            Err(error) => {
                tracing::debug!(session = %id, %error, "the tokens of a session are not counted again");
                return;
            }
        };
        let shared = &handle.shared;
        let head = shared.log.head();
        self.inner.index.put(SessionRow {
            id: shared.log_id.clone(),
            seq: head.seq,
            bytes: head.bytes,
            // The old snapshot has the old sums.
            snapshot: None,
            descriptor: Arc::clone(&handle.descriptor()),
        });
    }
}
