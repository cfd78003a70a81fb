//! The event that a caller's request stands or falls with, found without touching the session.

use super::Session;
use crate::{AgentEvent, EndReason, Ending, Event, Input, SessionEvent, StartKind, StartNo, Status, StorageEvent};

impl Session {
    /// Returns the first event that [`Session::handle`] records for a request that its caller can be refused.
    ///
    /// The host writes this event before it handles the request. A log that cannot take it thereby leaves the session as
    /// it was: there is nothing to undo. Returns `None` if the request changes nothing (it is refused, or a repeat), and
    /// for every other input.
    pub fn propose(&self, input: &Input) -> Option<Event> {
        match input {
            Input::Prompt(submission) => self.propose_prompt(submission),
            Input::UpdatePrompt { prompt, by, frame } => self.propose_update(prompt, by, frame),
            Input::MovePrompt { prompt, by, position } => self.propose_move(prompt, by, *position),
            Input::Attach(attachment) if self.attaching_wakes(attachment) => self.propose_start(self.state.way_back()),
            Input::Resume => self.propose_start(self.way_to_resume().ok()),
            Input::Wake { cause } => self.propose_start(self.way_to_wake(*cause).ok()),
            Input::Sleep { reason, why } => self
                .why_not_sleep()
                .is_none()
                .then(|| Event::Session(SessionEvent::Ended(Self::sleep_ending(*reason, why.clone())))),
            Input::StorageBack => self.state.paused.map(|_| Event::Storage(StorageEvent::Continued)),
            Input::Attach(_)
            | Input::AgentStarted { .. }
            | Input::StartFailed { .. }
            | Input::AgentExited { .. }
            | Input::AgentUpdated { .. }
            | Input::SettingsChanged { .. }
            | Input::AgentAnswered { .. }
            | Input::AgentAsked { .. }
            | Input::AgentWithdrew { .. }
            | Input::AgentFaulted { .. }
            | Input::Detach { .. }
            | Input::Cancel { .. }
            | Input::Interrupt { .. }
            | Input::Answer { .. }
            | Input::Decline { .. }
            | Input::CancelPrompt { .. }
            | Input::RemovePrompt { .. }
            | Input::Kill { .. }
            | Input::StorageFailed { .. }
            | Input::HostRestarted
            | Input::TimePassed => None,
        }
    }

    fn propose_start(&self, how: Option<StartKind>) -> Option<Event> {
        how.map(|how| Event::Agent(AgentEvent::Starting { start: StartNo(self.state.start.0 + 1), how }))
    }

    pub(super) fn sleep_ending(reason: EndReason, why: std::sync::Arc<str>) -> Ending {
        Ending { status: Status::Killed, reason, exit_code: None, message: super::life::worth_telling(why) }
    }
}
