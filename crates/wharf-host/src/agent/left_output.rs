//! The files of an agent whose time without a host ran out: its keeper writes them to the disk, and
//! the next host reads them like those of an agent that it takes over.
//!
//! They are in a directory beside the records of trees, `run/PID.TIME.left`, which is renamed into
//! place when all of it is on the disk: either it is whole or it is not there.
//!
//! | file | content |
//! |---|---|
//! | `output` | the output file, at the same offsets; the part that is in the log is a hole |
//! | `ledger` | its records; the next host adds its own, so that the one after it goes on exactly |
//! | `input` | nothing; its length is that of the input file and says which lines were sent |
//! | `stderr` | the end of stderr |
//! | `record` | the record of the tree, which names the session |
//! | `end` | [`VERSION`], and the exit of the agent if it ended by itself |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use rustix::fs::{OFlags, SeekFrom};

use super::agent_process::AgentExit;
use super::keeper::protocol::{EXITED, SIGNALLED};
use super::kept_files::{KeptFiles, file_position, file_size, read_range, write_at};
use super::ledger::find_records;
use super::record_files::{
    LEFT_OUTPUT_EXTENSION, TAKEN_OUTPUT_EXTENSION, UNFINISHED_OUTPUT_EXTENSION, open_regular,
    read_bounded,
};
use crate::ids::Now;

/// The first line of `end`. A host that does not know it leaves the directory alone.
const VERSION: &str = "wharf left output 1";
const COPIED_BYTES: u64 = 64 << 10;
/// No file `end` is larger: it has two lines.
const MAX_END_BYTES: u64 = 4 << 10;
/// No file `stderr` is larger. A keeper keeps less.
const MAX_STDERR_BYTES: u64 = 1 << 20;

/// The things that a keeper leaves beside the files of its agent.
#[derive(Debug)]
pub(super) struct AgentRemains<'a> {
    pub(super) stderr: &'a [u8],
    /// Unset for an agent that its keeper has ended.
    pub(super) exit: Option<ExitStatus>,
}

/// The output that a keeper has left. The files are open as those of an agent that has ended.
#[derive(Debug)]
pub(super) struct LeftOutput {
    pub(super) files: KeptFiles,
    pub(super) stderr: Vec<u8>,
    pub(super) exit: Option<AgentExit>,
}

/// Writes the files of an agent that has ended beside the record of its tree.
pub(super) fn write_output(
    record: &Path,
    files: &KeptFiles,
    remains: &AgentRemains<'_>,
) -> io::Result<()> {
    let record_text = fs::read(record)?;
    let records = record.parent().unwrap_or(record);
    let path = record.with_extension(format!("{}.{LEFT_OUTPUT_EXTENSION}", Now::millis().0));
    let half = path.with_extension(UNFINISHED_OUTPUT_EXTENSION);
    DirBuilder::new().mode(0o700).create(&half)?;
    let written =
        write_file(&half, "record", &record_text).and_then(|()| write_files(&half, files, remains));
    let written = written.and_then(|()| fs::rename(&half, &path));
    if written.is_err() {
        // On a full disk, half of the output would only keep the space from others.
        let _ = fs::remove_dir_all(&half);
    } else if let Ok(records) = File::open(records) {
        // It is in place. If this fails, writing it once more would make two of it.
        let _ = records.sync_all();
    }
    written
}

/// Removes the output that a keeper has left in this directory: its session has taken all that it
/// needs. If the host is killed meanwhile, the rest cannot be taken for the whole output.
pub(super) fn remove_output(dir: &Path) -> io::Result<()> {
    let taken = dir.with_extension(TAKEN_OUTPUT_EXTENSION);
    fs::rename(dir, &taken)?;
    fs::remove_dir_all(taken)
}

fn write_files(dir: &Path, files: &KeptFiles, remains: &AgentRemains<'_>) -> io::Result<()> {
    let output = create_file(dir, "output")?;
    copy_output(&files.output, &output)?;
    output.sync_all()?;
    let ledger = create_file(dir, "ledger")?;
    copy_ledger(&files.ledger, &ledger)?;
    ledger.sync_all()?;
    let input = create_file(dir, "input")?;
    input.set_len(file_size(&files.input)?)?;
    input.sync_all()?;
    write_file(dir, "stderr", remains.stderr)?;
    let exit =
        remains
            .exit
            .map_or_else(String::new, |status| match (status.code(), status.signal()) {
                (Some(code), _) => format!("{EXITED} {code}\n"),
                (None, signal) => format!("{SIGNALLED} {}\n", signal.unwrap_or_default()),
            });
    write_file(dir, "end", format!("{VERSION}\n{exit}").as_bytes())?;
    File::open(dir)?.sync_all()
}

