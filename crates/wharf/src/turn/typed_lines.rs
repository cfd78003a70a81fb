//! The lines that a person types.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The typed lines that wait: a person types one at a time, a paste has several.
const WAITING_LINES: usize = 16;

/// Reads stdin on a thread of its own, since reading a terminal blocks. The thread ends with the
/// program.
#[derive(Debug)]
pub(crate) struct TypedLines {
    /// `None` stands for the end of the input: on a terminal, Ctrl-D.
    lines: Receiver<Option<String>>,
}

impl TypedLines {
    pub(crate) fn read_stdin() -> Self {
        let (sender, lines) = channel(WAITING_LINES);
        std::thread::spawn(move || read_lines(&mut BufReader::new(ForegroundInput), &sender));
        Self { lines }
    }

    /// Returns the next line, or `None` if stdin has ended. Dropping the future loses no line. On a
    /// terminal more lines may follow after a `None`: Ctrl-D ends the input only once.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.lines.recv().await.flatten()
    }

    /// Drops all input typed so far, so that it cannot answer a question that the person had not
    /// seen.
    pub(crate) fn forget_typed(&mut self) {
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
    }
}

/// The time between two looks whether a program in the background has come to the foreground.
const BACKGROUND_DELAY: Duration = Duration::from_millis(200);

/// Reads stdin, but never while another job has the terminal: the system would stop this program.
#[derive(Debug)]
struct ForegroundInput;

impl Read for ForegroundInput {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let stdin = std::io::stdin();
            let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
            poll(&mut ready, None)?;
            let is_background =
                stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp());
            if !is_background {
                return Ok(rustix::io::read(&stdin, into)?);
            }
            std::thread::sleep(BACKGROUND_DELAY);
        }
    }
}

/// Reads lines until the input ends twice in a row, as it does once the terminal is gone.
fn read_lines(source: &mut impl BufRead, sender: &Sender<Option<String>>) {
    let mut has_ended = false;
    loop {
        let mut line = Vec::new();
        let read = source.read_until(b'\n', &mut line).unwrap_or_default();
        let was_ended = std::mem::replace(&mut has_ended, read == 0);
        // Bytes that are not UTF-8 are shown as such, and do not end the input.
        let line = (read > 0)
            .then(|| String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned());
        if sender.blocking_send(line).is_err() || (was_ended && has_ended) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_after_an_end_of_the_input_are_read() {
        /// Input that ends once in the middle, as a terminal's does at Ctrl-D.
        struct EndsInBetween(Vec<&'static [u8]>);
        impl std::io::Read for EndsInBetween {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let Some(piece) = self.0.pop() else { return Ok(0) };
                into[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            }
        }
        let (sender, lines) = channel(WAITING_LINES);
        let reading = std::thread::spawn(move || {
            let pieces = EndsInBetween(vec![b"two\n", b"", b"one\n"]);
            read_lines(&mut std::io::BufReader::new(pieces), &sender);
        });
        let mut typed = TypedLines { lines };
        for expected in [Some("one"), None, Some("two"), None, None, None] {
            assert_eq!(typed.next().await.as_deref(), expected);
        }
        reading.join().unwrap();
    }

    #[tokio::test]
    async fn line_that_is_not_utf8_does_not_end_the_input() {
        let (sender, lines) = channel(WAITING_LINES);
        let reading =
            std::thread::spawn(move || read_lines(&mut &b"one\r\nt\xfco\n\nlast"[..], &sender));
        let mut typed = TypedLines { lines };
        for expected in [Some("one"), Some("t\u{fffd}o"), Some(""), Some("last"), None] {
            assert_eq!(typed.next().await.as_deref(), expected);
        }
        reading.join().unwrap();
    }
}
