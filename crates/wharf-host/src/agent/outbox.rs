//! What is on its way to an agent's stdin. An agent that does not read must not make the host wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

/// Messages that may wait: prompts, answers and cancels are few.
const MESSAGES: usize = 256;
/// Bytes that may wait: two of the largest frames.
const BYTES: usize = 64 << 20;

/// The sending side; the pipe closes when every clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    frames: mpsc::Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// The agent has stopped reading, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

impl Outbox {
    pub(super) fn new(mut stdin: ChildStdin) -> Self {
        let (frames, mut inbox) = mpsc::channel::<Bytes>(MESSAGES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(frame) = inbox.recv().await {
                let size = frame.len();
                let mut line = Vec::with_capacity(size + 1);
                line.extend_from_slice(&frame);
                line.push(b'\n');
                if stdin.write_all(&line).await.is_err() {
                    // It is gone; its exit is noticed elsewhere.
                    return;
                }
                left.fetch_sub(size, Ordering::Relaxed);
            }
        });
        Self { frames, waiting }
    }

    /// Queues one frame.
    pub(crate) fn send(&self, frame: Bytes) -> Result<(), Stuck> {
        let size = frame.len();
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > BYTES {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            return Err(Stuck);
        }
        self.frames.try_send(frame).map_err(|_| Stuck)
    }
}
