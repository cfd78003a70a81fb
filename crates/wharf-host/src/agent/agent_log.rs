//! The newest lines that the agents of a session wrote beside the protocol: their stderr, and lines
//! on stdout that are no messages. Each session has a bounded ring in memory (rule 8.8).

use std::collections::{HashMap, VecDeque};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use wharf_core::{Millis, SessionId};
use wharf_transcript::redact::Redactor;
use wharf_transcript::strip_control_characters;

use crate::ids::{Now, random_text};

/// Bounds the ring of one session: some hundred lines of a talkative agent.
const MAX_LOG_BYTES: usize = 128 << 10;
/// The bytes that a line counts for besides its text.
const LINE_OVERHEAD_BYTES: usize = 64;
/// The longest line that is kept; the rest of a longer one is dropped.
const MAX_LINE_BYTES: usize = 4 << 10;
/// The bytes of a line that are collected: so many more that a secret at the end of the kept part
/// is still seen whole.
const MAX_COLLECTED_BYTES: usize = MAX_LINE_BYTES + 512;
/// Logs that are kept of sessions whose agent has ended: its last words are read after its end.
const MAX_ENDED_LOGS: usize = 64;
/// The characters of a ring's id, which no other ring of the same session has.
const LOG_ID_CHARS: usize = 12;

/// Stands for the ring in the position before its first line. A ring without lines is not kept for
/// its readers, so the position must be good for the next one.
const START_LOG_ID: &str = "000000000000";

/// The stream that a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStream {
    Stderr,
    Stdout,
}

/// A line without control characters and, unless the configuration says otherwise, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedLine {
    /// The time when the host read it.
    pub at: Millis,
    pub stream: AgentStream,
    pub text: String,
    /// True if the line was longer.
    pub is_cut: bool,
}

/// A position in a ring: after its line of this number, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPosition {
    log: String,
    line: u64,
}

impl std::fmt::Display for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.log, self.line)
    }
}

/// Reports that a text is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLogPosition;

impl FromStr for LogPosition {
    type Err = NoLogPosition;

    fn from_str(text: &str) -> Result<Self, NoLogPosition> {
        let (log, line) = text.split_once('.').ok_or(NoLogPosition)?;
        let is_id =
            log.len() == LOG_ID_CHARS && log.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let line = line.parse().ok().filter(|_| is_id).ok_or(NoLogPosition)?;
        Ok(Self { log: log.to_owned(), line })
    }
}

/// A part of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedLines {
    /// The oldest first.
    pub lines: Vec<LoggedLine>,
    /// The position after the last of these lines.
    pub next: LogPosition,
    /// True if lines after the given position are not kept any more.
    pub has_gap: bool,
}

/// The log of one session's agents. It outlives each of them, not the host.
#[derive(Debug)]
pub struct AgentLog {
    id: String,
    redacts: bool,
    ring: Mutex<LineRing>,
    /// The number of lines ever written; also changed when the log is closed.
    written: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct LineRing {
    lines: VecDeque<LoggedLine>,
    bytes: usize,
    /// The number of lines ever written.
    total: u64,
    is_closed: bool,
}

impl AgentLog {
    fn new(redacts: bool) -> Self {
        let id = random_text(LOG_ID_CHARS);
        let ring = Mutex::default();
        Self { id, redacts, ring, written: watch::Sender::new(0) }
    }

    fn lock_ring(&self) -> MutexGuard<'_, LineRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: LoggedLine) {
        let mut ring = self.lock_ring();
        if ring.is_closed {
            return;
        }
        ring.bytes += line.text.len() + LINE_OVERHEAD_BYTES;
        ring.lines.push_back(line);
        ring.total += 1;
        while ring.bytes > MAX_LOG_BYTES
            && let Some(oldest) = ring.lines.pop_front()
        {
            ring.bytes -= oldest.text.len() + LINE_OVERHEAD_BYTES;
        }
        // Within the lock, so that a reader that saw the line waits for the next one.
        self.written.send_replace(ring.total);
    }

