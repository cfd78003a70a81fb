//! Splits a byte stream into frames, one per line. The stream may hold anything.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use wharf_json::rpc::HEAD_BYTES;

/// The bytes of one read: as many as a Linux pipe holds.
const READ_BYTES: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FrameLine<'a> {
    /// One line without its line break. Never empty.
    Frame(&'a [u8]),
    /// The end of a line over the limit. Only its first bytes were kept.
    Oversized { bytes: u64, head: &'a [u8] },
}

/// Splits a stream into lines. Holds at most one line of `limit` bytes and one read.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
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
    pub(crate) fn new(source: R, limit: usize) -> Self {
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
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
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
    pub(crate) fn next_line(&mut self) -> Option<FrameLine<'_>> {
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
    pub(crate) fn remainder_bytes(&mut self) -> u64 {
        self.discard_taken();
        self.dropped + self.buffer.len() as u64
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// Hands out its chunks one read at a time.
    struct Chunks(Vec<Vec<u8>>);

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            if !self.0.is_empty() {
                let mut chunk = self.0.remove(0);
                let rest = chunk.split_off(chunk.len().min(out.remaining()));
                out.put_slice(&chunk);
                if !rest.is_empty() {
                    self.0.insert(0, rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    async fn lines(chunks: Vec<Vec<u8>>, limit: usize) -> (Vec<String>, u64) {
        let mut reader = FrameReader::new(Chunks(chunks), limit);
        let mut seen = Vec::new();
        while reader.fill().await.unwrap() > 0 {
            while let Some(line) = reader.next_line() {
                seen.push(match line {
                    FrameLine::Frame(frame) => String::from_utf8_lossy(frame).into_owned(),
                    FrameLine::Oversized { bytes, head } => {
                        assert!(
                            bytes >= head.len() as u64 && head.len() <= wharf_json::rpc::HEAD_BYTES
                        );
                        format!(
                            "oversized {bytes} {}",
                            String::from_utf8_lossy(&head[..head.len().min(6)])
                        )
                    }
                });
            }
        }
        (seen, reader.remainder_bytes())
    }

    #[tokio::test]
    async fn lines_are_found_wherever_the_stream_is_cut() {
        let text = b"one\n\n  \r\ntwo\r\nthree\nfour";
        for cut in 0..text.len() {
            let (a, b) = text.split_at(cut);
            let chunks =
                [a, b].into_iter().filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
            assert_eq!(
                lines(chunks, 100).await,
                (vec!["one".to_owned(), "two".into(), "three".into()], 4),
                "cut at {cut}"
            );
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_dropped_and_the_next_one_read() {
        let huge = [&b"\xef\xbb\xbfhead"[..], &[b'x'; 300_000]].concat();
        let chunks = vec![b"before\n".to_vec(), huge, vec![b'x'; 300_000], b"\nafter\n".to_vec()];
        assert_eq!(lines(chunks, 1_000).await.0, ["before", "oversized 600007 headxx", "after"]);
        let slightly = vec![b"12345678901\n1234567890\n0987654321098\n".to_vec()];
        assert_eq!(
            lines(slightly, 10).await.0,
            ["oversized 11 123456", "1234567890", "oversized 13 098765"]
        );
    }

    #[tokio::test]
    async fn a_stream_without_a_line_break_costs_no_more_than_the_limit() {
        let mut reader = FrameReader::new(Chunks(vec![vec![b'x'; 8 << 20]]), 1 << 20);
        while reader.fill().await.unwrap() > 0 {
            assert!(reader.next_line().is_none());
            assert!(reader.capacity() < 3 << 20, "{}", reader.capacity());
        }
        assert_eq!(reader.remainder_bytes(), 8 << 20);
    }
}
