//! Checksums in the database of transcripts. SQLite finds damage only where its structure breaks: a
//! changed byte of a text, or a page that has lost some of its rows, reads like any other.

use rusqlite::ffi;

use super::{RowRange, StoredBlob, StoredRow, TranscriptCheckpoint};

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
        if self.finish() == stored {
            Ok(())
        } else {
            Err(damage(format!("{what} has a wrong checksum")))
        }
    }
}

/// The error that SQLite would return if it had noticed the damage.
pub(super) fn damage(what: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), Some(what))
}

pub(super) fn sum_checkpoint(checkpoint: &TranscriptCheckpoint) -> Checksum {
    let TranscriptCheckpoint { fold, epoch, seq, rows, state } = checkpoint;
    let sum = Checksum::default()
        .number(i64::from(*fold))
        .number(epoch.cast_signed())
        .number(seq.cast_signed());
    sum.number(rows.cast_signed()).bytes(state)
}

pub(super) fn sum_row(key: i64, row: &StoredRow) -> Checksum {
    let sum = Checksum::default()
        .number(key)
        .number(row.seq.cast_signed())
        .number(row.rev.cast_signed());
    let turn = row.turn.as_deref().unwrap_or_default();
    sum.bytes(row.kind.as_bytes()).bytes(turn.as_bytes()).bytes(&row.json)
}

pub(super) fn sum_blob(blob: &StoredBlob) -> Checksum {
    Checksum::default()
        .bytes(blob.name.as_bytes())
        .bytes(blob.mime.as_bytes())
        .bytes(&blob.bytes)
}

/// Checks that rows of a range are there without gaps. `is_cut` says that the range may have more
/// of them.
pub(super) fn check_gaps(
    found: &[StoredRow],
    range: &RowRange<'_>,
    count: u64,
    is_cut: bool,
) -> rusqlite::Result<()> {
    let last = range.last.min(count.max(found.iter().map(|row| row.number).max().unwrap_or(0)));
    let numbers = range.first.max(1)..=last;
    let is_in_place = |place: usize, number: u64| {
        let place = place as u64;
        number
            == if range.newest_first {
                numbers.end().saturating_sub(place)
            } else {
                numbers.start() + place
            }
    };
    let is_gapless = found.iter().enumerate().all(|(place, row)| is_in_place(place, row.number));
    let wanted = (numbers.end() + 1).saturating_sub(*numbers.start());
    if is_gapless && (is_cut || found.len() as u64 == wanted) {
        return Ok(());
    }
    Err(damage(format!(
        "{} of {wanted} rows from {} to {} are there",
        found.len(),
        numbers.start(),
        numbers.end()
    )))
}