    /// Returns the last `limit` lines.
    pub fn read_last(&self, limit: usize) -> LoggedLines {
        let ring = self.lock_ring();
        let skipped = ring.lines.len().saturating_sub(limit);
        let lines = ring.lines.iter().skip(skipped).cloned().collect();
        LoggedLines { lines, next: self.position(ring.total), has_gap: false }
    }

    /// Returns the first `limit` lines after the position. A position in another ring, such as that
    /// of an earlier host, comes before all lines of this one.
    pub fn read_after(&self, after: &LogPosition, limit: usize) -> LoggedLines {
        let ring = self.lock_ring();
        let is_known = self.has_position(after) && after.line <= ring.total;
        let from = if is_known { after.line } else { 0 };
        let dropped = ring.total - ring.lines.len() as u64;
        let skipped = usize::try_from(from.saturating_sub(dropped)).unwrap_or(usize::MAX);
        let lines: Vec<LoggedLine> = ring.lines.iter().skip(skipped).take(limit).cloned().collect();
        let last = from.max(dropped) + lines.len() as u64;
        LoggedLines {
            lines,
            next: self.position(last),
            has_gap: !is_known || from < dropped,
        }
    }

    /// Waits until there is a line after the position, or the log is closed.
    pub async fn wait_after(&self, after: &LogPosition) {
        let mut written = self.written.subscribe();
        if self.has_position(after) {
            let _ = written.wait_for(|total| *total > after.line).await;
        } else if *written.borrow_and_update() == 0 {
            let _ = written.changed().await;
        }
    }

    fn position(&self, line: u64) -> LogPosition {
        let log = if line == 0 { START_LOG_ID } else { &self.id };
        LogPosition { log: log.to_owned(), line }
    }

    /// Tells whether a position is in this ring, or before the first line of any ring.
    fn has_position(&self, position: &LogPosition) -> bool {
        position.log == self.id || (position.log == START_LOG_ID && position.line == 0)
    }

    /// Drops all lines and wakes all waiting readers: the session is deleted.
    fn close(&self) {
        *self.lock_ring() = LineRing { is_closed: true, ..LineRing::default() };
        self.written.send_replace(u64::MAX);
    }
}

/// Collects the bytes of one process into lines of a log.
#[derive(Debug)]
pub(crate) struct AgentLogWriter {
    log: Arc<AgentLog>,
    /// `None` if secrets are shown.
    redactors: Option<StreamRedactors>,
    /// The beginning of a line on stderr.
    partial: Vec<u8>,
    /// True if the line that is collected is longer than `partial`.
    is_cut: bool,
}

/// A private key has several lines, which belong together in their own stream only.
#[derive(Debug, Default)]
struct StreamRedactors {
    stderr: Redactor,
    stdout: Redactor,
}

impl AgentLogWriter {
    pub(crate) fn new(log: Arc<AgentLog>) -> Self {
        let redactors = log.redacts.then(StreamRedactors::default);
        Self { log, redactors, partial: Vec::new(), is_cut: false }
    }

