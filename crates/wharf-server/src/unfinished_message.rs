//! Counts the bytes of a message that has not come to its end.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use wharf_host::{BudgetFull, ByteBudget, ByteHolder, BytePermit, Direction};

/// The head and the mask of a client's control frame.
const CONTROL_HEAD_BYTES: usize = 6;

/// The bytes that have come since the last whole message.
#[derive(Debug)]
pub(crate) struct UnfinishedMessage {
    buffers: Arc<ByteBudget>,
    part: Mutex<Part>,
    holder: Arc<ByteHolder>,
    closed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Part {
    bytes: usize,
    permit: Option<BytePermit>,
}

impl UnfinishedMessage {
    pub(crate) fn new(buffers: &Arc<ByteBudget>) -> Arc<Self> {
        let closed = Arc::new(Notify::new());
        let holder = buffers.add_holder(Direction::In, "unfinished message", {
            let closed = Arc::clone(&closed);
            move || closed.notify_one()
        });
        Arc::new(Self {
            buffers: Arc::clone(buffers),
            part: Mutex::default(),
            holder,
            closed,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Part> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_bytes(&self, bytes: usize) -> Result<(), BudgetFull> {
        if self.holder.is_closed() {
            return Err(BudgetFull);
        }
        let mut part = self.lock();
        part.bytes += bytes;
        if part.bytes <= ByteBudget::UNCOUNTED_BYTES {
            return Ok(());
        }
        // A control frame that was taken off again leaves the permit larger than the part.
        let uncounted =
            part.bytes.saturating_sub(part.permit.as_ref().map_or(0, BytePermit::bytes));
        self.holder.note_stalled();
        part.permit.get_or_insert_with(|| self.buffers.begin_in()).try_grow(uncounted)
    }

    /// Notes that the message is whole. Returns the permit that counts it while it is in use.
    pub(crate) fn finish(&self) -> Option<BytePermit> {
        self.holder.note_progress();
        std::mem::take(&mut *self.lock()).permit
    }

    /// Subtracts a control frame, which does not belong to the message.
    pub(crate) fn skip_control(&self, payload: usize) {
        let mut part = self.lock();
        part.bytes = part.bytes.saturating_sub(payload + CONTROL_HEAD_BYTES);
    }

    /// Completes when the message has taken so long that its bytes are needed for others.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }
}

/// Wraps a stream and counts the bytes that are read from it.
#[derive(Debug)]
pub(crate) struct MeteredStream<S> {
    inner: S,
    unfinished: Arc<UnfinishedMessage>,
}

impl<S> MeteredStream<S> {
    pub(crate) fn new(inner: S, unfinished: Arc<UnfinishedMessage>) -> Self {
        Self { inner, unfinished }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, into))?;
        let read = into.filled().len() - before;
        Poll::Ready(
            self.unfinished
                .count_bytes(read)
                .map_err(|full| io::Error::new(io::ErrorKind::OutOfMemory, full)),
        )
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {

    use wharf_config::Limits;

    use super::*;

    #[test]
    fn ping_within_a_large_message_is_taken_off_and_the_message_goes_on() {
        let buffers = ByteBudget::new(&Limits::default());
        let unfinished = UnfinishedMessage::new(&buffers);
        unfinished.count_bytes(200_000).unwrap();
        unfinished.skip_control(100);
        // A read of no bytes, as at the end of the connection.
        unfinished.count_bytes(0).unwrap();
        unfinished.count_bytes(50).unwrap();
        assert_eq!(buffers.bytes_in_use(Direction::In), 200_000);
        unfinished.count_bytes(100).unwrap();
        assert_eq!(buffers.bytes_in_use(Direction::In), 200_000 - 106 + 150);
        drop(unfinished.finish());
        assert_eq!(buffers.bytes_in_use(Direction::In), 0);
    }
}
