//! Transcripts in SQLite. A database that is damaged or of another version is deleted and created again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};

use super::checkpointer::{Checkpointer, MAX_WAL_PAGES};
use super::checksum::{check_gaps, damage, sum_blob, sum_checkpoint, sum_row};
use super::file_changes::{CREATE_FILE_CHANGES, visit_file_changes, write_file_changes};
use super::texts::{CREATE_TEXTS, read_text, write_text};
use super::word_index::{
    CREATE_WORD_INDEX, FIND_UNINDEXED, has_unindexed_rows, index_some_rows, remove_some_words, search_words,
};
use super::{
    FoundRows, IndexStep, RowRange, StoredBlob, StoredFileChange, StoredRow, TextSlice, TranscriptChanges,
    TranscriptCheckpoint, TranscriptProgress, TranscriptStore, WordSearch,
};
use crate::database::{Schema, is_damage, open_or_recreate, recreate};
use crate::{LogId, StoreError};

/// A row's key holds its session above these bits and its number below, so that the rows of a session lie together.
const NUMBER_BITS: u32 = 40;
/// The pages that a connection keeps in memory, in KiB.
const CACHE_KIB: i64 = 2048;

const SCHEMA: Schema = Schema {
    version: 5,
    create: "
    CREATE TABLE session (
        session INTEGER PRIMARY KEY,
        bucket TEXT NOT NULL,
        name TEXT NOT NULL,
        fold INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        state BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        UNIQUE (bucket, name)
    );
    CREATE INDEX session_progress ON session (bucket, name, fold, seq);
    CREATE TABLE row (
        key INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        rev INTEGER NOT NULL,
        kind TEXT NOT NULL,
        turn TEXT,
        json BLOB NOT NULL,
        checksum INTEGER NOT NULL
    );
    CREATE INDEX row_by_rev ON row (session, rev);
    CREATE INDEX row_by_kind ON row (session, kind);
    CREATE TABLE name (
        session INTEGER NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (session, name)
    ) WITHOUT ROWID;
    CREATE TABLE blob (
        session INTEGER NOT NULL,
        name TEXT NOT NULL,
        mime TEXT NOT NULL,
        bytes BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, name)
    );
    ",
    more: &[CREATE_TEXTS, CREATE_FILE_CHANGES, CREATE_WORD_INDEX],
    probe: "SELECT fold, epoch, seq, rows, state, checksum, (SELECT rowid FROM search) FROM session",
    // It would read the whole database, which may be large. Damage is found when it is met.
    checks_all: false,
};

#[derive(Debug)]
pub struct SqliteTranscripts {
    path: Option<PathBuf>,
    /// Raised while the writer is locked.
    generation: AtomicU64,
    writer: Mutex<Connection>,
    /// Reads beside a write. `None` in memory, where the writer's connection is all there is.
    reader: Option<Mutex<Connection>>,
    /// Searches beside both: a search may take longer than a page.
    searcher: Option<Mutex<Connection>>,
    /// `None` in memory, where there is no write-ahead log.
    checkpointer: Option<Checkpointer>,
}

/// The columns of a row that [`convert_row`] reads.
pub(super) const ROW_COLUMNS: &str = "key, seq, rev, kind, turn, json, checksum";

