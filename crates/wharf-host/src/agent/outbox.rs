//! The lines to an agent's stdin, in the input file until the pipe takes them. An agent that does
//! not read must not make the host wait.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::kept_files::{ReleasedPrefix, move_bytes, register, write_at};
use super::ledger::{LedgerHandle, LineNote};
use crate::limits::{CountLimit, CountPermit};

/// Messages that may wait. More than an agent may leave unanswered: a pipe takes as few as 16 of
/// them at once.
const MAX_WAITING_FRAMES: usize = 4_096;
/// Bytes that may wait: two of the largest frames.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// The bytes that a pipe can hold. They are pages of the input file until the agent reads them.
const MAX_PIPE_BYTES: u64 = 1 << 20;
/// A frame of no more bytes than this is copied, so that it is one write with its end.
const MAX_COPIED_BYTES: usize = 64 << 10;

/// The sending side; the pipe closes when every clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    queue: Arc<InputQueue>,
    /// Counts the bytes of waiting frames.
    bytes: CountLimit,
}

#[derive(Debug)]
struct InputQueue {
    stdin: AsyncFd<OwnedFd>,
    state: Mutex<QueueState>,
    ledger: LedgerHandle,
}

#[derive(Debug)]
struct QueueState {
    file: OwnedFd,
    /// The position of the file: the pipe has taken the bytes before it.
    taken: u64,
    /// The end of the last line in the file.
    end: u64,
    /// The ends of waiting lines, each with the permit that is held until the pipe has taken it.
    waiting: VecDeque<(u64, CountPermit)>,
    released: ReleasedPrefix,
    /// The agent has closed its stdin.
    is_closed: bool,
}

/// The agent has stopped reading, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxStalled;

impl Outbox {
    /// Goes on after the line that ends at `end` of the file, of which the pipe has taken the bytes
    /// before `taken`.
    pub(super) fn new(
        stdin: OwnedFd,
        file: OwnedFd,
        ledger: LedgerHandle,
        (taken, end): (u64, u64),
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&stdin, true)?;
        let stdin = register(stdin, Interest::WRITABLE)?;
        let waiting = VecDeque::new();
        let released = ReleasedPrefix::default();
        let state =
            Mutex::new(QueueState { file, taken, end, waiting, released, is_closed: false });
        let queue = Arc::new(InputQueue { stdin, state, ledger });
        if taken < end {
            tokio::spawn(Arc::clone(&queue).drain());
        }
        Ok(Self { queue, bytes: CountLimit::new(MAX_WAITING_BYTES) })
    }

    pub(crate) fn ledger(&self) -> &LedgerHandle {
        &self.queue.ledger
    }

    /// Queues one frame.
    pub(crate) fn send_frame(&self, frame: Bytes, note: LineNote<'_>) -> Result<(), OutboxStalled> {
        let permit = self.bytes.try_acquire_many(frame.len()).ok_or(OutboxStalled)?;
        self.send_with_permit(&frame, note, permit)
    }

    /// Queues one frame that another limit counts until it is written.
    pub(crate) fn send_with_permit(
        &self,
        frame: &Bytes,
        note: LineNote<'_>,
        permit: CountPermit,
    ) -> Result<(), OutboxStalled> {
        let Self { queue, .. } = self;
        let mut state = queue.lock_state();
        if state.is_closed || state.waiting.len() >= MAX_WAITING_FRAMES {
            return Err(OutboxStalled);
        }
        let was_stuck = state.taken < state.end;
        if let Err(error) = state.append_line(frame, note, &queue.ledger, permit) {
            tracing::warn!(%error, "a message to the agent cannot be kept; the agent is ended");
            return Err(OutboxStalled);
        }
        if was_stuck || state.fill(&queue.stdin).is_ok() {
            return Ok(());
        }
        drop(state);
        tokio::spawn(Arc::clone(queue).drain());
        Ok(())
    }
}

impl InputQueue {
    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the pipe until it has taken all lines, or is closed. The queue lives as long: with its
    /// last owner the pipe closes.
    async fn drain(self: Arc<Self>) {
        while self.lock_state().is_waiting() {
            let Ok(mut guard) = self.stdin.writable().await else { return };
            let _ = guard.try_io(|stdin| self.lock_state().fill(stdin));
        }
    }
}

