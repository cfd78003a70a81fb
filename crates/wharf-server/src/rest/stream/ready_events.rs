//! Events that wait for one reader of a stream, counted in the byte budget of all connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use wharf_host::{ByteBudget, ByteHolder, BytePermit, Direction};

/// The most bytes of one chunk of the response. A larger event is a chunk of its own.
const CHUNK_BYTES: usize = 64 * 1024;

/// The events that the reader has not taken yet. They are dropped when other connections need their
/// bytes and the reader takes nothing. Its stream ends then, and it can continue with
/// `Last-Event-ID`.
#[derive(Debug)]
pub(super) struct ReadyEvents {
    waiting: Arc<Mutex<Waiting>>,
    holder: Arc<ByteHolder>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<String>,
    /// Counts the events if they are large.
    permit: Option<BytePermit>,
}

impl ReadyEvents {
    pub(super) fn new(buffers: &ByteBudget) -> Self {
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let holder = buffers.add_holder(Direction::Out, "event stream", {
            let waiting = Arc::clone(&waiting);
            move || *lock(&waiting) = Waiting::default()
        });
        Self { waiting, holder }
    }

    /// Returns true once the events were dropped because the reader took none of them.
    pub(super) fn is_given_up(&self) -> bool {
        self.holder.is_closed()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.waiting).events.is_empty()
    }

    /// Adds events, with the permit that counts them.
    pub(super) fn extend(&self, events: Vec<String>, permit: Option<BytePermit>) {
        let mut waiting = lock(&self.waiting);
        waiting.events.extend(events);
        if permit.is_some() {
            waiting.permit = permit;
        }
    }

    /// Notes that the reader has taken the last chunk.
    pub(super) fn note_taken(&self) {
        self.holder.note_progress();
    }

    /// Takes the next chunk. The reader counts as stalled until it asks for another.
    pub(super) fn take_chunk(&self) -> Bytes {
        let mut waiting = lock(&self.waiting);
        let mut chunk = BytesMut::new();
        while let Some(event) = waiting.events.pop_front() {
            chunk.extend_from_slice(event.as_bytes());
            if chunk.len() + waiting.events.front().map_or(0, String::len) > CHUNK_BYTES {
                break;
            }
        }
        if waiting.events.is_empty() {
            *waiting = Waiting::default();
        } else if waiting.permit.is_some() {
            self.holder.note_stalled();
        }
        chunk.freeze()
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
