//! Deadlines: each is a part of the state, and the shell sleeps until the earliest.

use std::time::Duration;

use wharf_api::{SessionStatus, TurnPhase};
use wharf_render::text::time_to_next_age;

use crate::effect::TuiEffect;
use crate::model::{HostLoss, HostPresence, InterruptStep, RowsLink, TuiState};
use crate::view::{listed_sessions, shown_since};

/// The interval in which clocks and countdowns on the screen change.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// The ages in the list change at most so often.
const AGE_INTERVAL: Duration = Duration::from_secs(60);
/// "Opening" appears after this time.
const OPENING_NOTE_DELAY: Duration = Duration::from_millis(150);

impl TuiState {
    /// Returns the instant at which `TuiInput::Tick` is due, since the client started; `None` if
    /// nothing waits for time.
    pub fn next_wake(&self) -> Option<Duration> {
        let message = self.message.as_ref().map(|message| message.until);
        let open = self.open.as_ref();
        let interrupt = open.and_then(|open| match open.interrupt.step {
            InterruptStep::Armed { until } => Some(until),
            InterruptStep::Asked { .. } | InterruptStep::Idle => None,
        });
        let opening = open.and_then(|open| match open.link {
            RowsLink::Opening { since } => {
                Some(since + OPENING_NOTE_DELAY).filter(|at| *at > self.now.elapsed)
            }
            RowsLink::Live | RowsLink::Lost => None,
        });
        let resolved =
            open.and_then(|open| open.dock.resolved.as_ref()).map(|resolved| resolved.until);
        let clock = self.has_running_clock().then(|| self.now.elapsed + CLOCK_INTERVAL);
        let all = [
            message,
            interrupt,
            opening,
            resolved,
            clock,
            self.drafts.next_save(),
            self.list_sort_at(),
            self.seen_report_at(),
            self.search_at(),
            self.next_line_at(),
            self.next_age_at(),
            self.list.notices.next_due(),
            self.host_watch_at(),
            self.outbox.next_retry().filter(|_| self.connection.is_connected()),
        ];
        all.into_iter().flatten().min()
    }

    /// Returns true if a clock or countdown is on the screen and someone looks at it.
    fn has_running_clock(&self) -> bool {
        let is_retrying = match &self.connection {
            HostPresence::Lost { loss, is_refused, retry_at: Some(_), .. } => {
                *is_refused || *loss == HostLoss::Unreachable
            }
            HostPresence::Lost { .. }
            | HostPresence::Connecting { .. }
            | HostPresence::Connected
            | HostPresence::Silent
            | HostPresence::Stopping => false,
        };
        let is_working = self.open_info().is_some_and(|info| {
            info.status == SessionStatus::Starting
                || (info.status.is_alive() && info.turn == TurnPhase::Running)
        });
        let is_interrupting = self
            .open
            .as_ref()
            .is_some_and(|open| matches!(open.interrupt.step, InterruptStep::Asked { .. }));
        self.has_terminal_focus && (is_retrying || is_working || is_interrupting)
    }

    /// Returns when to draw the ages in the list again: once a minute at most, and only if a person
    /// can see them. A clock that runs draws the ages too.
    fn next_age_at(&self) -> Option<Duration> {
        let is_seen = self.has_terminal_focus && self.overlays.is_empty();
        let is_shown = is_seen && self.connection.is_connected() && !self.has_running_clock();
        let listed = if is_shown { listed_sessions(self) } else { Vec::new() };
        let waits = listed
            .iter()
            .map(|session| time_to_next_age(shown_since(session), self.now.unix_millis));
        waits.min().map(|wait| self.now.elapsed + wait.max(AGE_INTERVAL))
    }

    /// Does everything whose time has come.
    pub(super) fn run_due_timers(&mut self) {
        let now = self.now.elapsed;
        self.watch_host();
        self.deliver_prompts();
        if self.message.as_ref().is_some_and(|message| message.until <= now) {
            self.message = None;
        }
        if let Some(open) = &mut self.open
            && matches!(open.interrupt.step, InterruptStep::Armed { until } if until <= now)
        {
            open.interrupt.step = InterruptStep::Idle;
        }
        if self.open.as_ref().is_some_and(|open| open.dock.resolved.is_some()) {
            self.refresh_dock();
        }
        if self.list_sort_at().is_some_and(|at| at <= now) {
            self.list.sort();
        }
        self.announce_held_questions();
        self.start_due_search();
        self.read_due_lines();
        self.save_drafts(Some(now));
        self.report_seen();
    }

    /// Has the shell write unsent texts: those that are due, or all of them.
    pub(super) fn save_drafts(&mut self, now: Option<Duration>) {
        for (key, text) in self.drafts.take_due(now) {
            let text = self.draft_on_disk(&key, text);
            self.emit(TuiEffect::SaveDraft { key, text });
        }
    }
}
