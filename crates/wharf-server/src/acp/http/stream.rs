//! One event stream of a connection: what waits for its reader, and what a reader that comes back
//! may have missed.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::time::Instant as Moment;
use wharf_host::ByteHolder;
use wharf_host::core::Seq;

use super::stream_event_id::StreamEventId;
use crate::acp::out_frame::OutFrame;
use crate::acp::wire::{Again, FrameOrigin, Gate};

/// A reader with more than this to take is not given more from the log.
const MAX_UNREAD_BYTES: usize = 64 * 1024;
/// Bytes of messages that the log cannot give again, kept for readers that come back. The newest is
/// always kept.
const MAX_KEPT_BYTES: usize = 256 * 1024;
/// How many showings of the log are remembered: a reader that comes back had its last message in
/// one of them.
const MAX_KEPT_RUNS: usize = 16;
/// The cost of a message besides its text.
const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// A message and its id.
pub(super) type Marked = (StreamEventId, OutFrame);

#[derive(Debug)]
pub(super) struct Stream {
    reader: Option<Reader>,
    readers: u64,
    left_at: Option<Moment>,
    /// The frames that its reader is being given, and how much of the first it has.
    ready: VecDeque<Marked>,
    ready_offset: usize,
    /// Says for how long the reader has taken nothing.
    holder: Option<Arc<ByteHolder>>,
    /// Given to the stream, not yet to its reader.
    outbox: VecDeque<Marked>,
    outbox_bytes: usize,
    /// How much of that is not from the log, and so is not held back for a slow reader.
    answers: usize,
    kept: VecDeque<Marked>,
    kept_bytes: usize,
    /// The last message that had to be given up.
    given_up: Option<StreamEventId>,
    /// The last times that the log was shown, the present one last.
    runs: VecDeque<Run>,
    has_news: bool,
}

/// One time that the log was shown, from some event on.
#[derive(Debug)]
struct Run {
    first: Option<Seq>,
    /// The last message that the log can give again.
    logged: Option<StreamEventId>,
    /// The last message.
    at: StreamEventId,
}

#[derive(Debug)]
struct Reader {
    number: u64,
    wake: Arc<Notify>,
}

/// A reader's place in a stream.
#[derive(Debug)]
pub(super) struct StreamSeat {
    pub(super) number: u64,
    pub(super) wake: Arc<Notify>,
    pub(super) missed: Missed,
}

/// The messages that a reader that came back has to be given before the rest.
#[derive(Debug, Default)]
pub(super) struct Missed {
    pub(super) kept: VecDeque<Marked>,
    pub(super) log: VecDeque<LogRange>,
}

/// A part of the log that was shown: from one event to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogRange {
    pub(super) run: u32,
    pub(super) from: Seq,
    pub(super) to: Seq,
}

impl Run {
    const fn at(mark: StreamEventId) -> Self {
        Self { first: None, logged: None, at: mark }
    }

    /// Returns the part of the log that a reader misses who had everything up to `last`.
    fn since(&self, last: StreamEventId) -> Option<LogRange> {
        let first = self.first?;
        let logged = self.logged.filter(|logged| last < *logged)?;
        let from = if last.run == logged.run { first.max(last.seq.next()) } else { first };
        Some(LogRange { run: logged.run, from, to: logged.seq })
    }
}

/// The stream cannot tell which messages came after that id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown;