impl SqliteTranscripts {
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let connect = || -> Result<Mutex<Connection>, StoreError> {
            let connection = open_or_recreate(path, &SCHEMA)?.0;
            prepare_connection(&connection)?;
            Ok(Mutex::new(connection))
        };
        let (writer, reader, searcher) = (connect()?, connect()?, connect()?);
        let checkpointer = Some(Checkpointer::start(path)?);
        let path = Some(path.to_owned());
        let generation = AtomicU64::new(0);
        Ok(Arc::new(Self { path, generation, writer, reader: Some(reader), searcher: Some(searcher), checkpointer }))
    }

    /// Opens a database that lives only in memory, where no file can be kept.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        Self::on_one_connection(Connection::open_in_memory()?)
    }

    /// Opens a database in a temporary file that nobody else can open and that is deleted with the connection.
    pub fn temporary() -> Result<Arc<Self>, StoreError> {
        // SQLite gives a database without a name such a file, once it is too large for its cache.
        let connection = Connection::open("")?;
        // Its contents need not survive anything.
        connection.execute_batch("PRAGMA synchronous = OFF;")?;
        Self::on_one_connection(connection)
    }

    fn on_one_connection(connection: Connection) -> Result<Arc<Self>, StoreError> {
        connection.execute_batch(SCHEMA.create)?;
        connection.execute_batch(&SCHEMA.more.concat())?;
        Ok(Arc::new(Self {
            path: None,
            generation: AtomicU64::new(0),
            writer: Mutex::new(connection),
            reader: None,
            searcher: None,
            checkpointer: None,
        }))
    }

    fn read<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let generation = self.generation();
        let result = look(&lock(self.reader.as_ref().unwrap_or(&self.writer)));
        self.mend(generation, result)
    }

    fn change<T>(&self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let generation = self.generation();
        let result = || {
            let mut connection = lock(&self.writer);
            let transaction = connection.transaction()?;
            let outcome = change(&transaction)?;
            transaction.commit()?;
            Ok(outcome)
        };
        self.mend(generation, result())
    }

    /// Returns the connections that only read, in the order in which they are locked.
    fn readers(&self) -> impl Iterator<Item = &Mutex<Connection>> {
        self.reader.iter().chain(&self.searcher)
    }

    /// Makes a damaged database anew, unless that was done since the call began, at which it had this generation. The call
    /// fails all the same: what its caller knew of the rows is no longer true.
    fn mend<T>(&self, generation: u64, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        if let Err(error) = &result
            && is_damage(error)
        {
            self.recreate_if(|now| now == generation)?;
        }
        Ok(result?)
    }

    /// Deletes everything. A database in memory stays as it is.
    pub fn recreate(&self) -> Result<(), StoreError> {
        self.recreate_if(|_| true)
    }

    fn recreate_if(&self, is_wanted: impl Fn(u64) -> bool) -> Result<(), StoreError> {
        if let Some(path) = &self.path {
            let _paused = self.checkpointer.as_ref().map(Checkpointer::pause);
            let mut writer = lock(&self.writer);
            let mut others: Vec<_> = self.readers().map(lock).collect();
            if !is_wanted(self.generation()) {
                return Ok(());
            }
            // The old connections are closed first: closing deletes files beside the database.
            *writer = Connection::open_in_memory()?;
            for connection in &mut others {
                **connection = Connection::open_in_memory()?;
            }
            self.generation.fetch_add(1, Ordering::SeqCst);
            *writer = recreate(path, &SCHEMA)?;
            prepare_connection(&writer)?;
            for connection in &mut others {
                **connection = open_or_recreate(path, &SCHEMA)?.0;
                prepare_connection(connection)?;
            }
        }
        Ok(())
    }
}

impl TranscriptStore for SqliteTranscripts {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn checkpoint(&self, id: &LogId) -> Result<Option<TranscriptCheckpoint>, StoreError> {
        self.read(|connection| {
            let mut select = connection.prepare(
                "SELECT fold, epoch, seq, rows, state, checksum FROM session WHERE bucket = ?1 AND name = ?2",
            )?;
            select.query_row(params![id.bucket(), id.name()], convert_checkpoint).optional()
        })
    }

    fn check_indexes(&self, id: &LogId) -> Result<(), StoreError> {
        self.read(|connection| {
            let Some(stored) = find_rows(connection, id)? else { return Ok(()) };
            for index in ["row_by_kind", "row_by_rev"] {
                let count = format!("SELECT count(*) FROM row INDEXED BY {index} WHERE session = ?1");
                let found: i64 = connection.query_row(&count, [stored.session], |row| row.get(0))?;
                if found.cast_unsigned() < stored.count {
                    return Err(damage(format!("{index} has {found} of {} rows", stored.count)));
                }
            }
            Ok(())
        })
    }

