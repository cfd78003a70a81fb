//! An index of the changes of files: the rows of a session are many and large, those that changed a
//! file are found without them.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, Transaction, params};

use super::checksum::{Checksum, damage};
use super::sessions::StoredSession;
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

const COLUMNS: &str = "number, path, row, turn, kind, added, removed, exact, at";

/// Replaces the changes that rows stand for.
pub(super) fn write_file_changes(
    transaction: &Transaction<'_>,
    session: &mut StoredSession,
    rows: &[RowFileChanges],
) -> rusqlite::Result<()> {
    let mut select = transaction.prepare(&format!(
        "SELECT {COLUMNS} FROM file_change WHERE session = ?1 AND number = ?2"
    ))?;
    let mut delete =
        transaction.prepare("DELETE FROM file_change WHERE session = ?1 AND number = ?2")?;
    let mut insert = transaction
        .prepare("INSERT INTO file_change VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
    for row in rows {
        let mut former = select.query(params![session.number, row.number.cast_signed()])?;
        while let Some(former) = former.next()? {
            let sum = sum_file_change(session.number, &convert_file_change(former)?);
            session.file_change_sum = session.file_change_sum.wrapping_sub(sum);
        }
        delete.execute(params![session.number, row.number.cast_signed()])?;
        // Of several changes of one path the last one counts.
        let changes: BTreeMap<&str, &StoredFileChange> =
            row.changes.iter().map(|change| (change.path.as_str(), change)).collect();
        for change in changes.into_values() {
            let sum = sum_file_change(session.number, change);
            session.file_change_sum = session.file_change_sum.wrapping_add(sum);
            let StoredFileChange { number, path, row, turn, kind, added, removed, exact, at } =
                change;
            let number = number.cast_signed();
            let added = added.cast_signed();
            let removed = removed.cast_signed();
            insert.execute(params![
                session.number,
                number,
                path,
                row,
                turn,
                kind,
                added,
                removed,
                exact,
                at
            ])?;
        }
    }
    Ok(())
}

/// Visits the changes of a session, those of the newest rows first. All of them are read, those of
/// other turns too: together they show whether one is missing or damaged, which is known only at
/// the end.
pub(super) fn visit_file_changes(
    connection: &Connection,
    session: &StoredSession,
    turn: Option<&str>,
    visit: &mut dyn FnMut(StoredFileChange),
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(&format!(
        "SELECT {COLUMNS} FROM file_change WHERE session = ?1 ORDER BY number DESC, path"
    ))?;
    let mut rows = select.query([session.number])?;
    let mut sum = 0_u32;
    while let Some(row) = rows.next()? {
        let change = convert_file_change(row)?;
        sum = sum.wrapping_add(sum_file_change(session.number, &change));
        if turn.is_none_or(|turn| change.turn.as_deref() == Some(turn)) {
            visit(change);
        }
    }
    if sum == session.file_change_sum {
        return Ok(());
    }
    Err(damage("changes of files are missing or damaged".to_owned()))
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

fn sum_file_change(session: i64, change: &StoredFileChange) -> u32 {
    let StoredFileChange { number, path, row, turn, kind, added, removed, exact, at } = change;
    let sum = Checksum::default()
        .number(session)
        .number(number.cast_signed())
        .bytes(path.as_bytes());
    let sum = sum.bytes(row.as_bytes()).bytes(turn.as_deref().unwrap_or_default().as_bytes());
    let sum = sum.number(turn.is_some().into()).bytes(kind.as_bytes());
    let sum = sum
        .number(added.cast_signed())
        .number(removed.cast_signed())
        .number((*exact).into());
    sum.bytes(at.as_bytes()).finish()
}