impl Stream {
    pub(super) fn new(holder: Option<Arc<ByteHolder>>) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_offset: 0,
            holder,
            reader: None,
            readers: 0,
            left_at: None,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            answers: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            given_up: None,
            runs: VecDeque::from([Run::at(StreamEventId::START)]),
            has_news: false,
        }
    }

    /// Returns true if no message has been sent on this stream yet.
    pub(super) fn is_new(&self) -> bool {
        self.at() == StreamEventId::START
    }

    /// The last message.
    fn at(&self) -> StreamEventId {
        self.runs.back().map_or(StreamEventId::START, |run| run.at)
    }

    pub(super) fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    pub(super) fn answers_waiting(&self) -> usize {
        self.answers
    }

    pub(super) fn gate(&self) -> Gate {
        match self.reader {
            Some(_) if self.outbox_bytes < MAX_UNREAD_BYTES => Gate::Open,
            Some(_) => Gate::Full,
            None => Gate::Closed { since: self.left_at },
        }
    }

    /// Takes a message in and gives it its id.
    pub(super) fn push(&mut self, origin: FrameOrigin<'_>, mut frame: OutFrame) {
        // The frame is queued for this stream's reader; it holds up no other stream from here on.
        frame.end_turn();
        if let Some(holder) = &self.holder {
            holder.note_stalled();
        }
        let at = self.at();
        let (mark, again) = match origin {
            FrameOrigin::Event { epoch, seq, last, again, .. } => {
                (at.event(epoch, seq, last), again)
            }
            FrameOrigin::Connection | FrameOrigin::Answer(_) | FrameOrigin::Beside(_) => {
                (at.beside(), Again::Never)
            }
        };
        self.note(mark, matches!(origin, FrameOrigin::Event { .. }), again);
        if again == Again::Never {
            self.keep((mark, frame.clone()));
            self.answers += frame.len() + MESSAGE_OVERHEAD_BYTES;
        }
        self.outbox_bytes += frame.len() + MESSAGE_OVERHEAD_BYTES;
        self.outbox.push_back((mark, frame));
        self.has_news = true;
    }

    /// Notes how far the present run has come, or that another one begins.
    fn note(&mut self, mark: StreamEventId, is_event: bool, again: Again) {
        if mark.run != self.at().run {
            self.runs.push_back(Run::at(mark));
            if self.runs.len() > MAX_KEPT_RUNS {
                self.runs.pop_front();
            }
        }
        if let Some(run) = self.runs.back_mut() {
            run.at = mark;
            if is_event {
                run.first.get_or_insert(mark.seq);
            }
            if again == Again::FromLog {
                run.logged = Some(mark);
            }
        }
    }

    fn keep(&mut self, message: Marked) {
        self.kept_bytes += message.1.len() + MESSAGE_OVERHEAD_BYTES;
        self.kept.push_back(message);
        while self.kept_bytes > MAX_KEPT_BYTES && self.kept.len() > 1 {
            if let Some((mark, frame)) = self.kept.pop_front() {
                self.kept_bytes -= frame.len() + MESSAGE_OVERHEAD_BYTES;
                self.given_up = Some(mark);
            }
        }
    }

    /// Gives the stream to a new reader, who had everything up to `last`. The newest reader has it:
    /// the one before may be gone without our knowing.
    pub(super) fn open(&mut self, last: Option<StreamEventId>) -> Result<StreamSeat, Unknown> {
        let missed = match last {
            Some(last) => {
                let missed = self.since(last)?;
                self.outbox.clear();
                (self.outbox_bytes, self.answers) = (0, 0);
                missed
            }
            // Which messages the last reader had is unknown; those that it was not given are all
            // there.
            None => Missed::default(),
        };
        self.wake();
        self.ready.clear();
        self.ready_offset = 0;
        self.readers += 1;
        let wake: Arc<Notify> = Arc::default();
        self.reader = Some(Reader { number: self.readers, wake: Arc::clone(&wake) });
        Ok(StreamSeat { number: self.readers, wake, missed })
    }

    fn since(&self, last: StreamEventId) -> Result<Missed, Unknown> {
        if self.given_up.is_some_and(|mark| last < mark) {
            return Err(Unknown);
        }
        let own = self
            .runs
            .iter()
            .position(|run| run.at.run == last.run && last <= run.at)
            .ok_or(Unknown)?;
        let log = self.runs.iter().skip(own).filter_map(|run| run.since(last)).collect();
        let kept = self.kept.iter().filter(|(mark, _)| *mark > last).cloned().collect();
        Ok(Missed { kept, log })
    }

    /// Notes that the reader is gone. Returns false if another one has taken its place.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let left = self.reader.take_if(|reader| reader.number == number).is_some();
        if left {
            self.left_at = Some(Moment::now());
        }
        left
    }

    /// Returns true if this is still the stream's reader.
    pub(super) fn is_read_by(&self, number: u64) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.number == number)
    }

    /// Takes some of the messages that wait for the reader.
    pub(super) fn take(&mut self, limit: usize) -> VecDeque<Marked> {
        let mut taken = VecDeque::new();
        let mut bytes = 0;
        while bytes < limit
            && let Some((mark, frame)) = self.outbox.pop_front()
        {
            bytes += frame.len() + MESSAGE_OVERHEAD_BYTES;
            taken.push_back((mark, frame));
        }
        self.outbox_bytes -= bytes;
        if self.outbox.is_empty() {
            self.answers = 0;
        }
        taken
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Adds what the reader is to be given before the outbox.
    pub(super) fn make_ready(&mut self, messages: impl IntoIterator<Item = Marked>) {
        self.ready.extend(messages);
    }

    /// Returns the next bytes for the reader, up to about `limit`; `None` if none are ready. They
    /// are a copy: bytes that wait in the transport must not keep a large message.
    pub(super) fn next_chunk(&mut self, limit: usize) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        while chunk.len() < limit
            && let Some((mark, frame)) = self.ready.front()
        {
            if self.ready_offset == 0 {
                // Writing to memory does not fail. A frame is one line, so it is one `data` field.
                let _ = write!(chunk, "id: {mark}\ndata: ");
            }
            // At least one byte follows the head, or the next chunk would begin with the head
            // again.
            let room = limit.saturating_sub(chunk.len()).max(1);
            self.ready_offset += frame.copy_to(self.ready_offset, room, &mut chunk);
            if self.ready_offset < frame.len() {
                break;
            }
            chunk.extend_from_slice(b"\n\n");
            self.ready.pop_front();
            self.ready_offset = 0;
        }
        if let Some(holder) = &self.holder {
            holder.note_progress();
            if !chunk.is_empty() {
                holder.note_stalled();
            }
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }

    /// Gives up everything that waits.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.ready_offset = 0;
        self.outbox.clear();
        self.kept.clear();
    }

    /// Wakes the reader if messages have come since the last flush.
    pub(super) fn flush(&mut self) {
        if std::mem::take(&mut self.has_news) {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        if let Some(reader) = &self.reader {
            reader.wake.notify_one();
        }
    }
}
