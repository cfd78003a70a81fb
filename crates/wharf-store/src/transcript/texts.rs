//! Whole texts of parts that are too large for their rows, in chunks, so that a page of a long text
//! reads little.

use rusqlite::{OptionalExtension, Transaction, params};

use super::checksum::{Checksum, damage};
use super::{TextChange, TextSlice};

/// The most bytes of a chunk.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) const CREATE_TEXTS: &str = "
    CREATE TABLE text (
        session INTEGER NOT NULL,
        number INTEGER NOT NULL,
        part TEXT NOT NULL,
        offset INTEGER NOT NULL,
        length INTEGER NOT NULL,
        text TEXT NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, number, part, offset)
    );
";

pub(super) fn write_text(
    transaction: &Transaction<'_>,
    session: i64,
    change: &TextChange,
) -> rusqlite::Result<()> {
    let number = change.number.cast_signed();
    if change.replaces {
        let mut delete = transaction
            .prepare("DELETE FROM text WHERE session = ?1 AND number = ?2 AND part = ?3")?;
        delete.execute(params![session, number, change.part])?;
    }
    let mut offset = find_length(transaction, session, number, &change.part)?.unwrap_or_default();
    let mut insert = transaction.prepare("INSERT INTO text VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let mut rest = change.text.as_str();
    loop {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
        let length = i64::try_from(chunk.len()).unwrap_or(i64::MAX);
        // An empty text is a text: only nothing appended leaves no chunk.
        if !chunk.is_empty() || change.replaces {
            let checksum = sum_chunk(&change.part, offset, chunk).finish();
            insert.execute(params![
                session,
                number,
                change.part,
                offset,
                length,
                chunk,
                checksum
            ])?;
        }
        offset += length;
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn sum_chunk(part: &str, offset: i64, text: &str) -> Checksum {
    Checksum::default().bytes(part.as_bytes()).number(offset).bytes(text.as_bytes())
}

/// Returns the bytes of a whole text, or `None` if there is none.
fn find_length(
    connection: &rusqlite::Connection,
    session: i64,
    number: i64,
    part: &str,
) -> rusqlite::Result<Option<i64>> {
    let mut last = connection.prepare(
        "SELECT offset + length FROM text WHERE session = ?1 AND number = ?2 AND part = ?3 ORDER BY offset DESC LIMIT 1",
    )?;
    last.query_row(params![session, number, part], |row| row.get(0)).optional()
}

pub(super) fn read_text(
    connection: &rusqlite::Connection,
    session: i64,
    number: u64,
    part: &str,
    offset: u64,
    max_bytes: usize,
) -> rusqlite::Result<Option<TextSlice>> {
    let number = number.cast_signed();
    let Some(total) = find_length(connection, session, number, part)? else { return Ok(None) };
    let total = total.cast_unsigned();
    let mut slice = TextSlice { text: String::new(), offset: offset.min(total), total };
    let mut select = connection.prepare(
        "SELECT offset, text, checksum FROM text WHERE session = ?1 AND number = ?2 AND part = ?3 AND offset + length > ?4
         ORDER BY offset",
    )?;
    let mut next = slice.offset;
    let mut rows = select.query(params![session, number, part, slice.offset.cast_signed()])?;
    while let Some(row) = rows.next()? {
        let begins = row.get::<_, i64>(0)?.cast_unsigned();
        let chunk = row.get_ref(1)?.as_str()?;
        sum_chunk(part, begins.cast_signed(), chunk).check(row.get(2)?, "a piece of a text")?;
        if begins > next {
            return Err(damage(format!("a text lacks its bytes from {next} to {begins}")));
        }
        next = begins + chunk.len() as u64;
        let mut from = usize::try_from(slice.offset.saturating_sub(begins)).unwrap_or(chunk.len());
        if slice.text.is_empty() {
            from = chunk.floor_char_boundary(from);
            slice.offset = begins + from as u64;
        } else {
            from = 0;
        }
        let room = max_bytes - slice.text.len();
        let end = chunk.floor_char_boundary(from.saturating_add(room));
        slice.text.push_str(&chunk[from..end.max(from)]);
        if end < chunk.len() || slice.text.len() >= max_bytes {
            break;
        }
    }
    Ok(Some(slice))
}
