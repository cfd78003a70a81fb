//! The log store: append with epoch and expected seq, read, head; an index beside it; one host at a
//! time.
//!
//! It is *not* an event store: a record's body is opaque to it (one line of JSON, by convention of
//! its user).
//!
//! Invariant: an acknowledged append survives `kill -9`, an acknowledged sync survives power loss,
//! and a read returns only appended records.

pub mod conformance;
mod contract;
mod database;
mod error;
mod file;
mod lease;
mod memory;
mod set_aside;
mod sqlite;
mod transcript;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use error::{AppendError, StoreError};
pub use file::{FileEngine, FileOptions, MIN_SEGMENT_BYTES};
pub use lease::{FileLease, Lease, LeaseError, LostEpoch};
pub use memory::{Hostility, MemoryEngine};
pub use set_aside::{SET_ASIDE_SUFFIX, is_damage, open_regular_file, set_aside};
pub use sqlite::SqliteIndex;
pub use transcript::{
    FoundRow, FoundRows, IndexStep, RowFileChanges, RowRange, RowWords, SqliteTranscripts,
    StoredBlob, StoredFileChange, StoredRow, TextChange, TextSlice, TranscriptChanges,
    TranscriptCheckpoint, TranscriptProgress, TranscriptStore, WordPhrase, WordSearch,
};

/// The id of a log: a workspace's bucket and the session's name in it. Both are safe as directory
/// names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    bucket: Arc<str>,
    name: Arc<str>,
}

/// One record as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    pub seq: u64,
    pub epoch: u64,
    pub body: Bytes,
}

/// The end of a log. `seq` is 0 for an empty log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub epoch: u64,
    /// The size of the whole log on its medium. It grows with every append, so an index can see
    /// that it is behind.
    pub bytes: u64,
}

/// A log in a directory listing, without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStat {
    pub id: LogId,
    pub bytes: u64,
}

/// A range of a log that cannot be read and was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// File and byte range, for a person.
    pub place: String,
    /// The first and last lost seq.
    pub first: u64,
    pub last: u64,
    /// The epoch of the last readable record before the range, whichever page the range is on; 0 if
    /// there is none.
    pub epoch: u64,
}

/// Records of a read, in order. `damage` lists the gaps between them.
#[derive(Clone, Debug, Default)]
pub struct RecordPage {
    pub records: Vec<LogRecord>,
    pub damage: Vec<DamagedRange>,
}

/// The repairs made when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Bytes of a torn last record that were cut off. They are kept in a file beside the log and
    /// never read as data.
    pub torn_bytes: u64,
}

/// Called when a sync is done, on the engine's own thread, so it must be quick.
pub type OnSynced = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

/// A storage engine: creates, opens, lists and removes logs.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Creates an empty log. Fails if the log exists.
    fn create(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError>;
    /// Opens a log and cuts a torn tail. Opening one id twice returns the same log.
    fn open(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError>;
    fn list(&self) -> Result<Vec<LogStat>, StoreError>;
    /// Deletes the log and everything beside it. Succeeds if there is no such log.
    fn remove(&self, id: &LogId) -> Result<(), StoreError>;
    /// Checks that logs can be listed and a few bytes written and synced at this moment. Takes as
    /// long as a sync.
    fn probe(&self) -> Result<(), StoreError>;
}

/// One session's log. One writer (the session's task), any number of readers.
pub trait Log: Send + Sync + fmt::Debug {
    fn head(&self) -> Head;
    /// Returns the repairs made when it was opened.
    fn mended(&self) -> Mended;
    /// Appends all of `bodies` as `expected + 1 …` or none of them. The records are *written* when
    /// it returns.
    fn append(&self, epoch: u64, expected: u64, bodies: &[Bytes]) -> Result<Head, AppendError>;
    /// Appends like [`Log::append`], but uses the reserve if space runs out, for records that must
    /// be written even then. While the reserve is incomplete, an ordinary append fails for lack of
    /// space.
    fn append_from_reserve(
        &self,
        epoch: u64,
        expected: u64,
        bodies: &[Bytes],
    ) -> Result<Head, AppendError>;
    /// Makes everything appended so far survive power loss, then calls back with the last safe seq.
    /// Simultaneous calls share one fsync.
    fn sync(&self, done: OnSynced);
    /// Returns records from `from` on, up to `max_bytes`, but at least one if there is one.
    fn read(&self, from: u64, max_bytes: usize) -> Result<RecordPage, StoreError>;
}

/// A row derived from a log, so that a listing need not open it. Never authoritative: it can be
/// deleted at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    pub id: LogId,
    /// The last seq that this row covers.
    pub seq: u64,
    /// [`Head::bytes`] at that seq: a longer log has newer records.
    pub bytes: u64,
    /// The seq of the last snapshot, where a restore can begin.
    pub snapshot: Option<u64>,
    /// The session's descriptor, opaque to the store.
    pub summary: Bytes,
}

pub trait Index: Send + Sync + fmt::Debug {
    fn put(&self, rows: &[IndexRow]) -> Result<(), StoreError>;
    fn get(&self, id: &LogId) -> Result<Option<IndexRow>, StoreError>;
    fn all(&self) -> Result<Vec<IndexRow>, StoreError>;
    fn remove(&self, id: &LogId) -> Result<(), StoreError>;
}

impl LogId {
    /// Returns `None` if either part could leave its directory or confuse a listing: allowed are
    /// ASCII letters, digits, `-`, `_` and `.` (not first), 1 to 128 characters.
    pub fn new(bucket: &str, name: &str) -> Option<Self> {
        let fits = |part: &str| {
            (1..=128).contains(&part.len())
                && !part.starts_with('.')
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        (fits(bucket) && fits(name)).then(|| Self { bucket: bucket.into(), name: name.into() })
    }

    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.name)
    }
}
