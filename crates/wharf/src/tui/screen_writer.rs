//! The thread that writes frames: a terminal that takes its bytes slowly, or not at all, does not
//! hold up the keys.
//!
//! At most one frame waits. A newer one replaces it, and the changed cells are computed when the
//! frame is written, so that they are always those against the frame that the terminal has got.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wharf_tui::ScreenFrame;

use super::painter::FramePainter;

/// The bytes of one write. Between two writes the thread looks whether the terminal was taken from
/// it.
const BLOCK_BYTES: usize = 1_024;
/// The control sequences that wait for a slow terminal.
const MAX_WAITING_BYTES: usize = 512 << 10;
/// How long a terminal may take for the bytes that are under way before they are given up.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// Writes all bytes to the terminal.
type WriteBytes = dyn Fn(&[u8]) -> io::Result<()> + Send;

/// A handle of the thread, which lives as long as the process.
#[derive(Clone, Debug)]
pub(super) struct ScreenWriter {
    shared: Arc<SharedQueue>,
}

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<WriterQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WriterQueue {
    /// Control sequences, which are written before the frame.
    sequences: String,
    /// The frame that waits.
    frame: Option<Arc<ScreenFrame>>,
    /// The last frame that was passed to `show`. The same frame again does not wake the thread.
    last_frame: Option<Arc<ScreenFrame>>,
    /// The next frame is drawn whole.
    forgets_cells: bool,
    is_writing: bool,
    /// Changes when the terminal is taken from the thread: bytes of an earlier turn are not written
    /// any more.
    turn: u64,
    /// The reason why the terminal takes no bytes.
    failure: Option<io::ErrorKind>,
}

impl WriterQueue {
    /// Has the next frame drawn whole, also if it is the same as the last one.
    fn forget_cells(&mut self) {
        self.forgets_cells = true;
        self.last_frame = None;
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, WriterQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work and takes it.
    fn take_work(&self, painter: &mut FramePainter) -> (u64, Vec<u8>) {
        let queue = self.lock();
        let is_idle = |queue: &mut WriterQueue| queue.sequences.is_empty() && queue.frame.is_none();
        let mut queue =
            self.changed.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner);
        queue.is_writing = true;
        if std::mem::take(&mut queue.forgets_cells) {
            painter.forget();
        }
        let mut bytes = std::mem::take(&mut queue.sequences).into_bytes();
        let turn = queue.turn;
        let frame = queue.frame.take();
        drop(queue);
        if let Some(frame) = frame {
            bytes.extend(painter.paint(frame));
        }
        (turn, bytes)
    }

    fn run(&self, write: &WriteBytes) {
        let mut painter = FramePainter::default();
        loop {
            let (turn, bytes) = self.take_work(&mut painter);
            let mut outcome = Ok(());
            for block in bytes.chunks(BLOCK_BYTES) {
                if outcome.is_err() || self.lock().turn != turn {
                    break;
                }
                outcome = write(block);
            }
            let mut queue = self.lock();
            queue.is_writing = false;
            queue.failure = outcome.err().map(|error| error.kind()).or(queue.failure);
            self.changed.notify_all();
        }
    }
}

impl ScreenWriter {
    /// Starts the thread. Its bytes go to `write`, which may block.
    pub(super) fn start(
        write: impl Fn(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(SharedQueue::default());
        let writer = Self { shared: Arc::clone(&shared) };
        std::thread::Builder::new()
            .name("screen".to_owned())
            .spawn(move || shared.run(&write))?;
        Ok(writer)
    }

    /// Has the frame written. A frame that still waits is replaced. Fails if the terminal is gone.
    pub(super) fn show(&self, frame: ScreenFrame) -> io::Result<()> {
        let mut queue = self.lock_working()?;
        if queue.last_frame.as_deref() == Some(&frame) {
            return Ok(());
        }
        let frame = Arc::new(frame);
        queue.last_frame = Some(Arc::clone(&frame));
        queue.frame = Some(frame);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Has a control sequence written. Fails if the terminal is gone or far too slow.
    pub(super) fn send_sequence(&self, sequence: &str) -> io::Result<()> {
        let mut queue = self.lock_working()?;
        if queue.sequences.len() + sequence.len() > MAX_WAITING_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the terminal does not take more bytes",
            ));
        }
        queue.sequences.push_str(sequence);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Has the next frame drawn whole.
    pub(super) fn forget_cells(&self) {
        self.shared.lock().forget_cells();
    }

