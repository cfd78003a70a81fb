//! A reader's position in a session's log. A reader that keeps up reads shared memory; a reader
//! that lags reads the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;
use wharf_core::{Epoch, Event, EventId, Millis, Raw, Seq};
use wharf_store::StoreError;

use super::page_events::decode_page;
use super::pages::Page;
use super::shared::Shared;
use crate::limits::BytePermit;

/// How much a lagging reader takes from the disk at once: bounds what a client that never reads can
/// hold.
const READ_PAGE_BYTES: usize = 256 * 1024;
/// The cost of an entry besides its frame: the event, its place in the batch, its share of the
/// allocator.
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 256;

/// One event with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub seq: Seq,
    pub epoch: Epoch,
    pub at: Millis,
    pub event: Event,
}

impl Entry {
    /// Returns the id by which clients know the event.
    pub const fn id(&self) -> EventId {
        EventId { epoch: self.epoch, seq: self.seq }
    }

    /// Returns true if these bytes are the event's own, and not a copy.
    pub fn holds(&self, bytes: &Bytes) -> bool {
        self.event
            .frame()
            .is_some_and(|frame| frame.bytes().as_ptr_range().contains(&bytes.as_ptr()))
    }

    /// About how many bytes it holds.
    pub fn weight(&self) -> usize {
        self.event.frame().map_or(0, Raw::len)
    }
}

/// Consecutive events, shared.
#[derive(Clone, Debug)]
pub struct Batch {
    shared: Arc<BatchEntries>,
    skip: usize,
}

/// The events of a batch, and what counts their bytes while only readers hold them.
#[derive(Debug)]
pub(crate) struct BatchEntries {
    entries: Vec<Entry>,
    permit: OnceLock<BytePermit>,
    /// The page that they were read from, so that other readers find them.
    _page: Option<Arc<Page>>,
}

impl Batch {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        Self::whole(Arc::new(BatchEntries { entries, permit: OnceLock::new(), _page: None }))
    }

    pub(crate) fn whole(shared: Arc<BatchEntries>) -> Self {
        Self { shared, skip: 0 }
    }

    /// Returns true if this is the only handle to the events.
    pub(crate) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Counts the events until the last reader has dropped them.
    pub(crate) fn count_by(&self, permit: BytePermit) {
        let _ = self.shared.permit.set(permit);
    }

    pub(crate) fn first(&self) -> Seq {
        self.entries().first().map_or(Seq::ZERO, |entry| entry.seq)
    }

    pub(crate) fn starting_at(&self, from: Seq) -> Option<Self> {
        let skip = self.shared.entries.partition_point(|entry| entry.seq < from);
        (skip < self.shared.entries.len()).then(|| Self { shared: Arc::clone(&self.shared), skip })
    }

    pub fn entries(&self) -> &[Entry] {
        &self.shared.entries[self.skip..]
    }

    /// About how many bytes a reader holds by it.
    pub fn weight(&self) -> usize {
        self.entries().iter().map(|entry| entry.weight() + ENTRY_OVERHEAD_BYTES).sum()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("event {seq} cannot be read: {why}")]
    Newer { seq: Seq, why: String },
    #[error("event {seq} cannot be read: the log ends before its head")]
    Short { seq: Seq },
    /// The session was forgotten or its task is gone for good.
    #[error("the session is gone")]
    Gone,
}

/// A reader's place.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    head: watch::Receiver<Seq>,
    next: Seq,
    /// Where others can see how far it is, if it follows the session.
    noted: Option<Arc<AtomicU64>>,
}

/// A copy reads for itself: it does not follow.
impl Clone for Cursor {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            head: self.head.clone(),
            next: self.next,
            noted: None,
        }
    }
}

impl Cursor {
    /// A reader of everything after `after`.
    pub(crate) fn new(shared: Arc<Shared>, after: Seq) -> Self {
        let head = shared.head.subscribe();
        Self { shared, head, next: after.next(), noted: None }
    }

    /// The same reader, which follows the session from now on: it counts among its readers, and may
    /// lag.
    #[must_use]
    pub fn following(mut self) -> Self {
        self.noted = Some(self.shared.add_reader(self.position()));
        self
    }

    /// Goes on at `seq`.
    pub fn go_to(&mut self, seq: Seq) {
        self.next = seq.max(Seq(1));
        self.note();
    }

    fn note(&self) {
        if let Some(noted) = &self.noted {
            noted.store(self.next.0 - 1, Ordering::Relaxed);
        }
    }

