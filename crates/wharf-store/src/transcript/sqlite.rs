//! Transcripts in SQLite. A database that is damaged or of another version is deleted and created
//! again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, params};

use super::checkpointer::{Checkpointer, MAX_WAL_PAGES};
use super::checksum::sum_blob;
use super::file_changes::{CREATE_FILE_CHANGES, visit_file_changes, write_file_changes};
use super::names::{CREATE_NAMES, check_names, find_number, write_names};
use super::row_lists::{CREATE_ROW_LISTS, ROW_LIST_TABLES, find_changed_rows};
use super::rows::{CREATE_ROWS, read_rows, write_rows};
use super::sessions::{
    CREATE_SESSIONS, find_checkpoint, find_session, new_session, put_checkpoint,
};
use super::texts::{CREATE_TEXTS, read_text, write_text};
use super::word_index::{
    CREATE_WORD_INDEX, FIND_UNINDEXED, has_unindexed_rows, index_some_rows, remove_some_words,
    search_words,
};
use super::{
    FoundRows, IndexStep, RowRange, StoredBlob, StoredFileChange, StoredRow, TextSlice,
    TranscriptChanges, TranscriptCheckpoint, TranscriptProgress, TranscriptStore, WordSearch,
};
use crate::database::{Schema, is_damage, open_or_recreate, recreate};
use crate::{LogId, StoreError};

/// A row's key holds its session above these bits and its number below, so that the rows of a
/// session lie together.
const NUMBER_BITS: u32 = 40;
/// The pages that a connection keeps in memory, in KiB.
const CACHE_KIB: i64 = 2048;

const SCHEMA: Schema = Schema {
    version: 6,
    create: "
    CREATE TABLE blob (
        session INTEGER NOT NULL,
        name TEXT NOT NULL,
        mime TEXT NOT NULL,
        bytes BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (session, name)
    );
    ",
    more: &[
        CREATE_SESSIONS,
        CREATE_ROWS,
        CREATE_ROW_LISTS,
        CREATE_NAMES,
        CREATE_TEXTS,
        CREATE_FILE_CHANGES,
        CREATE_WORD_INDEX,
    ],
    probe: "SELECT rows, names, file_changes, state, checksum, (SELECT rowid FROM search) FROM session",
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
    /// `None` in memory, where SQLite keeps no write-ahead log.
    checkpointer: Option<Checkpointer>,
    /// The numbers of the sessions whose names were checked since the database was opened. All were
    /// there.
    checked_names: Mutex<HashSet<i64>>,
}

