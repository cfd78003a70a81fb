//! The last line of each session, as the list shows it: read from the newest row, and again while
//! the agent works.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A session that changes again and again is not read more often than so.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(500);

/// The last lines that are known, and when they are to be read again.
#[derive(Debug, Default)]
pub(crate) struct NewestLines {
    lines: BTreeMap<String, SessionLine>,
    /// Sessions whose line is being read.
    reading: BTreeSet<String>,
}

#[derive(Debug)]
struct SessionLine {
    text: String,
    read_at: Duration,
    /// The session has changed since.
    is_stale: bool,
}

impl NewestLines {
    pub(crate) fn get(&self, session: &str) -> Option<&str> {
        self.lines
            .get(session)
            .map(|line| line.text.as_str())
            .filter(|text| !text.is_empty())
    }

    /// Notes that a session has changed: its line is read again when it is shown.
    pub(crate) fn mark_stale(&mut self, session: &str) {
        if let Some(line) = self.lines.get_mut(session) {
            line.is_stale = true;
        }
    }

    pub(crate) fn remove(&mut self, session: &str) {
        self.lines.remove(session);
    }

    /// Returns when the line of a session is to be read; `None` if it is up to date or being read.
    /// `interval` is set for a session whose agent works.
    pub(crate) fn due_at(&self, session: &str, interval: Option<Duration>) -> Option<Duration> {
        if self.reading.contains(session) {
            return None;
        }
        match self.lines.get(session) {
            None => Some(Duration::ZERO),
            Some(line) if line.is_stale => Some(line.read_at + MIN_READ_INTERVAL),
            Some(line) => interval.map(|interval| line.read_at + interval),
        }
    }

    pub(crate) fn start_reading(&mut self, session: &str) {
        self.reading.insert(session.to_owned());
    }

    /// Keeps a line. Without a text, which a failure gives, the earlier one stays.
    pub(crate) fn finish_reading(&mut self, session: &str, text: Option<String>, now: Duration) {
        self.reading.remove(session);
        let earlier = self.lines.remove(session).map(|line| line.text);
        let text = text.or(earlier).unwrap_or_default();
        self.lines
            .insert(session.to_owned(), SessionLine { text, read_at: now, is_stale: false });
    }
}