    /// The last event that was handed out.
    pub fn position(&self) -> Seq {
        Seq(self.next.0 - 1)
    }

    /// Another reader of the same log, whose next event is `seq`.
    pub fn clone_at(&self, seq: Seq) -> Self {
        Self { next: seq.max(Seq(1)), ..self.clone() }
    }

    /// Is there something to read now?
    pub fn is_behind(&self) -> bool {
        *self.head.borrow() >= self.next
    }

    /// Waits until there is something to read. Also returns if the session is gone.
    pub async fn news(&mut self) {
        let next = self.next;
        let _ = self.head.wait_for(|head| *head >= next).await;
    }

    /// Waits for the next events. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Batch, ReadError> {
        let next = self.next;
        self.head.wait_for(|head| *head >= next).await.map_err(|_| ReadError::Gone)?;
        let (batch, last) = match self.shared.tail.read(next) {
            Some(batch) => {
                let last = batch.entries().last().map_or(next, |entry| entry.seq);
                (batch, last)
            }
            None => self.read_disk().await?,
        };
        self.next = last.next();
        self.note();
        Ok(batch)
    }

    /// Returns the next events if they are in memory.
    pub fn next_in_memory(&mut self) -> Option<Batch> {
        if !self.is_behind() {
            return None;
        }
        let batch = self.shared.tail.read_kept(self.next)?;
        self.next = batch.entries().last()?.seq.next();
        self.note();
        Some(batch)
    }

    /// Reads a page, or shares a page that another reader holds. A reader that follows the session
    /// waits until the budget has room for the page, and holds no page meanwhile. Other readers
    /// read a page only now and then: the budget counts it, but they do not wait.
    async fn read_disk(&self) -> Result<(Batch, Seq), ReadError> {
        let buffers = self.shared.tail.buffers();
        let mut permit = None;
        loop {
            let page = self.shared.pages.page(self.next);
            let mut loaded = page.lock().await;
            if let Some(found) = loaded.get() {
                return Ok(found);
            }
            let read = self.read_page().await?;
            let permit = match permit.take() {
                Some(permit) => permit,
                None if self.noted.is_none() => buffers.charge_out(read.bytes),
                None => match buffers.try_reserve_out(read.bytes) {
                    Some(permit) => permit,
                    None => {
                        let bytes = read.bytes;
                        drop((read, loaded));
                        drop(page);
                        permit = Some(buffers.reserve_out(bytes).await);
                        continue;
                    }
                },
            };
            let permit = OnceLock::from(permit);
            let entries = BatchEntries {
                entries: read.entries,
                permit,
                _page: Some(Arc::clone(&page)),
            };
            let entries = Arc::new(entries);
            loaded.set(&entries, read.last);
            return Ok((Batch::whole(entries), read.last));
        }
    }

    async fn read_page(&self) -> Result<ReadPage, ReadError> {
        let _reading = self.shared.tail.begin_disk_read().await;
        let shared = Arc::clone(&self.shared);
        let from = self.next;
        let head = *self.head.borrow();
        let read = tokio::task::spawn_blocking(move || read_page(&shared, from, head));
        read.await.map_err(|_| ReadError::Gone)?
    }
}

/// A page as it was read from the disk.
struct ReadPage {
    entries: Vec<Entry>,
    /// How far it goes.
    last: Seq,
    bytes: usize,
}

/// Reads a page of the log. Leaves out events that are on disk but not yet published: no reader may
/// see an event before all readers can.
fn read_page(shared: &Shared, from: Seq, head: Seq) -> Result<ReadPage, ReadError> {
    let page = shared.log.read(from.0, READ_PAGE_BYTES)?;
    let entries = decode_page(&page, head)
        .map_err(|newer| ReadError::Newer { seq: newer.seq, why: newer.error.to_string() })?;
    for entry in &entries {
        if let Event::Lost(lost) = &entry.event
            && shared.note_lost(entry.seq)
        {
            // Not the reason, which may hold a piece of the event.
            let first = lost.first.0;
            let last = entry.seq.0;
            shared.span.in_scope(|| {
                tracing::error!(session = %shared.id, first, last, "events of the log cannot be read and are left out");
            });
        }
    }
    let Some(last) = entries.last().map(|entry| entry.seq).filter(|last| *last >= from) else {
        return Err(ReadError::Short { seq: from });
    };
    let bytes = page.records.iter().map(|record| record.body.len() + ENTRY_OVERHEAD_BYTES).sum();
    Ok(ReadPage { entries, last, bytes })
}