fn create_file(dir: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name))
}

fn write_file(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = create_file(dir, name)?;
    write_at(&file, bytes, 0)?;
    file.sync_all()
}

/// Copies the parts of the output file that are still there, to the same places. Its position
/// stays.
fn copy_output(from: &OwnedFd, to: &File) -> io::Result<()> {
    let end = file_position(from)?;
    let copied = copy_parts(from, to, end);
    rustix::fs::seek(from, SeekFrom::Start(end))?;
    copied?;
    to.set_len(end)
}

fn copy_parts(from: &OwnedFd, to: &File, end: u64) -> io::Result<()> {
    let mut at = 0;
    // Fails behind the last part.
    while let Ok(data) = rustix::fs::seek(from, SeekFrom::Data(at)) {
        if data >= end {
            break;
        }
        let hole = rustix::fs::seek(from, SeekFrom::Hole(data))?.min(end);
        at = data;
        while at < hole {
            let bytes = read_range(from, at, hole.min(at + COPIED_BYTES))?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            write_at(to, &bytes, at)?;
            at += bytes.len() as u64;
        }
    }
    Ok(())
}

/// Copies the status and the records of a ledger. The place of the records means nothing, so that
/// they need no hole before them.
fn copy_ledger(from: &OwnedFd, to: &File) -> io::Result<()> {
    let records = find_records(from)?;
    write_at(to, &read_range(from, 0, records.first_page_end)?, 0)?;
    write_at(to, &records.bytes, records.first_page_end)
}

impl LeftOutput {
    /// Opens the output that a keeper has left in this directory.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let end = String::from_utf8(read_bounded(&dir.join("end"), MAX_END_BYTES)?)
            .map_err(io::Error::other)?;
        let mut lines = end.lines();
        if lines.next() != Some(VERSION) {
            return Err(io::Error::other("it is of a version that this program does not know"));
        }
        let exit = lines.next().and_then(read_exit);
        let open = |name: &str| {
            let file = OwnedFd::from(open_regular(&dir.join(name), OFlags::RDWR)?);
            // The position says how far the stream has come.
            rustix::fs::seek(&file, SeekFrom::End(0))?;
            Ok::<_, io::Error>(file)
        };
        // The agent's ends of the pipes are closed, as they would be after its end.
        let (_, stdin) = io::pipe()?;
        let (stdout, _) = io::pipe()?;
        let (stderr, _) = io::pipe()?;
        let files = KeptFiles {
            stdin: stdin.into(),
            input: open("input")?,
            stdout: stdout.into(),
            output: open("output")?,
            stderr: stderr.into(),
            ledger: open("ledger")?,
        };
        Ok(Self {
            files,
            stderr: read_bounded(&dir.join("stderr"), MAX_STDERR_BYTES)?,
            exit,
        })
    }
}