    fn progress(&self) -> Result<Vec<TranscriptProgress>, StoreError> {
        self.read(|connection| {
            let mut select = connection.prepare("SELECT bucket, name, fold, seq, session FROM session")?;
            let mut find_unindexed = connection.prepare(FIND_UNINDEXED)?;
            let mut rows = select.query([])?;
            let mut progress = Vec::new();
            while let Some(row) = rows.next()? {
                let id = LogId::new(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                let (fold, seq) = (row.get(2)?, row.get::<_, i64>(3)?.cast_unsigned());
                let is_indexed = !has_unindexed_rows(&mut find_unindexed, row.get(4)?)?;
                progress.extend(id.map(|id| TranscriptProgress { id, fold, seq, is_indexed }));
            }
            Ok(progress)
        })
    }

    fn write(&self, id: &LogId, changes: &TranscriptChanges) -> Result<(), StoreError> {
        let is_written = self.change(|transaction| {
            if changes.generation != self.generation() {
                return Ok(false);
            }
            let session = put_checkpoint(transaction, id, &changes.checkpoint)?;
            write_rows(transaction, session, &changes.rows)?;
            write_file_changes(transaction, session, &changes.file_changes)?;
            let mut insert = transaction.prepare("INSERT OR REPLACE INTO name VALUES (?1, ?2, ?3)")?;
            for (name, number) in &changes.keys {
                insert.execute(params![session, name, number.cast_signed()])?;
            }
            for text in &changes.texts {
                write_text(transaction, session, text)?;
            }
            let mut insert = transaction.prepare("INSERT OR IGNORE INTO blob VALUES (?1, ?2, ?3, ?4, ?5)")?;
            for blob in &changes.blobs {
                insert.execute(params![session, blob.name, blob.mime, blob.bytes, sum_blob(blob).finish()])?;
            }
            Ok(true)
        })?;
        if !is_written {
            return Err(StoreError::Recreated);
        }
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.note_written(count_bytes(changes));
        }
        Ok(())
    }

    fn rows(&self, id: &LogId, range: &RowRange<'_>) -> Result<Vec<StoredRow>, StoreError> {
        self.read(|connection| {
            let Some(StoredRows { session, count }) = find_rows(connection, id)? else { return Ok(Vec::new()) };
            let order = if range.newest_first { "DESC" } else { "ASC" };
            let filter =
                if range.kind.is_some() { "session = ?4 AND kind = ?5 AND" } else { "?4 = ?4 AND ?5 IS ?5 AND" };
            let mut select = connection.prepare(&format!(
                "SELECT {ROW_COLUMNS} FROM row WHERE {filter} key BETWEEN ?1 AND ?2
                 ORDER BY key {order} LIMIT ?3"
            ))?;
            let (first, last) = (row_key(session, range.first), row_key(session, range.last));
            let limit = i64::try_from(range.max_rows).unwrap_or(i64::MAX);
            let mut rows = select.query(params![first, last, limit, session, range.kind])?;
            let (mut found, mut bytes) = (Vec::new(), 0);
            while bytes <= range.max_bytes
                && let Some(row) = rows.next()?
            {
                let row = convert_row(row)?;
                bytes += row.json.len();
                found.push(row);
            }
            if range.kind.is_none() {
                let is_cut = found.len() >= range.max_rows || bytes > range.max_bytes;
                check_gaps(&found, range, count, is_cut)?;
            }
            Ok(found)
        })
    }

    fn changed_after(&self, id: &LogId, rev: u64, max_rows: usize) -> Result<Vec<u64>, StoreError> {
        self.read(|connection| {
            let Some(session) = find_session(connection, id)? else { return Ok(Vec::new()) };
            let mut select = connection.prepare("SELECT key FROM row WHERE session = ?1 AND rev > ?2 LIMIT ?3")?;
            let limit = i64::try_from(max_rows).unwrap_or(i64::MAX);
            let rows = select.query_map(params![session, rev.cast_signed(), limit], |row| row.get(0))?;
            let mut numbers: Vec<u64> = rows.map(|key| key.map(row_number)).collect::<rusqlite::Result<_>>()?;
            numbers.sort_unstable();
            Ok(numbers)
        })
    }

