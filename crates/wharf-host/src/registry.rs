//! The registry of all sessions, in memory: a listing wakes no session and no agent (rule 5.2).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use wharf_core::SessionId;
use wharf_store::LogId;

use crate::descriptor::Descriptor;
use crate::session::Shared;
use crate::session::handle::SessionHandle;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: RwLock<HashMap<SessionId, KnownSession>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum KnownSession {
    /// A task owns it.
    Live(SessionHandle),
    /// Only its log is there; `snapshot` is where a restore can begin, `bytes` how long it is.
    Cold {
        log_id: LogId,
        descriptor: Arc<Descriptor>,
        snapshot: Option<u64>,
        bytes: u64,
        /// True if this host could not write the log any more, and ended the agent.
        has_log_failed: bool,
    },
}

impl KnownSession {
    pub(crate) fn descriptor(&self) -> Arc<Descriptor> {
        match self {
            Self::Live(handle) => handle.descriptor(),
            Self::Cold { descriptor, .. } => Arc::clone(descriptor),
        }
    }
}

impl KnownSession {
    pub(crate) fn log_id(&self) -> &LogId {
        match self {
            Self::Live(handle) => &handle.shared.log_id,
            Self::Cold { log_id, .. } => log_id,
        }
    }
}

impl Registry {
    pub(crate) fn get(&self, id: &SessionId) -> Option<KnownSession> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(crate) fn put(&self, id: SessionId, known: KnownSession) {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).insert(id, known);
        self.note_change();
    }

    pub(crate) fn remove(&self, id: &SessionId) {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        self.note_change();
    }

    /// Wakes the clients that watch all sessions. It never waits.
    pub(crate) fn note_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn watch_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn list_descriptors(&self) -> Vec<Arc<Descriptor>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.values().map(KnownSession::descriptor).collect()
    }

    /// Calls `look` for every session.
    pub(crate) fn for_each_session(&self, look: impl FnMut(&KnownSession)) {
        self.sessions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .for_each(look);
    }

    pub(crate) fn live_sessions(&self) -> Vec<SessionHandle> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions
            .values()
            .filter_map(|known| {
                if let KnownSession::Live(handle) = known { Some(handle.clone()) } else { None }
            })
            .collect()
    }

    /// Removes the task of a session whose log has failed; the next use reads the log again.
    pub(crate) fn release_failed_task(&self, shared: &Arc<Shared>) {
        let cold = to_cold(shared, true);
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        // A session that was deleted is not added again.
        if let Some(known) = sessions.get_mut(&shared.id) {
            *known = cold;
        }
        drop(sessions);
        self.note_change();
    }

    /// Removes a session's task if nothing else holds the session. Handles are only given out under
    /// the lock, so the answer stays true.
    pub(crate) fn retire_if_unused(&self, shared: &Arc<Shared>) -> bool {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        // Ours (the task's) and the registry's own.
        if Arc::strong_count(shared) > 2 {
            return false;
        }
        sessions.insert(shared.id.clone(), to_cold(shared, false));
        true
    }
}

/// Returns the registry's entry of a session without a task.
fn to_cold(shared: &Shared, has_log_failed: bool) -> KnownSession {
    let log_id = shared.log_id.clone();
    let bytes = shared.log.head().bytes;
    KnownSession::Cold {
        log_id,
        descriptor: shared.descriptor(),
        snapshot: None,
        bytes,
        has_log_failed,
    }
}
