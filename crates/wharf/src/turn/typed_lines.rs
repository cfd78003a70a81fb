//! The lines that a person types.

use std::io::BufRead;

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc::{Receiver, channel};

/// The typed lines that wait: a person types one at a time, a paste has several.
const WAITING_LINES: usize = 16;

/// Reads stdin on a thread of its own, since reading a terminal blocks. The thread ends with the program.
#[derive(Debug)]
pub(crate) struct TypedLines {
    lines: Receiver<String>,
}

impl TypedLines {
    pub(crate) fn read_stdin() -> Self {
        let (sender, lines) = channel(WAITING_LINES);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Self { lines }
    }

    /// Returns the next line, or `None` if stdin has ended. Dropping the future loses no line.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.lines.recv().await
    }

    /// Drops what was typed so far, so that it cannot answer a question that the person had not seen.
    pub(crate) fn forget_typed(&mut self) {
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
    }
}