    fn visit_file_changes(
        &self,
        id: &LogId,
        turn: Option<&str>,
        visit: &mut dyn FnMut(StoredFileChange),
    ) -> Result<(), StoreError> {
        self.read(|connection| match find_session(connection, id)? {
            Some(session) => visit_file_changes(connection, session, turn, visit),
            None => Ok(()),
        })
    }

    fn find_key(&self, id: &LogId, key: &str) -> Result<Option<u64>, StoreError> {
        self.read(|connection| {
            let Some(session) = find_session(connection, id)? else { return Ok(None) };
            let mut select = connection.prepare("SELECT number FROM name WHERE session = ?1 AND name = ?2")?;
            let number = select.query_row(params![session, key], |row| row.get::<_, i64>(0)).optional()?;
            Ok(number.map(i64::cast_unsigned))
        })
    }

    fn text(
        &self,
        id: &LogId,
        number: u64,
        part: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Option<TextSlice>, StoreError> {
        self.read(|connection| {
            let Some(session) = find_session(connection, id)? else { return Ok(None) };
            read_text(connection, session, number, part, offset, max_bytes)
        })
    }

    fn index_some_rows(&self, id: &LogId, step: &IndexStep<'_>) -> Result<bool, StoreError> {
        self.change(|transaction| index_some_rows(transaction, id, step))
    }

    fn search(&self, search: &WordSearch<'_>) -> Result<FoundRows, StoreError> {
        let generation = self.generation();
        let result = search_words(&lock(self.searcher.as_ref().unwrap_or(&self.writer)), search);
        match result {
            // An expression that SQLite does not understand says nothing about the database.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Err(error.into()),
            result => self.mend(generation, result),
        }
    }

    fn blob(&self, id: &LogId, name: &str) -> Result<Option<StoredBlob>, StoreError> {
        self.read(|connection| {
            let Some(session) = find_session(connection, id)? else { return Ok(None) };
            let mut select =
                connection.prepare("SELECT mime, bytes, checksum FROM blob WHERE session = ?1 AND name = ?2")?;
            let convert = |row: &Row<'_>| {
                let blob = StoredBlob { name: name.to_owned(), mime: row.get(0)?, bytes: row.get(1)? };
                sum_blob(&blob).check(row.get(2)?, "a blob")?;
                Ok(blob)
            };
            select.query_row(params![session, name], convert).optional()
        })
    }

