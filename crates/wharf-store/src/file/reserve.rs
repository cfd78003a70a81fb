//! Disk space that is reserved for a full disk: enough to record the pause, kills and cancels (rule
//! 10.5).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use super::{NO_SPACE_ERRORS, lock_mutex};

/// The number of pieces in which the reserve is released. Other programs may take the freed space,
/// so some is kept for the next kill.
const RESERVE_PIECES: u64 = 8;
/// The shortest time between two attempts to refill the reserve, however many callers ask.
const REFILL_INTERVAL: Duration = Duration::from_millis(100);
static ZERO_BLOCK: [u8; 64 << 10] = [0; 64 << 10];

/// A preallocated file. While it is incomplete, only required records are written.
#[derive(Debug)]
pub(super) struct DiskReserve {
    path: PathBuf,
    size: u64,
    spent: AtomicBool,
    state: Mutex<ReserveState>,
}

#[derive(Debug, Default)]
struct ReserveState {
    held: u64,
    tried_at: Option<Instant>,
}

impl DiskReserve {
    /// Creates the reserve, or adopts the file of an earlier host. The error is the reason why
    /// there can be no reserve, other than a full disk.
    pub(super) fn create(root: &Path, size: u64) -> (Self, Option<io::Error>) {
        let path = root.join("reserve");
        let found =
            fs::metadata(&path).map_or(0, |file| file.len().min(file.blocks().saturating_mul(512)));
        let state = Mutex::new(ReserveState { held: found.min(size), tried_at: None });
        let mut reserve = Self { path, size, spent: AtomicBool::new(false), state };
        if size == 0 {
            let _ = fs::remove_file(&reserve.path);
            return (reserve, None);
        }
        let taken = if found == size { Ok(()) } else { reserve.allocate_up_to(size) };
        match taken {
            Ok(()) => (reserve, None),
            Err(error)
                if NO_SPACE_ERRORS.contains(&error.kind())
                    && error.kind() != ErrorKind::FileTooLarge =>
            {
                reserve.spent = AtomicBool::new(true);
                (reserve, None)
            }
            Err(error) => {
                reserve.size = 0;
                (reserve, Some(error))
            }
        }
    }

    /// Returns the largest batch that may be written from the reserve: one session must not use up
    /// what all others need.
    pub(super) fn max_batch_bytes(&self) -> u64 {
        self.size / 4
    }

    /// Returns true if there is space, as far as is known. Refills the reserve first if it was
    /// used.
    pub(super) fn is_whole(&self) -> bool {
        !self.spent.load(Ordering::Acquire) || self.refill()
    }

    /// Releases a piece. Returns false if none is left.
    pub(super) fn release_piece(&self) -> bool {
        let mut state = lock_mutex(&self.state);
        if self.size == 0 || state.held == 0 {
            return false;
        }
        self.spent.store(true, Ordering::Release);
        let left = state.held.saturating_sub((self.size / RESERVE_PIECES).max(1));
        let drawn = self.open().and_then(|file| file.set_len(left));
        state.held = if drawn.is_ok() { left } else { 0 };
        drawn.is_ok()
    }

    fn refill(&self) -> bool {
        {
            let mut state = lock_mutex(&self.state);
            if state.tried_at.is_some_and(|tried_at| tried_at.elapsed() < REFILL_INTERVAL) {
                return false;
            }
            state.tried_at = Some(Instant::now());
        }
        // Twice the size is allocated for a moment: after a refill with the last free byte the next
        // append would find no space again.
        let whole = self
            .allocate_up_to(self.size * 2)
            .and_then(|()| self.open()?.set_len(self.size))
            .is_ok();
        if whole {
            self.spent.store(false, Ordering::Release);
        }
        whole
    }

    /// Allocates blocks up to this size, or leaves the file as it was.
    fn allocate_up_to(&self, size: u64) -> io::Result<()> {
        let mut state = lock_mutex(&self.state);
        let file = self.open()?;
        match allocate_blocks(&file, state.held, size) {
            Ok(()) => {
                state.held = self.size;
                Ok(())
            }
            Err(error) => {
                let _ = file.set_len(state.held);
                Err(error)
            }
        }
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)
    }
}

fn allocate_blocks(mut file: &File, from: u64, to: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, to).map_err(io::Error::from) {
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {}
        allocated => return allocated,
    }
    // A file system without preallocation is written to instead.
    io::Seek::seek(&mut file, io::SeekFrom::Start(from))?;
    let mut left = to.saturating_sub(from);
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(ZERO_BLOCK.len());
        file.write_all(&ZERO_BLOCK[..part])?;
        left -= part as u64;
    }
    file.sync_data()
}

/// Deletes the whole reserve, for a host that cannot start otherwise. The running host creates it
/// again.
pub(super) fn delete_reserve(root: &Path) -> bool {
    fs::remove_file(root.join("reserve")).is_ok()
}
