//! The rows themselves.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::checksum::{check_gaps, damage, sum_row};
use super::row_lists::{KINDS, kind_value, list_rows};
use super::sessions::StoredSession;
use super::sqlite::{row_key, row_number};
use super::{RowRange, StoredRow};

pub(super) const CREATE_ROWS: &str = "
    CREATE TABLE row (
        key INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        rev INTEGER NOT NULL,
        kind TEXT NOT NULL,
        turn TEXT,
        json BLOB NOT NULL,
        checksum INTEGER NOT NULL
    );
";

/// The columns of a row that [`convert_row`] reads.
pub(super) const ROW_COLUMNS: &str = "key, seq, rev, kind, turn, json, checksum";

/// Writes rows and notes that their words are to be written.
pub(super) fn write_rows(
    transaction: &Transaction<'_>,
    session: i64,
    rows: &[StoredRow],
) -> rusqlite::Result<()> {
    let mut insert =
        transaction.prepare("INSERT OR REPLACE INTO row VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let mut note = transaction.prepare("INSERT OR IGNORE INTO unindexed VALUES (?1)")?;
    for row in rows {
        let seq = row.seq.cast_signed();
        let rev = row.rev.cast_signed();
        let key = row_key(session, row.number);
        let checksum = sum_row(key, row).finish();
        insert.execute(params![key, seq, rev, row.kind, row.turn, row.json, checksum])?;
        note.execute([key])?;
    }
    list_rows(transaction, session, rows)
}

/// Returns rows by their numbers.
pub(super) fn read_rows(
    connection: &Connection,
    session: &StoredSession,
    range: &RowRange<'_>,
) -> rusqlite::Result<Vec<StoredRow>> {
    let mut page = PageOfRows { range, rows: Vec::new(), bytes: 0 };
    match range.kind {
        Some(kind) => page.read_kind(connection, session, kind)?,
        None => page.read_all(connection, session)?,
    }
    Ok(page.rows)
}

/// Rows that are read up to a limit.
struct PageOfRows<'a> {
    range: &'a RowRange<'a>,
    rows: Vec<StoredRow>,
    bytes: usize,
}

impl PageOfRows<'_> {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.range.max_rows || self.bytes > self.range.max_bytes
    }

    fn push(&mut self, row: StoredRow) {
        self.bytes += row.json.len();
        self.rows.push(row);
    }

    fn read_all(
        &mut self,
        connection: &Connection,
        session: &StoredSession,
    ) -> rusqlite::Result<()> {
        let order = if self.range.newest_first { "DESC" } else { "ASC" };
        let mut select = connection.prepare(&format!(
            "SELECT {ROW_COLUMNS} FROM row WHERE key BETWEEN ?1 AND ?2 ORDER BY key {order}"
        ))?;
        let first = row_key(session.number, self.range.first);
        let last = row_key(session.number, self.range.last);
        let mut rows = select.query([first, last])?;
        while !self.is_full()
            && let Some(row) = rows.next()?
        {
            self.push(convert_row(row)?);
        }
        check_gaps(&self.rows, self.range, session.rows, self.is_full())
    }

    fn read_kind(
        &mut self,
        connection: &Connection,
        session: &StoredSession,
        kind: &str,
    ) -> rusqlite::Result<()> {
        let mut select =
            connection.prepare(&format!("SELECT {ROW_COLUMNS} FROM row WHERE key = ?1"))?;
        let numbers = self.range.first.max(1)..=self.range.last.min(session.rows);
        KINDS.visit(
            connection,
            session.number,
            numbers,
            self.range.newest_first,
            &mut |number, value| {
                if self.is_full() {
                    return Ok(false);
                }
                if value != kind_value(kind) {
                    return Ok(true);
                }
                let row =
                    select.query_row([row_key(session.number, number)], convert_row).optional()?;
                let row = row.filter(|row| kind_value(&row.kind) == value);
                let row = row
                    .ok_or_else(|| damage(format!("row {number} is missing or of another kind")))?;
                if row.kind == kind {
                    self.push(row);
                }
                Ok(!self.is_full())
            },
        )
    }
}

pub(super) fn convert_row(row: &Row<'_>) -> rusqlite::Result<StoredRow> {
    let key = row.get(0)?;
    let stored = StoredRow {
        number: row_number(key),
        seq: row.get::<_, i64>(1)?.cast_unsigned(),
        rev: row.get::<_, i64>(2)?.cast_unsigned(),
        kind: row.get(3)?,
        turn: row.get(4)?,
        json: row.get(5)?,
    };
    sum_row(key, &stored).check(row.get(6)?, "a row")?;
    Ok(stored)
}
