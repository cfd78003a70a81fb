//! Reads a rotated log: its last lines over all files, and the lines that follow, each once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::log_file::{OLD_FILES, is_at_path, old_file};

/// How often a file is looked at for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The most bytes that are read at once.
const MAX_CHUNK_BYTES: u64 = 1 << 20;

/// Returns the last lines of the log, and what follows them. There is nothing to follow if the
/// newest file is missing.
pub(super) fn read_last_lines(
    path: &Path,
    count: usize,
) -> anyhow::Result<(Vec<String>, Option<LogFollower>)> {
    let mut lines: VecDeque<String> = VecDeque::new();
    let mut follower = LogFollower::new(path);
    for (place, mut file) in open_files(path)?.into_iter().enumerate() {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .with_context(|| format!("reading {}", path.display()))?;
        // A line that the host is just writing belongs to the lines that follow.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let room = count.saturating_sub(lines.len());
        split_lines(&bytes[..whole])
            .into_iter()
            .rev()
            .take(room)
            .for_each(|line| lines.push_front(line));
        if place == 0 {
            follower.partial = bytes.split_off(whole);
            follower.file = Some(file);
        }
        if lines.len() >= count {
            break;
        }
    }
    let has_file = follower.file.is_some();
    Ok((lines.into(), Some(follower).filter(|_| has_file)))
}

/// Opens the files of a log, the newest first, each once: the host may rotate them meanwhile.
fn open_files(path: &Path) -> anyhow::Result<Vec<File>> {
    let mut files: Vec<File> = Vec::new();
    for name in
        std::iter::once(path.to_owned()).chain((1..=OLD_FILES).map(|number| old_file(path, number)))
    {
        let Some(file) =
            open_existing(&name).with_context(|| format!("opening {}", name.display()))?
        else {
            continue;
        };
        if !files.iter().any(|known| identity(known) == identity(&file)) {
            files.push(file);
        }
    }
    Ok(files)
}

fn open_existing(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|known| (known.dev(), known.ino()))
}

fn split_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.split_terminator('\n').map(str::to_owned).collect()
}

/// Follows a log across rotations.
#[derive(Debug)]
pub(super) struct LogFollower {
    path: PathBuf,
    /// `None` until there is one.
    file: Option<File>,
    /// The beginning of a line.
    partial: Vec<u8>,
    /// Newer files than `file`, the oldest first.
    newer: VecDeque<File>,
}

impl LogFollower {
    /// Follows a log from the beginning of a file that does not exist yet.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            partial: Vec::new(),
            newer: VecDeque::new(),
        }
    }

    /// Waits for lines and returns them.
    pub(super) async fn next_lines(&mut self) -> anyhow::Result<Vec<String>> {
        loop {
            let lines =
                self.read_new().with_context(|| format!("reading {}", self.path.display()))?;
            if !lines.is_empty() {
                return Ok(lines);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the lines that were written since the last call.
    fn read_new(&mut self) -> io::Result<Vec<String>> {
        // Before the read: a file that was put aside after it may have got further lines in
        // between.
        let is_current = self.file.as_ref().is_some_and(|file| is_at_path(file, &self.path));
        let lines = self.read_chunk()?;
        if !lines.is_empty() || is_current {
            return Ok(lines);
        }
        if self.newer.is_empty() {
            self.newer = self.find_newer()?;
        }
        match self.newer.pop_front() {
            Some(next) => {
                self.file = Some(next);
                self.read_chunk()
            }
            None => Ok(Vec::new()),
        }
    }

    /// Opens the files that are newer than `self.file`, the oldest first. If no file has been read
    /// yet, opens only the newest.
    fn find_newer(&self) -> io::Result<VecDeque<File>> {
        let read = self.file.as_ref().and_then(identity);
        let mut newer = VecDeque::new();
        for name in std::iter::once(self.path.clone())
            .chain((1..=OLD_FILES).map(|number| old_file(&self.path, number)))
        {
            let Some(file) = open_existing(&name)? else { continue };
            if identity(&file) == read {
                return Ok(newer);
            }
            newer.push_front(file);
            if read.is_none() {
                break;
            }
        }
        Ok(newer)
    }

    /// Reads on in the file and returns the whole lines.
    fn read_chunk(&mut self) -> io::Result<Vec<String>> {
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        let position = file.stream_position()?;
        if file.metadata()?.len() < position {
            // The file was emptied.
            file.seek(SeekFrom::Start(0))?;
            self.partial.clear();
        }
        let mut read = Vec::new();
        file.take(MAX_CHUNK_BYTES).read_to_end(&mut read)?;
        self.partial.append(&mut read);
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.partial.split_off(whole);
        let lines = split_lines(&self.partial);
        self.partial = rest;
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rotate(path: &Path) {
        for number in (1..OLD_FILES).rev() {
            let _ = fs::rename(old_file(path, number), old_file(path, number + 1));
        }
        fs::rename(path, old_file(path, 1)).unwrap();
    }

    #[test]
    fn last_lines_come_from_older_files_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        assert!(read_last_lines(&path, 3).unwrap().1.is_none());
        append(&path, "1\n2\n");
        rotate(&path);
        append(&path, "3\n");
        rotate(&path);
        append(&path, "4\nhalf");
        let read = |count| read_last_lines(&path, count).unwrap().0;
        assert_eq!(read(1), ["4"]);
        assert_eq!(read(3), ["2", "3", "4"]);
        assert_eq!(read(9), ["1", "2", "3", "4"]);
    }

    #[test]
    fn follower_gets_each_line_once_across_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        append(&path, "1\nha");
        let (lines, follower) = read_last_lines(&path, 9).unwrap();
        let mut follower = follower.unwrap();
        assert_eq!(lines, ["1"]);
        append(&path, "lf\n2\n");
        rotate(&path);
        append(&path, "3\n");
        rotate(&path);
        append(&path, "4\n");
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.extend(follower.read_new().unwrap());
        }
        assert_eq!(seen, ["half", "2", "3", "4"]);
        append(&path, "5\n");
        assert_eq!(follower.read_new().unwrap(), ["5"]);
        assert_eq!(follower.read_new().unwrap(), [""; 0]);
    }

    #[test]
    fn follower_waits_for_a_file_that_does_not_exist_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.log");
        let mut follower = LogFollower::new(&path);
        assert_eq!(follower.read_new().unwrap(), [""; 0]);
        append(&path, "first\n");
        assert_eq!(follower.read_new().unwrap(), ["first"]);
    }
}
