//! All event streams of one connection: one of its own and one per session that it opened one for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant as Moment;
use wharf_host::core::SessionId;
use wharf_host::{ByteBudget, ByteHolder, CloseReason, CloseSignal, Direction};

use super::stream::{Marked, Stream, StreamSeat, Unknown};
use super::stream_event_id::StreamEventId;
use crate::acp::out_frame::OutFrame;
use crate::acp::wire::{Closed, FrameOrigin, Gate, Wire};

/// The most session streams of one connection.
const MAX_STREAMS: usize = 256;
/// With more bytes of unread answers than this, further requests are refused.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Shared by the task that writes, the readers, and the requests that open and close.
#[derive(Debug)]
pub(super) struct Streams {
    books: Mutex<StreamTable>,
    /// A stream was opened, left, or has room again.
    changed: Notify,
    /// Where its streams are counted.
    buffers: Arc<ByteBudget>,
    /// Raised when a stream had to be given up, so that the connection ends.
    close: Arc<CloseSignal>,
    own: Weak<Self>,
}

#[derive(Debug)]
struct StreamTable {
    connection: Stream,
    sessions: HashMap<SessionId, Stream>,
    used_at: Moment,
    has_ended: bool,
}

/// Why a stream was not opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamRefused {
    /// The id that the reader had last is not known here.
    UnknownId,
    TooMany,
    /// The connection has ended.
    Ended,
}

