//! Events of the stream of all sessions.

use std::time::Duration;

use wharf_api::{SessionInfo, SessionStreamEvent};

use crate::api_call::describe_host;
use crate::effect::TuiEffect;
use crate::input::StreamInput;
use crate::model::{CallPurpose, HostLoss, HostPresence, PaneFocus, TuiState};

/// While the list has the focus it is sorted anew only so long after the last key.
const SORT_DELAY: Duration = Duration::from_secs(2);

impl TuiState {
    pub(super) fn handle_list_stream(&mut self, input: StreamInput<SessionStreamEvent>) {
        match input {
            StreamInput::Connected => self.note_connected(),
            StreamInput::Event(event) => self.handle_list_event(event),
            StreamInput::Lost { retry_in, .. } => self.note_lost(retry_in.map(|wait| self.now.elapsed + wait)),
        }
    }

    fn note_connected(&mut self) {
        if matches!(self.connection, HostPresence::Lost { .. }) {
            self.tell("connected again");
            self.call(describe_host(), CallPurpose::Host);
        }
        self.connection = HostPresence::Connected;
    }

    /// Notes that the host is gone. One that died is started again, once; one that was told to stop is not.
    fn note_lost(&mut self, retry_at: Option<Duration>) {
        let loss = match &self.connection {
            HostPresence::Lost { loss, .. } => loss.clone(),
            HostPresence::Stopping => HostLoss::Stopped,
            HostPresence::Connecting { .. } | HostPresence::Connected if self.options.may_start_host => {
                self.emit(TuiEffect::StartHost { is_urgent: false });
                HostLoss::Starting
            }
            HostPresence::Connecting { .. } | HostPresence::Connected => HostLoss::Unreachable,
        };
        self.connection = HostPresence::Lost { loss, retry_at };
    }

    /// Starts a host that was stopped or could not be started.
    pub(super) fn start_host(&mut self) {
        match &mut self.connection {
            HostPresence::Lost { .. } if !self.options.may_start_host => {
                self.tell_error("this host is not started from here")
            }
            HostPresence::Lost { loss, .. } => {
                *loss = HostLoss::Starting;
                self.emit(TuiEffect::StartHost { is_urgent: true });
            }
            HostPresence::Stopping => self.tell("the host is still stopping"),
            HostPresence::Connecting { .. } | HostPresence::Connected => self.tell("the host runs"),
        }
    }

    /// Notes the outcome of a start. The stream connects by itself.
    pub(super) fn note_host_start(&mut self, outcome: Result<(), String>) {
        if let (HostPresence::Lost { loss, .. }, Err(reason)) = (&mut self.connection, outcome) {
            *loss = HostLoss::StartFailed(reason);
        }
    }

    fn handle_list_event(&mut self, event: SessionStreamEvent) {
        match event {
            SessionStreamEvent::Snapshot(snapshot) => {
                let is_first = !self.list.is_loaded;
                self.list.replace_all(snapshot.sessions);
                self.list.sort();
                if is_first {
                    self.choose_first_screen();
                }
            }
            SessionStreamEvent::Session(session) => {
                let before = self.list.put(session.clone());
                self.announce_change(before.as_ref(), &session);
                self.sort_list_when_quiet();
            }
            SessionStreamEvent::Forgotten(forgotten) => self.list.remove(&forgotten.id),
            SessionStreamEvent::Stopping(_) => self.connection = HostPresence::Stopping,
            SessionStreamEvent::Other => {}
        }
    }

    /// Chooses the first screen: without sessions the form, else the list at the session that the person most likely wants.
    fn choose_first_screen(&mut self) {
        if self.list.is_target_open {
            return;
        }
        if self.list.is_empty() {
            self.open_form();
            return;
        }
        let here = self.options.directory.as_deref();
        let newest_here = self
            .list
            .sessions()
            .filter(|session| session.status.is_alive() && Some(session.cwd.as_str()) == here)
            .max_by(|a, b| a.started_at.cmp(&b.started_at))
            .map(|session: &SessionInfo| session.id.clone());
        let first = self.list.shown_ids().next().map(str::to_owned);
        self.list.selected = newest_here.or(first);
    }

    /// Sorts the list, unless the person is moving in it.
    fn sort_list_when_quiet(&mut self) {
        if self.list_sort_at().is_none_or(|at| self.now.elapsed >= at) {
            self.list.sort();
        }
    }

    /// Returns when a stale list may be sorted; `None` if at once or not needed.
    pub(super) fn list_sort_at(&self) -> Option<Duration> {
        let is_delayed = self.focus == PaneFocus::List && self.overlays.is_empty();
        (is_delayed && self.list.is_order_stale).then(|| self.last_key_at + SORT_DELAY)
    }
}