    /// Adds bytes of stderr.
    pub(crate) fn push_stderr(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.collect(text);
            if text.len() < piece.len() {
                self.end_line();
            }
        }
    }

    /// Adds a whole line of stdout.
    pub(crate) fn push_stdout(&mut self, line: &[u8]) {
        let is_cut = line.len() > MAX_COLLECTED_BYTES;
        self.write_line(AgentStream::Stdout, &line[..line.len().min(MAX_COLLECTED_BYTES)], is_cut);
    }

    fn collect(&mut self, mut text: &[u8]) {
        // A carriage return starts the line over, as in progress bars.
        let is_overwritten = self.partial.last() == Some(&b'\r') && !text.is_empty();
        let body = text.strip_suffix(b"\r").unwrap_or(text);
        if let Some(at) = body.iter().rposition(|byte| *byte == b'\r') {
            text = &text[at + 1..];
            self.clear_line();
        } else if is_overwritten {
            self.clear_line();
        }
        let room = MAX_COLLECTED_BYTES.saturating_sub(self.partial.len());
        self.is_cut |= text.len() > room;
        self.partial.extend_from_slice(&text[..text.len().min(room)]);
    }

    /// Ends the line that is collected, if there is one: nothing follows.
    pub(crate) fn finish_line(&mut self) {
        if !self.partial.is_empty() {
            self.end_line();
        }
    }

    fn clear_line(&mut self) {
        self.partial.clear();
        self.is_cut = false;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        let is_cut = self.is_cut;
        self.write_line(AgentStream::Stderr, &line, is_cut);
        self.partial = line;
        self.clear_line();
    }

    fn write_line(&mut self, stream: AgentStream, line: &[u8], is_cut: bool) {
        let mut text = strip_control_characters(&String::from_utf8_lossy(line));
        if let Some(redactors) = &mut self.redactors {
            text = match stream {
                AgentStream::Stderr => redactors.stderr.redact_line(text),
                AgentStream::Stdout => redactors.stdout.redact_line(text),
            };
        }
        let is_cut = is_cut || text.len() > MAX_LINE_BYTES;
        text.truncate(text.floor_char_boundary(MAX_LINE_BYTES));
        self.log.push(LoggedLine { at: Now::millis(), stream, text, is_cut });
    }
}

/// A process may end within a line.
impl Drop for AgentLogWriter {
    fn drop(&mut self) {
        self.finish_line();
    }
}

/// The logs of all sessions, by session.
#[derive(Debug)]
pub(crate) struct AgentLogs {
    /// True if secrets are removed from lines.
    redacts: bool,
    known: Mutex<LogsBySession>,
}

#[derive(Debug, Default)]
struct LogsBySession {
    logs: HashMap<SessionId, Arc<AgentLog>>,
    /// The sessions in the order in which their logs were last asked for.
    order: VecDeque<SessionId>,
}

impl AgentLogs {
    pub(crate) fn new(redacts: bool) -> Self {
        Self { redacts, known: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, LogsBySession> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the log of a session, a new one if there is none. Of the logs that are neither
    /// written nor read those without lines are dropped, and if there are too many others, the
    /// longest unused.
    pub(crate) fn get_or_create(&self, session: &SessionId) -> Arc<AgentLog> {
        let mut known = self.lock();
        let log = Arc::clone(
            known
                .logs
                .entry(session.clone())
                .or_insert_with(|| Arc::new(AgentLog::new(self.redacts))),
        );
        known.order.retain(|other| other != session);
        known.order.push_back(session.clone());
        known.drop_unused();
        log
    }

    /// Forgets the log of a deleted session.
    pub(crate) fn remove(&self, session: &SessionId) {
        let mut known = self.lock();
        known.order.retain(|other| other != session);
        if let Some(log) = known.logs.remove(session) {
            log.close();
        }
    }
}

impl LogsBySession {
    fn drop_unused(&mut self) {
        self.logs
            .retain(|_, log| Arc::strong_count(log) > 1 || log.lock_ring().total > 0);
        let is_unused = |logs: &HashMap<SessionId, Arc<AgentLog>>, session: &SessionId| {
            logs.get(session).is_none_or(|log| Arc::strong_count(log) == 1)
        };
        self.order.retain(|session| self.logs.contains_key(session));
        let mut unused = self.order.iter().filter(|session| is_unused(&self.logs, session)).count();
        let Self { logs, order } = self;
        order.retain(|session| {
            let drops = unused > MAX_ENDED_LOGS && is_unused(logs, session);
            if drops {
                logs.remove(session);
                unused -= 1;
            }
            !drops
        });
    }
}

#[cfg(test)]
mod tests;
