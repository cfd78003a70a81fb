//! A poll of the list and the rows (rule 13.5): the same events as in the stream, in a response
//! that ends. A proxy that holds streams back passes such a response on, and a tab without a
//! connection to spare gives its own back.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wharf_host::core::EventId;

use super::ChunkSource;
use super::row_stream::RowStream;
use super::session_list_stream::SessionListStream;

/// The longest wait of a poll: proxies give up a request that is not answered for half a minute.
const MAX_POLL_WAIT: Duration = Duration::from_secs(20);

pub(super) struct PollStream {
    list: SessionListStream,
    rows: Option<RowStream>,
    /// The last event that the reader had before this poll.
    position: Option<EventId>,
    until: Instant,
    has_snapshot: bool,
    has_first_rows: bool,
    /// True once there was something that the reader did not know.
    has_news: bool,
}

impl PollStream {
    pub(super) fn new(list: SessionListStream, rows: Option<RowStream>, wait: Duration) -> Self {
        Self {
            list,
            position: rows.as_ref().and_then(RowStream::position),
            has_first_rows: rows.is_none(),
            rows,
            until: Instant::now() + wait.min(MAX_POLL_WAIT),
            has_snapshot: false,
            has_news: false,
        }
    }

    /// Returns the next chunk that the list and the rows have to send at once; `None` after the
    /// last.
    async fn next_at_once(&mut self) -> Option<Bytes> {
        if !self.has_snapshot {
            self.has_snapshot = true;
            return self.list.next().await;
        }
        let rows = self.rows.as_mut()?;
        if self.has_first_rows && rows.is_drained() {
            return None;
        }
        let chunk = rows.next().await;
        self.has_first_rows = true;
        self.has_news |= rows.position() != self.position || chunk.is_none();
        chunk
    }

    /// Waits for something new.
    async fn next_news(&mut self) -> Option<Bytes> {
        let rows = async {
            match &mut self.rows {
                Some(rows) => rows.next().await,
                None => std::future::pending().await,
            }
        };
        self.has_news = true;
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.until) => None,
            chunk = self.list.next() => chunk,
            chunk = rows => chunk,
        }
    }
}

impl ChunkSource for PollStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(chunk) = self.next_at_once().await {
            return Some(chunk);
        }
        if self.has_news { None } else { self.next_news().await }
    }
}
