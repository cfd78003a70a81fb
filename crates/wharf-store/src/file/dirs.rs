//! Where things are on the disk: `workspaces/<bucket>/sessions/<name>/log/<first seq>.log`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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

/// Every log below `root`, by looking at directories only.
pub(super) fn list(root: &Path) -> io::Result<Vec<LogStat>> {
    let mut logs = Vec::new();
    each_name(&workspaces(root), |bucket, path| {
        each_name(&path.join("sessions"), |name, path| {
            let Some(id) = LogId::new(bucket, name) else { return Ok(()) };
            match segments(&log(path)) {
                Ok(found) => logs.push(LogStat { id, bytes: found.iter().map(|segment| segment.bytes).sum() }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // It is there, though something is wrong with it: opening it tells what. The others are listed.
                Err(_) => logs.push(LogStat { id, bytes: 0 }),
            }
            Ok(())
        })
    })?;
    Ok(logs)
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
