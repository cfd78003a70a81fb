//! The sync threads. Requests that arrive while a log is being synced are served together by its
//! next fsync.

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::log::FileLog;
use super::{io_error, lock_mutex};
use crate::{OnSynced, StoreError};

/// Owns the threads. Dropping it lets them finish all requests, then ends them.
#[derive(Debug)]
pub(super) struct SyncThreads {
    queue: Arc<SyncQueue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct SyncQueue {
    waiting: Mutex<SyncRequests>,
    changed: Condvar,
    interval: Duration,
}

#[derive(Default)]
struct SyncRequests {
    asked: VecDeque<(Arc<FileLog>, OnSynced)>,
    /// Logs that have grown, with the time by which they must be synced; each log at most once.
    later: VecDeque<(Instant, Arc<FileLog>)>,
    /// Logs that are being synced now, at most one per thread.
    busy: Vec<Arc<FileLog>>,
    stopped: bool,
}

struct SyncWork {
    log: Arc<FileLog>,
    /// The callers that asked for this sync; empty for a background sync.
    asked: Vec<OnSynced>,
}

impl SyncThreads {
    pub(super) fn start(interval: Duration, threads: usize) -> io::Result<Self> {
        let queue =
            Arc::new(SyncQueue { waiting: Mutex::default(), changed: Condvar::new(), interval });
        let mut syncer = Self { queue, threads: Vec::new() };
        for _ in 0..threads.max(1) {
            let queue = syncer.queue();
            syncer.threads.push(
                thread::Builder::new()
                    .name("wharf-sync".into())
                    .spawn(move || run_sync_thread(&queue))?,
            );
        }
        Ok(syncer)
    }

    pub(super) fn queue(&self) -> Arc<SyncQueue> {
        Arc::clone(&self.queue)
    }
}

impl Drop for SyncThreads {
    fn drop(&mut self) {
        lock_mutex(&self.queue.waiting).stopped = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A callback may hold the last handle of the engine: then the drop runs on one of the
            // threads.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl SyncQueue {
    pub(super) fn request_sync(&self, log: Arc<FileLog>, done: OnSynced) {
        let mut waiting = lock_mutex(&self.waiting);
        if waiting.stopped {
            drop(waiting);
            done(log.sync_now());
        } else {
            waiting.asked.push_back((log, done));
            self.changed.notify_one();
        }
    }

    pub(super) fn sync_later(&self, log: Arc<FileLog>) {
        let mut waiting = lock_mutex(&self.waiting);
        if !waiting.stopped {
            waiting.later.push_back((Instant::now() + self.interval, log));
            if waiting.later.len() == 1 {
                self.changed.notify_one();
            }
        }
    }

    /// Waits for work. Returns `None` when there will be no more.
    fn next_work(&self) -> Option<SyncWork> {
        let mut waiting = lock_mutex(&self.waiting);
        loop {
            if let Some(work) = waiting.take_requested().or_else(|| waiting.take_due()) {
                waiting.busy.push(Arc::clone(&work.log));
                return Some(work);
            }
            if waiting.stopped {
                // The thread that is syncing the log handles the rest.
                return None;
            }
            // A busy log is handled again by the thread that is syncing it.
            let next =
                waiting.later.iter().find(|(_, log)| !waiting.is_busy(log)).map(|(due, _)| *due);
            waiting = match next {
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    self.changed
                        .wait_timeout(waiting, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn finish_work(&self, log: &Arc<FileLog>) {
        lock_mutex(&self.waiting).busy.retain(|busy| !Arc::ptr_eq(busy, log));
    }
}

impl SyncRequests {
    fn is_busy(&self, log: &Arc<FileLog>) -> bool {
        self.busy.iter().any(|busy| Arc::ptr_eq(busy, log))
    }

    /// Returns the first log with waiting callers that is not being synced already.
    fn take_requested(&mut self) -> Option<SyncWork> {
        let first = self.asked.iter().position(|(log, _)| !self.is_busy(log))?;
        let (log, done) = self.asked.remove(first)?;
        let (same, others): (VecDeque<_>, VecDeque<_>) =
            self.asked.drain(..).partition(|(other, _)| Arc::ptr_eq(other, &log));
        self.asked = others;
        Some(SyncWork {
            log,
            asked: iter::once(done).chain(same.into_iter().map(|(_, done)| done)).collect(),
        })
    }

    fn take_due(&mut self) -> Option<SyncWork> {
        let now = Instant::now();
        let first = self
            .later
            .iter()
            .position(|(due, log)| (*due <= now || self.stopped) && !self.is_busy(log))?;
        let (_, log) = self.later.remove(first)?;
        Some(SyncWork { log, asked: Vec::new() })
    }
}

fn run_sync_thread(queue: &SyncQueue) {
    while let Some(SyncWork { log, asked }) = queue.next_work() {
        if asked.is_empty() {
            log.sync_in_background();
            queue.finish_work(&log);
        } else {
            let result = log.sync_now();
            queue.finish_work(&log);
            for done in asked {
                let result = copy_result(&result);
                // One caller's panic must not leave the others waiting for ever.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| done(result)));
            }
        }
    }
}

/// Copies the result for one more caller.
fn copy_result(result: &Result<u64, StoreError>) -> Result<u64, StoreError> {
    match result {
        Ok(seq) => Ok(*seq),
        Err(StoreError::NotFound(id)) => Err(StoreError::NotFound(id.clone())),
        Err(StoreError::Io { what, source }) => {
            Err(io_error(what.clone(), io::Error::new(source.kind(), source.to_string())))
        }
        Err(
            error @ (StoreError::Exists(_)
            | StoreError::Newer { .. }
            | StoreError::Index(_)
            | StoreError::Recreated),
        ) => Err(io_error("syncing", io::Error::other(error.to_string()))),
    }
}

impl std::fmt::Debug for SyncRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting")
            .field("asked", &self.asked.len())
            .field("later", &self.later.len())
            .finish()
    }
}
