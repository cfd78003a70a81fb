//! The errors of the store, by the question that a caller asks.

use std::io;

use crate::LogId;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no log {0}")]
    NotFound(LogId),
    #[error("log {0} exists already")]
    Exists(LogId),
    #[error(
        "log {id} was written in format {found}; this version of wharf reads up to {known}: use a newer wharf"
    )]
    Newer { id: LogId, found: u32, known: u32 },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("index: {0}")]
    Index(String),
    /// The database of transcripts was deleted and created again: rows that were written before are
    /// gone.
    #[error("the database of transcripts was made anew")]
    Recreated,
}

impl StoreError {
    /// Returns true if there was no space: on the disk, in the quota, or under the limit for a
    /// file.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if crate::file::NO_SPACE_ERRORS.contains(&source.kind()))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer appended: this writer's view of the log is out of date.
    #[error("expected the log to end at {expected}, it ends at {actual}")]
    Conflict { expected: u64, actual: u64 },
    /// A newer host owns the log.
    #[error("epoch {ours} is stale: the log is at epoch {current}")]
    StaleEpoch { ours: u64, current: u64 },
    /// No space is left. The log has no record of the batch; appends may go on when there is enough
    /// space again.
    #[error("no space left for {0}")]
    Full(LogId),
    /// The file system is read-only. The log has no record of the batch; appends may go on if that
    /// changes.
    #[error("the file system of {0} is read-only")]
    ReadOnly(LogId),
    #[error(transparent)]
    Store(#[from] StoreError),
}
