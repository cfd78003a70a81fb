//! Where a reader is in a session's log. A reader that keeps up reads shared memory, one that lags reads the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use wharf_core::{Epoch, Event, Millis, Seq, decode};
use wharf_store::StoreError;

use super::shared::Shared;

/// How much a lagging reader takes from the disk at once: bounds what a client that never reads can hold.
const PAGE: usize = 256 * 1024;

/// One event with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub seq: Seq,
    pub epoch: Epoch,
    pub at: Millis,
    pub event: Event,
}

impl Entry {
    /// About how many bytes it holds.
    pub fn weight(&self) -> usize {
        match &self.event {
            Event::AgentUpdated { frame, .. }
            | Event::PromptAccepted { frame, .. }
            | Event::PromptUpdated { frame, .. }
            | Event::Snapshot(frame)
            | Event::AgentStarted { answer: frame, .. }
            | Event::Unknown { body: frame, .. } => frame.len(),
            Event::AskOpened(ask) => ask.frame.len(),
            Event::Created(_)
            | Event::AgentStarting { .. }
            | Event::Ended(_)
            | Event::PromptMoved { .. }
            | Event::PromptRequeued { .. }
            | Event::TurnStarted { .. }
            | Event::CancelRequested { .. }
            | Event::PromptEnded { .. }
            | Event::AskResolved { .. }
            | Event::AgentFaulted { .. }
            | Event::Paused { .. }
            | Event::Continued => 0,
        }
    }
}

/// Consecutive events, shared.
#[derive(Clone, Debug)]
pub struct Batch {
    entries: Arc<Vec<Entry>>,
    skip: usize,
}

impl Batch {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        Self { entries: Arc::new(entries), skip: 0 }
    }

    pub(crate) fn first(&self) -> Seq {
        self.entries().first().map_or(Seq::ZERO, |entry| entry.seq)
    }

    pub(crate) fn starting_at(&self, from: Seq) -> Option<Self> {
        let skip = self.entries.partition_point(|entry| entry.seq < from);
        (skip < self.entries.len()).then(|| Self { entries: Arc::clone(&self.entries), skip })
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries[self.skip..]
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("event {seq} cannot be read: {why}")]
    Undecodable { seq: Seq, why: String },
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
        Self { shared: Arc::clone(&self.shared), head: self.head.clone(), next: self.next, noted: None }
    }
}

impl Cursor {
    /// A reader of everything after `after`.
    pub(crate) fn new(shared: Arc<Shared>, after: Seq) -> Self {
        let head = shared.head.subscribe();
        Self { shared, head, next: after.next(), noted: None }
    }

    /// The same reader, which follows the session from now on: it counts among its readers, and may lag.
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

    /// Waits until there is something to read. Nobody is left to wait for if the session is gone.
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

    async fn read_disk(&self) -> Result<(Batch, Seq), ReadError> {
        let (shared, from, head) = (Arc::clone(&self.shared), self.next, *self.head.borrow());
        let read = tokio::task::spawn_blocking(move || read_page(&shared, from, head));
        read.await.map_err(|_| ReadError::Gone)?
    }
}

/// Reads a page of the log, and tells how far it goes: damage may take events out of it, up to all of them. What is on
/// disk but not yet published is left out: nobody may see it before all can.
fn read_page(shared: &Shared, from: Seq, head: Seq) -> Result<(Batch, Seq), ReadError> {
    let page = shared.log.read(from.0, PAGE)?;
    for damage in &page.damage {
        tracing::error!(session = %shared.id, place = %damage.place, first = damage.first, last = damage.last,
            "part of the log is damaged and left out");
    }
    let mut entries = Vec::with_capacity(page.records.len());
    for record in page.records.iter().filter(|record| record.seq <= head.0) {
        let (at, event) = decode(&record.body)
            .map_err(|error| ReadError::Undecodable { seq: Seq(record.seq), why: error.to_string() })?;
        entries.push(Entry { seq: Seq(record.seq), epoch: Epoch(record.epoch), at, event });
    }
    let lost = page.damage.iter().map(|damage| Seq(damage.last)).max().unwrap_or_default();
    let last = entries.last().map_or(lost, |entry| entry.seq.max(lost)).min(head);
    if last < from {
        return Err(ReadError::Undecodable { seq: from, why: "the log ends before its head".to_owned() });
    }
    Ok((Batch::new(entries), last))
}
