//! The changes of a transcript since a reader's position (rule 13.5).

use wharf_api::{RowAppend, TranscriptRow};
use wharf_core::{EventId, Seq};
use wharf_store::StoreError;
use wharf_transcript::format_timestamp;

use super::change_ring::MergedChange;
use super::live::LiveState;
use super::row_cache::missing_row;

/// The most rows that a reader gets whose position is older than the kept changes.
const MAX_CAUGHT_UP_ROWS: usize = 500;
/// The most bytes of changes that a reader gets at once.
const MAX_CHANGE_BYTES: usize = 4 * 1024 * 1024;

/// The change of one row.
#[derive(Clone, Debug)]
pub enum RowUpdate {
    Whole(Box<TranscriptRow>),
    Grown(RowAppend),
    /// The end of a part that is cut has grown.
    TailGrown(RowAppend),
}

/// All changes of rows between two positions.
#[derive(Clone, Debug)]
pub struct RowUpdates {
    /// The position that is complete with these changes; `None` for an empty log.
    pub as_of: Option<EventId>,
    /// In the order of the rows. `None` if they are too many: the reader has to load a page.
    pub updates: Option<Vec<RowUpdate>>,
    /// How far the log was read. Damage at its end may leave it beyond `as_of`.
    pub read_to: Seq,
    pub open_asks: Vec<String>,
    pub plan: Option<String>,
}

impl LiveState {
    /// Returns the changes of all events after `position`.
    pub(super) fn changes_after(&self, position: Seq) -> Result<RowUpdates, StoreError> {
        let as_of = self.fold.position();
        let is_current = as_of.is_none_or(|last| last.seq <= position);
        let updates = if is_current { Some(Vec::new()) } else { self.collect_updates(position)? };
        let open_asks = self.fold.open_asks().into_iter().map(|number| self.row_id(number.0));
        Ok(RowUpdates {
            as_of,
            updates,
            read_to: self.read_to,
            open_asks: open_asks.collect::<Result<_, _>>()?,
            plan: self.fold.plan().map(|number| self.row_id(number.0)).transpose()?,
        })
    }

    /// Returns the rows of the open asks, the oldest first.
    pub(super) fn open_asks(&mut self) -> Result<Vec<TranscriptRow>, StoreError> {
        let numbers = self.fold.open_asks().into_iter();
        numbers
            .map(|number| self.rows.row(number.0)?.ok_or_else(|| missing_row(number.0)))
            .collect()
    }

    fn collect_updates(&self, position: Seq) -> Result<Option<Vec<RowUpdate>>, StoreError> {
        let changes = match self.ring.after(position) {
            Some(changes) => changes,
            None => match self.rows.changed_after(position.0, MAX_CAUGHT_UP_ROWS)? {
                Some(numbers) => {
                    numbers.into_iter().map(|number| (number, MergedChange::Whole)).collect()
                }
                None => return Ok(None),
            },
        };
        let mut updates = Vec::with_capacity(changes.len());
        let mut bytes = 0;
        for (number, change) in changes {
            let update = match change {
                MergedChange::Whole => {
                    let row = self.rows.row(number)?.ok_or_else(|| missing_row(number))?;
                    // A reader within a set of changes has some of them already.
                    if row.rev <= position.0 {
                        continue;
                    }
                    bytes += serde_json::to_vec(&row).map_or(0, |json| json.len());
                    RowUpdate::Whole(Box::new(row))
                }
                MergedChange::Grown { from, rev, part, text, at, is_tail } => {
                    bytes += text.len();
                    let id = self.row_id(number)?;
                    let changed_at = format_timestamp(at);
                    let append = RowAppend { id, from, rev, part, text, changed_at };
                    if is_tail { RowUpdate::TailGrown(append) } else { RowUpdate::Grown(append) }
                }
            };
            if bytes > MAX_CHANGE_BYTES {
                return Ok(None);
            }
            updates.push(update);
        }
        Ok(Some(updates))
    }
}
