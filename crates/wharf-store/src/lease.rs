//! One host at a time on a state directory, with an epoch that each host raises.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use crate::file::{
    checked_payload, create_file, find_largest_epoch, parse_number, push_line, push_number,
    sync_dir,
};
use crate::set_aside::{is_damage, open_regular_file, set_aside};

/// The right to append, for as long as it is held.
pub trait Lease: Send + Sync + fmt::Debug {
    /// Returns an epoch larger than that of every earlier lease.
    fn epoch(&self) -> u64;
}

/// The interval between attempts to take a held lock.
const RETRY_EVERY: Duration = Duration::from_millis(10);
/// A host that was just killed keeps its lock until the kernel has released its resources.
const LIVING_HOLDER_TIMEOUT: Duration = Duration::from_millis(500);
/// A process that a dead host was about to start keeps a copy of the lock until it executes its own
/// program.
const DEAD_HOLDER_TIMEOUT: Duration = Duration::from_secs(5);

/// The distance to the largest known epoch if the file is lost. A host raises the epoch by one;
/// readers may have seen ids of a few hosts whose events a power cut erased (rule 1.5).
const LOST_EPOCH_STEP: u64 = 1_000_000;

#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("another wharf uses {root}{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Held { root: PathBuf, pid: Option<u32> },
    #[error("{path} holds the last epoch that there can be")]
    LastEpoch { path: PathBuf },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

/// A locked file. The kernel releases the lock when the process ends, however it ends.
#[derive(Debug)]
pub struct FileLease {
    lock: File,
    path: PathBuf,
    epoch: u64,
    lost_epoch: Option<LostEpoch>,
}

/// Says that the file with the epoch was missing or damaged, and that the host recovered the epoch
/// from the other contents of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostEpoch {
    /// The largest epoch that was found.
    pub found: u64,
    /// The damaged file, if there was one.
    pub kept_as: Option<PathBuf>,
}

impl FileLease {
    /// Acquires the lease. Creates `root` if it does not exist.
    pub fn acquire(root: &Path) -> Result<Self, LeaseError> {
        Self::acquire_with(root, &|| 0)
    }

    /// The same; `find_indexed_epoch` returns the largest epoch that the index knows, in case that
    /// the file is lost.
    pub fn acquire_with(
        root: &Path,
        find_indexed_epoch: &dyn Fn() -> u64,
    ) -> Result<Self, LeaseError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .map_err(wrap_error("making", root))?;
        let path = root.join("host.lock");
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let lock = lock.map_err(wrap_error("opening", &path))?;
        if !take_lock(&lock, &path, is_alive).map_err(wrap_error("locking", &path))? {
            return Err(LeaseError::Held { root: root.to_owned(), pid: read_holder(&path) });
        }
        lock.set_len(0)
            .and_then(|()| writeln!(&lock, "{}", std::process::id()))
            .map_err(wrap_error("writing", &path))?;
        let RaisedEpoch { epoch, lost } = raise_epoch(root, find_indexed_epoch)?;
        Ok(Self { lock, path, epoch, lost_epoch: lost })
    }

    /// Returns how the epoch was found if its file was lost.
    pub const fn lost_epoch(&self) -> Option<&LostEpoch> {
        self.lost_epoch.as_ref()
    }

    /// Returns false once the lock's file is no longer at its path: the state directory was
    /// deleted, moved or replaced, and another host can take its place. An error of the check
    /// itself counts as true.
    pub fn is_in_place(&self) -> bool {
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        match (fs::metadata(&self.path).map(identity), self.lock.metadata().map(identity)) {
            (Ok(there), Ok(held)) => there == held,
            (Err(error), _) => {
                !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            }
            (Ok(_), Err(_)) => true,
        }
    }
}

/// Takes the lock, or returns false if another host has it. `is_alive` is called with the pid in
/// the file.
fn take_lock(lock: &File, path: &Path, is_alive: impl Fn(u32) -> bool) -> io::Result<bool> {
    let since = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let is_dead = read_holder(path).is_some_and(|pid| !is_alive(pid));
        if since.elapsed() >= if is_dead { DEAD_HOLDER_TIMEOUT } else { LIVING_HOLDER_TIMEOUT } {
            return Ok(false);
        }
        thread::sleep(RETRY_EVERY);
    }
}

