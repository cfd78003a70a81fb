//! One log: appends, its head, and its state after a failed write or sync.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use bytes::Bytes;

use super::mend::OpenedLog;
use super::points::{self, IndexPoint};
use super::read::ReadHints;
use super::reserve::DiskReserve;
use super::segment::Segment;
use super::sync::SyncQueue;
use super::{FileOptions, NO_SPACE_ERRORS, dirs, io_error, line, lock_mutex, wrap_error};
use crate::contract::check_append;
use crate::{AppendError, Head, Log, LogId, Mended, OnSynced, RecordPage, StoreError};

/// A write buffer that has grown beyond this is freed.
const BUFFER_KEPT: usize = 1 << 20;
/// The active segment's index is stored whenever it covers this many bytes more: opening then reads
/// only the rest.
const INDEX_EVERY: u64 = 8 << 20;

/// The directories that must be synced before the log is safe: none, the log's own, or all up to
/// the root.
const DIRS_SAFE: u8 = 0;
const DIRS_OWN: u8 = 1;
const DIRS_ALL: u8 = 2;

#[derive(Debug)]
pub(super) struct FileLog {
    me: Weak<Self>,
    pub(super) id: LogId,
    pub(super) dir: PathBuf,
    segment_bytes: u64,
    context: LogContext,
    mended: Mended,
    writer: Mutex<LogWriter>,
    /// The part of the log that readers may see. Locked for a moment only, never during a read or a
    /// write.
    published: Mutex<LogView>,
    pub(super) hints: Mutex<ReadHints>,
    synced: AtomicU64,
    dirs: AtomicU8,
    /// True while the log is queued for the background sync.
    queued: AtomicBool,
    /// The number of bytes of the active segment that its stored index covers.
    indexed: AtomicU64,
    /// Set once: the reason why nothing can be appended any more.
    broken: OnceLock<(String, ErrorKind)>,
    removed: AtomicBool,
}

/// The parts that all logs of an engine share.
#[derive(Debug)]
pub(super) struct LogContext {
    pub(super) queue: Arc<SyncQueue>,
    pub(super) reserve: Arc<DiskReserve>,
}

#[derive(Debug)]
struct LogWriter {
    buf: Vec<u8>,
    head: Head,
    /// Length of the active segment.
    len: u64,
    active: Arc<Segment>,
    file: Arc<File>,
    /// The offset of the last point of the active segment's index.
    marked: u64,
}

#[derive(Clone, Debug)]
pub(super) struct LogView {
    pub(super) head: Head,
    pub(super) sealed: Arc<Vec<Arc<Segment>>>,
    pub(super) active: Arc<Segment>,
    pub(super) file: Arc<File>,
    /// Length of the active segment.
    pub(super) len: u64,
}

