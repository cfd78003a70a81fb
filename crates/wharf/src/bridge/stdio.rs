//! Stdin and stdout as channels. Each has a thread: a pipe cannot be awaited without changing it for all who hold it.

use std::io::{BufRead, BufReader, Read, Write};
use std::thread;

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use wharf_json::rpc::HEAD_BYTES;

/// The most that one line may hold; the host's own limit is as large if nobody changed it.
pub(super) const LINE: usize = 32 << 20;
/// Lines that wait to be taken. Few: the editor is to notice that we are slow.
const LINES: usize = 8;
/// Blocks that wait to be written.
const BLOCKS: usize = 8;

/// What stdin gives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    Line(Bytes),
    /// A line over the limit, of which only the first bytes are kept.
    Oversized {
        head: Bytes,
    },
}

/// Reads lines until stdin ends.
pub(super) fn read(source: impl Read + Send + 'static) -> Receiver<Input> {
    let (sender, lines) = channel(LINES);
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

/// The next line that is not empty; `None` at the end.
fn next_line(source: &mut impl BufRead) -> Option<Input> {
    loop {
        let mut line = Vec::new();
        let read = source.take(LINE as u64 + 2).read_until(b'\n', &mut line).ok()?;
        if read == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') && read > LINE {
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

/// Writes blocks until the sender is gone, then says so. When nobody reads any more, the channel closes.
pub(super) fn write(mut sink: impl Write + Send + 'static) -> (Sender<Vec<u8>>, oneshot::Receiver<()>) {
    let (sender, mut blocks) = channel::<Vec<u8>>(BLOCKS);
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
