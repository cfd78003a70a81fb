//! Watches for a silent host: the client reports the silence, and anything that comes from the host
//! ends it (rule 19.8).

use std::time::Duration;

use wharf_api::{RowStreamEvent, SessionStreamEvent};

use crate::effect::TuiEffect;
use crate::input::{StreamInput, TuiInput};
use crate::model::{HostPresence, RowsLink, TuiState};

impl TuiState {
    /// Notes that something has come from the host, if the input is that.
    pub(super) fn note_host_input(&mut self, input: &TuiInput) {
        match input {
            TuiInput::List(input) => {
                self.note_stream_input(is_from_host::<SessionStreamEvent>(input))
            }
            TuiInput::Rows { input, .. } => {
                self.note_stream_input(is_from_host::<RowStreamEvent>(input))
            }
            TuiInput::Answer { answer: Ok(_), .. } | TuiInput::HostReady(_) => self.note_heard(),
            // A failure without a code is that of the way to the host.
            TuiInput::Answer { answer: Err(failure), .. } => {
                self.note_stream_input(failure.code.is_some())
            }
            TuiInput::HostProbed { has_answered } => {
                self.host_watch.finish_probe();
                if *has_answered {
                    self.note_heard();
                } else if self.is_host_silent() || self.host_watch.silent_at().is_some() {
                    self.host_watch.probe_later(self.now.elapsed);
                }
            }
            // The client did not read while the program ran, so that an answer of the host may
            // still wait.
            TuiInput::Program(_) => self.host_watch.restart(self.now.elapsed),
            TuiInput::Key(_)
            | TuiInput::Paste(_)
            | TuiInput::Resized(_)
            | TuiInput::TerminalFocus(_)
            | TuiInput::Tick
            | TuiInput::HostStarted(_)
            | TuiInput::Copied(_)
            | TuiInput::End => {}
        }
    }

    fn note_stream_input(&mut self, is_from_host: bool) {
        if is_from_host {
            self.note_heard();
        }
    }

    fn note_heard(&mut self) {
        self.host_watch.clear();
        if self.is_host_silent() {
            self.connection = HostPresence::Connected;
            self.outbox.retry_unanswered(self.now.elapsed);
            self.tell("the host answers again");
        }
    }

    /// Notes that the host does not answer, unless more is known.
    pub(super) fn note_silent(&mut self) {
        if self.is_host_watched() {
            self.connection = HostPresence::Silent;
            self.host_watch.probe_later(self.now.elapsed);
        }
    }

    pub(crate) const fn is_host_silent(&self) -> bool {
        matches!(self.connection, HostPresence::Silent)
    }

    /// Returns true if the host is believed to answer.
    const fn is_host_watched(&self) -> bool {
        matches!(self.connection, HostPresence::Connected | HostPresence::Connecting { .. })
    }

    /// Returns true if something was sent that the host has not answered yet.
    fn awaits_host(&self) -> bool {
        let is_opening = self
            .open
            .as_ref()
            .is_some_and(|open| matches!(open.link, RowsLink::Opening { .. }));
        is_opening || !self.calls.is_empty()
    }

    /// Tells a silence whose time has come, and has the host probed.
    pub(super) fn watch_host(&mut self) {
        if !self.is_host_watched() && !self.is_host_silent() {
            // The streams tell when the host is back.
            self.host_watch.clear();
            return;
        }
        let now = self.now.elapsed;
        if self.is_host_watched() {
            if self.awaits_host() {
                self.host_watch.note_sent(now);
            } else {
                self.host_watch.clear();
            }
        }
        if self.is_host_watched() && self.host_watch.silent_at().is_some_and(|at| at <= now) {
            self.note_silent();
        }
        if self.host_watch.begin_due_probe(now) {
            self.emit(TuiEffect::ProbeHost);
        }
    }

    /// Returns when the host's silence is to be looked at.
    pub(super) fn host_watch_at(&self) -> Option<Duration> {
        let silent_at = self.host_watch.silent_at().filter(|_| self.is_host_watched());
        silent_at.into_iter().chain(self.host_watch.next_probe()).min()
    }
}

/// Returns true for news that a host has sent.
const fn is_from_host<E>(input: &StreamInput<E>) -> bool {
    match input {
        StreamInput::Connected | StreamInput::Event(_) | StreamInput::Refused { .. } => true,
        StreamInput::Silent | StreamInput::Lost { .. } => false,
    }
}