impl StreamTable {
    fn stream(&mut self, place: Option<&SessionId>) -> Option<&mut Stream> {
        match place {
            None => Some(&mut self.connection),
            Some(session) => self.sessions.get_mut(session),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Stream> {
        std::iter::once(&self.connection).chain(self.sessions.values())
    }
}

impl Streams {
    pub(super) fn new(buffers: &Arc<ByteBudget>, close: Arc<CloseSignal>) -> Arc<Self> {
        Arc::new_cyclic(|own| {
            let connection = Stream::new(Some(holder(own, buffers)));
            let sessions = HashMap::new();
            let books = StreamTable {
                connection,
                sessions,
                used_at: Moment::now(),
                has_ended: false,
            };
            let own = Weak::clone(own);
            let buffers = Arc::clone(buffers);
            Self {
                books: Mutex::new(books),
                changed: Notify::new(),
                buffers,
                close,
                own,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, StreamTable> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the client is there.
    pub(super) fn touch(&self) {
        self.lock().used_at = Moment::now();
    }

    /// Returns true if the client has no stream open and has been away for at least `limit`.
    pub(super) fn is_idle(&self, limit: Duration) -> bool {
        let books = self.lock();
        !books.all().any(Stream::has_reader) && books.used_at.elapsed() >= limit
    }

    /// Returns true if too many answers wait to be read.
    pub(super) fn are_unread(&self) -> bool {
        self.lock().all().map(Stream::answers_waiting).sum::<usize>() > MAX_ANSWER_BYTES
    }

    /// Returns true if no message has been sent on this stream yet.
    pub(super) fn is_new(&self, place: Option<&SessionId>) -> bool {
        self.lock().stream(place).is_none_or(|stream| stream.is_new())
    }

    /// Gives a stream to a new reader. If there are too many streams for a new one, drops those
    /// without a reader for which `keep` returns false.
    pub(super) fn open(
        &self,
        place: Option<&SessionId>,
        last: Option<StreamEventId>,
        keep: impl Fn(&SessionId) -> bool,
    ) -> Result<StreamSeat, StreamRefused> {
        let mut books = self.lock();
        if books.has_ended {
            return Err(StreamRefused::Ended);
        }
        if let Some(session) = place
            && !books.sessions.contains_key(session)
        {
            if books.sessions.len() >= MAX_STREAMS {
                books.sessions.retain(|session, stream| stream.has_reader() || keep(session));
            }
            if books.sessions.len() >= MAX_STREAMS {
                return Err(StreamRefused::TooMany);
            }
            books
                .sessions
                .insert(session.clone(), Stream::new(Some(holder(&self.own, &self.buffers))));
        }
        let Some(stream) = books.stream(place) else { return Err(StreamRefused::Ended) };
        let seat = stream.open(last).map_err(|Unknown| StreamRefused::UnknownId)?;
        books.used_at = Moment::now();
        drop(books);
        self.changed.notify_one();
        Ok(seat)
    }

    /// The reader is gone.
    pub(super) fn leave(&self, place: Option<&SessionId>, number: u64) {
        let mut books = self.lock();
        if books.stream(place).is_some_and(|stream| stream.leave(number)) {
            books.used_at = Moment::now();
            drop(books);
            self.changed.notify_one();
        }
    }

    /// The next bytes for this reader, if any wait; `None` if it is not the stream's reader any
    /// more.
    pub(super) fn next_chunk(
        &self,
        place: Option<&SessionId>,
        number: u64,
        limit: usize,
    ) -> Option<Option<Bytes>> {
        let mut books = self.lock();
        if books.has_ended {
            return None;
        }
        let stream = books.stream(place).filter(|stream| stream.is_read_by(number))?;
        if let Some(chunk) = stream.next_chunk(limit) {
            return Some(Some(chunk));
        }
        let was = stream.gate();
        let taken = stream.take(limit);
        stream.make_ready(taken);
        let has_room = was != stream.gate();
        let chunk = stream.next_chunk(limit);
        drop(books);
        if has_room {
            self.changed.notify_one();
        }
        Some(chunk)
    }

    /// Is something ready for this reader? `None` if it is not the stream's reader any more.
    pub(super) fn has_ready(&self, place: Option<&SessionId>, number: u64) -> Option<bool> {
        let mut books = self.lock();
        if books.has_ended {
            return None;
        }
        Some(books.stream(place).filter(|stream| stream.is_read_by(number))?.has_ready())
    }

    /// Has what a reader missed sent before the rest; `None` if it is not the stream's reader any
    /// more.
    pub(super) fn make_ready(
        &self,
        place: Option<&SessionId>,
        number: u64,
        missed: VecDeque<Marked>,
    ) -> Option<()> {
        let mut books = self.lock();
        if books.has_ended {
            return None;
        }
        books
            .stream(place)
            .filter(|stream| stream.is_read_by(number))?
            .make_ready(missed);
        Some(())
    }

    /// Gives up all that waits for a client that does not read, and the connection with it.
    fn give_up(&self) {
        let mut books = self.lock();
        books.has_ended = true;
        books.connection.clear();
        books.sessions.values_mut().for_each(Stream::clear);
        books.all().for_each(Stream::wake);
        drop(books);
        self.close.raise(CloseReason::Unread);
    }

    /// Ends every stream, for good.
    pub(super) fn end(&self) {
        let mut books = self.lock();
        books.has_ended = true;
        books.all().for_each(Stream::wake);
    }
}

/// Tells that one of the streams is not read.
fn holder(streams: &Weak<Streams>, buffers: &ByteBudget) -> Arc<ByteHolder> {
    let streams = Weak::clone(streams);
    buffers.add_holder(Direction::Out, "ACP event stream", move || {
        if let Some(streams) = streams.upgrade() {
            streams.give_up();
        }
    })
}

/// The streams as what a connection's messages go out by.
#[derive(Debug)]
pub(super) struct StreamWire(pub(super) Arc<Streams>);

impl Wire for StreamWire {
    fn gate(&self, session: &SessionId) -> Gate {
        self.0
            .lock()
            .sessions
            .get(session)
            .map_or(Gate::Closed { since: None }, Stream::gate)
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        self.0.changed.notified()
    }

    async fn feed(&mut self, origin: FrameOrigin<'_>, frame: OutFrame) -> Result<(), Closed> {
        let mut books = self.0.lock();
        let session = match origin {
            FrameOrigin::Connection => None,
            FrameOrigin::Answer(session) => Some(session)
                .filter(|session| books.sessions.get(*session).is_some_and(Stream::has_reader)),
            FrameOrigin::Event { session, .. } | FrameOrigin::Beside(session) => Some(session),
        };
        match books.stream(session) {
            Some(stream) => stream.push(origin, frame),
            // The session's stream had to make room at this very moment. A message that is not in
            // the log cannot wait for another stream, so it goes out on the connection's.
            None => books.connection.push(FrameOrigin::Connection, frame),
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        let mut books = self.0.lock();
        books.connection.flush();
        books.sessions.values_mut().for_each(Stream::flush);
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), Closed> {
        Ok(())
    }

    async fn close(&mut self, _: u16, _: &'static str) {
        self.0.end();
    }
}