    fn remove(&self, id: &LogId) -> Result<(), StoreError> {
        let mut after = 0;
        while let Some(last) = self.change(|transaction| remove_some_words(transaction, id, after))? {
            after = last;
        }
        self.change(|transaction| {
            let Some(session) = find_session(transaction, id)? else { return Ok(()) };
            for table in ["row", "file_change", "name", "text", "blob", "session"] {
                transaction.execute(&format!("DELETE FROM {table} WHERE session = ?1"), [session])?;
            }
            Ok(())
        })?;
        // Otherwise the write-ahead log would keep what was deleted.
        let _paused = self.checkpointer.as_ref().map(Checkpointer::pause);
        let writer = lock(&self.writer);
        let _others: Vec<_> = self.readers().map(lock).collect();
        Ok(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }
}

/// Writes rows and notes that their words are to be written.
fn write_rows(transaction: &Transaction<'_>, session: i64, rows: &[StoredRow]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare("INSERT OR REPLACE INTO row VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    let mut note = transaction.prepare("INSERT OR IGNORE INTO unindexed VALUES (?1)")?;
    for row in rows {
        let (seq, rev) = (row.seq.cast_signed(), row.rev.cast_signed());
        let key = row_key(session, row.number);
        let checksum = sum_row(key, row).finish();
        insert.execute(params![key, session, seq, rev, row.kind, row.turn, row.json, checksum])?;
        note.execute([key])?;
    }
    Ok(())
}

/// Returns about as many bytes as the changes take.
fn count_bytes(changes: &TranscriptChanges) -> usize {
    let rows = changes.rows.iter().map(|row| row.json.len());
    let texts = changes.texts.iter().map(|text| text.text.len());
    let blobs = changes.blobs.iter().map(|blob| blob.bytes.len());
    rows.chain(texts).chain(blobs).sum()
}

fn prepare_connection(connection: &Connection) -> Result<(), StoreError> {
    connection.pragma_update(None, "wal_autocheckpoint", MAX_WAL_PAGES)?;
    // Finds more kinds of damage when a page is read.
    connection.pragma_update(None, "cell_size_check", true)?;
    // Of a session that is deleted nothing may stay in free pages.
    connection.pragma_update(None, "secure_delete", true)?;
    // A negative number is one of KiB.
    Ok(connection.pragma_update(None, "cache_size", -CACHE_KIB)?)
}

pub(super) fn find_session(connection: &Connection, id: &LogId) -> rusqlite::Result<Option<i64>> {
    let mut select = connection.prepare("SELECT session FROM session WHERE bucket = ?1 AND name = ?2")?;
    select.query_row(params![id.bucket(), id.name()], |row| row.get(0)).optional()
}

/// The rows of a session as its checkpoint counts them.
struct StoredRows {
    session: i64,
    count: u64,
}

/// Newer rows may be there already when the caller reads them.
fn find_rows(connection: &Connection, id: &LogId) -> rusqlite::Result<Option<StoredRows>> {
    let mut select = connection.prepare("SELECT session, rows FROM session WHERE bucket = ?1 AND name = ?2")?;
    let convert = |row: &Row<'_>| Ok(StoredRows { session: row.get(0)?, count: row.get::<_, i64>(1)?.cast_unsigned() });
    select.query_row(params![id.bucket(), id.name()], convert).optional()
}

/// Writes the checkpoint and returns the number of its session.
fn put_checkpoint(
    transaction: &Transaction<'_>,
    id: &LogId,
    checkpoint: &TranscriptCheckpoint,
) -> rusqlite::Result<i64> {
    let TranscriptCheckpoint { fold, epoch, seq, rows, state } = checkpoint;
    let (epoch, seq, rows) = (epoch.cast_signed(), seq.cast_signed(), rows.cast_signed());
    let checksum = sum_checkpoint(checkpoint).finish();
    let mut put = transaction.prepare(
        "INSERT INTO session (bucket, name, fold, epoch, seq, rows, state, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (bucket, name)
         DO UPDATE SET fold = ?3, epoch = ?4, seq = ?5, rows = ?6, state = ?7, checksum = ?8
         RETURNING session",
    )?;
    put.query_row(params![id.bucket(), id.name(), fold, epoch, seq, rows, state, checksum], |row| row.get(0))
}

pub(super) const fn row_key(session: i64, number: u64) -> i64 {
    let most = (1 << NUMBER_BITS) - 1;
    let number = if number > most { most } else { number };
    (session << NUMBER_BITS) | number.cast_signed()
}

const fn row_number(key: i64) -> u64 {
    key.cast_unsigned() & ((1 << NUMBER_BITS) - 1)
}

fn convert_checkpoint(row: &Row<'_>) -> rusqlite::Result<TranscriptCheckpoint> {
    let checkpoint = TranscriptCheckpoint {
        fold: row.get(0)?,
        epoch: row.get::<_, i64>(1)?.cast_unsigned(),
        seq: row.get::<_, i64>(2)?.cast_unsigned(),
        rows: row.get::<_, i64>(3)?.cast_unsigned(),
        state: row.get(4)?,
    };
    sum_checkpoint(&checkpoint).check(row.get(5)?, "a checkpoint")?;
    Ok(checkpoint)
}

/// Returns the number of a row's session.
pub(super) const fn session_of_key(key: i64) -> i64 {
    key >> NUMBER_BITS
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

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
