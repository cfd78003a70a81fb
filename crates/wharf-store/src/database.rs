//! Opens and checks derived SQLite databases, and creates them again if they cannot be used.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, ffi};

use crate::StoreError;

/// The tables of a database.
#[derive(Debug)]
pub(crate) struct Schema {
    /// Raised with every change of the tables.
    pub(crate) version: i64,
    pub(crate) create: &'static str,
    /// Further tables.
    pub(crate) more: &'static [&'static str],
    /// A statement that fails if columns are missing.
    pub(crate) probe: &'static str,
    /// True if the whole database is checked when it is opened.
    pub(crate) checks_all: bool,
}

/// The reason why a database cannot be used.
enum OpenFailure {
    Damaged,
    Failed(StoreError),
}

/// Opens a database. Deletes a database that is damaged or of another version, and creates it
/// again; the returned flag is true in that case.
pub(crate) fn open_or_recreate(
    path: &Path,
    schema: &Schema,
) -> Result<(Connection, bool), StoreError> {
    match connect_database(path, schema) {
        Ok(connection) => Ok((connection, false)),
        Err(OpenFailure::Failed(error)) => Err(error),
        Err(OpenFailure::Damaged) => Ok((recreate(path, schema)?, true)),
    }
}

/// Deletes a database and creates an empty one.
pub(crate) fn recreate(path: &Path, schema: &Schema) -> Result<Connection, StoreError> {
    delete_database(path)?;
    connect_database(path, schema).map_err(|unfit| match unfit {
        OpenFailure::Failed(error) => error,
        OpenFailure::Damaged => {
            StoreError::Index(format!("{} is damaged although new", path.display()))
        }
    })
}

/// Returns true if the error says that the database itself cannot be used.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    // SQLite does not understand the statement: the table or column is missing.
    let foreign = matches!(error, rusqlite::Error::SqlInputError { .. });
    let code = error.sqlite_error_code();
    // A stored value has another type than Wharf wrote.
    let unreadable = matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    );
    let cut = error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_SHORT_READ);
    foreign
        || unreadable
        || cut
        || matches!(
            code,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
        )
}

fn connect_database(path: &Path, schema: &Schema) -> Result<Connection, OpenFailure> {
    // SQLite gives its other files the mode of this one.
    let made = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    made.map_err(|source| {
        OpenFailure::Failed(StoreError::Io { what: format!("opening {}", path.display()), source })
    })?;
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Losing the last transactions in a power cut only means reading a little more of the logs.
    connection.pragma_update(None, "synchronous", "normal")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (version, tables) {
        (found, _) if found == schema.version => {
            connection.prepare(schema.probe)?;
            if !schema.checks_all {
                return Ok(connection);
            }
            let verdict: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if verdict == "ok" { Ok(connection) } else { Err(OpenFailure::Damaged) }
        }
        (0, 0) => {
            let Schema { create, version, .. } = schema;
            let more = schema.more.concat();
            let new = format!("BEGIN; {create} {more} PRAGMA user_version = {version}; COMMIT;");
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
                return Err(StoreError::Io {
                    what: format!("deleting {}", file.display()),
                    source,
                });
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
        if is_damage(&error) { Self::Damaged } else { Self::Failed(error.into()) }
    }
}
