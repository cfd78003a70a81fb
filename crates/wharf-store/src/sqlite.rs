//! The index in SQLite. It is derived: a database that is damaged or of another version is deleted
//! and created again.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::database::{Schema, open_or_recreate};
use crate::{Index, IndexRow, LogId, StoreError};

const SCHEMA: Schema = Schema {
    version: 1,
    create: "
    CREATE TABLE log (
        bucket TEXT NOT NULL,
        name TEXT NOT NULL,
        seq INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        snapshot INTEGER,
        summary BLOB NOT NULL,
        PRIMARY KEY (bucket, name)
    ) WITHOUT ROWID;
    ",
    more: &[],
    probe: "SELECT bucket, name, seq, bytes, snapshot, summary FROM log",
    checks_all: true,
};
const LOG_COLUMNS: &str = "bucket, name, seq, bytes, snapshot, summary";

#[derive(Debug)]
pub struct SqliteIndex {
    connection: Mutex<Connection>,
    recreated: bool,
}

impl SqliteIndex {
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let (connection, recreated) = open_or_recreate(path, &SCHEMA)?;
        Ok(Arc::new(Self { connection: Mutex::new(connection), recreated }))
    }

    /// Opens an index that lives only in memory, where no file can be kept.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(SCHEMA.create)?;
        Ok(Arc::new(Self { connection: Mutex::new(connection), recreated: true }))
    }

    /// Returns true if an unusable database was replaced: the index is empty and must be filled
    /// from the logs.
    pub fn was_recreated(&self) -> bool {
        self.recreated
    }

    fn lock_connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index for SqliteIndex {
    fn put(&self, rows: &[IndexRow]) -> Result<(), StoreError> {
        let mut connection = self.lock_connection();
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare(&format!(
                "INSERT OR REPLACE INTO log ({LOG_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
            ))?;
            for row in rows {
                let snapshot = row.snapshot.map(u64::cast_signed);
                let seq = row.seq.cast_signed();
                let bytes = row.bytes.cast_signed();
                insert.execute(params![
                    row.id.bucket(),
                    row.id.name(),
                    seq,
                    bytes,
                    snapshot,
                    &row.summary[..]
                ])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, id: &LogId) -> Result<Option<IndexRow>, StoreError> {
        let connection = self.lock_connection();
        let mut select = connection
            .prepare(&format!("SELECT {LOG_COLUMNS} FROM log WHERE bucket = ?1 AND name = ?2"))?;
        Ok(select
            .query_row(params![id.bucket(), id.name()], convert_row)
            .optional()?
            .flatten())
    }

    fn all(&self) -> Result<Vec<IndexRow>, StoreError> {
        let connection = self.lock_connection();
        let mut select =
            connection.prepare(&format!("SELECT {LOG_COLUMNS} FROM log ORDER BY bucket, name"))?;
        let rows = select.query_map([], convert_row)?;
        Ok(rows.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }

    fn remove(&self, id: &LogId) -> Result<(), StoreError> {
        let connection = self.lock_connection();
        let mut delete = connection.prepare("DELETE FROM log WHERE bucket = ?1 AND name = ?2")?;
        delete.execute(params![id.bucket(), id.name()])?;
        Ok(())
    }
}

/// Converts a row. Returns `None` if its id is invalid, because another program wrote it.
fn convert_row(row: &Row<'_>) -> rusqlite::Result<Option<IndexRow>> {
    let Some(id) = LogId::new(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?) else {
        return Ok(None);
    };
    Ok(Some(IndexRow {
        id,
        seq: row.get::<_, i64>(2)?.cast_unsigned(),
        bytes: row.get::<_, i64>(3)?.cast_unsigned(),
        snapshot: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
        summary: Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?),
    }))
}
