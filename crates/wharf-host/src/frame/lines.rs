//! Splits a byte stream into frames, one per line. The stream may hold anything.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use wharf_json::rpc::HEAD_BYTES;

/// The bytes of one read: as many as a Linux pipe holds.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum FrameLine<'a> {
    /// One line without its line break. Never empty.
    Frame(&'a [u8]),
    /// The end of a line over the limit. Only its first bytes were kept.
    Oversized { bytes: u64, head: &'a [u8] },
}

/// Splits a stream into lines. Holds at most one line of `limit` bytes and one read.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
    /// The bytes at the beginning of the buffer that the last `next_line` returned.
    taken: usize,
    /// The bytes at the beginning of the buffer that hold no line break.
    searched: usize,
    limit: usize,
    /// The bytes of an oversized line that were dropped so far.
    dropped: u64,
    /// The first bytes of the oversized line.
    head: Vec<u8>,
    /// The length of the line that was found last, if it is oversized.
    oversized: u64,
    /// The bytes of the stream before the buffer.
    passed: u64,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(source: R, limit: usize) -> Self {
        Self::starting_at(source, limit, 0)
    }

    /// Reads a stream of which `passed` bytes were read before.
    pub(crate) fn starting_at(source: R, limit: usize, passed: u64) -> Self {
        Self {
            source,
            buffer: BytesMut::with_capacity(READ_BYTES),
            taken: 0,
            searched: 0,
            limit,
            dropped: 0,
            head: Vec::new(),
            oversized: 0,
            passed,
        }
    }

    pub(crate) fn source_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// Returns the part of an oversized line that was dropped, behind the bytes that tell about it.
    pub(crate) fn dropped_range(&self) -> Option<(u64, u64)> {
        let from = self.passed.saturating_sub(self.dropped) + HEAD_BYTES as u64;
        (from < self.passed && self.dropped > 0).then_some((from, self.passed))
    }

    /// Returns the place in the stream behind the line that was returned last.
    pub(crate) fn line_end(&self) -> u64 {
        self.passed + self.taken as u64
    }

    /// Reads the bytes that have arrived. Returns 0 at the end. No byte is lost if the future is
    /// dropped.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.discard_taken();
        if self.buffer.len() > self.limit {
            self.keep_head(self.buffer.len());
            self.dropped += self.buffer.len() as u64;
            self.passed += self.buffer.len() as u64;
            self.buffer.clear();
            self.searched = 0;
        }
        self.buffer.reserve(READ_BYTES);
        self.source.read_buf(&mut self.buffer).await
    }

    /// Returns the next whole line of the bytes that were read.
    pub fn next_line(&mut self) -> Option<FrameLine<'_>> {
        self.find_line().then(|| self.found_line())
    }

    /// Goes to the next whole line that is not empty. Returns false if there is none yet.
    pub(crate) fn find_line(&mut self) -> bool {
        loop {
            self.discard_taken();
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return false;
            };
            let at = self.searched + end;
            (self.taken, self.searched) = (at + 1, 0);
            if self.dropped > 0 || at > self.limit {
                self.keep_head(at);
                self.oversized = std::mem::take(&mut self.dropped) + at as u64;
                return true;
            }
            if !trim_line(&self.buffer[..at]).is_empty() {
                return true;
            }
        }
    }

    /// Returns the line that was found last.
    pub(crate) fn found_line(&self) -> FrameLine<'_> {
        if self.oversized > 0 {
            return FrameLine::Oversized {
                bytes: self.oversized,
                head: wharf_json::strip_bom(&self.head),
            };
        }
        FrameLine::Frame(trim_line(&self.buffer[..self.taken.saturating_sub(1)]))
    }

    /// Keeps the first bytes of an oversized line, which the buffer holds up to `end`.
    fn keep_head(&mut self, end: usize) {
        if self.dropped == 0 {
            self.head.clear();
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&self.buffer[..end.min(room)]);
    }

    /// Returns the number of bytes of a line that the end of the stream cut off.
    pub fn remainder_bytes(&mut self) -> u64 {
        self.discard_taken();
        self.dropped + self.buffer.len() as u64
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Drops the line that was returned last.
    fn discard_taken(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.oversized = 0;
        if taken > 0 {
            self.passed += taken as u64;
            self.buffer.advance(taken);
        }
        // One huge line must not keep its memory for ever.
        if self.buffer.is_empty() && self.buffer.capacity() > 4 * READ_BYTES {
            self.buffer = BytesMut::with_capacity(READ_BYTES);
        }
    }
}

/// Returns a line without its end, and without the byte order mark that some programs write first.
fn trim_line(line: &[u8]) -> &[u8] {
    wharf_json::strip_bom(line.trim_ascii_end())
}
