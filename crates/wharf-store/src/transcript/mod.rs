//! The derived database of transcripts: the rows of every session, with the point of the log up to
//! which they were made.
//!
//! It is *not* authoritative: everything in it can be made again from the logs. A row is JSON that
//! the store does not read, besides the few values by which rows are found.

mod checkpointer;
mod checksum;
mod file_changes;
mod names;
mod row_lists;
mod rows;
mod sessions;
mod sqlite;
mod texts;
mod word_index;

use std::fmt;

use crate::{LogId, StoreError};

pub use sqlite::SqliteTranscripts;

/// A row of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// Its place in the transcript, from 1 without gaps.
    pub number: u64,
    /// The seq of the event that created it. It never falls from one row to the next.
    pub seq: u64,
    /// The seq of the event that changed it last.
    pub rev: u64,
    pub kind: String,
    /// The turn that it belongs to.
    pub turn: Option<String>,
    pub json: Vec<u8>,
}

/// How far a log was read, and the state of its reader there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptCheckpoint {
    /// The number of the rules by which the rows were made.
    pub fold: u32,
    pub epoch: u64,
    pub seq: u64,
    /// The rows up to this point.
    pub rows: u64,
    /// Opaque to the store.
    pub state: Vec<u8>,
}

/// A change of the whole text of a part that is too large for its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChange {
    pub number: u64,
    pub part: String,
    /// True if the text replaces what there was, false if it is appended.
    pub replaces: bool,
    pub text: String,
}

/// The words of a row, by which it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWords {
    /// When the row was created, in milliseconds since 1970. Newer rows are found first.
    pub at_millis: u64,
    /// Separated by spaces. The store compares them as they are.
    pub words: String,
}

/// Some work on the index of words.
#[derive(Clone, Copy)]
pub struct IndexStep<'a> {
    /// Returns the words of a row. A row without words is not found.
    pub read_words: &'a dyn Fn(&StoredRow) -> RowWords,
    pub max_rows: usize,
    /// Stops after the row that goes beyond it.
    pub max_bytes: usize,
}

impl fmt::Debug for IndexStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_rows, max_bytes, .. } = self;
        f.debug_struct("IndexStep")
            .field("max_rows", max_rows)
            .field("max_bytes", max_bytes)
            .finish_non_exhaustive()
    }
}

/// Words that follow one another in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordPhrase {
    pub words: Vec<String>,
    /// True if the last word may go on.
    pub is_prefix: bool,
}

/// Selects rows of all transcripts by their words.
#[derive(Clone, Copy)]
pub struct WordSearch<'a> {
    /// A row must have all of them.
    pub phrases: &'a [WordPhrase],
    /// Only rows of these kinds; empty for all.
    pub kinds: &'a [String],
    /// Only rows that were made by these rules.
    pub fold: u32,
    /// The transcripts that can be selected, if that is known beforehand. A few of them are found
    /// without looking at others.
    pub only: Option<&'a [LogId]>,
    /// Returns true for the transcripts whose rows are wanted.
    pub is_selected: &'a dyn Fn(&LogId) -> bool,
    /// The `next` of the page before.
    pub before: Option<u64>,
    pub max_rows: usize,
    /// The rows with these words that are looked at, those of other transcripts among them.
    pub max_looked_at: usize,
}

impl fmt::Debug for WordSearch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordSearch")
            .field("fold", &self.fold)
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

/// A row that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRow {
    pub id: LogId,
    pub row: StoredRow,
}

/// The rows that a search found, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRows {
    pub rows: Vec<FoundRow>,
    /// The place in the index before which older rows may be found; `None` if all were looked at.
    pub next: Option<u64>,
}

/// How far a transcript goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptProgress {
    pub id: LogId,
    pub fold: u32,
    /// The last event that its rows cover.
    pub seq: u64,
    /// True if the index has the words of all its rows.
    pub is_indexed: bool,
}

/// Bytes that rows refer to by their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    pub name: String,
    pub mime: String,
    pub bytes: Vec<u8>,
}

