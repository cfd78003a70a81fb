//! Hands each input to the part of the session that decides on it: first, without touching the
//! session, for the events that a caller's request stands or falls with, then for all that it leads
//! to.

use super::{Draft, Session, asks};
use crate::{
    AgentEvent, AgentInput, ClientInput, EndReason, Ending, Event, Input, LifecycleInput, Reply,
    SessionEvent, StartKind, StartNo, Status, StorageEvent, StorageInput,
};

impl Session {
    /// Returns the first events that [`Session::handle`] records for a request that its caller can
    /// be refused.
    ///
    /// The host writes these events before it handles the request. A log that cannot take them
    /// thereby leaves the session as it was: there is nothing to undo. Returns no event if the
    /// request changes nothing (it is refused, or a repeat), and for every other input.
    pub fn propose(&self, input: &Input) -> Vec<Event> {
        match input {
            Input::Client(ClientInput::Prompt(submission)) => self.propose_prompt(submission),
            Input::Client(ClientInput::Describe(description)) => {
                self.propose_description(description)
            }
            Input::Client(input) => self.propose_for_client(input).into_iter().collect(),
            Input::Lifecycle(input) => self.propose_lifecycle(input).into_iter().collect(),
            Input::Storage(StorageInput::Back) => {
                self.state.paused.iter().map(|_| StorageEvent::Continued.into()).collect()
            }
            Input::Storage(StorageInput::Failed { .. }) | Input::Agent(_) | Input::TimePassed => {
                Vec::new()
            }
        }
    }

    fn propose_for_client(&self, input: &ClientInput) -> Option<Event> {
        match input {
            ClientInput::UpdatePrompt { prompt, by, frame } => {
                self.propose_update(prompt, by, frame)
            }
            ClientInput::MovePrompt { prompt, by, position } => {
                self.propose_move(prompt, by, *position)
            }
            ClientInput::SendNow { prompt, by, steer } => self.propose_send_now(prompt, by, *steer),
            ClientInput::Attach(attachment) if self.attaching_wakes(attachment) => {
                self.propose_start(self.state.way_back())
            }
            ClientInput::Attach(_)
            | ClientInput::Prompt(_)
            | ClientInput::Describe(_)
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
                let ending =
                    || SessionEvent::Ended(Self::sleep_ending(*reason, why.clone())).into();
                self.why_not_sleep(*reason).is_none().then(ending)
            }
            LifecycleInput::Kill { .. }
            | LifecycleInput::HostRestarted
            | LifecycleInput::AgentAdopted { .. } => None,
        }
    }

    fn propose_start(&self, how: Option<StartKind>) -> Option<Event> {
        how.map(|how| AgentEvent::Starting { start: StartNo(self.state.start.0 + 1), how }.into())
    }

    pub(super) fn sleep_ending(reason: EndReason, why: std::sync::Arc<str>) -> Ending {
        Ending {
            status: Status::Killed,
            reason,
            exit_code: None,
            message: super::life::worth_telling(why),
            needs_login: false,
        }
    }

    pub(super) fn decide(&mut self, input: Input, draft: &mut Draft) -> Reply {
        match input {
            Input::Agent(input) => self.decide_on_agent(input, draft),
            Input::Client(input) => return self.decide_on_client(input, draft),
            Input::Lifecycle(input) => return self.decide_on_lifecycle(input, draft),
            Input::Storage(StorageInput::Failed { why }) => self.pause(why, draft),
            Input::Storage(StorageInput::Back) => self.go_on(draft),
            Input::TimePassed => self.time_passed(draft),
        }
        Reply::Done
    }

    fn decide_on_agent(&mut self, input: AgentInput, draft: &mut Draft) {
        match input {
            AgentInput::Updated { update, frame, title, tool } => {
                // This is by far the most frequent input, with one event: reserving four would take
                // a kilobyte.
                draft.events.reserve_exact(1);
                self.record(AgentEvent::Updated { update, frame, title, tool }, draft);
            }
            AgentInput::SettingsChanged { settings, are_all } => {
                let are_all = are_all && !self.state.settings_loss.is_none();
                self.record(AgentEvent::SettingsChanged { settings, are_all }, draft);
            }
            AgentInput::Started { start, agent_session, traits, answer } => {
                self.agent_started(
                    AgentEvent::Started { start, agent_session, traits, answer },
                    start,
                    draft,
                );
            }
            AgentInput::StartFailed { start, cause, is_awaited, exit_code, message } => {
                self.start_failed(start, (cause, is_awaited), exit_code, message, draft);
            }
            AgentInput::Exited { start, exit_code, message } => {
                self.agent_exited(start, exit_code, message, draft)
            }
            AgentInput::Answered { prompt, stop_reason, frame, stderr } => {
                self.agent_answered(prompt, stop_reason, frame, stderr.as_deref(), draft);
            }
            AgentInput::Asked { kind, agent_request, frame, options, tool_call } => {
                self.agent_asked(
                    asks::Question { kind, agent_request, frame, options, tool_call },
                    draft,
                );
            }
            AgentInput::Withdrew { agent_request } => self.agent_withdrew(&agent_request, draft),
            AgentInput::Faulted { fault, detail } => {
                self.record(AgentEvent::Faulted { fault, detail }, draft)
            }
        }
    }

    fn decide_on_client(&mut self, input: ClientInput, draft: &mut Draft) -> Reply {
        match input {
            ClientInput::Attach(attachment) => self.attach(attachment, draft),
            ClientInput::Detach { sender } => {
                self.detach(&sender, draft);
                Reply::Done
            }
            ClientInput::Prompt(submission) => self.take_prompt(submission, draft),
            ClientInput::Cancel { by, scope } => self.cancel(by, scope, draft),
            ClientInput::Interrupt { by, force } => self.interrupt(by, force, draft),
            ClientInput::Answer { ask, by, option, frame } => {
                self.answer(ask, by, option, frame, draft)
            }
            ClientInput::Decline { ask, by, frame } => self.decline(ask, by, frame, draft),
            ClientInput::CancelPrompt { prompt, by, reason } => {
                self.cancel_prompt(prompt, by, reason, draft)
            }
            ClientInput::RemovePrompt { prompt, by } => self.remove_prompt(prompt, by, draft),
            ClientInput::UpdatePrompt { prompt, by, frame } => {
                self.update_prompt(prompt, by, frame, draft)
            }
            ClientInput::MovePrompt { prompt, by, position } => {
                self.move_prompt(prompt, by, position, draft)
            }
            ClientInput::Describe(description) => self.describe(&description, draft),
            ClientInput::SendNow { prompt, by, steer } => self.send_now(prompt, by, steer, draft),
        }
    }

    fn decide_on_lifecycle(&mut self, input: LifecycleInput, draft: &mut Draft) -> Reply {
        match input {
            LifecycleInput::Kill { reason } => self.kill(reason, draft),
            LifecycleInput::HostRestarted => self.host_restarted(draft),
            LifecycleInput::AgentAdopted { is_idle, has_ended } => {
                self.agent_adopted(is_idle, has_ended, draft)
            }
            LifecycleInput::Sleep { reason, why } => return self.sleep(reason, why, draft),
            LifecycleInput::Resume => return self.resume(draft),
            LifecycleInput::Wake { cause } => return self.wake_if_allowed(cause, draft),
        }
        Reply::Done
    }
}
