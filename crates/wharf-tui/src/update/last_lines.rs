//! Reads the last lines of the sessions in the list. Only lines that are on the screen are read,
//! and again and again only those of agents that work.

use std::time::Duration;

use wharf_api::{RowPage, TurnPhase};

use crate::api_call::read_newest_row;
use crate::model::{CallPurpose, TuiState};
use crate::rows::last_line;
use crate::view::listed_sessions;

/// The time between two looks at the last line of an agent that works.
const LINE_INTERVAL: Duration = Duration::from_secs(2);
/// The lines that are requested at once.
const MAX_READ_LINES: usize = 8;

impl TuiState {
    /// Requests the lines that are due.
    pub(super) fn read_due_lines(&mut self) {
        let now = self.now.elapsed;
        let due: Vec<String> = self
            .line_deadlines()
            .filter(|(_, at)| *at <= now)
            .map(|(id, _)| id)
            .take(MAX_READ_LINES)
            .collect();
        for session in due {
            self.list.last_lines.start_reading(&session);
            self.call(read_newest_row(&session), CallPurpose::LastLine { session });
        }
    }

    /// Returns when the next line is due.
    pub(super) fn next_line_at(&self) -> Option<Duration> {
        self.line_deadlines().map(|(_, at)| at.max(self.now.elapsed)).min()
    }

    /// Yields the sessions in view whose lines are out of date or will be. The rows of the open
    /// session are known already.
    fn line_deadlines(&self) -> impl Iterator<Item = (String, Duration)> {
        let is_shown =
            self.has_terminal_focus && self.connection.is_connected() && self.overlays.is_empty();
        let open = self.open.as_ref().map(|open| open.id.as_str());
        let listed = if is_shown { listed_sessions(self) } else { Vec::new() };
        listed
            .into_iter()
            .filter(move |session| Some(session.id.as_str()) != open)
            .filter_map(|session| {
                let interval = (session.turn != TurnPhase::Idle).then_some(LINE_INTERVAL);
                let at = self.list.last_lines.due_at(&session.id, interval)?;
                Some((session.id.clone(), at))
            })
    }

    pub(super) fn take_last_line(&mut self, session: &str, page: &RowPage) {
        let line = page.rows.iter().rev().find_map(last_line);
        self.list.last_lines.finish_reading(
            session,
            Some(line.unwrap_or_default()),
            self.now.elapsed,
        );
    }
}
