//! The index in SQLite. It is derived: a database that is damaged or of another version is deleted and created again.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use crate::{Index, IndexRow, LogId, StoreError};

/// The version of the tables; raised with every change.
const SCHEMA_VERSION: i64 = 1;
const CREATE_TABLES: &str = "
    CREATE TABLE log (
        bucket TEXT NOT NULL,
        name TEXT NOT NULL,
        seq INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        snapshot INTEGER,
        summary BLOB NOT NULL,
        PRIMARY KEY (bucket, name)
    ) WITHOUT ROWID;
";
const LOG_COLUMNS: &str = "bucket, name, seq, bytes, snapshot, summary";

#[derive(Debug)]
pub struct SqliteIndex {
    connection: Mutex<Connection>,
    recreated: bool,
}

/// The reason why a database cannot be used.
enum OpenFailure {
    Damaged,
    Failed(StoreError),
}

impl SqliteIndex {
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let (connection, recreated) = match connect_database(path) {
            Ok(connection) => (connection, false),
            Err(OpenFailure::Failed(error)) => return Err(error),
            Err(OpenFailure::Damaged) => {
                delete_database(path)?;
                let connection = connect_database(path).map_err(|unfit| match unfit {
                    OpenFailure::Failed(error) => error,
                    OpenFailure::Damaged => StoreError::Index(format!("{} is damaged although new", path.display())),
                })?;
                (connection, true)
            }
        };
        Ok(Arc::new(Self { connection: Mutex::new(connection), recreated }))
    }

    /// Opens an index that lives only in memory, where no file can be kept.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(CREATE_TABLES)?;
        Ok(Arc::new(Self { connection: Mutex::new(connection), recreated: true }))
    }

    /// Returns true if an unusable database was replaced: the index is empty and must be filled from the logs.
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
            let mut insert = transaction
                .prepare(&format!("INSERT OR REPLACE INTO log ({LOG_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"))?;
            for row in rows {
                let snapshot = row.snapshot.map(u64::cast_signed);
                let (seq, bytes) = (row.seq.cast_signed(), row.bytes.cast_signed());
                insert.execute(params![row.id.bucket(), row.id.name(), seq, bytes, snapshot, &row.summary[..]])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, id: &LogId) -> Result<Option<IndexRow>, StoreError> {
        let connection = self.lock_connection();
        let mut select =
            connection.prepare(&format!("SELECT {LOG_COLUMNS} FROM log WHERE bucket = ?1 AND name = ?2"))?;
        Ok(select.query_row(params![id.bucket(), id.name()], convert_row).optional()?.flatten())
    }

    fn all(&self) -> Result<Vec<IndexRow>, StoreError> {
        let connection = self.lock_connection();
        let mut select = connection.prepare(&format!("SELECT {LOG_COLUMNS} FROM log ORDER BY bucket, name"))?;
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
    let Some(id) = LogId::new(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?) else { return Ok(None) };
    Ok(Some(IndexRow {
        id,
        seq: row.get::<_, i64>(2)?.cast_unsigned(),
        bytes: row.get::<_, i64>(3)?.cast_unsigned(),
        snapshot: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
        summary: Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?),
    }))
}

fn connect_database(path: &Path) -> Result<Connection, OpenFailure> {
    // SQLite gives its other files the mode of this one.
    let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map_err(|source| OpenFailure::Failed(StoreError::Io { what: format!("opening {}", path.display()), source }))?;
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Losing the last transactions in a power cut only means reading a little more of the logs.
    connection.pragma_update(None, "synchronous", "normal")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (version, tables) {
        (SCHEMA_VERSION, _) => {
            let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            // This checks the columns too.
            connection.prepare(&format!("SELECT {LOG_COLUMNS} FROM log"))?;
            if verdict == "ok" { Ok(connection) } else { Err(OpenFailure::Damaged) }
        }
        (0, 0) => {
            let new = format!("BEGIN; {CREATE_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;");
            connection.execute_batch(&new)?;
            Ok(connection)
        }
        _ => Err(OpenFailure::Damaged),
    }
}

fn delete_database(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(suffix);
        let file = PathBuf::from(file);
        match fs::remove_file(&file) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(StoreError::Io { what: format!("deleting {}", file.display()), source });
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Index(error.to_string())
    }
}

impl From<rusqlite::Error> for OpenFailure {
    fn from(error: rusqlite::Error) -> Self {
        // SQLite does not understand the statement: the table or column is missing.
        let foreign = matches!(error, rusqlite::Error::SqlInputError { .. });
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => Self::Damaged,
            Some(_) | None if foreign => Self::Damaged,
            Some(_) | None => Self::Failed(error.into()),
        }
    }
}
