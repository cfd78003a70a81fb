//! Hands each input to the part of the session that decides on it.

use super::{Draft, Session, asks};
use crate::{AgentEvent, AgentInput, ClientInput, Input, LifecycleInput, Reply, StorageInput};

impl Session {
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
                // This is by far the most frequent input, with one event: reserving four would take a kilobyte.
                draft.events.reserve_exact(1);
                self.record(AgentEvent::Updated { update, frame, title, tool }, draft);
            }
            AgentInput::SettingsChanged { settings } => self.record(AgentEvent::SettingsChanged { settings }, draft),
            AgentInput::Started { start, agent_session, traits, answer } => {
                self.agent_started(AgentEvent::Started { start, agent_session, traits, answer }, start, draft);
            }
            AgentInput::StartFailed { start, cause, is_awaited, exit_code, message } => {
                self.start_failed(start, (cause, is_awaited), exit_code, message, draft);
            }
            AgentInput::Exited { start, exit_code, message } => self.agent_exited(start, exit_code, message, draft),
            AgentInput::Answered { prompt, stop_reason, frame } => {
                self.agent_answered(prompt, stop_reason, frame, draft);
            }
            AgentInput::Asked { kind, agent_request, frame, options, tool_call } => {
                self.agent_asked(asks::Question { kind, agent_request, frame, options, tool_call }, draft);
            }
            AgentInput::Withdrew { agent_request } => self.agent_withdrew(&agent_request, draft),
            AgentInput::Faulted { fault, detail } => self.record(AgentEvent::Faulted { fault, detail }, draft),
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
            ClientInput::Interrupt { by } => self.interrupt(by, draft),
            ClientInput::Answer { ask, by, option, frame } => self.answer(ask, by, option, frame, draft),
            ClientInput::Decline { ask, by, frame } => self.decline(ask, by, frame, draft),
            ClientInput::CancelPrompt { prompt, by, reason } => self.cancel_prompt(prompt, by, reason, draft),
            ClientInput::RemovePrompt { prompt, by } => self.remove_prompt(prompt, by, draft),
            ClientInput::UpdatePrompt { prompt, by, frame } => self.update_prompt(prompt, by, frame, draft),
            ClientInput::MovePrompt { prompt, by, position } => self.move_prompt(prompt, by, position, draft),
        }
    }

    fn decide_on_lifecycle(&mut self, input: LifecycleInput, draft: &mut Draft) -> Reply {
        match input {
            LifecycleInput::Kill { reason } => self.kill(reason, draft),
            LifecycleInput::HostRestarted => self.host_restarted(draft),
            LifecycleInput::Sleep { reason, why } => return self.sleep(reason, why, draft),
            LifecycleInput::Resume => return self.resume(draft),
            LifecycleInput::Wake { cause } => return self.wake_if_allowed(cause, draft),
        }
        Reply::Done
    }
}
