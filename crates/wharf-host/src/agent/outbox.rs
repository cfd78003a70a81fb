//! What is on its way to an agent's stdin. An agent that does not read must not make the host wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use crate::agent_services::AnswerPlace;

/// Messages that may wait: prompts, answers and cancels are few.
const MAX_WAITING_FRAMES: usize = 256;
/// Bytes that may wait: two of the largest frames.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// A frame of no more than this is copied to be written at once.
const MAX_COPIED_BYTES: usize = 64 << 10;

/// The sending side; the pipe closes when every clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    frames: mpsc::Sender<WaitingFrame>,
    waiting: Arc<AtomicUsize>,
}

/// A frame on its way.
#[derive(Debug)]
struct WaitingFrame {
    frame: Bytes,
    /// Few have one, and those do not count among the bytes.
    place: Option<AnswerPlace>,
}

/// The agent has stopped reading, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboxStalled;

impl Outbox {
    pub(super) fn new(stdin: ChildStdin) -> Self {
        Self::over_writer(stdin)
    }

    fn over_writer(mut stdin: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (frames, mut inbox) = mpsc::channel::<WaitingFrame>(MAX_WAITING_FRAMES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(WaitingFrame { frame, place }) = inbox.recv().await {
                let size = frame.len();
                if write_line(&mut stdin, frame).await.is_err() {
                    // It is gone; its exit is noticed elsewhere.
                    return;
                }
                if place.is_none() {
                    left.fetch_sub(size, Ordering::Relaxed);
                }
            }
        });
        Self { frames, waiting }
    }

    /// Queues one frame.
    pub(crate) fn send_frame(&self, frame: Bytes) -> Result<(), OutboxStalled> {
        let size = frame.len();
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > MAX_WAITING_BYTES {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            return Err(OutboxStalled);
        }
        self.frames.try_send(WaitingFrame { frame, place: None }).map_err(|_| {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            OutboxStalled
        })
    }

    /// Queues one frame that has a place of its own until it is read.
    pub(crate) fn send_placed(&self, frame: Bytes, place: AnswerPlace) -> Result<(), OutboxStalled> {
        self.frames.try_send(WaitingFrame { frame, place: Some(place) }).map_err(|_| OutboxStalled)
    }
}

/// A small frame is copied, so that it is one write with its end.
async fn write_line(stdin: &mut (impl AsyncWrite + Unpin), frame: Bytes) -> std::io::Result<()> {
    if frame.len() > MAX_COPIED_BYTES {
        stdin.write_all(&frame).await?;
        return stdin.write_all(b"\n").await;
    }
    let mut line = Vec::with_capacity(frame.len() + 1);
    line.extend_from_slice(&frame);
    line.push(b'\n');
    stdin.write_all(&line).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_taken_does_not_count() {
        let (stdin, reader) = tokio::io::duplex(16);
        let outbox = Outbox::over_writer(stdin);
        drop(reader);
        assert_eq!(outbox.send_frame(Bytes::from_static(b"notices that the reader is gone")), Ok(()));
        outbox.frames.closed().await;
        let before = outbox.waiting.load(Ordering::Relaxed);
        assert_eq!(outbox.send_frame(Bytes::from_static(b"nobody takes this")), Err(OutboxStalled));
        assert_eq!(outbox.waiting.load(Ordering::Relaxed), before);
    }
}
