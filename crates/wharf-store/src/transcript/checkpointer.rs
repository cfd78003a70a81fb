//! Copies the write-ahead log of a database into the database, on a thread of its own: it waits for
//! the disk, which those who write rows need not.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::StoreError;

/// The bytes of rows and texts after which the write-ahead log is copied, once there are no more
/// writes for a while: copying waits for the disk, and whatever is written meanwhile waits with it.
const CHECKPOINT_EVERY_BYTES: usize = 4 << 20;
const QUIET_TIME: Duration = Duration::from_millis(200);
/// The bytes at which it is copied amid writes.
const MAX_WAITING_BYTES: usize = 48 << 20;
/// The pages of the write-ahead log at which the writer copies it itself, should the thread not
/// come to it.
pub(super) const MAX_WAL_PAGES: i64 = 16 * 1024;

#[derive(Debug)]
pub(super) struct Checkpointer {
    /// `None` once the thread is to end.
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The bytes since the last copy.
    written: Arc<AtomicUsize>,
    /// Held while the write-ahead log is copied.
    copying: Arc<Mutex<()>>,
}

impl Checkpointer {
    /// Starts the thread.
    pub(super) fn start(path: &Path) -> Result<Self, StoreError> {
        let (wake, woken) = sync_channel::<()>(1);
        let copying = Arc::new(Mutex::new(()));
        let path = path.to_owned();
        let written = Arc::new(AtomicUsize::new(0));
        let pause = Arc::clone(&copying);
        let waiting = Arc::clone(&written);
        let thread = thread::Builder::new().name("wharf-rows-wal".to_owned()).spawn(move || {
            while woken.recv().is_ok() {
                while waiting.load(Ordering::Relaxed) < MAX_WAITING_BYTES
                    && woken.recv_timeout(QUIET_TIME).is_ok()
                {}
                waiting.store(0, Ordering::Relaxed);
                let _copying = pause.lock().unwrap_or_else(PoisonError::into_inner);
                // A failure leaves the write-ahead log as it is; the next time, or the writer,
                // copies it.
                let _ = copy_wal(&path);
            }
        });
        let thread = thread.map_err(|source| StoreError::Io {
            what: "starting a thread for rows".to_owned(),
            source,
        })?;
        Ok(Self { wake: Some(wake), thread: Some(thread), written, copying })
    }

    /// Notes that so many bytes were written.
    pub(super) fn note_written(&self, bytes: usize) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if written < CHECKPOINT_EVERY_BYTES {
            return;
        }
        if let Some(wake) = &self.wake {
            // A full channel means that the thread is about to look.
            let _ = wake.try_send(());
        }
    }

    /// Keeps the thread from the database for as long as the guard lives.
    pub(super) fn pause(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the thread finish the work that it was woken for, and waits for its end.
impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by itself.
            let _ = thread.join();
        }
    }
}

/// Copies what no reader needs any more, beside readers and writers. A database that was deleted
/// meanwhile is not made again.
fn copy_wal(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_ahead_log_is_copied_beside_a_writer_after_enough_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "wal").unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", MAX_WAL_PAGES).unwrap();
        writer
            .execute_batch("CREATE TABLE t (b); INSERT INTO t VALUES (zeroblob(1000000))")
            .unwrap();
        let size = || std::fs::metadata(&path).unwrap().len();
        for (written, is_copied) in
            [(CHECKPOINT_EVERY_BYTES - 1, false), (CHECKPOINT_EVERY_BYTES, true)]
        {
            let checkpointer = Checkpointer::start(&path).unwrap();
            checkpointer.note_written(written);
            drop(checkpointer);
            assert_eq!(
                size() > 1_000_000,
                is_copied,
                "{written} bytes written, {} in the database",
                size()
            );
        }
    }
}
