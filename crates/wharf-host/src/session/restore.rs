//! From a log back to a session.

use std::sync::Arc;

use wharf_core::{Event, Millis, Seq, Session, SessionId, Settings, decode};
use wharf_store::{Log, StoreError};

/// How much is read at once.
const RESTORE_PAGE_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("event {seq}: {why}")]
    Undecodable { seq: u64, why: String },
    #[error("the log is empty or its beginning is damaged")]
    NoBeginning,
    #[error("the log is that of session {found}: was it moved or copied?")]
    OtherSession { found: SessionId },
}

/// Folds the log from `snapshot` on if that is where one is, else from the beginning.
pub(crate) fn restore(log: &Arc<dyn Log>, settings: &Settings, snapshot: Option<u64>) -> Result<Session, RestoreError> {
    if let Some(from) = snapshot
        && let Ok(session) = fold(log, settings, from)
    {
        return Ok(session);
    }
    fold(log, settings, 1)
}

fn fold(log: &Arc<dyn Log>, settings: &Settings, from: u64) -> Result<Session, RestoreError> {
    let mut failure = None;
    let entries = Entries { log, next: from, page: Vec::new().into_iter(), failure: &mut failure };
    let session = Session::restore(settings.clone(), entries);
    match (failure, session) {
        (Some(failure), _) => Err(failure),
        (None, Some(session)) => Ok(session),
        (None, None) => Err(RestoreError::NoBeginning),
    }
}

/// The log's events one after the other, a page in memory at a time.
struct Entries<'a> {
    log: &'a Arc<dyn Log>,
    next: u64,
    page: std::vec::IntoIter<wharf_store::LogRecord>,
    failure: &'a mut Option<RestoreError>,
}

impl Iterator for Entries<'_> {
    type Item = (Seq, Millis, Event);

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self.page.next() {
            Some(record) => record,
            None => self.turn_page()?,
        };
        self.next = record.seq + 1;
        match decode(&record.body) {
            Ok((at, event)) => Some((Seq(record.seq), at, event)),
            Err(error) => {
                *self.failure = Some(RestoreError::Undecodable { seq: record.seq, why: error.to_string() });
                None
            }
        }
    }
}

impl Entries<'_> {
    fn turn_page(&mut self) -> Option<wharf_store::LogRecord> {
        if self.next > self.log.head().seq {
            return None;
        }
        let from = self.next;
        match self.log.read(from, RESTORE_PAGE_BYTES) {
            Ok(page) => {
                for damage in page.damage {
                    tracing::error!(place = %damage.place, first = damage.first, last = damage.last,
                        "part of a log is damaged and left out");
                    self.next = self.next.max(damage.last + 1);
                }
                self.page = page.records.into_iter();
                // Damage alone: what comes after it is on the next page.
                self.page.next().or_else(|| if self.next > from { self.turn_page() } else { None })
            }
            Err(error) => {
                *self.failure = Some(error.into());
                None
            }
        }
    }
}
