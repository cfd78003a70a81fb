//! The files that outlive the host together with the agent: its pipes, and three files in memory
//! beside them.
//!
//! Every byte of the agent's stdout is moved by `splice` from the pipe into the *output file*, and
//! every byte of its stdin from the *input file* into the pipe. `splice` moves the bytes and the
//! file's position in one system call, so the position says exactly how far the stream has come,
//! whichever process has moved it and however that process has ended. Host and keeper share the
//! open files; only one of them moves bytes at a time. The third file is the
//! [ledger](super::ledger).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The files of one agent, in the order in which they are passed between processes.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    /// The end of the agent's stdin that is written to.
    pub(crate) stdin: OwnedFd,
    pub(crate) input: OwnedFd,
    /// The end of the agent's stdout that is read from.
    pub(crate) stdout: OwnedFd,
    pub(crate) output: OwnedFd,
    /// The end of the agent's stderr that is read from.
    pub(crate) stderr: OwnedFd,
    pub(crate) ledger: OwnedFd,
}

impl KeptFiles {
    pub(crate) const COUNT: usize = 6;

    pub(crate) fn as_fds(&self) -> [BorrowedFd<'_>; Self::COUNT] {
        let Self { stdin, input, stdout, output, stderr, ledger } = self;
        [
            stdin.as_fd(),
            input.as_fd(),
            stdout.as_fd(),
            output.as_fd(),
            stderr.as_fd(),
            ledger.as_fd(),
        ]
    }

    /// Takes the first files of a message. Returns `None` if there are too few.
    pub(crate) fn from_fds(fds: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        Some(Self {
            stdin: fds.next()?,
            input: fds.next()?,
            stdout: fds.next()?,
            output: fds.next()?,
            stderr: fds.next()?,
            ledger: fds.next()?,
        })
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            stdin: self.stdin.try_clone()?,
            input: self.input.try_clone()?,
            stdout: self.stdout.try_clone()?,
            output: self.output.try_clone()?,
            stderr: self.stderr.try_clone()?,
            ledger: self.ledger.try_clone()?,
        })
    }
}

/// Creates an empty file in memory.
pub(crate) fn create_file(name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?)
}

/// Registers a file with the runtime, which tells when it is ready.
#[expect(
    unsafe_code,
    reason = "the registration of an owned file is sound, but its function is for any type"
)]
pub(super) fn register(file: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned file always names the same open file, and stays open until the registration
    // is dropped.
    unsafe { AsyncFd::register_with_interest(file, interest) }.map_err(Into::into)
}

/// Moves bytes from a pipe to the end of a file, or from the position of a file into a pipe.
/// Returns how many; 0 at the end of the source. Fails with `WouldBlock` if the pipe is empty or
/// full.
pub(crate) fn move_bytes(from: impl AsFd, to: impl AsFd, max_bytes: usize) -> io::Result<usize> {
    loop {
        match rustix::pipe::splice(&from, None, &to, None, max_bytes, SpliceFlags::NONBLOCK) {
            Err(Errno::INTR) => {}
            moved => return Ok(moved?),
        }
    }
}

/// Returns the position of a file: how far its stream has come.
pub(crate) fn file_position(file: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, SeekFrom::Current(0))?)
}

pub(crate) fn file_size(file: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_size.unsigned_abs())
}

/// Returns the bytes of memory that a file takes.
pub(super) fn held_bytes(file: impl AsFd) -> u64 {
    rustix::fs::fstat(file).map_or(0, |stat| stat.st_blocks.unsigned_abs() * 512)
}

/// Writes all bytes at this place of a file.
pub(crate) fn write_at(file: impl AsFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(&file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads the bytes of a file between two places; fewer if the file ends before.
pub(crate) fn read_range(file: impl AsFd, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

pub(super) const PAGE_BYTES: u64 = 4096;
/// The bytes that may be of no use any more before their memory is given back. Each time costs a
/// system call.
pub(super) const MIN_RELEASED_BYTES: u64 = 256 << 10;

/// The beginning of a file in memory that is of no use any more. Its memory is given back; the
/// offsets of the rest stay.
#[derive(Debug, Default)]
pub(crate) struct ReleasedPrefix {
    end: u64,
}

impl ReleasedPrefix {
    /// Gives back the whole pages before `end`, if they are worth it.
    pub(crate) fn extend(&mut self, file: impl AsFd, end: u64) {
        if end.saturating_sub(self.end) < MIN_RELEASED_BYTES {
            return;
        }
        let end = end - end % PAGE_BYTES;
        release_range(file, self.end, end);
        self.end = end;
    }
}

/// Gives the memory of a range back. A failure costs memory and nothing else.
pub(super) fn release_range(file: impl AsFd, from: u64, to: u64) {
    if to > from {
        let _ = rustix::fs::fallocate(
            file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            from,
            to - from,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn position_counts_the_bytes_that_were_moved() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let file = create_file("test").unwrap();
        writer.write_all(b"first\nsecond\n").unwrap();
        assert_eq!(move_bytes(&reader, &file, 6).unwrap(), 6);
        assert_eq!(move_bytes(&reader, &file, 100).unwrap(), 7);
        assert_eq!(move_bytes(&reader, &file, 100).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(file_position(&file).unwrap(), 13);
        assert_eq!(read_range(&file, 6, 99).unwrap(), b"second\n");
        drop(writer);
        assert_eq!(move_bytes(&reader, &file, 100).unwrap(), 0);

        let copy = create_file("input").unwrap();
        let pipe = std::io::pipe().unwrap();
        write_at(&copy, b"line\n", 0).unwrap();
        assert_eq!(move_bytes(&copy, &pipe.1, 100).unwrap(), 5);
        assert_eq!(file_position(&copy).unwrap(), 5);
        reader = pipe.0;
        let mut line = [0; 5];
        reader.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"line\n");
    }

    #[test]
    fn released_bytes_give_their_memory_back_and_later_ones_stay() {
        let file = create_file("test").unwrap();
        write_at(&file, &vec![1; 1 << 20], 0).unwrap();
        let mut released = ReleasedPrefix::default();
        released.extend(&file, 1000);
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_blocks, 2048, "too few to be worth it");
        released.extend(&file, (1 << 20) - 1);
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_blocks, 8, "one page is left");
        assert_eq!(read_range(&file, (1 << 20) - 1, 1 << 20).unwrap(), [1]);
        assert_eq!(file_size(&file).unwrap(), 1 << 20);
    }
}
