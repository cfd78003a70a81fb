//! Where the fold keeps its rows: in memory, or in the derived database.

use serde::{Deserialize, Serialize};
use wharf_api::TranscriptRow;

/// The place of a row in its transcript, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RowNumber(pub u64);

/// A name by which the fold finds a row again: late updates name a tool call or a message, not a
/// row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// A tool call of the agent's n-th start. Agents use their ids again after a restart.
    ToolCall { start: u64, id: String },
    /// A message that the agent replaces or extends by its id.
    Message { start: u64, id: String },
    /// The turn of a prompt.
    Turn { prompt: String },
    /// A row by its id.
    Id(String),
}

impl RowKey {
    /// Returns the key as text, for a store that needs one.
    pub fn to_text(&self) -> String {
        match self {
            Self::ToolCall { start, id } => format!("tool:{start}:{id}"),
            Self::Message { start, id } => format!("message:{start}:{id}"),
            Self::Turn { prompt } => format!("turn:{prompt}"),
            Self::Id(id) => format!("id:{id}"),
        }
    }
}

/// Bytes that rows refer to by their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The name by which rows refer to it: `b3_` and the BLAKE3 hash in hex.
    pub name: String,
    /// The type by the first bytes.
    pub mime: String,
    pub bytes: Vec<u8>,
}

/// The rows of one session. A store that fails to read returns `None`, keeps its error for its
/// owner, and stays usable.
pub trait RowStore {
    /// Adds the next row.
    fn push(&mut self, number: RowNumber, row: TranscriptRow);

    /// Returns a row to be changed.
    fn row_mut(&mut self, number: RowNumber) -> Option<&mut TranscriptRow>;

    /// Returns the row of this name.
    fn find(&mut self, key: &RowKey) -> Option<RowNumber>;

    /// Names a row. A later row takes the name over.
    fn set_key(&mut self, key: RowKey, number: RowNumber);

    /// Replaces the whole text of a part that is too large for its row.
    fn set_whole_text(&mut self, number: RowNumber, part: &str, text: &str);

    /// Appends to the whole text of a part that is too large for its row.
    fn append_whole_text(&mut self, number: RowNumber, part: &str, text: &str);

    /// Keeps bytes that rows refer to.
    fn put_blob(&mut self, blob: Blob);
}
