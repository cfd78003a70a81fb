//! Limits the building of histories: a few at once over all connections, one at a time for each,
//! none for a client that is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_host::{CountLimit, CountPermit};

use crate::acp::attachments::Attachments;
use crate::acp::errors::RpcError;

/// Each history may hold `limits.history` of text, and several times that as parsed values.
const HISTORIES_AT_ONCE: usize = 4;

/// The places of all connections.
#[derive(Debug)]
pub(crate) struct HistoryLimit {
    building: CountLimit,
    wanted: Arc<AtomicUsize>,
}

impl Default for HistoryLimit {
    fn default() -> Self {
        Self {
            building: CountLimit::new(HISTORIES_AT_ONCE),
            wanted: Arc::default(),
        }
    }
}

impl HistoryLimit {
    /// Returns how many histories are being built or wait for it.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }
}

/// A connection's turn to have a history built.
#[derive(Debug)]
pub(in crate::acp) struct HistoryTurn {
    building: Building,
    own: CountPermit,
}

/// One of the places for building; counted from when it was wanted.
#[derive(Debug)]
pub(in crate::acp) struct Building {
    _permit: Option<CountPermit>,
    wanted: Arc<AtomicUsize>,
}

impl Building {
    fn new(wanted: &Arc<AtomicUsize>) -> Self {
        wanted.fetch_add(1, Ordering::Relaxed);
        Self { _permit: None, wanted: Arc::clone(wanted) }
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.wanted.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HistoryTurn {
    /// The history is built. The connection's turn goes on until its client has it.
    pub(in crate::acp) fn built(self) -> CountPermit {
        drop(self.building);
        self.own
    }
}

/// A connection's place among those that want histories built: one at a time.
#[derive(Debug)]
pub(in crate::acp) struct HistoryTurns {
    /// Held while a history is built for this client, and until it has gone out.
    own: CountLimit,
    all: Arc<HistoryLimit>,
}

impl HistoryTurns {
    pub(in crate::acp) fn new(all: &Arc<HistoryLimit>) -> Self {
        Self { own: CountLimit::new(1), all: Arc::clone(all) }
    }

    /// Waits for the connection's turn. Fails once the client is gone.
    pub(in crate::acp) async fn begin(
        &self,
        attachments: &Attachments,
    ) -> Result<HistoryTurn, RpcError> {
        let mut building = Building::new(&self.all.wanted);
        let turn = attachments.while_connected(async {
            let own = self.own.acquire().await;
            building._permit = Some(self.all.building.acquire().await);
            HistoryTurn { building, own }
        });
        turn.await
    }

    /// Waits for a place to look through a log.
    pub(in crate::acp) async fn begin_log_scan(&self) -> Building {
        let mut building = Building::new(&self.all.wanted);
        building._permit = Some(self.all.building.acquire().await);
        building
    }
}
