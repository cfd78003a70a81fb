//! Stdin and stdout as channels. Each has a thread, because non-blocking mode would change the pipe
//! for every process that holds it.

use std::io::{BufRead, BufReader, Read, Write};
use std::thread;

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use wharf_json::rpc::HEAD_BYTES;

/// The longest line that is read: the host's own limit by default.
pub(super) const MAX_LINE_BYTES: usize = 32 << 20;
/// The most lines that wait to be taken. Few, so that the editor feels backpressure.
const MAX_QUEUED_LINES: usize = 8;
/// The most blocks that wait to be written.
const MAX_QUEUED_BLOCKS: usize = 8;

/// One line of stdin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    Line(Bytes),
    /// A line over the limit; only its first bytes are kept.
    Oversized {
        head: Bytes,
    },
}

/// Reads lines until stdin ends.
pub(super) fn read_lines(source: impl Read + Send + 'static) -> Receiver<Input> {
    let (sender, lines) = channel(MAX_QUEUED_LINES);
    thread::spawn(move || {
        let mut source = BufReader::with_capacity(64 * 1024, source);
        while let Some(line) = next_line(&mut source) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Returns the next line that is not empty; `None` at the end.
fn next_line(source: &mut impl BufRead) -> Option<Input> {
    loop {
        let mut line = Vec::new();
        let read = source.take(MAX_LINE_BYTES as u64 + 2).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') && read > MAX_LINE_BYTES {
            source.skip_until(b'\n').ok()?;
            line.truncate(HEAD_BYTES);
            return Some(Input::Oversized { head: line.into() });
        }
        while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            line.pop();
        }
        if !line.trim_ascii().is_empty() {
            return Some(Input::Line(line.into()));
        }
    }
}

/// Writes blocks until the sender is dropped, then completes the receiver. The channel closes if
/// stdout is closed.
pub(super) fn write_blocks(
    mut sink: impl Write + Send + 'static,
) -> (Sender<Vec<u8>>, oneshot::Receiver<()>) {
    let (sender, mut blocks) = channel::<Vec<u8>>(MAX_QUEUED_BLOCKS);
    let (done, written) = oneshot::channel();
    thread::spawn(move || {
        while let Some(block) = blocks.blocking_recv() {
            if sink.write_all(&block).and_then(|()| sink.flush()).is_err() {
                break;
            }
        }
        let _ = done.send(());
    });
    (sender, written)
}
