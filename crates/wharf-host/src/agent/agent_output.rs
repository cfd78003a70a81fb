//! The agent's stdout as the host reads it: moved from the pipe into the output file, and read from there.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

use super::kept_files::{ReleasedPrefix, move_bytes, register};

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
}

impl AgentOutput {
    /// Reads on from `read`; `moved` is the position of the file.
    pub(crate) fn new(pipe: OwnedFd, file: OwnedFd, read: u64, moved: u64) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let pipe = register(pipe, Interest::READABLE)?;
        Ok(Self { pipe, file, read, moved, released: ReleasedPrefix::default() })
    }

    /// Gives the memory of output back that no host needs any more.
    pub(crate) fn release(&mut self, end: u64) {
        self.released.extend(&self.file, end.min(self.read));
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
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
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
                        // The pipe is empty. The next read waits for the event instead of asking the pipe, so that the
                        // readers of this output run before more of it is taken in.
                        guard.clear_ready();
                    }
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}