fn read_exit(line: &str) -> Option<AgentExit> {
    let (word, number) = line.split_once(' ')?;
    let number = number.parse().ok()?;
    match word {
        EXITED => Some(AgentExit { code: Some(number), ..AgentExit::default() }),
        SIGNALLED => Some(AgentExit { signal: Some(number), ..AgentExit::default() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use wharf_core::Seq;

    use super::super::kept_files::{create_file, release_range};
    use super::super::ledger::{Ledger, LineNote};
    use super::super::record_files::find_left_outputs;
    use super::*;

    /// Returns the files of an agent that has written a megabyte, of which the log has most.
    fn kept_files() -> KeptFiles {
        let (_, stdin) = io::pipe().unwrap();
        let (stdout, _) = io::pipe().unwrap();
        let (stderr, _) = io::pipe().unwrap();
        let input = create_file("input").unwrap();
        let output = create_file("output").unwrap();
        write_at(&input, &[b'i'; 80], 0).unwrap();
        write_at(&output, &vec![b'o'; 1 << 20], 0).unwrap();
        write_at(&output, b"the end", 1 << 20).unwrap();
        rustix::fs::seek(&output, SeekFrom::Start((1 << 20) + 7)).unwrap();
        release_range(&output, 0, 512 << 10);
        let ledger = create_file("ledger").unwrap();
        let handle = Ledger::create(ledger.try_clone().unwrap()).unwrap();
        // So many notes that the ledger gives the memory of the first ones back.
        for seq in 1..200_000 {
            handle.lock().note_reads(Seq(seq), [seq * 5].into_iter()).unwrap();
            handle.lock().note_line(LineNote::Effect(Seq(seq)), 80).unwrap();
            handle.lock().confirm_reads().unwrap();
        }
        KeptFiles {
            stdin: stdin.into(),
            input,
            stdout: stdout.into(),
            output,
            stderr: stderr.into(),
            ledger,
        }
    }

    fn record_in(dir: &Path) -> PathBuf {
        let record = dir.join("71");
        fs::write(&record, "the record").unwrap();
        record
    }

    #[test]
    fn output_ledger_and_positions_come_back_as_they_were() {
        let temp = tempfile::tempdir().unwrap();
        let files = kept_files();
        let exit = Some(ExitStatus::from_raw(7 << 8));
        write_output(
            &record_in(temp.path()),
            &files,
            &AgentRemains { stderr: b"last words", exit },
        )
        .unwrap();
        assert_eq!(file_position(&files.output).unwrap(), (1 << 20) + 7, "the keeper could go on");
        let found = find_left_outputs(temp.path(), LEFT_OUTPUT_EXTENSION).unwrap();
        let [path] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read(path.join("record")).unwrap(), b"the record");
        for _ in 0..2 {
            let left = LeftOutput::open(path).unwrap();
            assert_eq!((left.exit.unwrap().code, &left.stderr[..]), (Some(7), &b"last words"[..]));
            let LeftOutput { files, .. } = LeftOutput::open(path).unwrap();
            assert_eq!(file_position(&files.output).unwrap(), (1 << 20) + 7);
            assert_eq!(read_range(&files.output, (1 << 20) - 1, 2 << 20).unwrap(), b"othe end");
            assert_eq!(
                read_range(&files.output, 512 << 10, 1 << 20).unwrap(),
                vec![b'o'; 512 << 10]
            );
            let input_size = file_size(&files.input).unwrap();
            // Each host writes on to the ledger, so that the one after it goes on from there.
            let (_, known) = Ledger::recover(files.ledger, Seq(150_000), input_size).unwrap();
            assert_eq!((known.sent_through, known.input_end), (Seq(199_999), 80));
        }
    }

    #[test]
    fn output_is_whole_or_not_there() {
        let temp = tempfile::tempdir().unwrap();
        let remains = AgentRemains { stderr: b"", exit: None };
        let missing = write_output(&temp.path().join("71"), &kept_files(), &remains);
        assert_eq!(
            missing.unwrap_err().kind(),
            io::ErrorKind::NotFound,
            "a tree without its record"
        );
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        // A keeper that is killed while it writes leaves this.
        let half = temp.path().join("71.5.leaving");
        fs::create_dir(&half).unwrap();
        fs::write(half.join("output"), "half").unwrap();
        assert_eq!(
            find_left_outputs(temp.path(), LEFT_OUTPUT_EXTENSION).unwrap(),
            Vec::<PathBuf>::new()
        );
        // An output of a later version is not touched.
        let later = temp.path().join("71.5.left");
        fs::create_dir(&later).unwrap();
        fs::write(later.join("end"), "wharf left output 2\n").unwrap();
        assert!(LeftOutput::open(&later).unwrap_err().to_string().contains("version"));
        assert!(later.exists());
    }

    #[test]
    fn odd_files_in_the_place_of_the_output_are_refused_at_once() {
        let temp = tempfile::tempdir().unwrap();
        write_output(
            &record_in(temp.path()),
            &kept_files(),
            &AgentRemains { stderr: b"", exit: None },
        )
        .unwrap();
        let found = find_left_outputs(temp.path(), LEFT_OUTPUT_EXTENSION).unwrap();
        let [left] = found.as_slice() else { panic!("{found:?}") };
        for name in ["end", "stderr", "output", "ledger", "input"] {
            let path = left.join(name);
            let aside = left.join("aside");
            fs::rename(&path, &aside).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
            assert!(LeftOutput::open(left).is_err(), "{name} is a pipe");
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&aside, &path).unwrap();
            assert!(LeftOutput::open(left).is_err(), "{name} is a link");
            fs::remove_file(&path).unwrap();
            fs::rename(&aside, &path).unwrap();
            assert!(LeftOutput::open(left).is_ok());
        }
        for name in ["end", "stderr"] {
            OpenOptions::new()
                .write(true)
                .open(left.join(name))
                .unwrap()
                .set_len(64 << 20)
                .unwrap();
            assert!(LeftOutput::open(left).unwrap_err().to_string().contains("larger"), "{name}");
            OpenOptions::new()
                .write(true)
                .open(left.join(name))
                .unwrap()
                .set_len(0)
                .unwrap();
            fs::write(left.join(name), VERSION).unwrap();
        }
    }
}