/// A file that a row has changed, for the index of changed files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFileChange {
    /// The row's place in the transcript.
    pub number: u64,
    pub path: String,
    /// The row's id.
    pub row: String,
    /// The turn that the row belongs to.
    pub turn: Option<String>,
    pub kind: String,
    pub added: u64,
    pub removed: u64,
    pub exact: bool,
    pub at: String,
}

/// All files that one row has changed. They replace those that were stored for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFileChanges {
    pub number: u64,
    pub changes: Vec<StoredFileChange>,
}

/// All that changed since the last checkpoint of a transcript. It is written as a whole or not at
/// all.
#[derive(Clone, Debug)]
pub struct TranscriptChanges {
    /// The generation of the store that has the rows before these.
    pub generation: u64,
    pub checkpoint: TranscriptCheckpoint,
    pub rows: Vec<StoredRow>,
    pub file_changes: Vec<RowFileChanges>,
    pub keys: Vec<(String, u64)>,
    pub texts: Vec<TextChange>,
    pub blobs: Vec<StoredBlob>,
}

/// Selects rows by their numbers.
#[derive(Clone, Copy, Debug)]
pub struct RowRange<'a> {
    pub first: u64,
    pub last: u64,
    /// Only rows of this kind.
    pub kind: Option<&'a str>,
    /// True to begin with the last row.
    pub newest_first: bool,
    pub max_rows: usize,
    /// Stops after the row that goes beyond it.
    pub max_bytes: usize,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSlice {
    pub text: String,
    /// Where the piece begins: at the offset that was asked for, or up to three bytes before it,
    /// where its character does.
    pub offset: u64,
    /// The bytes of the whole text.
    pub total: u64,
}

/// Stores the transcripts of all sessions. If a call fails because the database is damaged, the
/// store deletes everything and creates the database again. Each transcript then has to be made
/// again from its log.
pub trait TranscriptStore: Send + Sync + fmt::Debug {
    /// Counts how often everything was deleted. Rows of an earlier generation are gone.
    fn generation(&self) -> u64;
    fn checkpoint(&self, id: &LogId) -> Result<Option<TranscriptCheckpoint>, StoreError>;
    /// Returns how far each transcript goes.
    fn progress(&self) -> Result<Vec<TranscriptProgress>, StoreError>;
    /// Fails with [`StoreError::Recreated`] if the changes follow rows of an earlier generation.
    fn write(&self, id: &LogId, changes: &TranscriptChanges) -> Result<(), StoreError>;
    fn rows(&self, id: &LogId, range: &RowRange<'_>) -> Result<Vec<StoredRow>, StoreError>;
    /// Returns the numbers of rows with a higher revision, in their order. Stops at `max_rows`.
    fn changed_after(&self, id: &LogId, rev: u64, max_rows: usize) -> Result<Vec<u64>, StoreError>;
    /// Visits the changes of files, those of the newest rows first; of one turn if it is named. If
    /// it fails, some of them may be wrong.
    fn visit_file_changes(
        &self,
        id: &LogId,
        turn: Option<&str>,
        visit: &mut dyn FnMut(StoredFileChange),
    ) -> Result<(), StoreError>;
    /// Returns the number of the row with this name. The first name that is not found costs a check
    /// of all names.
    fn find_key(&self, id: &LogId, key: &str) -> Result<Option<u64>, StoreError>;
    /// Returns at most `max_bytes` of a text, or `None` if there is no such text.
    fn text(
        &self,
        id: &LogId,
        number: u64,
        part: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Option<TextSlice>, StoreError>;
    /// Writes the words of some rows that were written after theirs. Returns true if there may be
    /// more such rows.
    fn index_some_rows(&self, id: &LogId, step: &IndexStep<'_>) -> Result<bool, StoreError>;
    /// Returns rows of all transcripts by their words, the newest first. Words that wait to be
    /// written are not found.
    fn search(&self, search: &WordSearch<'_>) -> Result<FoundRows, StoreError>;
    fn blob(&self, id: &LogId, name: &str) -> Result<Option<StoredBlob>, StoreError>;
    /// Deletes all that there is of a transcript. Succeeds if there is nothing.
    fn remove(&self, id: &LogId) -> Result<(), StoreError>;
}
