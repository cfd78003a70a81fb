//! The table of sessions: the checkpoint of each transcript, and what its rows and indexes must add
//! up to.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::TranscriptCheckpoint;
use super::checksum::{Checksum, sum_checkpoint};
use crate::LogId;

/// The sums come before the state, which may be large, so that they are read without it.
pub(super) const CREATE_SESSIONS: &str = "
    CREATE TABLE session (
        session INTEGER PRIMARY KEY,
        bucket TEXT NOT NULL,
        name TEXT NOT NULL,
        fold INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        names INTEGER NOT NULL,
        file_changes INTEGER NOT NULL,
        sums_checksum INTEGER NOT NULL,
        state BLOB NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX session_by_name ON session (bucket, name);
    CREATE INDEX session_progress ON session (bucket, name, fold, seq);
";

const SELECT_SESSION: &str =
    "SELECT session, rows, names, file_changes, sums_checksum, fold, epoch, seq, state, checksum
     FROM session INDEXED BY session_by_name WHERE bucket = ?1 AND name = ?2";

/// A transcript as its checkpoint describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredSession {
    /// The number under which its rows are stored.
    pub(super) number: i64,
    /// The number of its rows.
    pub(super) rows: u64,
    /// The sum of the checksums of all names of rows.
    pub(super) name_sum: u32,
    /// The sum of the checksums of all changes of files.
    pub(super) file_change_sum: u32,
}

impl StoredSession {
    /// Returns the checksum that is stored beside the sums. It covers the session's id: a damaged
    /// index may lead to the row of another session.
    fn checksum(&self, id: &LogId) -> Checksum {
        let Self { number, rows, name_sum, file_change_sum } = *self;
        let sum = Checksum::default()
            .number(number)
            .bytes(id.bucket().as_bytes())
            .bytes(id.name().as_bytes());
        sum.number(rows.cast_signed())
            .number(name_sum.into())
            .number(file_change_sum.into())
    }
}

/// Returns the session with this id.
pub(super) fn find_session(
    connection: &Connection,
    id: &LogId,
) -> rusqlite::Result<Option<StoredSession>> {
    let mut select = connection.prepare(SELECT_SESSION)?;
    select
        .query_row(params![id.bucket(), id.name()], |row| convert_session(id, row))
        .optional()
}

/// Returns the checkpoint of the session with this id.
pub(super) fn find_checkpoint(
    connection: &Connection,
    id: &LogId,
) -> rusqlite::Result<Option<TranscriptCheckpoint>> {
    let mut select = connection.prepare(SELECT_SESSION)?;
    let convert = |row: &Row<'_>| {
        let checkpoint = TranscriptCheckpoint {
            fold: row.get(5)?,
            epoch: row.get::<_, i64>(6)?.cast_unsigned(),
            seq: row.get::<_, i64>(7)?.cast_unsigned(),
            rows: convert_session(id, row)?.rows,
            state: row.get(8)?,
        };
        sum_checkpoint(&checkpoint).check(row.get(9)?, "a checkpoint")?;
        Ok(checkpoint)
    };
    select.query_row(params![id.bucket(), id.name()], convert).optional()
}

fn convert_session(id: &LogId, row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    let session = StoredSession {
        number: row.get(0)?,
        rows: row.get::<_, i64>(1)?.cast_unsigned(),
        name_sum: row.get(2)?,
        file_change_sum: row.get(3)?,
    };
    session.checksum(id).check(row.get(4)?, "a session")?;
    Ok(session)
}

/// Returns a new session without rows. It is stored by [`put_checkpoint`].
pub(super) fn new_session(transaction: &Transaction<'_>) -> rusqlite::Result<StoredSession> {
    let last: Option<i64> =
        transaction.query_row("SELECT max(session) FROM session", [], |row| row.get(0))?;
    Ok(StoredSession {
        number: last.unwrap_or_default() + 1,
        rows: 0,
        name_sum: 0,
        file_change_sum: 0,
    })
}

/// Writes a checkpoint with the sums that belong to it.
pub(super) fn put_checkpoint(
    transaction: &Transaction<'_>,
    id: &LogId,
    session: &StoredSession,
    checkpoint: &TranscriptCheckpoint,
) -> rusqlite::Result<()> {
    let TranscriptCheckpoint { fold, epoch, seq, rows, state } = checkpoint;
    let StoredSession { number, name_sum, file_change_sum, .. } = *session;
    let sums_checksum = StoredSession { rows: *rows, ..*session }.checksum(id).finish();
    let checksum = sum_checkpoint(checkpoint).finish();
    let mut put = transaction.prepare(
        "INSERT INTO session (session, bucket, name, fold, epoch, seq, rows, names, file_changes, sums_checksum, state, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT (session)
         DO UPDATE SET fold = ?4, epoch = ?5, seq = ?6, rows = ?7, names = ?8, file_changes = ?9, sums_checksum = ?10,
             state = ?11, checksum = ?12",
    )?;
    put.execute(params![
        number,
        id.bucket(),
        id.name(),
        fold,
        epoch.cast_signed(),
        seq.cast_signed(),
        rows.cast_signed(),
        name_sum,
        file_change_sum,
        sums_checksum,
        state,
        checksum
    ])?;
    Ok(())
}
