//! Keeps the index up to date beside the sessions: rows are coalesced, so that a busy session costs one write a beat.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wharf_store::{Index, IndexRow, LogId};

use crate::descriptor::Descriptor;

/// How long rows are collected. The index is derived: what a crash loses is read from the log again.
const BEAT: Duration = Duration::from_millis(200);
/// Rows on their way. A full channel drops a row: the next change, or the next start, brings it again.
const ROWS: usize = 1024;

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: LogId,
    pub(crate) seq: u64,
    pub(crate) bytes: u64,
    pub(crate) snapshot: Option<u64>,
    pub(crate) descriptor: Arc<Descriptor>,
}

enum Order {
    Put(Row),
    Remove(LogId),
}

#[derive(Debug)]
pub(crate) struct IndexWriter {
    orders: Mutex<Option<SyncSender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put(row) => write!(f, "put {}", row.id),
            Self::Remove(id) => write!(f, "remove {id}"),
        }
    }
}

impl IndexWriter {
    pub(crate) fn start(index: Arc<dyn Index>) -> Self {
        let (orders, inbox) = sync_channel(ROWS);
        let thread = std::thread::Builder::new().name("wharf-index".to_owned()).spawn(move || write(&index, &inbox));
        if let Err(error) = &thread {
            tracing::error!(%error, "no thread for the index: listings are rebuilt at the next start");
        }
        Self { orders: Mutex::new(Some(orders)), thread: Mutex::new(thread.ok()) }
    }

    pub(crate) fn put(&self, row: Row) {
        self.order(Order::Put(row));
    }

    pub(crate) fn remove(&self, id: LogId) {
        self.order(Order::Remove(id));
    }

    /// Writes what is left and stops.
    pub(crate) fn finish(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn order(&self, order: Order) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(TrySendError::Full(order))) = orders.as_ref().map(|orders| orders.try_send(order)) {
            tracing::debug!(?order, "the index is behind");
        }
    }
}

fn write(index: &Arc<dyn Index>, inbox: &Receiver<Order>) {
    let mut rows: HashMap<LogId, Row> = HashMap::new();
    loop {
        match if rows.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(BEAT)
        } {
            Ok(Order::Put(row)) => {
                rows.insert(row.id.clone(), row);
            }
            Ok(Order::Remove(id)) => {
                rows.remove(&id);
                report(index.remove(&id));
            }
            Err(RecvTimeoutError::Timeout) => flush(index, &mut rows),
            Err(RecvTimeoutError::Disconnected) => {
                flush(index, &mut rows);
                return;
            }
        }
        // A stream of changes must not keep the first one waiting.
        if rows.len() >= ROWS {
            flush(index, &mut rows);
        }
    }
}

fn flush(index: &Arc<dyn Index>, rows: &mut HashMap<LogId, Row>) {
    if rows.is_empty() {
        return;
    }
    let rows: Vec<IndexRow> = rows
        .drain()
        .filter_map(|(id, row)| {
            let summary = row.descriptor.summary()?.into();
            Some(IndexRow { id, seq: row.seq, bytes: row.bytes, snapshot: row.snapshot, summary })
        })
        .collect();
    report(index.put(&rows));
}

fn report(result: Result<(), wharf_store::StoreError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the index cannot be written; it is rebuilt from the logs at the next start");
    }
}
