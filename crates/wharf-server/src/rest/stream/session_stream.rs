//! The event stream of one session, for one reader.
//!
//! The id of a line is `<epoch>-<seq>.<n>`. Other stream events have the id `<epoch>-<seq>`; they
//! come after the lines of their log event and stand for all of it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Interval;
use wharf_api::{OutputLine, StreamEvent};
use wharf_host::core::{AgentEvent, EndReason, Event, EventId, Seq, SessionEvent};
use wharf_host::{ByteBudget, Entry, SessionHandle};
use wharf_transcript::lines::{LineChoice, LineId, TranscriptLine};

use super::event_feed::EventFeed;
use super::ready_events::ReadyEvents;
use super::stream_event::to_stream_event;
use super::{COMMENT_INTERVAL, format_event};
use crate::fault::Fault;
use crate::output_lines::{TranscriptError, TranscriptReader};
use crate::use_cases::{unknown_event, unreadable_session};
use crate::visible_sessions::VisibleSessions;

/// Stands for all lines of an event.
const ALL_LINES: u64 = u64::MAX;

pub(super) struct SessionStream {
    handle: SessionHandle,
    visible: VisibleSessions,
    /// Changes when a session comes, goes or changes.
    changes: watch::Receiver<u64>,
    follow: TranscriptReader,
    /// The last event and line that the reader has received.
    seen: (Seq, u64),
    /// True if the session has ended for good, as far as the log was read.
    ended: bool,
    /// True if the log cannot be read, or the reader may no longer see the session.
    is_broken_off: bool,
    /// Events that the reader has not taken yet.
    ready: ReadyEvents,
    comment: Interval,
}

impl SessionStream {
    /// Opens the stream after that event. Returns `None` if the session has ended for good and
    /// nothing comes after the event.
    pub(super) async fn open(
        handle: SessionHandle,
        visible: VisibleSessions,
        after: Option<&str>,
        choice: LineChoice,
        buffers: &Arc<ByteBudget>,
    ) -> Result<Option<Self>, Fault> {
        let after = after
            .map(|id| parse_event_id(id).ok_or_else(|| unknown_event(id)))
            .transpose()?;
        let follow =
            TranscriptReader::open(&handle, after, choice)
                .await
                .map_err(|error| match error {
                    TranscriptError::UnknownEvent(id) => unknown_event(&id.to_string()),
                    TranscriptError::Read(error) => {
                        unreadable_session(handle.id().as_str(), &error)
                    }
                })?;
        let follow = follow.with_budget(buffers);
        // A call that the session answers brings its descriptor up to the log.
        let _ = handle.asks().await;
        let known = handle.descriptor();
        let ended = !known.status.is_alive() && (known.is_killed() || !known.resumable);
        let seen = after.map_or((Seq::ZERO, 0), |id| (id.seq, id.n));
        let mut comment = tokio::time::interval(COMMENT_INTERVAL);
        comment.reset();
        let ready = ReadyEvents::new(buffers);
        let changes = visible.changes();
        let mut reading = Self {
            handle,
            visible,
            changes,
            follow,
            seen,
            ended,
            is_broken_off: false,
            ready,
            comment,
        };
        while reading.ready.is_empty() && !reading.has_all() && reading.ended {
            reading.read_batch().await.ok_or_else(|| {
                let id = reading.handle.id().as_str();
                let why = "it cannot be read on";
                unreadable_session(id, &why)
            })?;
        }
        Ok((!reading.ready.is_empty() || !reading.has_all()).then_some(reading))
    }

    /// Returns true if the reader has all events of a session that has ended for good.
    fn has_all(&self) -> bool {
        self.ended && self.follow.position() >= self.handle.head()
    }

    /// Reads the next events. Returns `None` if the log cannot be read: the stream ends, and its
    /// reader may reconnect.
    async fn read_batch(&mut self) -> Option<()> {
        let followed = self.follow.next().await;
        let followed = followed
            .inspect_err(|error| tracing::error!(session = %self.handle.id(), %error, "a log cannot be read"))
            .ok()?;
        let mut lines = followed.lines.into_iter().peekable();
        let mut ready = Vec::new();
        for entry in followed.batch.entries() {
            self.note_end(entry);
            while let Some(line) = lines.next_if(|line| line.id.seq <= entry.seq) {
                ready.push(format_line(&line));
            }
            if (entry.seq, ALL_LINES) <= self.seen || entry.seq < self.seen.0 {
                continue;
            }
            if let Some(told) = to_stream_event(&self.handle, entry).await {
                let id = entry.id().to_string();
                ready.push(format_event(told.name(), Some(&id), &told));
            }
        }
        self.ready.extend(ready, followed.permit);
        Some(())
    }

    fn note_end(&mut self, entry: &Entry) {
        if let Event::Session(SessionEvent::Ended(ending)) = &entry.event {
            self.ended = ending.reason == EndReason::User || !self.handle.descriptor().resumable;
        } else if let Event::Agent(AgentEvent::Starting { .. }) = entry.event {
            self.ended = false;
        }
    }
}

impl EventFeed for SessionStream {
    fn ready(&self) -> &ReadyEvents {
        &self.ready
    }

    fn is_over(&self) -> bool {
        self.is_broken_off || self.has_all()
    }

    async fn fill(&mut self) {
        // A comment interrupts only the wait for events, never a read, so that no event is lost.
        tokio::select! {
            biased;
            () = self.follow.wait_for_events() => {}
            _ = self.changes.changed() => {
                self.is_broken_off = self.visible.descriptor(self.handle.id()).is_none();
                return;
            }
            _ = self.comment.tick() => return self.ready.extend(vec![":\n\n".to_owned()], None),
        }
        self.is_broken_off = self.read_batch().await.is_none();
    }

    fn note_sent(&mut self) {
        self.comment.reset();
    }
}

fn format_line(line: &TranscriptLine) -> String {
    let told = StreamEvent::Line(OutputLine {
        line: line.text.clone(),
        stream: line.stream.as_str().to_owned(),
    });
    format_event(told.name(), Some(&line.id.to_string()), &told)
}

/// Parses the id of a line or of another stream event.
fn parse_event_id(id: &str) -> Option<LineId> {
    if id.contains('.') {
        return id.parse().ok();
    }
    let EventId { epoch, seq } = id.parse().ok()?;
    Some(LineId { epoch, seq, n: ALL_LINES })
}
