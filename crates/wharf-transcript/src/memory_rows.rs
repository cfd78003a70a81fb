//! Rows in memory: for exports, for tests and for short histories.

use std::collections::BTreeMap;

use wharf_api::TranscriptRow;

use crate::{Blob, RowKey, RowNumber, RowStore};

/// All rows of one session in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryRows {
    rows: Vec<TranscriptRow>,
    keys: BTreeMap<RowKey, RowNumber>,
    texts: BTreeMap<(RowNumber, String), String>,
    blobs: BTreeMap<String, Blob>,
}

impl MemoryRows {
    /// Returns the rows in their order.
    pub fn rows(&self) -> &[TranscriptRow] {
        &self.rows
    }

    /// Returns the whole text of a part that is too large for its row.
    pub fn whole_text(&self, number: RowNumber, part: &str) -> Option<&str> {
        self.texts.get(&(number, part.to_owned())).map(String::as_str)
    }

    /// Returns the bytes that rows refer to by this name.
    pub fn blob(&self, name: &str) -> Option<&Blob> {
        self.blobs.get(name)
    }
}

impl RowStore for MemoryRows {
    fn push(&mut self, number: RowNumber, row: TranscriptRow) {
        debug_assert_eq!(number.0, self.rows.len() as u64 + 1, "rows are added in order");
        self.rows.push(row);
    }

    fn row_mut(&mut self, number: RowNumber) -> Option<&mut TranscriptRow> {
        let index = usize::try_from(number.0.checked_sub(1)?).ok()?;
        self.rows.get_mut(index)
    }

    fn find(&mut self, key: &RowKey) -> Option<RowNumber> {
        self.keys.get(key).copied()
    }

    fn set_key(&mut self, key: RowKey, number: RowNumber) {
        self.keys.insert(key, number);
    }

    fn set_whole_text(&mut self, number: RowNumber, part: &str, text: &str) {
        self.texts.insert((number, part.to_owned()), text.to_owned());
    }

    fn append_whole_text(&mut self, number: RowNumber, part: &str, text: &str) {
        self.texts.entry((number, part.to_owned())).or_default().push_str(text);
    }

    fn put_blob(&mut self, blob: Blob) {
        self.blobs.insert(blob.name.clone(), blob);
    }
}
