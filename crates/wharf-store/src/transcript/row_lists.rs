//! Lists of one value for each row: its kind and its revision. They find rows without reading them.
//! A list is kept in blocks with a checksum each, so that damage cannot hide a row, as it could in
//! an index of SQLite.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::StoredRow;
use super::checksum::{Checksum, damage};
use super::sqlite::row_key;

/// A block has the values of the rows whose numbers differ only in so many last bits.
const BLOCK_BITS: u32 = 8;

/// A block is found like a row, by the number of its session and its own.
pub(super) const CREATE_ROW_LISTS: &str = "
    CREATE TABLE kind_block (key INTEGER PRIMARY KEY, bytes BLOB NOT NULL, checksum INTEGER NOT NULL);
    CREATE TABLE rev_block (key INTEGER PRIMARY KEY, bytes BLOB NOT NULL, checksum INTEGER NOT NULL);
";

pub(super) const ROW_LIST_TABLES: [&str; 2] = [KINDS.table, REVISIONS.table];

/// A list of one value for each row. A value is never 0.
#[derive(Debug)]
pub(super) struct RowList {
    table: &'static str,
    value_bytes: usize,
}

pub(super) const KINDS: RowList = RowList { table: "kind_block", value_bytes: 1 };
const REVISIONS: RowList = RowList { table: "rev_block", value_bytes: 8 };

/// Returns a value for a kind. Other kinds may have the same one: the row itself tells.
pub(super) fn kind_value(kind: &str) -> u64 {
    u64::from(crc32fast::hash(kind.as_bytes()) & 0xff).max(1)
}

const fn revision_value(rev: u64) -> u64 {
    rev.saturating_add(1)
}

/// Notes the kinds and revisions of rows.
pub(super) fn list_rows(
    transaction: &Transaction<'_>,
    session: i64,
    rows: &[StoredRow],
) -> rusqlite::Result<()> {
    let kinds = rows.iter().map(|row| (row.number, kind_value(&row.kind)));
    KINDS.put(transaction, session, &kinds.collect())?;
    let revisions = rows.iter().map(|row| (row.number, revision_value(row.rev)));
    REVISIONS.put(transaction, session, &revisions.collect())
}

/// Returns the numbers of the first rows with a higher revision, in their order.
pub(super) fn find_changed_rows(
    connection: &Connection,
    session: i64,
    rows: u64,
    rev: u64,
    max_rows: usize,
) -> rusqlite::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    REVISIONS.visit(connection, session, 1..=rows, false, &mut |number, value| {
        if value > revision_value(rev) {
            numbers.push(number);
        }
        Ok(numbers.len() < max_rows)
    })?;
    Ok(numbers)
}

impl RowList {
    fn put(
        &self,
        transaction: &Transaction<'_>,
        session: i64,
        values: &BTreeMap<u64, u64>,
    ) -> rusqlite::Result<()> {
        let mut put = transaction.prepare(&format!(
            "INSERT OR REPLACE INTO {} (key, bytes, checksum) VALUES (?1, ?2, ?3)",
            self.table
        ))?;
        let mut find = transaction
            .prepare(&format!("SELECT bytes, checksum FROM {} WHERE key = ?1", self.table))?;
        let mut values = values.iter().peekable();
        while let Some((first, _)) = values.peek() {
            let block = **first >> BLOCK_BITS;
            let key = row_key(session, block);
            let stored: Option<(Vec<u8>, u32)> =
                find.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let mut bytes = match stored {
                Some((bytes, checksum)) => {
                    sum_block(key, &bytes).check(checksum, self.table)?;
                    bytes
                }
                None => Vec::new(),
            };
            while let Some((number, value)) =
                values.next_if(|(number, _)| **number >> BLOCK_BITS == block)
            {
                let place = self.place(*number);
                if bytes.len() < place.end {
                    bytes.resize(place.end, 0);
                }
                bytes[place].copy_from_slice(&value.to_le_bytes()[..self.value_bytes]);
            }
            put.execute(params![key, bytes, sum_block(key, &bytes).finish()])?;
        }
        Ok(())
    }

    /// Visits the values of rows in their order, or from the last one to the first, until `visit`
    /// returns false. Fails if the value of a row is missing.
    pub(super) fn visit(
        &self,
        connection: &Connection,
        session: i64,
        numbers: RangeInclusive<u64>,
        newest_first: bool,
        visit: &mut dyn FnMut(u64, u64) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        let (first, last) = numbers.into_inner();
        if first > last {
            return Ok(());
        }
        let order = if newest_first { "DESC" } else { "ASC" };
        let table = self.table;
        let mut select = connection.prepare(&format!(
            "SELECT key, bytes, checksum FROM {table} WHERE key BETWEEN ?1 AND ?2 ORDER BY key {order}"
        ))?;
        let first_block = first >> BLOCK_BITS;
        let last_block = last >> BLOCK_BITS;
        let mut found =
            select.query([row_key(session, first_block), row_key(session, last_block)])?;
        for block in in_order(first_block..=last_block, newest_first) {
            let lost = || damage(format!("block {block} of {table} is missing"));
            let row = found.next()?.ok_or_else(lost)?;
            let key = row.get(0)?;
            let bytes = row.get_ref(1)?.as_blob()?;
            sum_block(key, bytes).check(row.get(2)?, table)?;
            if key != row_key(session, block) {
                return Err(lost());
            }
            let of_block =
                first.max(block << BLOCK_BITS)..=last.min(((block + 1) << BLOCK_BITS) - 1);
            for number in in_order(of_block, newest_first) {
                let value =
                    bytes.get(self.place(number)).map(read_value).filter(|value| *value > 0);
                let value =
                    value.ok_or_else(|| damage(format!("row {number} is missing in {table}")))?;
                if !visit(number, value)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the place of a row's value in its block.
    fn place(&self, number: u64) -> std::ops::Range<usize> {
        let place = (number & ((1 << BLOCK_BITS) - 1)) as usize * self.value_bytes;
        place..place + self.value_bytes
    }
}

fn in_order(numbers: RangeInclusive<u64>, newest_first: bool) -> impl Iterator<Item = u64> {
    let (first, last) = numbers.into_inner();
    (first..=last).map(move |number| if newest_first { last - (number - first) } else { number })
}

fn read_value(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn sum_block(key: i64, bytes: &[u8]) -> Checksum {
    Checksum::default().number(key).bytes(bytes)
}
