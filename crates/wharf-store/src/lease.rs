//! One host at a time on a state directory, and the epoch that each one raises.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::file::{create_file, number, payload, push, push_number, sync_dir};

/// The right to append, for as long as it is held.
pub trait Lease: Send + Sync + fmt::Debug {
    /// Larger than that of every lease before it.
    fn epoch(&self) -> u64;
}

#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error("another wharf uses {root}{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Held { root: PathBuf, pid: Option<u32> },
    /// Starting again at 1 would give new events ids that readers have seen.
    #[error("{path} is missing or damaged although {root} holds sessions: restore it from a backup")]
    EpochLost { path: PathBuf, root: PathBuf },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

/// A locked file. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct FileLease {
    lock: File,
    epoch: u64,
}

impl FileLease {
    /// Makes `root` if there is none.
    pub fn acquire(root: &Path) -> Result<Self, LeaseError> {
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed("making", root))?;
        let path = root.join("host.lock");
        let lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(failed("opening", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                return Err(LeaseError::Held { root: root.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking", &path)(error)),
        }
        lock.set_len(0).and_then(|()| writeln!(&lock, "{}", std::process::id())).map_err(failed("writing", &path))?;
        let epoch = raise(root)?;
        Ok(Self { lock, epoch })
    }
}

impl Lease for FileLease {
    fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Drop for FileLease {
    fn drop(&mut self) {
        // So that nobody is told of a pid that is gone. Closing the file releases the lock.
        let _ = self.lock.set_len(0);
    }
}

/// Takes the next epoch; it is on the disk before it is used.
fn raise(root: &Path) -> Result<u64, LeaseError> {
    let path = root.join("epoch");
    let before = match fs::read(&path) {
        Ok(bytes) => parse(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => (!has_sessions(root)).then_some(0),
        Err(error) => return Err(failed("reading", &path)(error)),
    };
    let Some(epoch) = before.and_then(|before| before.checked_add(1)) else {
        return Err(LeaseError::EpochLost { path, root: root.to_owned() });
    };
    let mut text = Vec::new();
    push(&mut text, |out| {
        push_number(out, b"{\"epoch\":", epoch);
        out.push(b'}');
    });
    let temporary = root.join("epoch.new");
    create_file(&temporary)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| sync_dir(root))
        .map_err(failed("writing", &path))?;
    Ok(epoch)
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let (epoch, rest) = number(payload(bytes.strip_suffix(b"\n")?)?.strip_prefix(b"{\"epoch\":")?)?;
    (rest == b"}").then_some(epoch)
}

fn has_sessions(root: &Path) -> bool {
    fs::read_dir(root.join("workspaces")).is_ok_and(|mut buckets| buckets.next().is_some())
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> LeaseError {
    move |source| LeaseError::Io { what: format!("{doing} {}", path.display()), source }
}
