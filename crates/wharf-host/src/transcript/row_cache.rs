//! The rows of one session between the fold and the derived database: changed rows wait in memory
//! and are written together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use wharf_api::{RowBody, TranscriptRow};
use wharf_store::{
    LogId, RowFileChanges, RowRange, StoreError, StoredBlob, StoredFileChange, StoredRow,
    TextChange, TextSlice, TranscriptChanges, TranscriptCheckpoint, TranscriptStore,
};
use wharf_transcript::{Blob, RowKey, RowNumber, RowStore};

use super::changed_files::to_stored_changes;

/// The rows that stay in memory after they were written, the newest ones: updates mostly change
/// these.
const KEPT_ROWS: usize = 256;
/// The names of rows that stay in memory after they were written.
const KEPT_KEYS: usize = 32 * 1024;
/// The rows that are read from the database at once.
const CHUNK_ROWS: usize = 64;

/// A row with its number and its size as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NumberedRow {
    pub(super) number: u64,
    pub(super) row: TranscriptRow,
    pub(super) bytes: usize,
}

/// Selects rows by their numbers, in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowScan<'a> {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Only rows of these kinds; empty for all.
    pub(super) kinds: &'a [String],
    pub(super) newest_first: bool,
    pub(super) max_rows: usize,
    /// A row that would go beyond it is left out, unless it is the first.
    pub(super) max_bytes: usize,
}

/// The rows of a scan in its order.
pub(super) struct ScannedRows {
    pub(super) rows: Vec<NumberedRow>,
    /// True if the whole range was looked through.
    pub(super) is_complete: bool,
}

#[derive(Debug)]
pub(super) struct RowCache {
    store: Arc<dyn TranscriptStore>,
    id: LogId,
    generation: u64,
    /// The number of the last row.
    count: u64,
    rows: BTreeMap<u64, TranscriptRow>,
    /// The rows in memory that the database does not have, or has an older revision of.
    dirty: BTreeSet<u64>,
    keys: HashMap<String, u64>,
    dirty_keys: Vec<(String, u64)>,
    /// True if `keys` has all names that there are, so that an unknown one need not be looked for.
    has_all_keys: bool,
    texts: Vec<TextChange>,
    blobs: Vec<StoredBlob>,
    /// Why the database could not be read while the fold ran. The rows are not to be trusted then.
    failure: Option<StoreError>,
}

impl RowCache {
    /// Creates the cache of a transcript of which this generation of the database has so many rows.
    pub(super) fn new(
        store: Arc<dyn TranscriptStore>,
        id: LogId,
        generation: u64,
        count: u64,
    ) -> Self {
        Self {
            store,
            id,
            generation,
            count,
            rows: BTreeMap::new(),
            dirty: BTreeSet::new(),
            keys: HashMap::new(),
            dirty_keys: Vec::new(),
            has_all_keys: count == 0,
            texts: Vec::new(),
            blobs: Vec::new(),
            failure: None,
        }
    }

    /// Returns true if the database has lost the rows that it had.
    pub(super) fn is_lost(&self) -> bool {
        self.store.generation() != self.generation
    }

    /// Returns the error that a read of the fold met.
    pub(super) fn take_failure(&mut self) -> Option<StoreError> {
        self.failure.take()
    }