impl QueueState {
    fn is_waiting(&self) -> bool {
        self.taken < self.end && !self.is_closed
    }

    /// Puts a line into the file. The ledger knows of it before.
    fn append_line(
        &mut self,
        frame: &[u8],
        note: LineNote<'_>,
        ledger: &LedgerHandle,
        permit: CountPermit,
    ) -> io::Result<()> {
        let end = self.end + frame.len() as u64 + 1;
        ledger.lock().note_line(note, end)?;
        if frame.len() > MAX_COPIED_BYTES {
            write_at(&self.file, frame, self.end)?;
            write_at(&self.file, b"\n", end - 1)?;
        } else {
            write_at(&self.file, &[frame, b"\n"].concat(), self.end)?;
        }
        self.end = end;
        self.waiting.push_back((end, permit));
        Ok(())
    }

    /// Fills the pipe. Fails with `WouldBlock` if lines are left.
    fn fill(&mut self, stdin: &AsyncFd<OwnedFd>) -> io::Result<()> {
        while self.is_waiting() {
            let left = usize::try_from(self.end - self.taken).unwrap_or(usize::MAX);
            match move_bytes(&self.file, stdin, left) {
                Ok(moved @ 1..) => self.taken += moved as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.release_taken();
                    return Err(error);
                }
                // The agent is gone; its exit is noticed elsewhere.
                Ok(0) | Err(_) => self.is_closed = true,
            }
        }
        self.release_taken();
        Ok(())
    }

    fn release_taken(&mut self) {
        let Self { taken, waiting, is_closed, .. } = self;
        while waiting.pop_front_if(|(end, _)| *is_closed || end <= taken).is_some() {}
        self.released.extend(&self.file, self.taken.saturating_sub(MAX_PIPE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::super::kept_files::create_file;
    use super::super::ledger::Ledger;
    use super::*;

    fn new_outbox(stdin: OwnedFd) -> Outbox {
        let ledger = Ledger::create(create_file("ledger").unwrap()).unwrap();
        Outbox::new(stdin, create_file("input").unwrap(), ledger, (0, 0)).unwrap()
    }

    #[tokio::test]
    async fn refused_frame_is_not_counted() {
        let (reader, stdin) = pipe().unwrap();
        let outbox = new_outbox(stdin.into());
        drop(reader);
        let _ = outbox
            .send_frame(Bytes::from_static(b"notices that the reader is gone"), LineNote::Plain);
        assert_eq!(outbox.bytes.in_use(), 0, "frames that are dropped count no more");
        assert_eq!(
            outbox.send_frame(Bytes::from_static(b"nobody takes this"), LineNote::Plain),
            Err(OutboxStalled)
        );
        assert_eq!(outbox.bytes.in_use(), 0);
    }

    #[tokio::test]
    async fn hundreds_of_lines_wait_for_an_agent_that_reads_late() {
        let (reader, stdin) = pipe().unwrap();
        let outbox = new_outbox(stdin.into());
        for n in 0..1_000 {
            assert_eq!(
                outbox.send_frame(format!("line {n}").into(), LineNote::Plain),
                Ok(()),
                "line {n}"
            );
        }
        drop(outbox);
        let read = tokio::task::spawn_blocking(move || std::io::read_to_string(reader));
        let text = read.await.unwrap().unwrap();
        assert!(
            text.lines().enumerate().all(|(n, line)| line == format!("line {n}"))
                && text.lines().count() == 1_000
        );
    }

    #[tokio::test]
    async fn large_lines_reach_a_slow_reader_whole_and_in_order() {
        let (mut reader, stdin) = pipe().unwrap();
        let outbox = new_outbox(stdin.into());
        let frames: Vec<Bytes> =
            (0..20_u8).map(|n| vec![b'a' + n; 100_000 + usize::from(n)].into()).collect();
        for frame in &frames {
            outbox.send_frame(frame.clone(), LineNote::Plain).unwrap();
        }
        // The task that drains the queue goes on without its owner, and closes the pipe at the end.
        drop(outbox);
        let text = tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).map(|_| text)
        });
        let text = text.await.unwrap().unwrap();
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), 21, "the last one is empty");
        assert!(lines.iter().zip(&frames).all(|(line, frame)| line == frame));
    }
}
