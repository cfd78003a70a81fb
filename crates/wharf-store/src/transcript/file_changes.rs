//! An index of the changes of files: the rows of a session are many and large, those that changed a file are found without them.

use rusqlite::{Connection, Row, Transaction, params};

use super::{RowFileChanges, StoredFileChange};

pub(super) const CREATE_FILE_CHANGES: &str = "
    CREATE TABLE file_change (
        session INTEGER NOT NULL,
        number INTEGER NOT NULL,
        path TEXT NOT NULL,
        row TEXT NOT NULL,
        turn TEXT,
        kind TEXT NOT NULL,
        added INTEGER NOT NULL,
        removed INTEGER NOT NULL,
        exact INTEGER NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (session, number, path)
    ) WITHOUT ROWID;
";

/// Replaces the changes that rows stand for.
pub(super) fn write_file_changes(
    transaction: &Transaction<'_>,
    session: i64,
    rows: &[RowFileChanges],
) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare("DELETE FROM file_change WHERE session = ?1 AND number = ?2")?;
    let mut insert =
        transaction.prepare("INSERT OR REPLACE INTO file_change VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    for row in rows {
        delete.execute(params![session, row.number.cast_signed()])?;
        for change in &row.changes {
            let StoredFileChange { number, path, row, turn, kind, added, removed, exact, at } = change;
            let (number, added, removed) = (number.cast_signed(), added.cast_signed(), removed.cast_signed());
            insert.execute(params![session, number, path, row, turn, kind, added, removed, exact, at])?;
        }
    }
    Ok(())
}

/// Visits the changes of a session, those of the newest rows first.
pub(super) fn visit_file_changes(
    connection: &Connection,
    session: i64,
    turn: Option<&str>,
    visit: &mut dyn FnMut(StoredFileChange),
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(
        "SELECT number, path, row, turn, kind, added, removed, exact, at FROM file_change
         WHERE session = ?1 AND (?2 IS NULL OR turn = ?2) ORDER BY number DESC, path",
    )?;
    let mut rows = select.query(params![session, turn])?;
    while let Some(row) = rows.next()? {
        visit(convert_file_change(row)?);
    }
    Ok(())
}

fn convert_file_change(row: &Row<'_>) -> rusqlite::Result<StoredFileChange> {
    Ok(StoredFileChange {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        path: row.get(1)?,
        row: row.get(2)?,
        turn: row.get(3)?,
        kind: row.get(4)?,
        added: row.get::<_, i64>(5)?.cast_unsigned(),
        removed: row.get::<_, i64>(6)?.cast_unsigned(),
        exact: row.get(7)?,
        at: row.get(8)?,
    })
}
