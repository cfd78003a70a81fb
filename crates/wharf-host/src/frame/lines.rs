//! Newline-delimited frames from a byte stream that may send anything.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use wharf_json::rpc::HEAD_BYTES;

/// How much is asked for at once: a Linux pipe holds this much, so more would never come.
const CHUNK: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// One line without its line break. Never empty.
    Frame(&'a [u8]),
    /// A line over the limit ended; it was thrown away as it came, but for its first bytes.
    Oversized { bytes: u64, head: &'a [u8] },
}

/// Splits a stream into lines, holding at most one line of `limit` bytes and a chunk.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
    /// What the last `next_line` returned and has yet to be dropped from the buffer.
    taken: usize,
    /// No line break in `buffer[..searched]`.
    searched: usize,
    limit: usize,
    /// Bytes of an oversized line that were dropped so far.
    dropped: u64,
    /// The first bytes of the oversized line.
    head: Vec<u8>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(source: R, limit: usize) -> Self {
        Self {
            source,
            buffer: BytesMut::with_capacity(CHUNK),
            taken: 0,
            searched: 0,
            limit,
            dropped: 0,
            head: Vec::new(),
        }
    }

    /// Reads what there is. `Ok(0)` at the end. Nothing is lost if the future is dropped.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.settle();
        if self.buffer.len() > self.limit {
            self.keep_head(self.buffer.len());
            self.dropped += self.buffer.len() as u64;
            self.buffer.clear();
            self.searched = 0;
        }
        self.buffer.reserve(CHUNK);
        self.source.read_buf(&mut self.buffer).await
    }

    /// The next whole line, if there is one in what was read.
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        loop {
            self.settle();
            let at = self.searched
                + memchr::memchr(b'\n', &self.buffer[self.searched..]).or_else(|| {
                    self.searched = self.buffer.len();
                    None
                })?;
            self.taken = at + 1;
            self.searched = 0;
            if self.dropped > 0 || at > self.limit {
                self.keep_head(at);
                let bytes = std::mem::take(&mut self.dropped) + at as u64;
                return Some(Line::Oversized { bytes, head: wharf_json::strip_bom(&self.head) });
            }
            let whole = self.buffer[..at].trim_ascii_end();
            // Some programs put a byte order mark before what they write.
            let line = wharf_json::strip_bom(whole);
            if !line.is_empty() {
                // Borrowed again: the borrow checker does not see that the loop ends here.
                let (start, end) = (whole.len() - line.len(), whole.len());
                return Some(Line::Frame(&self.buffer[start..end]));
            }
        }
    }

    /// Keeps the first bytes of an oversized line that stands in the buffer up to `end`, if that is where it begins.
    fn keep_head(&mut self, end: usize) {
        if self.dropped == 0 {
            self.head.clear();
        }
        let room = HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend_from_slice(&self.buffer[..end.min(room)]);
    }

    /// What is left when the stream ended in the middle of a line.
    pub fn remainder(&mut self) -> u64 {
        self.settle();
        self.dropped + self.buffer.len() as u64
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn settle(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            self.buffer.advance(taken);
        }
        // A single huge line must not keep its memory for good.
        if self.buffer.is_empty() && self.buffer.capacity() > 4 * CHUNK {
            self.buffer = BytesMut::with_capacity(CHUNK);
        }
    }
}
