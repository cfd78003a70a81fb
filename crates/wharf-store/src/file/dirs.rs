//! The layout on disk: `workspaces/<bucket>/sessions/<name>/log/<first seq>.log`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use crate::{LogId, LogStat};

const TRASH_PREFIX: &str = ".trash-";

/// A segment in a directory listing.
pub(super) struct SegmentFile {
    pub(super) first: u64,
    pub(super) bytes: u64,
}

pub(super) fn segment_name(first: u64) -> String {
    format!("{first:020}.log")
}

fn parse_segment_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let fits = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&first| fits && first > 0)
}

pub(super) fn workspaces_dir(root: &Path) -> PathBuf {
    root.join("workspaces")
}

/// Returns the directory of a session, which contains the log's directory.
pub(super) fn session_dir(root: &Path, id: &LogId) -> PathBuf {
    let mut path = workspaces_dir(root);
    path.extend([id.bucket(), "sessions", id.name()]);
    path
}

pub(super) fn log_dir(session: &Path) -> PathBuf {
    session.join("log")
}

pub(super) fn create_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates an empty file that only its owner can read.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns the segments in a log's directory, in order.
pub(super) fn list_segments(dir: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(first) = entry.file_name().to_str().and_then(parse_segment_name) {
            found.push(SegmentFile { first, bytes: entry.metadata()?.len() });
        }
    }
    found.sort_unstable_by_key(|segment| segment.first);
    Ok(found)
}

/// Lists every log below `root` without opening the logs. A log has a second segment only if its
/// first one has reached `alone_below`.
pub(super) fn list_logs(root: &Path, alone_below: u64) -> io::Result<Vec<LogStat>> {
    let mut logs = Vec::new();
    for_each_entry(&workspaces_dir(root), |bucket, path| {
        // Names are looked up from the directory above instead of from the root, which is
        // measurable with ten thousand logs.
        let Some(sessions) = open_dir(CWD, &path.join("sessions"))? else { return Ok(()) };
        let mut names = Dir::read_from(&sessions)?;
        while let Some(entry) = names.read().transpose()? {
            let Some(id) =
                entry.file_name().to_str().ok().and_then(|name| LogId::new(bucket, name))
            else {
                continue;
            };
            match log_bytes(&sessions, id.name(), alone_below) {
                Ok(Some(bytes)) => logs.push(LogStat { id, bytes }),
                Ok(None) => {}
                // The log exists but cannot be examined: opening it reports the reason. The other
                // logs are listed.
                Err(_) => logs.push(LogStat { id, bytes: 0 }),
            }
        }
        Ok(())
    })?;
    Ok(logs)
}

/// Returns the length of a session's log, or `None` if it has none.
fn log_bytes(sessions: &OwnedFd, name: &str, alone_below: u64) -> io::Result<Option<u64>> {
    let log = log_dir(Path::new(name));
    // One system call replaces five for all but long logs.
    let first = statat(sessions, log.join(segment_name(1)), AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| stat_size(&stat));
    if let Ok(bytes) = first
        && bytes < alone_below
    {
        return Ok(Some(bytes));
    }
    let Some(dir) = open_dir(sessions, &log)? else { return Ok(None) };
    let mut entries = Dir::new(dir)?;
    let mut bytes = 0;
    while let Some(entry) = entries.read().transpose()? {
        if entry.file_name().to_str().ok().and_then(parse_segment_name).is_some() {
            bytes +=
                stat_size(&statat(entries.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?);
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

/// Renames a session's directory to a hidden name in one step. Returns `None` if there is no such
/// directory.
pub(super) fn hide_session(session: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let mut nth = 0_u32;
    loop {
        let trash = session.with_file_name(format!("{TRASH_PREFIX}{nth}-{name}"));
        match fs::rename(session, &trash) {
            Ok(()) => return Ok(Some(trash)),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
                ) =>
            {
                nth += 1
            }
            Err(error) => return Err(error),
        }
    }
}

/// Deletes directories that a crash in the middle of a removal left.
pub(super) fn delete_trash(root: &Path) -> io::Result<()> {
    for_each_entry(&workspaces_dir(root), |_, path| {
        for_each_entry(&path.join("sessions"), |name, path| match name.starts_with(TRASH_PREFIX) {
            true => fs::remove_dir_all(path),
            false => Ok(()),
        })
    })
}

/// Calls `call` with every entry of a directory, or not at all if the directory does not exist.
fn for_each_entry(
    dir: &Path,
    mut call: impl FnMut(&str, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
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
