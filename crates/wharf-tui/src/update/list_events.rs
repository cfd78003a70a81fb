//! Events of the stream of all sessions.

use std::time::Duration;

use wharf_api::{SessionInfo, SessionStreamEvent};

use crate::api_call::describe_host;
use crate::effect::TuiEffect;
use crate::input::StreamInput;
use crate::model::{CallPurpose, HostLoss, HostPresence, PaneFocus, TuiState};

/// The delay between the last key and the next sort of a focused list, so that rows do not jump
/// under the cursor.
const SORT_DELAY: Duration = Duration::from_secs(2);
/// A host that ends right after its start is started so often at most before the person is asked.
const MAX_HOST_STARTS: u32 = 3;

impl TuiState {
    pub(super) fn handle_list_stream(&mut self, input: StreamInput<SessionStreamEvent>) {
        match input {
            StreamInput::Connected => self.note_connected(),
            StreamInput::Event(event) => self.handle_list_event(event),
            StreamInput::Silent => self.note_silent(),
            StreamInput::Lost { reason, retry_in } => self.note_lost(reason, retry_in, false),
            StreamInput::Refused { reason, retry_in } => {
                self.note_lost(reason, Some(retry_in), true)
            }
        }
    }

    fn note_connected(&mut self) {
        if matches!(self.connection, HostPresence::Lost { .. }) {
            self.tell("connected again");
            self.outbox.retry_unanswered(self.now.elapsed);
            self.call(describe_host(), CallPurpose::Host);
        }
        self.connection = HostPresence::Connected;
    }

    /// Notes that the host is gone or refuses the stream. The client starts a host that died again,
    /// a few times if it dies right after its start. It does not start a host that has announced
    /// its stop or that refuses the stream.
    fn note_lost(&mut self, reason: String, retry_in: Option<Duration>, is_refused: bool) {
        let loss = match &self.connection {
            HostPresence::Lost { loss: HostLoss::Started { starts }, .. } if !is_refused => {
                self.restart_host(*starts)
            }
            HostPresence::Lost { loss: HostLoss::Refusing, .. } if !is_refused => {
                self.restart_host(0)
            }
            HostPresence::Lost { loss, .. } => loss.clone(),
            HostPresence::Stopping => HostLoss::Stopped,
            HostPresence::Connecting { .. } | HostPresence::Connected | HostPresence::Silent
                if is_refused =>
            {
                HostLoss::Refusing
            }
            HostPresence::Connecting { .. } | HostPresence::Connected | HostPresence::Silent => {
                self.restart_host(0)
            }
        };
        let retry_at = retry_in.map(|wait| self.now.elapsed + wait);
        self.connection = HostPresence::Lost { loss, reason, is_refused, retry_at };
    }

    /// Starts a host that died, unless it has died too often since the last connection.
    fn restart_host(&mut self, starts: u32) -> HostLoss {
        if !self.options.may_start_host {
            return HostLoss::Unreachable;
        }
        if starts >= MAX_HOST_STARTS {
            return HostLoss::StartFailed(
                "it ended right after its start · more: wharf doctor".to_owned(),
            );
        }
        self.emit(TuiEffect::StartHost { is_urgent: false });
        HostLoss::Starting { starts: starts + 1 }
    }

    /// Starts a host that was stopped or could not be started.
    pub(super) fn start_host(&mut self) {
        match &mut self.connection {
            HostPresence::Lost { .. } if !self.options.may_start_host => {
                self.tell_error("this host is not started from here")
            }
            HostPresence::Lost { loss, .. } => {
                *loss = HostLoss::Starting { starts: 1 };
                self.emit(TuiEffect::StartHost { is_urgent: true });
            }
            HostPresence::Stopping => self.tell("the host is still stopping"),
            HostPresence::Silent => self.tell("the host runs, but does not answer"),
            HostPresence::Connecting { .. } | HostPresence::Connected => self.tell("the host runs"),
        }
    }

    /// Notes the outcome of a start. The stream connects by itself.
    pub(super) fn note_host_start(&mut self, outcome: Result<(), String>) {
        let HostPresence::Lost { loss, .. } = &mut self.connection else { return };
        match (outcome, &*loss) {
            (Err(reason), _) => *loss = HostLoss::StartFailed(reason),
            (Ok(()), HostLoss::Starting { starts }) => {
                *loss = HostLoss::Started { starts: *starts }
            }
            (Ok(()), _) => {}
        }
    }

    fn handle_list_event(&mut self, event: SessionStreamEvent) {
        match event {
            SessionStreamEvent::Snapshot(snapshot) => {
                let is_first = !self.list.is_loaded;
                let before = self.list.replace_all(snapshot.sessions);
                self.list.sort();
                if is_first {
                    self.choose_first_screen();
                } else {
                    self.announce_differences(&before);
                }
            }
            SessionStreamEvent::Session(session) => {
                let before = self.list.put(session.clone());
                self.announce_change(before.as_ref(), &session);
                self.sort_list_when_quiet();
            }
            SessionStreamEvent::Forgotten(forgotten) => {
                self.list.remove(&forgotten.id);
                self.left_drafts.remove(&forgotten.id);
            }
            SessionStreamEvent::Stopping(_) => self.connection = HostPresence::Stopping,
            SessionStreamEvent::Other => {}
        }
    }

    /// Chooses the first screen: without sessions the form, else the list at the session that the
    /// person most likely wants.
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
