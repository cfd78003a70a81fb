//! Keeps the index up to date beside the sessions. Rows are coalesced, so that a busy session costs
//! one write per interval.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wharf_store::{Index, IndexRow, LogId};

use crate::descriptor::Descriptor;

/// How long rows are collected. The index is derived: the next start reads the rows that a crash
/// loses from the logs.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);
/// The same while the index cannot be written.
const FAILING_FLUSH_INTERVAL: Duration = Duration::from_secs(2);
/// Rows on their way. A full channel drops a row: the next change, or the next start, brings it
/// again.
const MAX_WAITING_ROWS: usize = 1024;

#[derive(Debug)]
pub(crate) struct SessionRow {
    pub(crate) id: LogId,
    pub(crate) seq: u64,
    pub(crate) bytes: u64,
    pub(crate) snapshot: Option<u64>,
    pub(crate) descriptor: Arc<Descriptor>,
}

enum IndexOrder {
    Put(SessionRow),
    PutAll(Vec<SessionRow>),
    Remove(LogId),
}

#[derive(Debug)]
pub(crate) struct IndexWriter {
    orders: Mutex<Option<SyncSender<IndexOrder>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for IndexOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put(row) => write!(f, "put {}", row.id),
            Self::PutAll(rows) => write!(f, "put {}", rows.len()),
            Self::Remove(id) => write!(f, "remove {id}"),
        }
    }
}

impl IndexWriter {
    pub(crate) fn start(index: Arc<dyn Index>) -> Self {
        let (orders, inbox) = sync_channel(MAX_WAITING_ROWS);
        let thread = std::thread::Builder::new()
            .name("wharf-index".to_owned())
            .spawn(move || write_rows(&index, &inbox));
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for the index: listings are rebuilt at the next start");
        }
        Self {
            orders: Mutex::new(Some(orders)),
            thread: Mutex::new(thread.ok()),
        }
    }

    pub(crate) fn put(&self, row: SessionRow) {
        self.send_order(IndexOrder::Put(row));
    }

    /// Adds all rows that a start has read from the logs.
    pub(crate) fn put_all(&self, rows: Vec<SessionRow>) {
        self.send_order(IndexOrder::PutAll(rows));
    }

    pub(crate) fn remove(&self, id: LogId) {
        self.send_order(IndexOrder::Remove(id));
    }

    /// Writes the remaining rows and stops.
    pub(crate) fn finish(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn send_order(&self, order: IndexOrder) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(TrySendError::Full(order))) =
            orders.as_ref().map(|orders| orders.try_send(order))
        {
            tracing::debug!(?order, "the index is behind: a row is dropped until the next change");
        }
    }
}

fn write_rows(index: &Arc<dyn Index>, inbox: &Receiver<IndexOrder>) {
    let (mut rows, mut failing): (HashMap<LogId, SessionRow>, bool) = (HashMap::new(), false);
    loop {
        match if rows.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(if failing { FAILING_FLUSH_INTERVAL } else { FLUSH_INTERVAL })
        } {
            Ok(IndexOrder::Put(row)) => {
                rows.insert(row.id.clone(), row);
            }
            Ok(IndexOrder::PutAll(many)) => {
                rows.extend(many.into_iter().map(|row| (row.id.clone(), row)))
            }
            Ok(IndexOrder::Remove(id)) => {
                rows.remove(&id);
                if let Err(error) = index.remove(&id) {
                    tracing::warn!(%error, "a row cannot be removed from the index; the next start does");
                }
            }
            Err(RecvTimeoutError::Timeout) => flush_rows(index, &mut rows, &mut failing),
            Err(RecvTimeoutError::Disconnected) => {
                flush_rows(index, &mut rows, &mut failing);
                return;
            }
        }
        // A stream of changes must not keep the first one waiting.
        if rows.len() >= MAX_WAITING_ROWS {
            flush_rows(index, &mut rows, &mut failing);
        }
    }
}

fn flush_rows(
    index: &Arc<dyn Index>,
    waiting: &mut HashMap<LogId, SessionRow>,
    failing: &mut bool,
) {
    if waiting.is_empty() {
        return;
    }
    let rows: Vec<IndexRow> = waiting
        .values()
        .filter_map(|row| {
            let summary = row.descriptor.to_summary()?.into();
            Some(IndexRow {
                id: row.id.clone(),
                seq: row.seq,
                bytes: row.bytes,
                snapshot: row.snapshot,
                summary,
            })
        })
        .collect();
    match index.put(&rows) {
        Ok(()) => {
            waiting.clear();
            if std::mem::take(failing) {
                tracing::info!("the index can be written again");
            }
        }
        Err(error) => {
            if !std::mem::replace(failing, true) {
                tracing::warn!(%error, "the index cannot be written; the next start reads the missing rows from the logs");
            }
            // They are tried again with the next beat, unless that never ends.
            if waiting.len() >= MAX_WAITING_ROWS {
                waiting.clear();
            }
        }
    }
}
