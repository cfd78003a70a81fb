//! Where things are on the disk: `workspaces/<bucket>/sessions/<name>/log/<first seq>.log`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use crate::{LogId, LogStat};

const TRASH: &str = ".trash-";

/// A segment as a directory shows it.
pub(super) struct Found {
    pub(super) first: u64,
    pub(super) bytes: u64,
}

pub(super) fn segment_name(first: u64) -> String {
    format!("{first:020}.log")
}

fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let fits = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&first| fits && first > 0)
}

pub(super) fn workspaces(root: &Path) -> PathBuf {
    root.join("workspaces")
}

/// The directory of a session, in which the log's directory is.
pub(super) fn session(root: &Path, id: &LogId) -> PathBuf {
    let mut path = workspaces(root);
    path.extend([id.bucket(), "sessions", id.name()]);
    path
}

pub(super) fn log(session: &Path) -> PathBuf {
    session.join("log")
}

pub(super) fn create_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A new, empty file that only its owner can read.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The segments in a log's directory, in order.
pub(super) fn segments(dir: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(first) = entry.file_name().to_str().and_then(first_of) {
            found.push(Found { first, bytes: entry.metadata()?.len() });
        }
    }
    found.sort_unstable_by_key(|segment| segment.first);
    Ok(found)
}

/// Every log below `root`, by looking at directories only. No log has a second segment while its first is shorter than
/// `alone_below`.
pub(super) fn list(root: &Path, alone_below: u64) -> io::Result<Vec<LogStat>> {
    let mut logs = Vec::new();
    each_name(&workspaces(root), |bucket, path| {
        // With ten thousand of them it shows that names are looked up from the directory above, not from the root.
        let Some(sessions) = open_dir(CWD, &path.join("sessions"))? else { return Ok(()) };
        let mut names = Dir::read_from(&sessions)?;
        while let Some(entry) = names.read().transpose()? {
            let Some(id) = entry.file_name().to_str().ok().and_then(|name| LogId::new(bucket, name)) else { continue };
            match size(&sessions, id.name(), alone_below) {
                Ok(Some(bytes)) => logs.push(LogStat { id, bytes }),
                Ok(None) => {}
                // It is there, though something is wrong with it: opening it tells what. The others are listed.
                Err(_) => logs.push(LogStat { id, bytes: 0 }),
            }
        }
        Ok(())
    })?;
    Ok(logs)
}

/// How long a session's log is. `None`: it has none.
fn size(sessions: &OwnedFd, name: &str, alone_below: u64) -> io::Result<Option<u64>> {
    let log = log(Path::new(name));
    // One call instead of five, for all but the long ones.
    let first = statat(sessions, log.join(segment_name(1)), AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat_size(&stat));
    if let Ok(bytes) = first
        && bytes < alone_below
    {
        return Ok(Some(bytes));
    }
    let Some(dir) = open_dir(sessions, &log)? else { return Ok(None) };
    let mut entries = Dir::new(dir)?;
    let mut bytes = 0;
    while let Some(entry) = entries.read().transpose()? {
        if entry.file_name().to_str().ok().and_then(first_of).is_some() {
            bytes += stat_size(&statat(entries.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?);
        }
    }
    Ok(Some(bytes))
}

fn stat_size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn open_dir(at: impl AsFd, path: &Path) -> io::Result<Option<OwnedFd>> {
    match openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Puts a session's directory out of sight, in one step. `None`: there is none.
pub(super) fn hide(session: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let mut nth = 0_u32;
    loop {
        let trash = session.with_file_name(format!("{TRASH}{nth}-{name}"));
        match fs::rename(session, &trash) {
            Ok(()) => return Ok(Some(trash)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => nth += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Deletes what a crash in the middle of a removal left.
pub(super) fn sweep(root: &Path) -> io::Result<()> {
    each_name(&workspaces(root), |_, path| {
        each_name(&path.join("sessions"), |name, path| match name.starts_with(TRASH) {
            true => fs::remove_dir_all(path),
            false => Ok(()),
        })
    })
}

/// Calls with every entry of a directory. No directory, no calls.
fn each_name(dir: &Path, mut call: impl FnMut(&str, &Path) -> io::Result<()>) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str() {
            call(name, &entry.path())?;
        }
    }
    Ok(())
}