/// Returns the pid in the lock's file.
fn read_holder(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

impl Lease for FileLease {
    fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Drop for FileLease {
    fn drop(&mut self) {
        // The pid is removed, so that no message names a process that is gone. Closing the file
        // releases the lock.
        let _ = self.lock.set_len(0);
    }
}

/// The epoch of a new lease.
struct RaisedEpoch {
    epoch: u64,
    lost: Option<LostEpoch>,
}

/// Raises the epoch; it is on the disk before it is used.
fn raise_epoch(
    root: &Path,
    find_indexed_epoch: &dyn Fn() -> u64,
) -> Result<RaisedEpoch, LeaseError> {
    let path = root.join("epoch");
    let mut damaged = None;
    let before = match read_file(&path) {
        Ok(bytes) => {
            damaged = Some(path.as_path());
            parse_epoch(&bytes)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => (!has_sessions(root)).then_some(0),
        Err(error) if is_damage(&error) => {
            damaged = Some(path.as_path());
            None
        }
        Err(error) => return Err(wrap_error("reading", &path)(error)),
    };
    let lost = match before {
        Some(_) => None,
        None => Some(recover_epoch(root, damaged, find_indexed_epoch)?),
    };
    let next = match (&lost, before) {
        (Some(lost), _) => lost.found.checked_add(LOST_EPOCH_STEP),
        (None, before) => before.unwrap_or(0).checked_add(1),
    };
    let Some(epoch) = next else { return Err(LeaseError::LastEpoch { path }) };
    let mut text = Vec::new();
    push_line(&mut text, |out| {
        push_number(out, b"{\"epoch\":", epoch);
        out.push(b'}');
    });
    let temporary = root.join("epoch.new");
    create_file(&temporary)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| sync_dir(root))
        .map_err(wrap_error("writing", &path))?;
    Ok(RaisedEpoch { epoch, lost })
}

/// Finds the largest epoch that events of this directory have, and keeps the damaged file: starting
/// again at 1 would give new events ids that readers have already seen.
fn recover_epoch(
    root: &Path,
    damaged: Option<&Path>,
    find_indexed_epoch: &dyn Fn() -> u64,
) -> Result<LostEpoch, LeaseError> {
    let found = find_largest_epoch(root)
        .map_err(wrap_error("looking for epochs in", root))?
        .max(find_indexed_epoch());
    let kept_as = damaged
        .map(|path| set_aside(path).map_err(wrap_error("renaming", path)))
        .transpose()?;
    Ok(LostEpoch { found, kept_as })
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse_epoch(bytes: &[u8]) -> Option<u64> {
    let (epoch, rest) =
        parse_number(checked_payload(bytes.strip_suffix(b"\n")?)?.strip_prefix(b"{\"epoch\":")?)?;
    (rest == b"}").then_some(epoch)
}

fn has_sessions(root: &Path) -> bool {
    fs::read_dir(root.join("workspaces")).is_ok_and(|mut buckets| buckets.next().is_some())
}

fn wrap_error(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> LeaseError {
    move |source| LeaseError::Io { what: format!("{doing} {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn open_lock(path: &Path) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap()
    }

    #[test]
    fn lock_that_a_dead_host_still_holds_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.lock");
        fs::write(&path, "4000000\n").unwrap();
        let dead = open_lock(&path);
        dead.lock().unwrap();
        let held = RefCell::new(vec![dead]);
        let looks = RefCell::new(0);
        let is_alive = |pid| {
            assert_eq!(pid, 4_000_000);
            *looks.borrow_mut() += 1;
            if *looks.borrow() == 3 {
                held.borrow_mut().clear();
            }
            false
        };
        assert!(take_lock(&open_lock(&path), &path, is_alive).unwrap());
        assert_eq!(*looks.borrow(), 3);
    }

    #[test]
    fn lock_of_a_living_host_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.lock");
        fs::write(&path, "1\n").unwrap();
        let other = open_lock(&path);
        other.lock().unwrap();
        assert!(!take_lock(&open_lock(&path), &path, |_| true).unwrap());
    }

    #[test]
    fn lease_is_out_of_place_when_its_directory_is_deleted_moved_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("state");
        let elsewhere = dir.path().join("elsewhere");
        let lease = FileLease::acquire(&root).unwrap();
        assert!(lease.is_in_place());
        fs::rename(&root, &elsewhere).unwrap();
        assert!(!lease.is_in_place(), "moved");
        let _other = FileLease::acquire(&root).unwrap();
        assert!(!lease.is_in_place(), "replaced");
        fs::remove_dir_all(&root).unwrap();
        assert!(!lease.is_in_place(), "deleted");
        fs::rename(&elsewhere, &root).unwrap();
        assert!(lease.is_in_place(), "back");
    }
}
