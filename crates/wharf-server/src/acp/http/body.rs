//! Produces the body of an event stream's response: first the messages that its reader missed, then
//! the new ones.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Interval;
use wharf_host::core::SessionId;
use wharf_host::{ByteBudget, Cursor, Entry};

use super::stream::{LogRange, Marked, StreamSeat};
use super::stream_event_id::StreamEventId;
use super::streams::Streams;
use crate::acp::capability_filter::CapabilityFilter;
use crate::acp::event_id::with_event_id;
use crate::acp::out_frame::OutFrame;
use crate::acp::view::View;
use crate::acp::wire::HEARTBEAT_EVERY;

/// The size of one chunk of the response.
const CHUNK_BYTES: usize = 64 * 1024;

/// A part of the log that a reader missed.
#[derive(Debug)]
pub(super) struct MissedLog {
    pub(super) range: LogRange,
    pub(super) cursor: Cursor,
    /// The client wants event ids in the frames too.
    pub(super) event_ids: bool,
    pub(super) understood: CapabilityFilter,
}

/// A reader's side of a stream. Dropping it leaves the stream to the next.
#[derive(Debug)]
struct Reading {
    streams: Arc<Streams>,
    place: Option<SessionId>,
    number: u64,
    wake: Arc<Notify>,
    missed: VecDeque<Marked>,
    /// The parts of the log that it missed and has not been given yet.
    log: VecDeque<MissedLog>,
    comment: Interval,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.streams.leave(self.place.as_ref(), self.number);
    }
}

/// Returns the body of a response that gives the stream to the reader in this seat.
pub(super) fn body(
    streams: Arc<Streams>,
    place: Option<SessionId>,
    seat: StreamSeat,
    log: VecDeque<MissedLog>,
) -> Body {
    let StreamSeat { number, wake, missed } = seat;
    let mut comment = tokio::time::interval(HEARTBEAT_EVERY);
    comment.reset();
    let missed = missed.kept;
    let reading = Reading { streams, place, number, wake, missed, log, comment };
    Body::from_stream(futures_util::stream::unfold(reading, async |mut reading| {
        let chunk = reading.next().await?;
        Some((Ok::<_, Infallible>(chunk), reading))
    }))
}

impl Reading {
    /// Returns the next bytes of the body; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if (!self.log.is_empty() || !self.missed.is_empty()) && !self.has_ready()? {
                let missed = self.next_missed().await?;
                self.streams.make_ready(self.place.as_ref(), self.number, missed)?;
                continue;
            }
            if let Some(chunk) =
                self.streams.next_chunk(self.place.as_ref(), self.number, CHUNK_BYTES)?
            {
                return Some(chunk);
            }
            tokio::select! {
                () = self.wake.notified() => {}
                _ = self.comment.tick() => return Some(Bytes::from_static(b":\n\n")),
            }
        }
    }

    /// Returns true if something is ready for the reader; `None` if it is not the stream's reader
    /// any more.
    fn has_ready(&self) -> Option<bool> {
        self.streams.has_ready(self.place.as_ref(), self.number)
    }

    /// Reads the next part of the log that the reader missed, and puts the kept messages that are
    /// not in the log in between. Returns `None` if the log cannot be read: the stream ends, and
    /// its reader connects again.
    async fn next_missed(&mut self) -> Option<VecDeque<Marked>> {
        let Some(MissedLog { range, cursor, event_ids, understood }) = self.log.front_mut() else {
            return Some(std::mem::take(&mut self.missed));
        };
        let mut ready = VecDeque::new();
        let batch = cursor.next().await.ok()?;
        for entry in batch.entries().iter().take_while(|entry| entry.seq <= range.to) {
            let Some(frame) = again(entry, *event_ids, *understood) else { continue };
            let frame = if frame.len() > ByteBudget::UNCOUNTED_BYTES {
                frame.of_batch(&batch)
            } else {
                frame
            };
            let mark = StreamEventId::of(range.run, entry.id());
            while let Some(kept) = self.missed.pop_front_if(|(kept, _)| *kept < mark) {
                ready.push_back(kept);
            }
            ready.push_back((mark, frame));
        }
        if cursor.position() >= range.to {
            self.log.pop_front();
        }
        Some(ready)
    }
}

/// Returns the frame that an event made when it was first shown, if the log alone can give it
/// again.
fn again(entry: &Entry, event_ids: bool, understood: CapabilityFilter) -> Option<OutFrame> {
    let frame = View::plain(entry, understood)?;
    Some(if event_ids { with_event_id(&frame, entry.id()) } else { frame.into() })
}
