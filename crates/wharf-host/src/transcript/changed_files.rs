//! The files that a session has changed, from the index of changes that its rows stand for (rule
//! 13.10).

use std::cmp::Reverse;
use std::collections::HashMap;

use wharf_api::{ChangedFile, ChangedFileStatus, TranscriptRow};
use wharf_core::EventId;
use wharf_store::{StoreError, StoredFileChange};
use wharf_transcript::{FileChangeKind, list_file_changes, may_have_more_changes};

use super::live::LiveState;

/// The most files that are counted. In a session with more files, those that only its oldest rows
/// changed are left out.
const MAX_TRACKED_FILES: usize = 20_000;
/// The most rows and turns that a file names.
const MAX_NAMED_ROWS: usize = 20;
const MAX_NAMED_TURNS: usize = 20;

const CREATED: &str = "created";
const CHANGED: &str = "changed";
const DELETED: &str = "deleted";

/// Changed files, the last changed first.
#[derive(Clone, Debug)]
pub struct ChangedFileSlice {
    /// The last event that the files cover; `None` for an empty log.
    pub as_of: Option<EventId>,
    pub files: Vec<ChangedFile>,
    /// How many files there are in all.
    pub total: usize,
    /// The lines of all files.
    pub added: u64,
    pub removed: u64,
    /// True if there may be changes that were not counted.
    pub is_partial: bool,
}

impl LiveState {
    /// Returns the files that were changed, in one turn if it is named; `None` if there is no such
    /// turn.
    pub(super) fn changed_files(
        &self,
        turn: Option<&str>,
        limit: usize,
    ) -> Result<Option<ChangedFileSlice>, StoreError> {
        if let Some(prompt) = turn
            && self.turn_bounds(prompt)?.is_none()
        {
            return Ok(None);
        }
        let mut collector = ChangeTotals::default();
        self.rows.visit_file_changes(turn, &mut |change| collector.add(change))?;
        Ok(Some(collector.finish(self.fold.position(), limit)))
    }
}

/// Returns the changes of files that a row stands for, as the index keeps them.
pub(super) fn to_stored_changes(number: u64, row: &TranscriptRow) -> Vec<StoredFileChange> {
    let changes = list_file_changes(row).into_iter().map(|change| StoredFileChange {
        number,
        path: change.path,
        row: row.id.clone(),
        turn: row.turn.clone(),
        kind: match change.kind {
            FileChangeKind::Created => CREATED,
            FileChangeKind::Changed => CHANGED,
            FileChangeKind::Deleted => DELETED,
        }
        .to_owned(),
        added: change.added,
        removed: change.removed,
        exact: change.exact,
        at: change.at,
    });
    changes.collect()
}

/// Adds up changes, which come from the newest row to the oldest.
#[derive(Default)]
struct ChangeTotals {
    files: HashMap<String, FileTotals>,
    /// The row of the last change, and how many changes it had so far.
    row: (u64, usize),
    is_partial: bool,
}

/// The changes of one file so far.
struct FileTotals {
    file: ChangedFile,
    /// The kind of the oldest change so far.
    oldest_kind: String,
    /// The turn of the oldest change so far.
    oldest_turn: Option<String>,
}

impl ChangeTotals {
    fn add(&mut self, change: StoredFileChange) {
        self.row = if self.row.0 == change.number {
            (change.number, self.row.1 + 1)
        } else {
            (change.number, 1)
        };
        self.is_partial |= may_have_more_changes(self.row.1);
        if let Some(known) = self.files.get_mut(&change.path) {
            known.add_older(change);
        } else if self.files.len() < MAX_TRACKED_FILES {
            self.files.insert(change.path.clone(), FileTotals::new(change));
        } else {
            self.is_partial = true;
        }
    }

    fn finish(self, as_of: Option<EventId>, limit: usize) -> ChangedFileSlice {
        let total = self.files.len();
        let mut files: Vec<ChangedFile> =
            self.files.into_values().map(FileTotals::finish).collect();
        let (added, removed) =
            files.iter().fold((0, 0), |(a, r), file| (a + file.added, r + file.removed));
        files.sort_unstable_by(|a, b| {
            (Reverse(&a.changed_at), &a.path).cmp(&(Reverse(&b.changed_at), &b.path))
        });
        files.truncate(limit);
        ChangedFileSlice {
            as_of,
            files,
            total,
            added,
            removed,
            is_partial: self.is_partial,
        }
    }
}

impl FileTotals {
    /// Begins with the newest change of a file.
    fn new(change: StoredFileChange) -> Self {
        let StoredFileChange { path, row, turn, kind, added, removed, exact, at, .. } = change;
        let status =
            if kind == DELETED { ChangedFileStatus::Deleted } else { ChangedFileStatus::Changed };
        let file = ChangedFile {
            path,
            status,
            added,
            removed,
            exact,
            rows: vec![row],
            row_count: 1,
            turns: turn.iter().cloned().collect(),
            turn_count: usize::from(turn.is_some()),
            changed_at: at,
        };
        Self { file, oldest_kind: kind, oldest_turn: turn }
    }

    fn add_older(&mut self, change: StoredFileChange) {
        let StoredFileChange { row, turn, kind, added, removed, exact, at, .. } = change;
        let file = &mut self.file;
        file.added += added;
        file.removed += removed;
        // A file that is created although it was there is replaced: how many lines it lost is not
        // known.
        file.exact &= exact && (self.oldest_kind != CREATED || kind == DELETED);
        file.row_count += 1;
        if file.rows.len() < MAX_NAMED_ROWS {
            file.rows.push(row);
        }
        // The rows of a turn are neighbours.
        if let Some(turn) = turn.as_ref().filter(|turn| self.oldest_turn.as_ref() != Some(turn)) {
            file.turn_count += 1;
            if file.turns.len() < MAX_NAMED_TURNS {
                file.turns.push(turn.clone());
            }
        }
        if at > file.changed_at {
            // The tool call of an older row has ended later.
            file.changed_at = at;
        }
        (self.oldest_kind, self.oldest_turn) = (kind, turn.or(self.oldest_turn.take()));
    }

    fn finish(mut self) -> ChangedFile {
        if self.file.status != ChangedFileStatus::Deleted && self.oldest_kind == CREATED {
            self.file.status = ChangedFileStatus::Created;
        }
        self.file
    }
}
