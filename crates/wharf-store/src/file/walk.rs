//! Iterates over the lines of a range of a file, chunk by chunk.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

pub(super) struct LineWalk<'a> {
    file: &'a File,
    /// The offset of the next line in the file.
    at: u64,
    end: u64,
    chunk: usize,
    buf: Bytes,
    /// The offset of the next line in `buf`.
    pos: usize,
}

/// A line without its newline. Its bytes are [`LineWalk::buffer`] until the next step.
pub(super) struct FoundLine {
    pub(super) offset: u64,
    /// The offset of the next line in the file.
    pub(super) end: u64,
    pub(super) range: Range<usize>,
    /// True if it ended in a newline.
    pub(super) whole: bool,
}

impl<'a> LineWalk<'a> {
    pub(super) fn new(file: &'a File, at: u64, end: u64, chunk: usize) -> Self {
        Self { file, at, end, chunk, buf: Bytes::new(), pos: 0 }
    }

    pub(super) fn buffer(&self) -> &Bytes {
        &self.buf
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<FoundLine>> {
        loop {
            let rest = &self.buf[self.pos..];
            if let Some(length) = memchr::memchr(b'\n', rest) {
                return Ok(Some(self.take_line(length, true)));
            }
            let known = rest.len();
            if self.at + known as u64 >= self.end {
                return Ok((known > 0).then(|| self.take_line(known, false)));
            }
            // Doubling keeps the cost of a line that is longer than a chunk linear.
            self.fill_buffer(self.chunk.max(known * 2))?;
        }
    }

    fn take_line(&mut self, length: usize, whole: bool) -> FoundLine {
        let range = self.pos..self.pos + length;
        let offset = self.at;
        self.pos += length + usize::from(whole);
        self.at += length as u64 + u64::from(whole);
        FoundLine { offset, end: self.at, range, whole }
    }

    fn fill_buffer(&mut self, size: usize) -> io::Result<()> {
        let size = usize::try_from(self.end - self.at).map_or(size, |left| left.min(size));
        let mut buf = vec![0; size];
        self.file.read_exact_at(&mut buf, self.at)?;
        self.buf = Bytes::from(buf);
        self.pos = 0;
        Ok(())
    }
}
