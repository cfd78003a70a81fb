//! The queue of frames to an agent's stdin. An agent that does not read must not make the host wait.

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

use crate::limits::{CountLimit, CountPermit};

/// Messages that may wait: prompts, answers and cancels are few.
const MAX_WAITING_FRAMES: usize = 256;
/// Bytes that may wait: two of the largest frames.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// A frame of no more bytes than this is copied, so that it is one write with its end.
const MAX_COPIED_BYTES: usize = 64 << 10;

/// The sending side; the pipe closes when every clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    frames: mpsc::Sender<WaitingFrame>,
    /// Counts the bytes of waiting frames.
    bytes: CountLimit,
}

#[derive(Debug)]
struct WaitingFrame {
    frame: Bytes,
    /// Held until the frame is written.
    permit: CountPermit,
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
        tokio::spawn(async move {
            while let Some(WaitingFrame { frame, permit }) = inbox.recv().await {
                if write_line(&mut stdin, frame).await.is_err() {
                    // The agent is gone; its exit is noticed elsewhere.
                    return;
                }
                drop(permit);
            }
        });
        Self { frames, bytes: CountLimit::new(MAX_WAITING_BYTES) }
    }

    /// Queues one frame.
    pub(crate) fn send_frame(&self, frame: Bytes) -> Result<(), OutboxStalled> {
        let permit = self.bytes.try_acquire_many(frame.len()).ok_or(OutboxStalled)?;
        self.send_with_permit(frame, permit)
    }

    /// Queues one frame that another limit counts until it is written.
    pub(crate) fn send_with_permit(&self, frame: Bytes, permit: CountPermit) -> Result<(), OutboxStalled> {
        self.frames.try_send(WaitingFrame { frame, permit }).map_err(|_| OutboxStalled)
    }
}

/// Writes a frame and its end.
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
    async fn refused_frame_is_not_counted() {
        let (stdin, reader) = tokio::io::duplex(16);
        let outbox = Outbox::over_writer(stdin);
        drop(reader);
        assert_eq!(outbox.send_frame(Bytes::from_static(b"notices that the reader is gone")), Ok(()));
        outbox.frames.closed().await;
        assert_eq!(outbox.bytes.in_use(), 0, "frames that are dropped count no more");
        assert_eq!(outbox.send_frame(Bytes::from_static(b"nobody takes this")), Err(OutboxStalled));
        assert_eq!(outbox.bytes.in_use(), 0);
    }
}
