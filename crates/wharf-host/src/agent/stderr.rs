//! The end of an agent's stderr, kept in a small ring buffer. Lines on stdout that are no messages
//! are kept with it. Both also go to the log of the session.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use tokio::net::unix::pipe;

use super::agent_log::AgentLogWriter;
use crate::redact::redact;

/// Bounds the kept part of stderr; enough for a stack trace.
const MAX_STDERR_BYTES: usize = 8 * 1024;
/// Bounds the kept part of a line on stdout, which may be as long as a message.
const MAX_STRAY_LINE_BYTES: usize = 1024;
const CHUNK_BYTES: usize = 4096;
/// Bounds the work of one look at the pipe: an agent may write faster than it is read.
const MAX_CHUNKS_PER_LOOK: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct StderrTail(Arc<Tail>);

#[derive(Debug)]
struct Tail {
    pipe: pipe::Receiver,
    /// Held while the pipe is read, so that bytes stay in their order.
    ring: Mutex<Ring>,
}

#[derive(Debug)]
struct Ring {
    bytes: VecDeque<u8>,
    /// The number of bytes that were ever added.
    total: u64,
    /// The log of the session; `None` for a process that is not a session's agent.
    log: Option<AgentLogWriter>,
}

impl Ring {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.total += bytes.len() as u64;
        let over = self.bytes.len().saturating_sub(MAX_STDERR_BYTES);
        self.bytes.drain(..over);
    }

    fn push_stderr(&mut self, bytes: &[u8]) {
        self.push(bytes);
        if let Some(log) = &mut self.log {
            log.push_stderr(bytes);
        }
    }

    fn finish_log_line(&mut self) {
        if let Some(log) = &mut self.log {
            log.finish_line();
        }
    }
}

impl StderrTail {
    /// Reads stderr until its end, so that the agent never blocks on a full pipe.
    pub(super) fn follow_stderr(
        stderr: OwnedFd,
        log: Option<AgentLogWriter>,
    ) -> std::io::Result<Self> {
        Self::follow_after(stderr, log, &[])
    }

    /// Does the same for an agent that was taken over; `before` was written while it had no host.
    pub(super) fn follow_after(
        stderr: OwnedFd,
        log: Option<AgentLogWriter>,
        before: &[u8],
    ) -> std::io::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(stderr)?;
        let mut ring = Ring { bytes: VecDeque::new(), total: 0, log };
        ring.push_stderr(before);
        let tail = Self(Arc::new(Tail { pipe, ring: Mutex::new(ring) }));
        let followed = Arc::clone(&tail.0);
        tokio::spawn(async move {
            while followed.pipe.readable().await.is_ok() && followed.read_chunk() {}
        });
        Ok(tail)
    }

    /// Keeps a line of stdout that is not a message, such as a warning of a library.
    pub(crate) fn add_stray_line(&self, line: &[u8]) {
        self.0.read_arrived();
        let mut ring = self.0.lock_ring();
        if ring.bytes.back().is_some_and(|last| *last != b'\n') {
            ring.push(b"\n");
        }
        ring.push(&line[..line.len().min(MAX_STRAY_LINE_BYTES)]);
        ring.push(b"\n");
        if let Some(log) = &mut ring.log {
            log.push_stdout(line);
        }
    }

    /// Returns a mark for [`StderrTail::text_since`]: all that the agent has written so far comes
    /// before it.
    pub(crate) fn mark(&self) -> u64 {
        self.0.read_arrived();
        self.0.lock_ring().total
    }

    /// Returns the last lines as text, without colours and secrets: they end up in messages and
    /// logs.
    pub(crate) fn text(&self) -> String {
        self.text_since(0)
    }

    /// Returns the last lines that came after the mark, as [`StderrTail::text`] does.
    pub(crate) fn text_since(&self, mark: u64) -> String {
        self.0.read_arrived();
        let ring = self.0.lock_ring();
        let wanted = usize::try_from(ring.total.saturating_sub(mark)).unwrap_or(usize::MAX);
        let skipped = ring.bytes.len().saturating_sub(wanted);
        let bytes: Vec<u8> = ring.bytes.iter().skip(skipped).copied().collect();
        redact(strip_control_characters(&String::from_utf8_lossy(&bytes)).trim())
    }
}

impl Tail {
    fn lock_ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one chunk after the runtime said that there is one. Returns false at the end.
    fn read_chunk(&self) -> bool {
        let mut ring = self.lock_ring();
        let mut chunk = [0; CHUNK_BYTES];
        match self.pipe.try_read(&mut chunk) {
            Ok(read @ 1..) => ring.push_stderr(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => {
                ring.finish_log_line();
                return false;
            }
        }
        true
    }

    /// Reads the bytes that are in the pipe, also if the runtime has not noticed them yet: an agent
    /// writes the reason before the answer that fails.
    fn read_arrived(&self) {
        let mut ring = self.lock_ring();
        let mut chunk = [0; CHUNK_BYTES];
        for _ in 0..MAX_CHUNKS_PER_LOOK {
            match rustix::io::read(&self.pipe, &mut chunk) {
                Ok(read @ 1..) => ring.push_stderr(&chunk[..read]),
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Drops terminal escape sequences and other control characters except line breaks.
fn strip_control_characters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                // CSI: up to a letter.
                chars.by_ref().find(char::is_ascii_alphabetic);
            }
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::strip_control_characters;

    #[test]
    fn colours_are_dropped_and_lines_stay() {
        assert_eq!(
            strip_control_characters("\u{1b}[31merror\u{1b}[0m: no\r\nmore"),
            "error: no\nmore"
        );
    }
}
