//! One reader of one session's stream.
//!
//! The id of a line is `<epoch>-<seq>.<n>`. Of what an event tells besides it is `<epoch>-<seq>`: that comes after the
//! event's lines and stands for the whole of it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::time::Interval;
use wharf_host::core::{Event, Seq};
use wharf_host::{Entry, SessionHandle};

use super::told::{Told, told};
use super::{COMMENT, Source, event};
use crate::lines::{Follow, Line, LineId, LinesError};
use crate::problem::Problem;
use crate::use_cases::{unknown_event, unreadable};

/// How much goes into one chunk of the response; an event that is larger is one.
const CHUNK: usize = 64 * 1024;
/// Stands for all lines of an event.
const ALL: u64 = u64::MAX;

pub(super) struct Reading {
    handle: SessionHandle,
    follow: Follow,
    /// What the reader has had.
    seen: (Seq, u64),
    /// Is the session over, as far as was read?
    ended: bool,
    /// On its way out.
    ready: VecDeque<String>,
    comment: Interval,
}

impl Reading {
    /// A reader of what comes after that event. `None` if nothing does and the session is over.
    pub(super) async fn open(
        handle: SessionHandle,
        after: Option<&str>,
        redact: bool,
    ) -> Result<Option<Self>, Problem> {
        let after = after.map(|id| parse(id).ok_or_else(|| unknown_event(id))).transpose()?;
        let follow = Follow::open(&handle, after, redact).await.map_err(|error| match error {
            LinesError::UnknownEvent(id) => unknown_event(&id.to_string()),
            LinesError::Read(error) => unreadable(handle.id().as_str(), &error),
        })?;
        // The session is asked something, so that its descriptor is not behind the log.
        let _ = handle.asks().await;
        let ended = !handle.descriptor().status.is_alive();
        let seen = after.map_or((Seq::ZERO, 0), |id| (id.seq, id.n));
        let mut comment = tokio::time::interval(COMMENT);
        comment.reset();
        let mut reading = Self { handle, follow, seen, ended, ready: VecDeque::new(), comment };
        while reading.ready.is_empty() && !reading.is_over() && reading.ended {
            reading.read().await.ok_or_else(|| {
                let (id, why) = (reading.handle.id().as_str(), "it cannot be read on");
                unreadable(id, &why)
            })?;
        }
        Ok((!reading.ready.is_empty() || !reading.is_over()).then_some(reading))
    }

    fn is_over(&self) -> bool {
        self.ended && self.follow.position() >= self.handle.head()
    }

    /// Reads on. `None` if the log cannot be read: the stream ends, and its reader comes again.
    async fn read(&mut self) -> Option<()> {
        let followed = self.follow.next().await;
        let followed = followed
            .inspect_err(|error| tracing::error!(session = %self.handle.id(), %error, "a log cannot be read"))
            .ok()?;
        let mut lines = followed.lines.into_iter().peekable();
        for entry in followed.batch.entries() {
            self.note(entry);
            while let Some(line) = lines.next_if(|line| line.id.seq <= entry.seq) {
                self.ready.push_back(written(&line));
            }
            if (entry.seq, ALL) <= self.seen || entry.seq < self.seen.0 {
                continue;
            }
            if let Some(Told { name, data }) = told(&self.handle, entry).await {
                let id = format!("{}-{}", entry.epoch, entry.seq);
                self.ready.push_back(event(name, Some(&id), &data));
            }
        }
        Some(())
    }

    fn note(&mut self, entry: &Entry) {
        if let Event::Ended(_) = entry.event {
            self.ended = true;
        } else if let Event::AgentStarting { .. } = entry.event {
            self.ended = false;
        }
    }

    fn chunk(&mut self) -> Bytes {
        let mut chunk = BytesMut::new();
        while let Some(event) = self.ready.pop_front() {
            chunk.extend_from_slice(event.as_bytes());
            if chunk.len() + self.ready.front().map_or(0, String::len) > CHUNK {
                break;
            }
        }
        chunk.freeze()
    }
}

impl Source for Reading {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                self.comment.reset();
                return Some(self.chunk());
            }
            if self.is_over() {
                return None;
            }
            // Reading is given up half-way for a comment only while nothing has come: then nothing is lost by it.
            tokio::select! {
                biased;
                () = self.follow.news() => {}
                _ = self.comment.tick() => return Some(Bytes::from_static(b":\n\n")),
            }
            self.read().await?;
        }
    }
}

fn written(line: &Line) -> String {
    let data = json!({ "line": line.text, "stream": line.stream.word() });
    event("line", Some(&line.id.to_string()), &data)
}

/// A line's id, or an event's.
fn parse(id: &str) -> Option<LineId> {
    if id.contains('.') {
        return id.parse().ok();
    }
    // Any line of the event has the same beginning.
    let LineId { epoch, seq, .. } = format!("{id}.1").parse().ok()?;
    Some(LineId { epoch, seq, n: ALL })
}
