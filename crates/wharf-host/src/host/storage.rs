//! The logs of this host's sessions, and whether the state directory can be relied on at this
//! moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wharf_core::{Epoch, SessionId};
use wharf_store::{Engine, FileLease, Lease, LogId, StoreError};

use super::Host;

/// How long the result of a probe is used again: whoever asks often must not make the disk busy.
const PROBE_LASTS: Duration = Duration::from_secs(1);
/// A probe that takes longer counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the host looks whether its state directory is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the storage cannot be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// No space is left.
    Full,
    /// The state directory was deleted, moved or replaced.
    Gone,
    /// Files cannot be listed, written or synced.
    Failed,
}

/// The result of a probe, and when it was made.
#[derive(Debug)]
struct Probe {
    made_at: Instant,
    fault: Option<StorageFault>,
}

/// A log that this host cannot read, and leaves alone.
#[derive(Clone, Debug)]
pub(super) struct UnreadableLog {
    pub(super) log_id: LogId,
    pub(super) why: String,
}

#[derive(Debug)]
pub(crate) struct Storage {
    engine: Arc<dyn Engine>,
    /// Held for as long as the host lives.
    lease: FileLease,
    /// Logs that were there at the start and could not be read.
    unreadable: Mutex<HashMap<SessionId, UnreadableLog>>,
    /// The newest probe.
    probed: tokio::sync::Mutex<Option<Probe>>,
}

impl Storage {
    pub(super) fn new(engine: Arc<dyn Engine>, lease: FileLease) -> Self {
        Self {
            engine,
            lease,
            unreadable: Mutex::default(),
            probed: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Returns the epoch of this host's lease, under which it appends.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.lease.epoch())
    }

    pub(super) fn unreadable(&self) -> MutexGuard<'_, HashMap<SessionId, UnreadableLog>> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the log of this session is there and could not be read.
    pub(crate) fn is_unreadable(&self, id: &SessionId) -> bool {
        self.unreadable().contains_key(id)
    }

    /// Deletes the log of a session that could not be created.
    pub(crate) fn delete_partial_session(&self, log_id: &LogId) {
        if let Err(error) = self.engine.remove(log_id) {
            tracing::warn!(log = %log_id, %error, "a session that could not be made is left behind");
        }
    }

    /// Tries whether logs can be listed and written now. Asked again within a second, it gives the
    /// same answer.
    async fn fault(&self) -> Option<StorageFault> {
        let mut probed = self.probed.lock().await;
        if let Some(probe) = probed.as_ref().filter(|probe| probe.made_at.elapsed() < PROBE_LASTS) {
            return probe.fault;
        }
        let fault = self.probe().await;
        *probed = Some(Probe { made_at: Instant::now(), fault });
        fault
    }

    async fn probe(&self) -> Option<StorageFault> {
        if !self.lease.is_in_place() {
            return Some(StorageFault::Gone);
        }
        let engine = Arc::clone(&self.engine);
        let probe = tokio::task::spawn_blocking(move || engine.probe());
        let why = match tokio::time::timeout(PROBE_TIMEOUT, probe).await {
            Ok(Ok(Ok(()))) => return None,
            Ok(Ok(Err(error))) if StoreError::is_full(&error) => return Some(StorageFault::Full),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("a small file was not written within {} s", PROBE_TIMEOUT.as_secs()),
        };
        tracing::error!(why, "the state directory cannot be used");
        Some(StorageFault::Failed)
    }

    /// Done once the state directory is no longer where it was.
    async fn gone(&self) {
        while self.lease.is_in_place() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Host {
    /// Tries whether logs can be listed and written now. Asked again within a second, it gives the
    /// same answer.
    pub async fn storage_fault(&self) -> Option<StorageFault> {
        self.inner.storage.fault().await
    }

    /// Done once the state directory is no longer where it was: it was deleted, moved or replaced
    /// by another.
    pub async fn state_gone(&self) {
        self.inner.storage.gone().await;
    }
}
