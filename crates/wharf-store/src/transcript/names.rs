//! The names of rows, by which later events find them.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::checksum::{Checksum, damage};
use super::sessions::StoredSession;

pub(super) const CREATE_NAMES: &str = "
    CREATE TABLE name (
        session INTEGER NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, name)
    ) WITHOUT ROWID;
";

/// Gives names to rows. A later row takes a name over.
pub(super) fn write_names(
    transaction: &Transaction<'_>,
    session: &mut StoredSession,
    names: &[(String, u64)],
) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT OR REPLACE INTO name VALUES (?1, ?2, ?3, ?4)")?;
    for (name, number) in names {
        let former = find_number(transaction, session.number, name)?;
        let former = former.map_or(0, |former| sum_name(session.number, name, former).finish());
        let checksum = sum_name(session.number, name, *number).finish();
        insert.execute(params![session.number, name, number.cast_signed(), checksum])?;
        session.name_sum = session.name_sum.wrapping_sub(former).wrapping_add(checksum);
    }
    Ok(())
}

/// Returns the number of the row with this name. If there is none, the names may have to be
/// checked.
pub(super) fn find_number(
    connection: &Connection,
    session: i64,
    name: &str,
) -> rusqlite::Result<Option<u64>> {
    let mut select =
        connection.prepare("SELECT number, checksum FROM name WHERE session = ?1 AND name = ?2")?;
    let convert = |row: &rusqlite::Row<'_>| {
        let number = row.get::<_, i64>(0)?.cast_unsigned();
        sum_name(session, name, number).check(row.get(1)?, "a name")?;
        Ok(number)
    };
    select.query_row(params![session, name], convert).optional()
}

/// Reads all names of a session and fails if one of them is missing, damaged or not found by its
/// name: a damaged neighbour in the tree leads a lookup astray. Takes some 0.1 s for 100,000 names.
pub(super) fn check_names(
    connection: &Connection,
    session: &StoredSession,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(
        "SELECT name, number, EXISTS (SELECT 1 FROM name AS found WHERE found.session = ?1 AND found.name = name.name)
         FROM name WHERE session = ?1",
    )?;
    let mut rows = select.query([session.number])?;
    let mut sum = 0_u32;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str()?;
        let number = row.get::<_, i64>(1)?.cast_unsigned();
        if !row.get::<_, bool>(2)? {
            return Err(damage("a name of a row is not found".to_owned()));
        }
        sum = sum.wrapping_add(sum_name(session.number, name, number).finish());
    }
    if sum == session.name_sum {
        Ok(())
    } else {
        Err(damage("names of rows are missing or damaged".to_owned()))
    }
}

fn sum_name(session: i64, name: &str, number: u64) -> Checksum {
    Checksum::default()
        .number(session)
        .bytes(name.as_bytes())
        .number(number.cast_signed())
}