impl FileLog {
    pub(super) fn new(
        id: LogId,
        dir: PathBuf,
        options: &FileOptions,
        around: LogContext,
        opened: OpenedLog,
    ) -> Arc<Self> {
        let OpenedLog { sealed, active, file, len, head, mended } = opened;
        let active = Arc::new(active);
        let file = Arc::new(file);
        let writer = LogWriter {
            buf: Vec::new(),
            head,
            len,
            active: Arc::clone(&active),
            file: Arc::clone(&file),
            marked: active.index_up_to(len).last().map_or(0, |point| point.offset),
        };
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id,
            dir,
            segment_bytes: options.segment_bytes,
            context: around,
            mended,
            writer: Mutex::new(writer),
            published: Mutex::new(LogView { head, sealed: Arc::new(sealed), active, file, len }),
            hints: Mutex::default(),
            synced: AtomicU64::new(0),
            // The host that created it may have died before it was synced.
            dirs: AtomicU8::new(DIRS_ALL),
            queued: AtomicBool::new(false),
            indexed: AtomicU64::new(0),
            broken: OnceLock::new(),
            removed: AtomicBool::new(false),
        })
    }

    pub(super) fn view(&self) -> LogView {
        lock_mutex(&self.published).clone()
    }

    pub(super) fn mark_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }

    pub(super) fn check_present(&self) -> Result<(), StoreError> {
        match self.removed.load(Ordering::Acquire) {
            true => Err(StoreError::NotFound(self.id.clone())),
            false => Ok(()),
        }
    }

    fn check_writable(&self) -> Result<(), StoreError> {
        self.check_present()?;
        match self.broken.get() {
            Some((why, kind)) => {
                let what =
                    format!("log {} takes no more records until it is opened again", self.id);
                Err(io_error(what, io::Error::new(*kind, why.clone())))
            }
            None => Ok(()),
        }
    }

    fn break_off(&self, why: &StoreError, kind: ErrorKind) {
        let _ = self.broken.set((why.to_string(), kind));
    }

    /// Writes the buffer completely or leaves the file unchanged.
    fn write_buffer(&self, writer: &LogWriter) -> Result<(), AppendError> {
        let Err(error) = writer.file.write_all_at(&writer.buf, writer.len) else { return Ok(()) };
        if let Err(undo) = writer.file.set_len(writer.len)
            // On a read-only file system the write may not have happened at all.
            && writer.file.metadata().map_or(true, |file| file.len() != writer.len)
        {
            let kind = undo.kind();
            self.break_off(
                &wrap_error("cutting a failed write off", &writer.active.path)(undo),
                kind,
            );
            self.check_writable()?;
        }
        Err(self.append_error(&writer.active, error))
    }

    fn append_error(&self, segment: &Segment, error: io::Error) -> AppendError {
        if NO_SPACE_ERRORS.contains(&error.kind()) {
            return AppendError::Full(self.id.clone());
        }
        if error.kind() == ErrorKind::ReadOnlyFilesystem {
            return AppendError::ReadOnly(self.id.clone());
        }
        wrap_error("writing", &segment.path)(error).into()
    }

    /// Closes the active segment and creates the next one. The old segment is synced before the new
    /// one exists, so only the last segment can have a torn end.
    fn start_segment(&self, writer: &mut LogWriter) -> Result<(), AppendError> {
        let old = Arc::clone(&writer.active);
        writer.file.sync_data().map_err(|error| self.sync_failed(&old, error))?;
        let (segment, file, len) =
            Segment::create(&self.dir, writer.head.seq + 1, writer.head.epoch)
                .map_err(|error| self.append_error(&old, error))?;
        self.dirs.fetch_max(DIRS_OWN, Ordering::AcqRel);
        let points = old.index_up_to(writer.len);
        // An index that cannot be written now stays in memory.
        let kept = points.store(&old.idx_path(), old.first, writer.len).err().map(|_| points);
        let sealed = Arc::new(Segment::new(old.first, old.path.clone(), kept));

        writer.active = Arc::new(segment);
        writer.file = Arc::new(file);
        writer.len = len;
        writer.marked = 0;
        writer.head.bytes += len;
        self.indexed.store(0, Ordering::Relaxed);
        let mut published = lock_mutex(&self.published);
        let mut all = published.sealed.to_vec();
        all.push(sealed);
        *published = LogView {
            head: writer.head,
            sealed: Arc::new(all),
            active: Arc::clone(&writer.active),
            file: Arc::clone(&writer.file),
            len,
        };
        Ok(())
    }

    fn sync_failed(&self, segment: &Segment, error: io::Error) -> StoreError {
        // The kernel may have dropped the pages: a second fsync that succeeds would prove nothing.
        let kind = error.kind();
        let error = wrap_error("syncing", &segment.path)(error);
        self.break_off(&error, kind);
        error
    }

    /// Syncs everything appended so far and returns the last synced seq. Only the sync thread calls
    /// this.
    pub(super) fn sync_now(&self) -> Result<u64, StoreError> {
        self.check_writable()?;
        let view = self.view();
        let dirs = self.dirs.swap(DIRS_SAFE, Ordering::AcqRel);
        if view.head.seq <= self.synced.load(Ordering::Acquire) && dirs == DIRS_SAFE {
            return Ok(view.head.seq);
        }
        view.file.sync_data().map_err(|error| self.sync_failed(&view.active, error))?;
        // The directories up to the state directory: log, session, `sessions`, bucket,
        // `workspaces`, root.
        let depth = if dirs == DIRS_ALL { 6 } else { usize::from(dirs) };
        for dir in self.dir.ancestors().take(depth) {
            dirs::sync_dir(dir).map_err(|error| self.sync_failed(&view.active, error))?;
        }
        self.check_linked(&view)?;
        self.synced.fetch_max(view.head.seq, Ordering::AcqRel);
        Ok(view.head.seq)
    }

    /// Fails if another program deleted the active segment: its records are lost even if they were
    /// synced.
    fn check_linked(&self, view: &LogView) -> Result<(), StoreError> {
        // A removal by this engine is not an error.
        self.check_present()?;
        match view.file.metadata() {
            Ok(file) if file.nlink() > 0 => Ok(()),
            Ok(_) => {
                let error =
                    io::Error::new(ErrorKind::NotFound, "the file was deleted by another program");
                Err(self.sync_failed(&view.active, error))
            }
            Err(error) => Err(self.sync_failed(&view.active, error)),
        }
    }

    /// Syncs in the background and stores the active segment's index from time to time.
    pub(super) fn sync_in_background(&self) {
        self.queued.store(false, Ordering::Release);
        let view = self.view();
        // The next append or sync request reports the error.
        if self.sync_now().is_ok() && view.len >= self.indexed.load(Ordering::Relaxed) + INDEX_EVERY
        {
            let points = view.active.index_up_to(view.len);
            if points.store(&view.active.idx_path(), view.active.first, view.len).is_ok() {
                self.indexed.store(view.len, Ordering::Relaxed);
            }
        }
    }

    fn write_records(
        &self,
        writer: &mut LogWriter,
        epoch: u64,
        bodies: &[Bytes],
    ) -> Result<Head, AppendError> {
        if bodies.is_empty() {
            return Ok(writer.head);
        }
        if writer.len >= self.segment_bytes && writer.head.seq >= writer.active.first {
            self.start_segment(writer)?;
        }
        let (head, marks) = writer.encode_records(epoch, bodies);
        self.write_buffer(writer)?;
        if let Some(last) = marks.last() {
            writer.active.note_points(&marks);
            writer.marked = last.offset;
        }
        writer.head = head;
        writer.len += writer.buf.len() as u64;
        if writer.buf.capacity() > BUFFER_KEPT {
            mem::take(&mut writer.buf);
        }
        self.publish_head(head, writer.len);
        Ok(head)
    }

    fn publish_head(&self, head: Head, len: u64) {
        {
            let mut published = lock_mutex(&self.published);
            published.head = head;
            published.len = len;
        }
        if !self.queued.load(Ordering::Relaxed)
            && !self.queued.swap(true, Ordering::AcqRel)
            && let Some(me) = self.me.upgrade()
        {
            self.context.queue.sync_later(me);
        }
    }
}

