//! The client's lines that wait for the host to come back.

use std::collections::VecDeque;

use bytes::Bytes;

/// The most bytes that may wait: as many as one message may have. Beyond that, stdin is not read.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// The most lines that may wait: more than a person or a model causes.
pub(crate) const MAX_WAITING_LINES: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct WaitingLines {
    lines: VecDeque<Bytes>,
    bytes: usize,
}

impl WaitingLines {
    /// Returns true if stdin may be read. The line after that is taken even if it goes over the
    /// limit.
    pub(crate) fn have_room(&self) -> bool {
        self.lines.len() < MAX_WAITING_LINES && self.bytes < MAX_WAITING_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.lines.iter()
    }

    pub(crate) fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    /// Removes and returns the line that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let line = self.lines.pop_front()?;
        self.bytes -= line.len();
        Some(line)
    }
}