impl SqliteTranscripts {
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let connect = || -> Result<Mutex<Connection>, StoreError> {
            let connection = open_or_recreate(path, &SCHEMA)?.0;
            prepare_connection(&connection)?;
            Ok(Mutex::new(connection))
        };
        let writer = connect()?;
        let reader = connect()?;
        let searcher = connect()?;
        let checkpointer = Some(Checkpointer::start(path)?);
        let path = Some(path.to_owned());
        let generation = AtomicU64::new(0);
        Ok(Arc::new(Self {
            path,
            generation,
            writer,
            reader: Some(reader),
            searcher: Some(searcher),
            checkpointer,
            checked_names: Mutex::default(),
        }))
    }

    /// Opens a database that lives only in memory, where no file can be kept.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        Self::on_one_connection(Connection::open_in_memory()?)
    }

    /// Opens a database in a temporary file. No other process can open the file, and it is deleted
    /// with the connection.
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
            checked_names: Mutex::default(),
        }))
    }

    fn read<T>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let generation = self.generation();
        let read = || {
            let connection = lock(self.reader.as_ref().unwrap_or(&self.writer));
            // One transaction reads everything in one state, since callers compare sums with their
            // parts.
            let transaction = connection.unchecked_transaction()?;
            look(&transaction)
        };
        self.mend(generation, read())
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
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

    fn lock_checked_names(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.checked_names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connections that only read, in the order in which they are locked.
    fn readers(&self) -> impl Iterator<Item = &Mutex<Connection>> {
        self.reader.iter().chain(&self.searcher)
    }

    /// Creates a damaged database again, unless that has happened since the call began;
    /// `generation` is the generation at that time. The call fails even so, because its caller's
    /// knowledge of the rows is out of date.
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
            self.lock_checked_names().clear();
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
        self.read(|connection| find_checkpoint(connection, id))
    }

    fn progress(&self) -> Result<Vec<TranscriptProgress>, StoreError> {
        self.read(|connection| {
            let mut select =
                connection.prepare("SELECT bucket, name, fold, seq, session FROM session")?;
            let mut find_unindexed = connection.prepare(FIND_UNINDEXED)?;
            let mut rows = select.query([])?;
            let mut progress = Vec::new();
            while let Some(row) = rows.next()? {
                let id = LogId::new(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                let fold = row.get(2)?;
                let seq = row.get::<_, i64>(3)?.cast_unsigned();
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
            let mut session = match find_session(transaction, id)? {
                Some(session) => session,
                None => new_session(transaction)?,
            };
            write_file_changes(transaction, &mut session, &changes.file_changes)?;
            write_names(transaction, &mut session, &changes.keys)?;
            put_checkpoint(transaction, id, &session, &changes.checkpoint)?;
            let session = session.number;
            write_rows(transaction, session, &changes.rows)?;
            for text in &changes.texts {
                write_text(transaction, session, text)?;
            }
            let mut insert =
                transaction.prepare("INSERT OR IGNORE INTO blob VALUES (?1, ?2, ?3, ?4, ?5)")?;
            for blob in &changes.blobs {
                insert.execute(params![
                    session,
                    blob.name,
                    blob.mime,
                    blob.bytes,
                    sum_blob(blob).finish()
                ])?;
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
        self.read(|connection| match find_session(connection, id)? {
            Some(session) => read_rows(connection, &session, range),
            None => Ok(Vec::new()),
        })
    }

    fn changed_after(&self, id: &LogId, rev: u64, max_rows: usize) -> Result<Vec<u64>, StoreError> {
        self.read(|connection| match find_session(connection, id)? {
            Some(session) => {
                find_changed_rows(connection, session.number, session.rows, rev, max_rows)
            }
            None => Ok(Vec::new()),
        })
    }

    fn visit_file_changes(
        &self,
        id: &LogId,
        turn: Option<&str>,
        visit: &mut dyn FnMut(StoredFileChange),
    ) -> Result<(), StoreError> {
        self.read(|connection| match find_session(connection, id)? {
            Some(session) => visit_file_changes(connection, &session, turn, visit),
            None => Ok(()),
        })
    }

    fn find_key(&self, id: &LogId, key: &str) -> Result<Option<u64>, StoreError> {
        self.read(|connection| {
            let Some(session) = find_session(connection, id)? else { return Ok(None) };
            let number = find_number(connection, session.number, key)?;
            if number.is_none() && !self.lock_checked_names().contains(&session.number) {
                check_names(connection, &session)?;
                self.lock_checked_names().insert(session.number);
            }
            Ok(number)
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
            read_text(connection, session.number, number, part, offset, max_bytes)
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
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                Err(error.into())
            }
            result => self.mend(generation, result),
        }
    }

    fn blob(&self, id: &LogId, name: &str) -> Result<Option<StoredBlob>, StoreError> {
        self.read(|connection| {
            let Some(session) = find_session(connection, id)? else { return Ok(None) };
            let mut select = connection.prepare(
                "SELECT mime, bytes, checksum FROM blob WHERE session = ?1 AND name = ?2",
            )?;
            let convert = |row: &Row<'_>| {
                let blob =
                    StoredBlob { name: name.to_owned(), mime: row.get(0)?, bytes: row.get(1)? };
                sum_blob(&blob).check(row.get(2)?, "a blob")?;
                Ok(blob)
            };
            select.query_row(params![session.number, name], convert).optional()
        })
    }

    fn remove(&self, id: &LogId) -> Result<(), StoreError> {
        let mut after = 0;
        while let Some(last) =
            self.change(|transaction| remove_some_words(transaction, id, after))?
        {
            after = last;
        }
        self.change(|transaction| {
            let Some(session) = find_session(transaction, id)?.map(|session| session.number) else {
                return Ok(());
            };
            let first = row_key(session, 0);
            let last = row_key(session, u64::MAX);
            for table in std::iter::once("row").chain(ROW_LIST_TABLES) {
                transaction.execute(
                    &format!("DELETE FROM {table} WHERE key BETWEEN ?1 AND ?2"),
                    [first, last],
                )?;
            }
            for table in ["file_change", "name", "text", "blob", "session"] {
                transaction
                    .execute(&format!("DELETE FROM {table} WHERE session = ?1"), [session])?;
            }
            // Another session may get its number.
            self.lock_checked_names().remove(&session);
            Ok(())
        })?;
        // Otherwise the write-ahead log would keep the deleted rows.
        let _paused = self.checkpointer.as_ref().map(Checkpointer::pause);
        let writer = lock(&self.writer);
        let _others: Vec<_> = self.readers().map(lock).collect();
        Ok(writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }
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

pub(super) const fn row_key(session: i64, number: u64) -> i64 {
    let most = (1 << NUMBER_BITS) - 1;
    let number = if number > most { most } else { number };
    (session << NUMBER_BITS) | number.cast_signed()
}

pub(super) const fn row_number(key: i64) -> u64 {
    key.cast_unsigned() & ((1 << NUMBER_BITS) - 1)
}

/// Returns the number of a row's session.
pub(super) const fn session_of_key(key: i64) -> i64 {
    key >> NUMBER_BITS
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