    /// Takes the terminal from the thread: drops the frame that waits, and lets the bytes under way
    /// arrive. Returns false if the terminal does not take them in time; the rest of them is given
    /// up then.
    pub(super) fn stop_writing(&self) -> bool {
        let mut queue = self.shared.lock();
        queue.frame = None;
        queue.forget_cells();
        let is_busy = |queue: &mut WriterQueue| queue.is_writing || !queue.sequences.is_empty();
        let waited = self.shared.changed.wait_timeout_while(queue, DRAIN_LIMIT, is_busy);
        let (mut queue, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.sequences.clear();
        queue.turn += 1;
        !waited.timed_out()
    }

    fn lock_working(&self) -> io::Result<MutexGuard<'_, WriterQueue>> {
        let queue = self.shared.lock();
        match queue.failure {
            Some(kind) => Err(kind.into()),
            None => Ok(queue),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use ratatui_core::buffer::Buffer;

    use super::*;

    const WAIT_LIMIT: Duration = Duration::from_secs(20);

    fn frame(text: &str) -> ScreenFrame {
        ScreenFrame { buffer: Buffer::with_lines([text]), cursor: None }
    }

    /// Starts a writer on a terminal that takes a block only when the test lets it.
    fn start_on_slow_terminal() -> (ScreenWriter, Receiver<Vec<u8>>, SyncSender<()>) {
        let (blocks, taken) = sync_channel(1_000);
        let (allow, allowed) = sync_channel::<()>(1_000);
        let writer = ScreenWriter::start(move |bytes| {
            blocks.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            allowed.recv().map_err(|_| io::ErrorKind::BrokenPipe.into())
        });
        (writer.unwrap(), taken, allow)
    }

    #[test]
    fn slow_terminal_gets_the_newest_frame_and_cells_against_the_written_one() {
        let (writer, taken, allow) = start_on_slow_terminal();
        let mut terminal = vt100::Parser::new(1, 5, 0);
        writer.show(frame("one  ")).unwrap();
        terminal.process(&taken.recv_timeout(WAIT_LIMIT).unwrap());
        // The terminal has not taken the first frame yet; none of these calls waits for it.
        for text in ["two  ", "three", "on   "] {
            writer.show(frame(text)).unwrap();
        }
        writer.send_sequence("\x07").unwrap();
        allow.send(()).unwrap();
        let rest = taken.recv_timeout(WAIT_LIMIT).unwrap();
        terminal.process(&rest);
        assert_eq!(terminal.screen().contents().trim_end(), "on");
        assert_eq!(rest.first(), Some(&b'\x07'), "sequences go first");
        allow.send(()).unwrap();
        assert!(writer.stop_writing(), "nothing is under way");
        assert!(taken.try_recv().is_err(), "frames that were replaced are not written");
    }

    #[test]
    fn same_frame_is_written_once_until_the_cells_are_forgotten() {
        let (writer, taken, allow) = start_on_slow_terminal();
        (0..3).for_each(|_| allow.send(()).unwrap());
        writer.show(frame("one")).unwrap();
        taken.recv_timeout(WAIT_LIMIT).unwrap();
        writer.show(frame("one")).unwrap();
        assert!(writer.shared.lock().frame.is_none(), "the thread is not woken");
        writer.forget_cells();
        // This sequence takes the forgetting with it; the frame comes later.
        writer.send_sequence("\x07").unwrap();
        assert_eq!(taken.recv_timeout(WAIT_LIMIT).unwrap(), b"\x07");
        writer.show(frame("one")).unwrap();
        let again = String::from_utf8(taken.recv_timeout(WAIT_LIMIT).unwrap()).unwrap();
        assert!(again.contains("one"), "{again:?}");
    }

    #[test]
    fn stopping_gives_up_the_bytes_that_a_terminal_does_not_take() {
        let (writer, taken, allow) = start_on_slow_terminal();
        writer.send_sequence(&"x".repeat(3 * BLOCK_BYTES)).unwrap();
        assert_eq!(taken.recv_timeout(WAIT_LIMIT).unwrap().len(), BLOCK_BYTES);
        assert!(!writer.stop_writing());
        allow.send(()).unwrap();
        writer.show(frame("later")).unwrap();
        let next = String::from_utf8(taken.recv_timeout(WAIT_LIMIT).unwrap()).unwrap();
        assert!(next.contains("later") && !next.contains("xx"), "{next:?}");
    }

    #[test]
    fn lost_terminal_is_reported_to_the_next_call() {
        let (writer, taken, allow) = start_on_slow_terminal();
        writer.show(frame("one")).unwrap();
        taken.recv_timeout(WAIT_LIMIT).unwrap();
        drop(allow);
        writer.stop_writing();
        assert_eq!(writer.show(frame("two")).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(writer.send_sequence("x").is_err());
    }
}
