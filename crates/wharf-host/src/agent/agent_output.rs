//! The agent's stdout as the host reads it: moved from the pipe into the output file, and read from
//! there.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

use super::kept_files::{
    MIN_RELEASED_BYTES, PAGE_BYTES, ReleasedPrefix, move_bytes, register, release_range,
};

/// The bytes of one move: as many as a pipe holds.
const MOVE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct AgentOutput {
    pipe: AsyncFd<OwnedFd>,
    file: OwnedFd,
    /// How far the output was read from the file.
    read: u64,
    /// How far the output is in the file.
    moved: u64,
    released: ReleasedPrefix,
    /// False for output on the disk: if a power cut shortens the log, the next host reads that
    /// output again.
    is_in_memory: bool,
    /// Where the last released part of an oversized line ends.
    dropped_end: u64,
}

impl AgentOutput {
    /// Reads on from `read`; `moved` is the position of the file.
    pub(crate) fn new(pipe: OwnedFd, file: OwnedFd, read: u64, moved: u64) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let pipe = register(pipe, Interest::READABLE)?;
        Ok(Self {
            pipe,
            file,
            read,
            moved,
            released: ReleasedPrefix::default(),
            is_in_memory: true,
            dropped_end: 0,
        })
    }

    /// Keeps all of the file, which is on the disk.
    pub(crate) fn keep_file(self) -> Self {
        Self { is_in_memory: false, ..self }
    }

    /// Gives the memory of output back that no host needs any more.
    pub(crate) fn release(&mut self, end: u64) {
        if self.is_in_memory {
            self.released.extend(&self.file, end.min(self.read));
        }
    }

    /// Gives the memory of a part of a line back that is too long to be taken. The next host would
    /// read zeros there, and finds the line as long as it is.
    pub(crate) fn release_dropped(&mut self, from: u64, to: u64) {
        let from = from.max(self.dropped_end).next_multiple_of(PAGE_BYTES);
        let to = to.min(self.read) / PAGE_BYTES * PAGE_BYTES;
        if self.is_in_memory && to.saturating_sub(from) >= MIN_RELEASED_BYTES {
            release_range(&self.file, from, to);
            self.dropped_end = to;
        }
    }

    /// Copies bytes of the file. They are there.
    fn read_file(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let there = usize::try_from(self.moved - self.read).unwrap_or(usize::MAX);
        let space = buffer.initialize_unfilled_to(there.min(buffer.remaining()));
        loop {
            match rustix::io::pread(&self.file, &mut *space, self.read) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.read += read as u64;
                    buffer.advance(read);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsyncRead for AgentOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.read < self.moved {
                return Poll::Ready(self.read_file(buffer));
            }
            let this = &mut *self;
            let mut guard = ready!(this.pipe.poll_read_ready(cx))?;
            let wanted = MOVE_BYTES.min(buffer.remaining());
            match guard.try_io(|pipe| move_bytes(pipe, &this.file, wanted)) {
                Ok(Ok(0)) => return Poll::Ready(Ok(())),
                Ok(Ok(moved)) => {
                    this.moved += moved as u64;
                    if moved < wanted {
                        // The pipe is empty. The next read waits for the event instead of asking
                        // the pipe, so that the readers of this output run before more of it is
                        // taken in.
                        guard.clear_ready();
                    }
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::kept_files::{create_file, held_bytes};
    use super::*;
    use crate::agent::lines::{FrameLine, FrameReader};

    #[tokio::test]
    async fn memory_of_a_line_over_the_limit_is_given_back() {
        const LINE_BYTES: usize = 16 << 20;
        let (reader, mut writer) = io::pipe().unwrap();
        let file = create_file("test").unwrap();
        let output = AgentOutput::new(reader.into(), file.try_clone().unwrap(), 0, 0).unwrap();
        let mut lines = FrameReader::starting_at(output, 1 << 20, 0);
        let writing = std::thread::spawn(move || {
            let block = [b'x'; 64 << 10];
            (0..LINE_BYTES / block.len()).for_each(|_| writer.write_all(&block).unwrap());
            writer.write_all(b"\nnext\n").unwrap();
        });
        let mut most = 0;
        while !lines.find_line() {
            if let Some((from, to)) = lines.dropped_range() {
                lines.source_mut().release_dropped(from, to);
            }
            lines.fill().await.unwrap();
            most = most.max(held_bytes(&file));
        }
        writing.join().unwrap();
        assert!(most < 3 << 20, "{most} bytes are held");
        assert!(
            matches!(lines.found_line(), FrameLine::Oversized { bytes, head } if bytes == LINE_BYTES as u64 && head.starts_with(b"xxx"))
        );
        while !lines.find_line() {
            lines.fill().await.unwrap();
        }
        assert_eq!(lines.found_line(), FrameLine::Frame(b"next"));
        // The next host reads from the beginning of the line, which is as long as it was.
        let output =
            AgentOutput::new(io::pipe().unwrap().0.into(), file, 0, LINE_BYTES as u64 + 6).unwrap();
        let mut again = FrameReader::starting_at(output, 1 << 20, 0);
        while !again.find_line() {
            again.fill().await.unwrap();
        }
        assert!(
            matches!(again.found_line(), FrameLine::Oversized { bytes, head } if bytes == LINE_BYTES as u64 && head.starts_with(b"xxx"))
        );
    }
}
