//! The log: bytes that stay. Append with epoch and expected seq, read, head; an index beside it; one host at a time.
//!
//! It is *not* an event store: a record's body is opaque to it (one line of JSON, by convention of its user).
//!
//! Invariant: what an append acknowledged is there after `kill -9`; what a sync acknowledged is there after power loss;
//! nothing that was not appended is ever read back.

pub mod conformance;
mod contract;
mod error;
mod file;
mod lease;
mod memory;
mod sqlite;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use error::{AppendError, StoreError};
pub use file::{FileEngine, FileOptions, SEGMENT_MIN};
pub use lease::{FileLease, Lease, LeaseError};
pub use memory::{Hostility, MemoryEngine};
pub use sqlite::SqliteIndex;

/// Which log: a workspace's bucket and the session's name in it. Both are safe as directory names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    bucket: Arc<str>,
    name: Arc<str>,
}

/// One record as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub seq: u64,
    pub epoch: u64,
    pub body: Bytes,
}

/// How far a log goes. `seq` 0: nothing in it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub epoch: u64,
    /// Size of the whole log on its medium; grows with every append, so an index can see that it is behind.
    pub bytes: u64,
}

/// A log as the engine's directory shows it, without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStat {
    pub id: LogId,
    pub bytes: u64,
}

/// A stretch of a log that cannot be read: found, named, and skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it is, for a person: file and byte range.
    pub place: String,
    /// The first and last seq that are lost.
    pub first: u64,
    pub last: u64,
}

/// Records from a read, in order. `damage` tells of the gaps between them, if there are any.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub records: Vec<Record>,
    pub damage: Vec<Damage>,
}

/// What opening a log had to mend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Bytes of a torn last record that were cut off (kept beside the log as a file, never as data).
    pub torn_bytes: u64,
}

/// Called when a sync is done, from the engine's own thread: must be quick.
pub type OnSynced = Box<dyn FnOnce(Result<u64, StoreError>) + Send>;

/// Where logs are.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Makes an empty log; an error if there is one already.
    fn create(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError>;
    /// Opens a log, cutting a torn tail. Two opens of one id give the same log.
    fn open(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError>;
    fn list(&self) -> Result<Vec<LogStat>, StoreError>;
    /// Deletes the log and everything beside it. Removing what is not there succeeds.
    fn remove(&self, id: &LogId) -> Result<(), StoreError>;
    /// Tries whether logs can be listed, and a few bytes be written and synced, at this moment. Takes as long as a sync.
    fn probe(&self) -> Result<(), StoreError>;
}

/// One session's log. One writer (the session's task), any number of readers.
pub trait Log: Send + Sync + fmt::Debug {
    fn head(&self) -> Head;
    /// What opening it had to mend.
    fn mended(&self) -> Mended;
    /// Appends all of `bodies` as `expected + 1 …` or none of them. *Written* when it returns.
    fn append(&self, epoch: u64, expected: u64, bodies: &[Bytes]) -> Result<Head, AppendError>;
    /// As [`Log::append`], and where there is no space, out of what was kept for that: for what must be written even
    /// then. While that reserve is not whole, an ordinary append finds no space.
    fn append_from_reserve(&self, epoch: u64, expected: u64, bodies: &[Bytes]) -> Result<Head, AppendError>;
    /// Makes everything appended so far survive power loss, then calls back with the seq that is safe.
    /// Calls that come together share one fsync.
    fn sync(&self, done: OnSynced);
    /// Records from `from` on, until `max_bytes` are reached (always at least one if there is one).
    fn read(&self, from: u64, max_bytes: usize) -> Result<Page, StoreError>;
}

/// What is derived from a log, kept so that a listing need not open it. Never the truth: can be deleted at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    pub id: LogId,
    /// How far into the log this row looks.
    pub seq: u64,
    /// [`Head::bytes`] at that point: a log that is longer than this has more to tell.
    pub bytes: u64,
    /// The seq of the last snapshot, where a restore can begin.
    pub snapshot: Option<u64>,
    /// The descriptor, opaque here.
    pub summary: Bytes,
}

pub trait Index: Send + Sync + fmt::Debug {
    fn put(&self, rows: &[IndexRow]) -> Result<(), StoreError>;
    fn get(&self, id: &LogId) -> Result<Option<IndexRow>, StoreError>;
    fn all(&self) -> Result<Vec<IndexRow>, StoreError>;
    fn remove(&self, id: &LogId) -> Result<(), StoreError>;
}

impl LogId {
    /// `None` if either part could leave its directory or confuse a listing: allowed are ASCII letters, digits,
    /// `-`, `_` and `.` (not first), 1 to 128 characters.
    pub fn new(bucket: &str, name: &str) -> Option<Self> {
        let fits = |part: &str| {
            (1..=128).contains(&part.len())
                && !part.starts_with('.')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
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