    /// Returns the number of the last row.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn dirty_rows(&self) -> usize {
        self.dirty.len()
    }

    pub(super) fn is_dirty(&self) -> bool {
        !(self.dirty.is_empty()
            && self.dirty_keys.is_empty()
            && self.texts.is_empty()
            && self.blobs.is_empty())
    }

    /// Writes all changes together with the checkpoint that they lead to.
    pub(super) fn flush(&mut self, checkpoint: TranscriptCheckpoint) -> Result<(), StoreError> {
        let dirty =
            || self.dirty.iter().filter_map(|number| Some((*number, self.rows.get(number)?)));
        let rows = dirty()
            .map(|(number, row)| to_stored_row(number, row))
            .collect::<Result<_, _>>()?;
        let tools = dirty().filter(|(_, row)| matches!(row.body, RowBody::Tool(_)));
        let file_changes = tools.map(|(number, row)| RowFileChanges {
            number,
            changes: to_stored_changes(number, row),
        });
        let mut changes = TranscriptChanges {
            generation: self.generation,
            checkpoint,
            rows,
            file_changes: file_changes.collect(),
            keys: std::mem::take(&mut self.dirty_keys),
            texts: std::mem::take(&mut self.texts),
            blobs: std::mem::take(&mut self.blobs),
        };
        if let Err(error) = self.store.write(&self.id, &changes) {
            // They are tried again with the next ones.
            self.dirty_keys = std::mem::take(&mut changes.keys);
            self.texts = std::mem::take(&mut changes.texts);
            self.blobs = std::mem::take(&mut changes.blobs);
            return Err(error);
        }
        self.dirty.clear();
        while self.rows.len() > KEPT_ROWS {
            self.rows.pop_first();
        }
        if self.keys.len() > KEPT_KEYS {
            self.keys.clear();
            self.has_all_keys = false;
        }
        Ok(())
    }

    /// Returns the rows of a scan in its order.
    pub(super) fn scan(&self, scan: &RowScan<'_>) -> Result<Vec<NumberedRow>, StoreError> {
        Ok(self.scan_while(scan, |_| true)?.rows)
    }

    /// Returns the rows of a scan in its order, up to the first row that `keep` rejects.
    pub(super) fn scan_while(
        &self,
        scan: &RowScan<'_>,
        keep: impl Fn(&NumberedRow) -> bool,
    ) -> Result<ScannedRows, StoreError> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut first = scan.first.max(1);
        let mut last = scan.last;
        while first <= last && found.len() < scan.max_rows {
            let chunk = RowScan {
                first,
                last,
                max_rows: CHUNK_ROWS.min(scan.max_rows - found.len()),
                ..*scan
            };
            let (rows, reached) = self.scan_chunk(&chunk)?;
            for row in rows {
                bytes += row.bytes;
                let is_over =
                    found.len() >= scan.max_rows || (bytes > scan.max_bytes && !found.is_empty());
                if is_over || !keep(&row) {
                    return Ok(ScannedRows { rows: found, is_complete: false });
                }
                found.push(row);
            }
            match (reached, scan.newest_first) {
                (None, _) => return Ok(ScannedRows { rows: found, is_complete: true }),
                (Some(reached), true) => last = reached.saturating_sub(1),
                (Some(reached), false) => first = reached + 1,
            }
        }
        Ok(ScannedRows { rows: found, is_complete: first > last })
    }

    /// Reads one chunk from the database and puts the newer rows in memory in their places. Also
    /// returns the last number that was looked at; `None` if that is the end.
    fn scan_chunk(
        &self,
        scan: &RowScan<'_>,
    ) -> Result<(Vec<NumberedRow>, Option<u64>), StoreError> {
        let mut rows: BTreeMap<u64, NumberedRow> = BTreeMap::new();
        let mut reached = Vec::new();
        let kinds: Vec<Option<&str>> = match scan.kinds {
            [] => vec![None],
            kinds => kinds.iter().map(|kind| Some(kind.as_str())).collect(),
        };
        for kind in kinds {
            let RowScan { first, last, newest_first, max_rows, max_bytes, .. } = *scan;
            let range = RowRange { first, last, kind, newest_first, max_rows, max_bytes };
            let stored = self.store.rows(&self.id, &range)?;
            let bytes: usize = stored.iter().map(|row| row.json.len()).sum();
            if stored.len() >= max_rows || bytes > max_bytes {
                reached.extend(stored.last().map(|row| row.number));
            }
            for row in stored.into_iter().filter(|row| !self.dirty.contains(&row.number)) {
                rows.insert(row.number, from_stored_row(&row)?);
            }
        }
        let mut waiting = Vec::new();
        let mut add = |number: &u64| {
            let row = self.rows.get(number).filter(|row| is_of_kind(row, scan.kinds));
            waiting.extend(row.map(|row| (*number, row)));
            waiting.len() < scan.max_rows
        };
        let range = scan.first..=scan.last;
        let has_all = match scan.newest_first {
            true => self.dirty.range(range).rev().all(&mut add),
            false => self.dirty.range(range).all(&mut add),
        };
        if !has_all {
            reached.extend(waiting.last().map(|(number, _)| *number));
        }
        // Only the part that each of the reads covers is certain.
        let reached =
            if scan.newest_first { reached.into_iter().max() } else { reached.into_iter().min() };
        let covered = match (reached, scan.newest_first) {
            (None, _) => scan.first..=scan.last,
            (Some(reached), true) => reached..=scan.last,
            (Some(reached), false) => scan.first..=reached,
        };
        for (number, row) in waiting.into_iter().filter(|(number, _)| covered.contains(number)) {
            let bytes = serde_json::to_vec(row).map_or(0, |json| json.len());
            rows.insert(number, NumberedRow { number, row: row.clone(), bytes });
        }
        let rows = rows.into_values().filter(|row| covered.contains(&row.number));
        Ok((if scan.newest_first { rows.rev().collect() } else { rows.collect() }, reached))
    }

    /// Visits the changes of files, those of the newest rows first; of one turn if it is named.
    /// Rows in memory count as they are.
    pub(super) fn visit_file_changes(
        &self,
        turn: Option<&str>,
        visit: &mut dyn FnMut(StoredFileChange),
    ) -> Result<(), StoreError> {
        let is_of_turn =
            |row: &TranscriptRow| turn.is_none_or(|turn| row.turn.as_deref() == Some(turn));
        let dirty = self
            .dirty
            .iter()
            .rev()
            .filter_map(|number| Some((*number, self.rows.get(number)?)));
        let dirty = dirty.filter(|(_, row)| is_of_turn(row));
        let mut waiting = dirty.flat_map(|(number, row)| to_stored_changes(number, row)).peekable();
        self.store.visit_file_changes(&self.id, turn, &mut |stored| {
            while let Some(newer) = waiting.next_if(|change| change.number > stored.number) {
                visit(newer);
            }
            // The database has an older revision of a row that waits to be written.
            if !self.dirty.contains(&stored.number) {
                visit(stored);
            }
        })?;
        waiting.for_each(visit);
        Ok(())
    }

    /// Returns the number of the last row that was created by this event or an earlier one.
    pub(super) fn find_created_by(&self, seq: u64) -> Result<Option<u64>, StoreError> {
        let mut low = 0;
        let mut high = self.count;
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let row = self.row(middle)?.ok_or_else(|| missing_row(middle))?;
            if created_at_seq(&row.id) <= seq { low = middle } else { high = middle - 1 }
        }
        Ok((low > 0).then_some(low))
    }

    /// Returns the number of the row with this id.
    pub(super) fn find_id(&self, id: &str) -> Result<Option<u64>, StoreError> {
        let mut candidate = self.find_created_by(created_at_seq(id))?;
        // One event may have created several rows.
        while let Some(number) = candidate {
            match self.row(number)? {
                Some(row) if row.id == id => return Ok(Some(number)),
                Some(row) if created_at_seq(&row.id) == created_at_seq(id) => {
                    candidate = number.checked_sub(1).filter(|number| *number > 0);
                }
                Some(_) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns one row.
    pub(super) fn row(&self, number: u64) -> Result<Option<TranscriptRow>, StoreError> {
        if let Some(row) = self.rows.get(&number) {
            return Ok(Some(row.clone()));
        }
        let scan = RowScan {
            first: number,
            last: number,
            kinds: &[],
            newest_first: false,
            max_rows: 1,
            max_bytes: usize::MAX,
        };
        Ok(self.scan(&scan)?.pop().map(|found| found.row))
    }

    /// Returns the numbers of rows with a higher revision, in their order; `None` if there are more
    /// than `max_rows`.
    pub(super) fn changed_after(
        &self,
        rev: u64,
        max_rows: usize,
    ) -> Result<Option<Vec<u64>>, StoreError> {
        let stored = self.store.changed_after(&self.id, rev, max_rows + 1)?;
        let mut numbers: BTreeSet<u64> = stored.into_iter().collect();
        let in_memory = self
            .dirty
            .iter()
            .filter(|number| self.rows.get(number).is_some_and(|row| row.rev > rev));
        numbers.extend(in_memory.take(max_rows + 1));
        Ok((numbers.len() <= max_rows).then(|| numbers.into_iter().collect()))
    }

    pub(super) fn find_key(&self, key: &RowKey) -> Result<Option<u64>, StoreError> {
        if let RowKey::Id(id) = key {
            return self.find_id(id);
        }
        let text = key.to_text();
        match self.keys.get(&text) {
            Some(number) => Ok(Some(*number)),
            None if self.has_all_keys => Ok(None),
            None => self.store.find_key(&self.id, &text),
        }
    }

    /// Returns a piece of a whole text. The changes must have been written.
    pub(super) fn text(
        &self,
        number: u64,
        part: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Option<TextSlice>, StoreError> {
        self.store.text(&self.id, number, part, offset, max_bytes)
    }

    /// Returns the bytes of this name. The changes must have been written.
    pub(super) fn blob(&self, name: &str) -> Result<Option<StoredBlob>, StoreError> {
        self.store.blob(&self.id, name)
    }

    fn note_failure(&mut self, error: StoreError) {
        self.failure.get_or_insert(error);
    }
}

impl RowStore for RowCache {
    fn push(&mut self, number: RowNumber, row: TranscriptRow) {
        self.count = self.count.max(number.0);
        self.dirty.insert(number.0);
        self.rows.insert(number.0, row);
    }

    fn row_mut(&mut self, number: RowNumber) -> Option<&mut TranscriptRow> {
        if !self.rows.contains_key(&number.0) {
            match self.row(number.0) {
                Ok(Some(row)) => {
                    self.rows.insert(number.0, row);
                }
                Ok(None) => self.note_failure(missing_row(number.0)),
                Err(error) => self.note_failure(error),
            }
        }
        let row = self.rows.get_mut(&number.0)?;
        self.dirty.insert(number.0);
        Some(row)
    }

    fn find(&mut self, key: &RowKey) -> Option<RowNumber> {
        let found = match self.find_key(key) {
            Ok(found) => found,
            Err(error) => {
                self.note_failure(error);
                None
            }
        };
        if let Some(number) = found.filter(|_| !matches!(key, RowKey::Id(_))) {
            self.keys.insert(key.to_text(), number);
        }
        found.map(RowNumber)
    }

    fn set_key(&mut self, key: RowKey, number: RowNumber) {
        // A row is found by its id without a name: ids are in the order of the rows.
        if matches!(key, RowKey::Id(_)) {
            return;
        }
        let text = key.to_text();
        self.keys.insert(text.clone(), number.0);
        self.dirty_keys.push((text, number.0));
    }

    fn set_whole_text(&mut self, number: RowNumber, part: &str, text: &str) {
        self.texts.retain(|change| change.number != number.0 || change.part != part);
        self.texts.push(TextChange {
            number: number.0,
            part: part.to_owned(),
            replaces: true,
            text: text.to_owned(),
        });
    }

    fn append_whole_text(&mut self, number: RowNumber, part: &str, text: &str) {
        match self
            .texts
            .iter_mut()
            .rev()
            .find(|change| change.number == number.0 && change.part == part)
        {
            Some(change) => change.text.push_str(text),
            None => self.texts.push(TextChange {
                number: number.0,
                part: part.to_owned(),
                replaces: false,
                text: text.to_owned(),
            }),
        }
    }

    fn put_blob(&mut self, blob: Blob) {
        let Blob { name, mime, bytes } = blob;
        if !self.blobs.iter().any(|known| known.name == name) {
            self.blobs.push(StoredBlob { name, mime, bytes });
        }
    }
}

fn is_of_kind(row: &TranscriptRow, kinds: &[String]) -> bool {
    kinds.is_empty() || kinds.iter().any(|kind| kind == row.body.kind())
}

/// Returns the seq in a row's id.
pub(super) fn created_at_seq(id: &str) -> u64 {
    let seq = id.split_once('-').map_or(id, |(_, seq)| seq);
    seq.split('.').next().and_then(|seq| seq.parse().ok()).unwrap_or_default()
}

fn to_stored_row(number: u64, row: &TranscriptRow) -> Result<StoredRow, StoreError> {
    let json = serde_json::to_vec(row)
        .map_err(|error| StoreError::Index(format!("row {number}: {error}")))?;
    let seq = created_at_seq(&row.id);
    let kind = row.body.kind().to_owned();
    let turn = row.turn.clone();
    Ok(StoredRow { number, seq, rev: row.rev, kind, turn, json })
}

pub(super) fn from_stored_row(stored: &StoredRow) -> Result<NumberedRow, StoreError> {
    let row = wharf_json::read_own(&stored.json).map_err(|error| {
        StoreError::Index(format!("row {} cannot be read: {error}", stored.number))
    })?;
    Ok(NumberedRow { number: stored.number, row, bytes: stored.json.len() })
}

/// The database has lost a row that its checkpoint counts.
pub(super) fn missing_row(number: u64) -> StoreError {
    StoreError::Index(format!("row {number} is missing"))
}
