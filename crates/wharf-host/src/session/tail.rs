//! The newest events of a session in memory, shared by all its readers and bounded per session and in total.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wharf_core::Seq;

use super::cursor::{Batch, Entry};
use crate::metrics::Counter;

/// What an entry costs besides its frame: the event, its place in the batch, its share of the allocator.
const ENTRY_OVERHEAD: usize = 256;

/// The bound for all sessions of a host.
#[derive(Debug)]
pub(crate) struct TailBudget {
    used: AtomicUsize,
    per_session: usize,
    total: usize,
    /// Reads that found what they wanted here, and those that had to go to the disk.
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
}

impl TailBudget {
    pub(crate) fn new(per_session: usize, total: usize) -> Self {
        let (hits, misses) = (Counter::default(), Counter::default());
        Self { used: AtomicUsize::new(0), per_session, total, hits, misses }
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
}

impl Tail {
    pub(crate) fn new(budget: Arc<TailBudget>) -> Self {
        Self { budget, batches: Mutex::default() }
    }

    /// Adds the newest events. A plain function: publishing waits for nobody.
    pub(crate) fn publish(&self, entries: Vec<Entry>) {
        let bytes = entries.iter().map(|entry| entry.weight() + ENTRY_OVERHEAD).sum();
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        let mut batches = self.lock();
        batches.kept.push_back(Kept { batch: Batch::new(entries), bytes });
        batches.bytes += bytes;
        // The newest batch stays whatever it weighs: its readers are being woken for it.
        while batches.kept.len() > 1 && self.over(batches.bytes) {
            self.drop_oldest(&mut batches);
        }
    }

    /// Events from `from` on, if they are still here.
    pub(crate) fn read(&self, from: Seq) -> Option<Batch> {
        let found = self.find(from);
        let counter = if found.is_some() { &self.budget.hits } else { &self.budget.misses };
        counter.add(1);
        found
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
