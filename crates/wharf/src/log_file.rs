//! The host's log in a file: private, rotated by size while it is written, without secrets (rule
//! 11.3).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tracing_subscriber::fmt::MakeWriter;
use wharf_host::redact::redact;

/// The log of a host in the background, in its state directory.
pub(crate) const LOG_FILE_NAME: &str = "host.log";
/// The size at which a file is put aside: some weeks of an ordinary host at the level `info`.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// The number of older files that are kept besides the current file.
pub(crate) const OLD_FILES: u32 = 3;

/// A log file. One call of `write` is one event of the log; an event that cannot be written is
/// dropped.
#[derive(Debug)]
pub(crate) struct RotatedLogFile {
    path: PathBuf,
    max_bytes: u64,
    /// True if stderr is this file too: it then follows the rotation.
    is_stderr: bool,
    current: Mutex<File>,
}

impl RotatedLogFile {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::open_with_limit(path, MAX_FILE_BYTES)
    }

    fn open_with_limit(path: &Path, max_bytes: u64) -> anyhow::Result<Self> {
        let path =
            std::path::absolute(path).with_context(|| format!("resolving {}", path.display()))?;
        let file = open_private(&path)
            .with_context(|| format!("opening the log file {}", path.display()))?;
        let stderr = rustix::fs::fstat(rustix::stdio::stderr()).ok();
        let own = rustix::fs::fstat(&file).ok();
        let is_stderr = stderr.zip(own).is_some_and(|(stderr, own)| is_same(&stderr, &own));
        Ok(Self { path, max_bytes, is_stderr, current: Mutex::new(file) })
    }

    fn write_event(&self, event: &[u8]) -> io::Result<()> {
        let text = redact(&String::from_utf8_lossy(event));
        let mut file = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Another host may have rotated the file, or somebody moved it away. Without a new one the
        // old one has to do.
        if !is_at_path(&file, &self.path) {
            let _ = self.reopen(&mut file);
        }
        let length = file.metadata()?.len();
        if length > 0 && length + text.len() as u64 > self.max_bytes {
            put_aside(&self.path)?;
            self.reopen(&mut file)?;
        }
        file.write_all(text.as_bytes())
    }

    fn reopen(&self, file: &mut File) -> io::Result<()> {
        *file = open_private(&self.path)?;
        if self.is_stderr {
            rustix::stdio::dup2_stderr(&*file)?;
        }
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RotatedLogFile {
    type Writer = LogFileWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogFileWriter(self)
    }
}

/// Writes events to a log file. Always succeeds: the subscriber would report an error to the same
/// place.
#[derive(Debug)]
pub(crate) struct LogFileWriter<'a>(&'a RotatedLogFile);

impl Write for LogFileWriter<'_> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_event(event);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the name of an older file; 1 is the newest of them.
pub(crate) fn old_file(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Renames the file and the older ones; the oldest is overwritten.
fn put_aside(path: &Path) -> io::Result<()> {
    for number in (1..OLD_FILES).rev() {
        match fs::rename(old_file(path, number), old_file(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(path, old_file(path, 1))
}

/// Opens a file for appending; a new one is readable for its user alone.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

fn is_same(one: &rustix::fs::Stat, other: &rustix::fs::Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Returns true if the path still names the open file.
pub(crate) fn is_at_path(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn file_is_rotated_while_it_is_written_and_the_oldest_goes() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(LOG_FILE_NAME);
        let log = RotatedLogFile::open_with_limit(&path, 20)?;
        for number in 0..11 {
            log.make_writer().write_all(format!("event {number:02}\n").as_bytes())?;
        }
        let files = [path.clone(), old_file(&path, 1), old_file(&path, 2), old_file(&path, 3)];
        let expected =
            ["event 10\n", "event 08\nevent 09\n", "event 06\nevent 07\n", "event 04\nevent 05\n"]
                .map(str::to_owned);
        assert_eq!(files.each_ref().map(|path| read(path)), expected);
        assert!(!old_file(&path, 4).exists());
        for path in files {
            assert_eq!(
                fs::metadata(&path)?.permissions().mode() & 0o777,
                0o600,
                "{}",
                path.display()
            );
        }
        Ok(())
    }

    #[test]
    fn two_hosts_and_a_removed_file_lose_no_event() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(LOG_FILE_NAME);
        let one = RotatedLogFile::open_with_limit(&path, 20)?;
        let other = RotatedLogFile::open_with_limit(&path, 20)?;
        one.make_writer().write_all(b"one 1\none 2\n")?;
        other.make_writer().write_all(b"other 1\n")?;
        other.make_writer().write_all(b"other 2\n")?;
        one.make_writer().write_all(b"one 3\n")?;
        assert_eq!(
            (read(&old_file(&path, 1)), read(&path)),
            ("one 1\none 2\nother 1\n".into(), "other 2\none 3\n".into())
        );
        fs::remove_file(&path)?;
        one.make_writer().write_all(b"again\n")?;
        assert_eq!(read(&path), "again\n");
        Ok(())
    }

    #[test]
    fn key_in_an_event_is_not_written() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(LOG_FILE_NAME);
        RotatedLogFile::open(&path)?
            .make_writer()
            .write_all(b"refused sk-ant-0123456789abcdefghij\n")?;
        assert_eq!(read(&path), "refused sk-[redacted]\n");
        Ok(())
    }
}
