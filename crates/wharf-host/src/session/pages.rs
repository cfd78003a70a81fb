//! Pages of a session's log that readers hold at this moment: readers of the same page share one
//! reading of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use wharf_core::Seq;

use super::cursor::{Batch, BatchEntries};

/// The pages that are read or held, by their first event.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<HashMap<Seq, Weak<Page>>>);

/// One page. The lock is held by the reader that reads it from the disk.
pub(crate) type Page = tokio::sync::Mutex<LoadedPage>;

/// A page that was read: its events while a reader holds them, and the last event that it covers.
#[derive(Debug, Default)]
pub(crate) struct LoadedPage {
    entries: Weak<BatchEntries>,
    last: Seq,
}

impl Pages {
    /// Returns the page that begins with this event.
    pub(crate) fn page(&self, from: Seq) -> Arc<Page> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages.get(&from).and_then(Weak::upgrade) {
            return page;
        }
        pages.retain(|_, page| page.strong_count() > 0);
        let page = Arc::new(Page::default());
        pages.insert(from, Arc::downgrade(&page));
        page
    }
}

impl LoadedPage {
    pub(crate) fn get(&self) -> Option<(Batch, Seq)> {
        Some((Batch::whole(self.entries.upgrade()?), self.last))
    }

    pub(crate) fn set(&mut self, entries: &Arc<BatchEntries>, last: Seq) {
        (self.entries, self.last) = (Arc::downgrade(entries), last);
    }
}
