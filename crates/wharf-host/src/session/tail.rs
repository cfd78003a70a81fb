//! The newest events of a session in memory, shared by all its readers and bounded per session and
//! in total.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wharf_config::Limits;
use wharf_core::Seq;

use super::cursor::{Batch, ENTRY_OVERHEAD_BYTES, Entry};
use crate::limits::{ByteBudget, CountLimit, CountPermit};
use crate::metrics::Counter;

/// Pages that are read from the disk at once, over all sessions: each may hold a message of the
/// maximal size before it is counted.
const MAX_DISK_READS: usize = 4;
/// How long a batch that is larger than its session's share stays for readers that keep up.
const LARGE_BATCH_KEPT_FOR: Duration = Duration::from_secs(5);

/// The bound for all sessions of a host.
#[derive(Debug)]
pub(crate) struct TailBudget {
    used: AtomicUsize,
    per_session: usize,
    total: usize,
    /// Counts reads that found their events in the tail; `misses` counts reads that had to go to
    /// the disk.
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    /// For what readers hold besides.
    pub(crate) buffers: Arc<ByteBudget>,
    disk_reads: CountLimit,
}

impl TailBudget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            used: AtomicUsize::new(0),
            per_session: limits.tail.0,
            total: limits.tail_total.0,
            hits: Counter::default(),
            misses: Counter::default(),
            buffers: ByteBudget::new(limits),
            disk_reads: CountLimit::new(MAX_DISK_READS),
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Tail {
    budget: Arc<TailBudget>,
    batches: Mutex<Batches>,
}

#[derive(Debug, Default)]
struct Batches {
    kept: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    batch: Batch,
    bytes: usize,
    published_at: Instant,
}

impl Tail {
    pub(crate) fn new(budget: Arc<TailBudget>) -> Self {
        Self { budget, batches: Mutex::default() }
    }

    /// Adds the newest events. Not async, since publishing never waits for a reader.
    pub(crate) fn publish(&self, entries: Vec<Entry>) {
        let bytes = entries.iter().map(|entry| entry.weight() + ENTRY_OVERHEAD_BYTES).sum();
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        let mut batches = self.lock();
        batches.kept.push_back(Kept {
            batch: Batch::new(entries),
            bytes,
            published_at: Instant::now(),
        });
        batches.bytes += bytes;
        // The newest batch stays, since its readers are being woken for it; a large one only while
        // all have room.
        while self.over(batches.bytes) && (batches.kept.len() > 1 || self.has_no_room_for(bytes)) {
            self.drop_oldest(&mut batches);
        }
    }

    /// Drops batches that are larger than a session's share, once their readers have had time to
    /// take them: a session that falls silent after a large update does not keep it in memory.
    pub(crate) fn release_large(&self) {
        let mut batches = self.lock();
        while batches.bytes > self.budget.per_session
            && batches
                .kept
                .front()
                .is_some_and(|kept| kept.published_at.elapsed() > LARGE_BATCH_KEPT_FOR)
        {
            self.drop_oldest(&mut batches);
        }
    }

    /// The budget for what readers hold.
    pub(crate) fn buffers(&self) -> &Arc<ByteBudget> {
        &self.budget.buffers
    }

    /// Waits for a permit to read from the disk.
    pub(crate) async fn begin_disk_read(&self) -> CountPermit {
        self.budget.disk_reads.acquire().await
    }

    fn has_no_room_for(&self, newest: usize) -> bool {
        newest > ByteBudget::UNCOUNTED_BYTES && self.budget.used() > self.budget.total
    }

    /// Events from `from` on, if they are still here.
    pub(crate) fn read(&self, from: Seq) -> Option<Batch> {
        let found = self.find(from);
        let counter = if found.is_some() { &self.budget.hits } else { &self.budget.misses };
        counter.add(1);
        found
    }

    /// Like [`Tail::read`], for a reader that does not go to the disk instead.
    pub(crate) fn read_kept(&self, from: Seq) -> Option<Batch> {
        self.find(from).inspect(|_| self.budget.hits.add(1))
    }

    fn find(&self, from: Seq) -> Option<Batch> {
        let batches = self.lock();
        let after = batches.kept.partition_point(|kept| kept.batch.first() <= from);
        let kept = batches.kept.get(after.checked_sub(1)?)?;
        kept.batch.starting_at(from)
    }

    fn over(&self, bytes: usize) -> bool {
        bytes > self.budget.per_session || self.budget.used() > self.budget.total
    }

    fn drop_oldest(&self, batches: &mut Batches) {
        if let Some(old) = batches.kept.pop_front() {
            batches.bytes -= old.bytes;
            self.budget.used.fetch_sub(old.bytes, Ordering::Relaxed);
            // From now on only its readers hold it.
            if !old.batch.is_unshared() {
                old.batch.count_by(self.budget.buffers.charge_out(old.bytes));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
