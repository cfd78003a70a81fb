//! Building histories: so many at once over all connections, one at a time for each, and none for a client that is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::Connection;
use super::errors::RpcError;

/// So many are built at once. Each may hold `limits.history` of text, and several times that as parsed values.
const HISTORIES_AT_ONCE: usize = 4;

/// The places of all connections.
#[derive(Debug)]
pub(crate) struct HistoryLimit {
    building: Arc<Semaphore>,
    wanted: Arc<AtomicUsize>,
}

impl Default for HistoryLimit {
    fn default() -> Self {
        Self { building: Arc::new(Semaphore::new(HISTORIES_AT_ONCE)), wanted: Arc::default() }
    }
}

impl HistoryLimit {
    /// How many are being built or wait for it.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }
}

/// A connection's turn to have a history built.
#[derive(Debug)]
pub(super) struct HistoryTurn {
    building: Building,
    own: OwnedSemaphorePermit,
}

/// One of the places for building; counted from when it was wanted.
#[derive(Debug)]
pub(super) struct Building {
    _place: Option<OwnedSemaphorePermit>,
    wanted: Arc<AtomicUsize>,
}

impl Building {
    fn new(wanted: &Arc<AtomicUsize>) -> Self {
        wanted.fetch_add(1, Ordering::Relaxed);
        Self { _place: None, wanted: Arc::clone(wanted) }
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.wanted.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HistoryTurn {
    /// The history is built. The connection's turn goes on until its client has it.
    pub(super) fn built(self) -> OwnedSemaphorePermit {
        drop(self.building);
        self.own
    }
}

impl Connection {
    /// Waits for the connection's turn. Fails once the client is gone.
    pub(super) async fn begin_history(&self) -> Result<HistoryTurn, RpcError> {
        let mut building = Building::new(&self.app.histories.wanted);
        let own = Arc::clone(&self.history_turn);
        self.while_connected(async {
            let own = own.acquire_owned().await.ok()?;
            building._place = Arc::clone(&self.app.histories.building).acquire_owned().await.ok();
            Some(HistoryTurn { building, own })
        })
        .await?
        .ok_or_else(RpcError::client_gone)
    }

    /// Waits for a place to look through a log.
    pub(super) async fn begin_log_scan(&self) -> Building {
        let mut building = Building::new(&self.app.histories.wanted);
        building._place = Arc::clone(&self.app.histories.building).acquire_owned().await.ok();
        building
    }

    /// Does something for as long as the client is there.
    pub(super) async fn while_connected<T>(&self, work: impl Future<Output = T>) -> Result<T, RpcError> {
        tokio::select! {
            biased;
            () = self.gone() => Err(RpcError::client_gone()),
            done = work => Ok(done),
        }
    }
}
