//! The file engine: one directory of segments per log, and a few threads that sync them.

mod dirs;
mod epochs;
mod line;
mod log;
mod mend;
mod points;
mod read;
mod reserve;
mod segment;
mod sync;
mod walk;

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::log::{FileLog, LogContext};
use self::reserve::DiskReserve;
use self::sync::SyncThreads;
use crate::{Engine, Log, LogId, LogStat, StoreError};

/// The error kinds that mean no space: disk, quota, or the process's file size limit.
pub(crate) const NO_SPACE_ERRORS: [ErrorKind; 3] =
    [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];

pub(crate) use dirs::{create_file, sync_dir};
pub(crate) use epochs::find_largest_epoch;
pub(crate) use line::{checked_payload, parse_number, push_line, push_number};

/// The smallest size at which a segment is closed. Part of the format: a listing relies on it to
/// know that a short first segment is the only one.
pub const MIN_SEGMENT_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The state directory; logs are in `workspaces` below it.
    pub root: PathBuf,
    /// A segment that has reached this size is closed and the next one created. Opening a log reads
    /// at most about this much. Only tests use less than [`MIN_SEGMENT_BYTES`], and then always the
    /// same for a directory.
    pub segment_bytes: u64,
    /// The longest time until appended records are synced if no caller asks for a sync.
    pub sync_interval: Duration,
    /// The number of logs that can be synced at the same time: file systems combine simultaneous
    /// syncs into one commit.
    pub sync_threads: usize,
    /// Bytes kept for [`crate::Log::append_from_reserve`]; 0 disables the reserve.
    pub reserve: u64,
}

impl FileOptions {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            segment_bytes: 64 << 20,
            sync_interval: Duration::from_secs(1),
            sync_threads: 8,
            reserve: 0,
        }
    }
}

#[derive(Debug)]
pub struct FileEngine {
    options: FileOptions,
    slots: Mutex<LogSlots>,
    syncer: SyncThreads,
    reserve: Arc<DiskReserve>,
    no_reserve: Option<String>,
}

/// One slot per id. Its lock is held while the log is created, opened or removed, so that a log is
/// never open twice.
type LogSlot = Arc<Mutex<Weak<FileLog>>>;

#[derive(Debug, Default)]
struct LogSlots {
    by_id: HashMap<LogId, LogSlot>,
    /// The number of slots at which unused ones are removed.
    prune_at: usize,
}

impl FileEngine {
    /// Creates missing directories and deletes the remains of interrupted removals.
    pub fn open(options: FileOptions) -> Result<Arc<Self>, StoreError> {
        let workspaces = dirs::workspaces_dir(&options.root);
        dirs::create_dirs(&workspaces).map_err(wrap_error("making", &workspaces))?;
        dirs::delete_trash(&options.root).map_err(wrap_error("sweeping", &workspaces))?;
        let syncer = SyncThreads::start(options.sync_interval, options.sync_threads)
            .map_err(|source| io_error("starting the sync thread", source))?;
        let (reserve, why_not) = DiskReserve::create(&options.root, options.reserve);
        let reserve = Arc::new(reserve);
        let no_reserve = why_not.map(|error| error.to_string());
        Ok(Arc::new(Self {
            options,
            slots: Mutex::default(),
            syncer,
            reserve,
            no_reserve,
        }))
    }

    /// Returns the reason why no reserve can be kept here, if there is one.
    pub fn why_no_reserve(&self) -> Option<&str> {
        self.no_reserve.as_deref()
    }

    /// Returns true if there is space, as far as is known.
    pub fn has_space(&self) -> bool {
        self.reserve.is_whole()
    }

    /// Deletes the reserve of a state directory whose disk is too full for a host to start. Returns
    /// false if there is none.
    pub fn give_up_reserve(root: &Path) -> bool {
        reserve::delete_reserve(root)
    }

    fn log_slot(&self, id: &LogId) -> LogSlot {
        let mut slots = lock_mutex(&self.slots);
        if slots.by_id.len() >= slots.prune_at {
            // A slot that only the map holds cannot be in use, because slots are handed out under
            // this lock.
            slots.by_id.retain(|_, slot| {
                Arc::strong_count(slot) > 1 || lock_mutex(slot).strong_count() > 0
            });
            slots.prune_at = (slots.by_id.len() * 2).max(64);
        }
        Arc::clone(slots.by_id.entry(id.clone()).or_default())
    }

