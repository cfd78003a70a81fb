//! A proposal is the beginning of the step that follows: a host that wrote it first has written
//! nothing else.

use wharf_core::{
    AgentEvent, ClientInput, Event, Input, LifecycleInput, Session, Step, StorageInput,
};

pub(super) struct Proposal {
    proposed: Vec<Event>,
    kind: Kind,
}

/// The inputs of which the host asks for a proposal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Attaching may settle asks, which cannot be refused; only the start of the agent can.
    Attach,
    /// Without a proposal nothing is recorded.
    Deferrable,
    Other,
}

impl Proposal {
    pub(super) fn of(session: &Session, input: &Input) -> Self {
        let is_deferrable = matches!(
            input,
            Input::Client(
                ClientInput::Prompt(_)
                    | ClientInput::UpdatePrompt { .. }
                    | ClientInput::MovePrompt { .. }
                    | ClientInput::Describe(_)
            ) | Input::Lifecycle(
                LifecycleInput::Resume | LifecycleInput::Wake { .. } | LifecycleInput::Sleep { .. }
            ) | Input::Storage(StorageInput::Back)
        );
        let kind = match is_deferrable {
            true => Kind::Deferrable,
            false if matches!(input, Input::Client(ClientInput::Attach(_))) => Kind::Attach,
            false => Kind::Other,
        };
        Self { proposed: session.propose(input), kind }
    }

    pub(super) fn check(self, step: &Step) {
        if !self.proposed.is_empty() {
            return assert!(
                step.events.starts_with(&self.proposed),
                "{:?}: {step:?}",
                self.proposed
            );
        }
        match self.kind {
            Kind::Deferrable => {
                assert!(step.events.is_empty(), "recorded without a proposal: {step:?}")
            }
            Kind::Attach => {
                let starts = step
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::Agent(AgentEvent::Starting { .. })));
                assert!(!starts, "started without a proposal: {step:?}");
            }
            Kind::Other => {}
        }
    }
}