impl LogWriter {
    /// Fills the buffer with the records' lines. Returns the resulting head and the new points of
    /// the index.
    fn encode_records(&mut self, epoch: u64, bodies: &[Bytes]) -> (Head, Vec<IndexPoint>) {
        let mut head = Head { epoch, ..self.head };
        let mut marks = Vec::new();
        let mut marked = self.marked;
        self.buf.clear();
        for body in bodies {
            head.seq += 1;
            let offset = self.len + self.buf.len() as u64;
            if marked == 0 || offset >= marked + points::POINT_STRIDE_BYTES {
                marks.push(IndexPoint { seq: head.seq, offset });
                marked = offset;
            }
            line::push_record(&mut self.buf, head.seq, epoch, body);
        }
        head.bytes += self.buf.len() as u64;
        (head, marks)
    }
}

impl Log for FileLog {
    fn head(&self) -> Head {
        lock_mutex(&self.published).head
    }

    fn mended(&self) -> Mended {
        self.mended.clone()
    }

    fn append(&self, epoch: u64, expected: u64, bodies: &[Bytes]) -> Result<Head, AppendError> {
        let mut writer = lock_mutex(&self.writer);
        self.check_writable()?;
        check_append(writer.head, epoch, expected, bodies)?;
        // The remaining space is reserved for required records.
        if !self.context.reserve.is_whole() {
            return Err(AppendError::Full(self.id.clone()));
        }
        self.write_records(&mut writer, epoch, bodies)
    }

    fn append_from_reserve(
        &self,
        epoch: u64,
        expected: u64,
        bodies: &[Bytes],
    ) -> Result<Head, AppendError> {
        let bytes: u64 = bodies.iter().map(|body| body.len() as u64).sum();
        if bytes > self.context.reserve.max_batch_bytes() {
            return self.append(epoch, expected, bodies);
        }
        let mut writer = lock_mutex(&self.writer);
        self.check_writable()?;
        check_append(writer.head, epoch, expected, bodies)?;
        loop {
            match self.write_records(&mut writer, epoch, bodies) {
                Err(AppendError::Full(_)) if self.context.reserve.release_piece() => {}
                written => return written,
            }
        }
    }

    fn sync(&self, done: OnSynced) {
        match self.me.upgrade() {
            Some(me) => self.context.queue.request_sync(me, done),
            None => done(self.sync_now()),
        }
    }

    fn read(&self, from: u64, max_bytes: usize) -> Result<RecordPage, StoreError> {
        self.check_present()?;
        super::read::read_page(self, from, max_bytes)
    }
}
