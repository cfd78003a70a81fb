//! The baseline: the same agent and the same reader with only a pipe between them.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::peer::Peer;
use crate::process::command;

/// The same size as the WebSocket's, so that both readers are woken alike.
const BUFFER_BYTES: usize = 256 * 1024;
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Newline-delimited messages, borrowed from the read buffer.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    pub(super) fn next(&mut self) -> Result<&[u8]> {
        let mut searched = 0;
        loop {
            let got = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &got[searched..]) {
                let line = self.start..self.start + searched + at;
                self.start = line.end + 1;
                return Ok(&self.buffer[line]);
            }
            searched = got.len();
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            ensure!(self.end < MAX_LINE_BYTES, "the agent sent a line without an end");
            self.buffer.resize(self.end * 2, 0);
        }
        let read = self
            .input
            .read(&mut self.buffer[self.end..])
            .context("reading from the agent")?;
        ensure!(read > 0, "the agent closed its output");
        self.end += read;
        Ok(())
    }
}

/// An agent started without a host.
pub(super) struct Pipe {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<ChildStdout>,
}

impl Pipe {
    pub(super) fn start(agent: &Path) -> Result<Self> {
        let mut child = command(agent)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", agent.display()))?;
        let stdin = child.stdin.take().context("taking the agent's stdin")?;
        let stdout = child.stdout.take().context("taking the agent's stdout")?;
        Ok(Self { child, stdin, lines: Lines::new(stdout) })
    }
}

impl Peer for Pipe {
    fn send(&mut self, message: &str) -> Result<()> {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .context("writing to the agent")
    }

    fn next(&mut self) -> Result<&[u8]> {
        self.lines.next()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The process may be gone already; it is reaped in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(out.len());
            self.0.read(&mut out[..len])
        }
    }

    #[test]
    fn lines_arrive_whole_however_they_are_cut() {
        let long = "y".repeat(600_000);
        let text = format!("one\n\n{long}\nlast\n");
        for piece in [1_usize, 5, 4_096, 1 << 20] {
            let mut lines = Lines::new(Pieces(text.as_bytes(), piece));
            for expected in ["one", "", &long, "last"] {
                assert_eq!(lines.next().unwrap(), expected.as_bytes());
            }
            assert!(lines.next().is_err());
        }
    }
}
