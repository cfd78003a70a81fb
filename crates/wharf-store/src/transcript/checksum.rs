//! Checksums in the database of transcripts. SQLite finds damage only where its structure breaks: a changed byte of a text, or a
//! page that has lost some of its rows, reads like any other.

use rusqlite::ffi;

/// Adds up the bytes that are stored together.
#[derive(Debug, Default)]
pub(super) struct Checksum(crc32fast::Hasher);

impl Checksum {
    pub(super) fn number(mut self, number: i64) -> Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// Adds bytes with their length, so that they cannot run into their neighbours.
    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let mut after = self.number(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        after.0.update(bytes);
        after
    }

    pub(super) fn finish(self) -> u32 {
        self.0.finalize()
    }

    /// Fails if this is not the checksum that was stored with the bytes.
    pub(super) fn check(self, stored: u32, what: &str) -> rusqlite::Result<()> {
        if self.finish() == stored { Ok(()) } else { Err(damage(format!("{what} has a wrong checksum"))) }
    }
}

/// The error that SQLite would return if it had noticed the damage.
pub(super) fn damage(what: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what))
}
