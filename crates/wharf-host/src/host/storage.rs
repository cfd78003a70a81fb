//! Whether the state directory can be relied on at this moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wharf_store::StoreError;

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
    /// There is no space.
    Full,
    /// The state directory was deleted, moved or replaced.
    Gone,
    /// Files cannot be listed, written or synced.
    Failed,
}

/// The result of a probe, and when it was made.
#[derive(Debug)]
pub(super) struct Probe {
    made_at: Instant,
    fault: Option<StorageFault>,
}

impl Host {
    /// Tries whether logs can be listed and written now. Asked again within a second, it gives the same answer.
    pub async fn storage_fault(&self) -> Option<StorageFault> {
        let mut probed = self.inner.probed.lock().await;
        if let Some(probe) = probed.as_ref().filter(|probe| probe.made_at.elapsed() < PROBE_LASTS) {
            return probe.fault;
        }
        let fault = self.probe_storage().await;
        *probed = Some(Probe { made_at: Instant::now(), fault });
        fault
    }

    async fn probe_storage(&self) -> Option<StorageFault> {
        if !self.inner.lease.is_in_place() {
            return Some(StorageFault::Gone);
        }
        let engine = Arc::clone(&self.inner.engine);
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

    /// Done once the state directory is no longer where it was: it was deleted, moved or replaced by another.
    pub async fn state_gone(&self) {
        while self.inner.lease.is_in_place() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