    /// Creates the log's directory under another name and renames it, so that a half-created log is
    /// never visible.
    fn create_log(&self, id: &LogId) -> Result<FileLogParts, StoreError> {
        let session = dirs::session_dir(&self.options.root, id);
        let dir = dirs::log_dir(&session);
        if dir.try_exists().map_err(wrap_error("looking at", &dir))? {
            return Err(StoreError::Exists(id.clone()));
        }
        if !self.reserve.is_whole() {
            return Err(wrap_error("making", &dir)(ErrorKind::StorageFull.into()));
        }
        self.create_log_files(id, &session, &dir).inspect_err(|_| {
            // Nothing half-created is left: the session's directory is removed too, unless it holds
            // other files.
            let _ = fs::remove_dir_all(session.join(NEW_LOG_DIR));
            let _ = fs::remove_dir_all(&dir);
            let _ = fs::remove_dir(&session);
        })
    }

    fn create_log_files(
        &self,
        id: &LogId,
        session: &Path,
        dir: &Path,
    ) -> Result<FileLogParts, StoreError> {
        let unfinished = session.join(NEW_LOG_DIR);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(wrap_error("deleting", &unfinished)(error));
            }
            Ok(()) | Err(_) => {}
        }
        dirs::create_dirs(&unfinished).map_err(wrap_error("making", &unfinished))?;
        segment::Segment::create(&unfinished, 1, 0)
            .map_err(wrap_error("making a log in", &unfinished))?;
        fs::rename(&unfinished, dir).map_err(wrap_error("making", dir))?;
        Ok((dir.to_owned(), mend::open_log(dir, id)?))
    }

    fn make_log(&self, id: &LogId, (dir, opened): FileLogParts) -> Arc<FileLog> {
        let around = LogContext {
            queue: self.syncer.queue(),
            reserve: Arc::clone(&self.reserve),
        };
        FileLog::new(id.clone(), dir, &self.options, around, opened)
    }
}

/// The name of a log's directory before it is renamed.
const NEW_LOG_DIR: &str = ".log-new";

type FileLogParts = (PathBuf, mend::OpenedLog);

impl Engine for FileEngine {
    fn create(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError> {
        let slot = self.log_slot(id);
        let mut slot = lock_mutex(&slot);
        let log = self.make_log(id, self.create_log(id)?);
        *slot = Arc::downgrade(&log);
        Ok(log)
    }

    fn open(&self, id: &LogId) -> Result<Arc<dyn Log>, StoreError> {
        let slot = self.log_slot(id);
        let mut slot = lock_mutex(&slot);
        if let Some(log) = slot.upgrade() {
            return Ok(log);
        }
        let dir = dirs::log_dir(&dirs::session_dir(&self.options.root, id));
        let opened = mend::open_log(&dir, id)?;
        let log = self.make_log(id, (dir, opened));
        *slot = Arc::downgrade(&log);
        Ok(log)
    }

    fn list(&self) -> Result<Vec<LogStat>, StoreError> {
        dirs::list_logs(&self.options.root, self.options.segment_bytes.min(MIN_SEGMENT_BYTES))
            .map_err(wrap_error("listing", &self.options.root))
    }

    fn remove(&self, id: &LogId) -> Result<(), StoreError> {
        let slot = self.log_slot(id);
        let mut slot = lock_mutex(&slot);
        let session = dirs::session_dir(&self.options.root, id);
        let trash =
            dirs::hide_session(&session, id.name()).map_err(wrap_error("removing", &session))?;
        if let Some(log) = std::mem::take(&mut *slot).upgrade() {
            log.mark_removed();
        }
        match trash {
            Some(trash) => fs::remove_dir_all(&trash).map_err(wrap_error("deleting", &trash)),
            None => Ok(()),
        }
    }

    fn probe(&self) -> Result<(), StoreError> {
        let workspaces = dirs::workspaces_dir(&self.options.root);
        fs::read_dir(&workspaces).map_err(wrap_error("listing", &workspaces))?;
        if !self.reserve.is_whole() {
            return Err(wrap_error("writing to", &self.options.root)(
                ErrorKind::StorageFull.into(),
            ));
        }
        let path = self.options.root.join(PROBE_FILE);
        let written = dirs::create_file(&path).and_then(|mut file| {
            file.write_all(b"probe\n")?;
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        written.and(removed).map_err(wrap_error("writing", &path))
    }
}

/// A file that exists only while [`Engine::probe`] runs.
const PROBE_FILE: &str = "probe";

/// Locks a mutex even if an earlier holder panicked: the guarded data change in single steps.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io_error(what: impl Into<String>, source: io::Error) -> StoreError {
    StoreError::Io { what: what.into(), source }
}

/// Returns a function that wraps an I/O error with the operation and the path.
fn wrap_error(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| io_error(format!("{doing} {}", path.display()), source)
}
