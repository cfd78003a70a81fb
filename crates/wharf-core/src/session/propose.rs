//! The events that a caller's request stands or falls with, found without touching the session.

use super::Session;
use crate::{
    AgentEvent, ClientInput, EndReason, Ending, Event, Input, LifecycleInput, SessionEvent, StartKind, StartNo, Status,
    StorageEvent, StorageInput,
};

impl Session {
    /// Returns the first events that [`Session::handle`] records for a request that its caller can be refused.
    ///
    /// The host writes these events before it handles the request. A log that cannot take them thereby leaves the session
    /// as it was: there is nothing to undo. Returns no event if the request changes nothing (it is refused, or a repeat),
    /// and for every other input.
    pub fn propose(&self, input: &Input) -> Vec<Event> {
        match input {
            Input::Client(ClientInput::Prompt(submission)) => self.propose_prompt(submission),
            Input::Client(input) => self.propose_for_client(input).into_iter().collect(),
            Input::Lifecycle(input) => self.propose_lifecycle(input).into_iter().collect(),
            Input::Storage(StorageInput::Back) => {
                self.state.paused.iter().map(|_| StorageEvent::Continued.into()).collect()
            }
            Input::Storage(StorageInput::Failed { .. }) | Input::Agent(_) | Input::TimePassed => Vec::new(),
        }
    }

    fn propose_for_client(&self, input: &ClientInput) -> Option<Event> {
        match input {
            ClientInput::UpdatePrompt { prompt, by, frame } => self.propose_update(prompt, by, frame),
            ClientInput::MovePrompt { prompt, by, position } => self.propose_move(prompt, by, *position),
            ClientInput::Attach(attachment) if self.attaching_wakes(attachment) => {
                self.propose_start(self.state.way_back())
            }
            ClientInput::Attach(_)
            | ClientInput::Prompt(_)
            | ClientInput::Detach { .. }
            | ClientInput::Cancel { .. }
            | ClientInput::Interrupt { .. }
            | ClientInput::Answer { .. }
            | ClientInput::Decline { .. }
            | ClientInput::CancelPrompt { .. }
            | ClientInput::RemovePrompt { .. } => None,
        }
    }

    fn propose_lifecycle(&self, input: &LifecycleInput) -> Option<Event> {
        match input {
            LifecycleInput::Resume => self.propose_start(self.way_to_resume().ok()),
            LifecycleInput::Wake { cause } => self.propose_start(self.way_to_wake(*cause).ok()),
            LifecycleInput::Sleep { reason, why } => {
                let ending = || SessionEvent::Ended(Self::sleep_ending(*reason, why.clone())).into();
                self.why_not_sleep().is_none().then(ending)
            }
            LifecycleInput::Kill { .. } | LifecycleInput::HostRestarted => None,
        }
    }

    fn propose_start(&self, how: Option<StartKind>) -> Option<Event> {
        how.map(|how| AgentEvent::Starting { start: StartNo(self.state.start.0 + 1), how }.into())
    }

    pub(super) fn sleep_ending(reason: EndReason, why: std::sync::Arc<str>) -> Ending {
        Ending { status: Status::Killed, reason, exit_code: None, message: super::life::worth_telling(why) }
    }
}
