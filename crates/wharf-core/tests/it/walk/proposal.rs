//! A proposal is the first event of the step that follows: a host that wrote it first has written nothing else.

use wharf_core::{AgentEvent, Event, Input, Session, Step};

pub(super) struct Proposal {
    proposed: Option<Event>,
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
            Input::Prompt(_)
                | Input::UpdatePrompt { .. }
                | Input::MovePrompt { .. }
                | Input::Resume
                | Input::Wake { .. }
                | Input::Sleep { .. }
                | Input::StorageBack
        );
        let kind = match is_deferrable {
            true => Kind::Deferrable,
            false if matches!(input, Input::Attach(_)) => Kind::Attach,
            false => Kind::Other,
        };
        Self { proposed: session.propose(input), kind }
    }

    pub(super) fn check(self, step: &Step) {
        match (self.proposed, self.kind) {
            (Some(proposed), _) => assert_eq!(Some(&proposed), step.events.first(), "{step:?}"),
            (None, Kind::Deferrable) => assert!(step.events.is_empty(), "recorded without a proposal: {step:?}"),
            (None, Kind::Attach) => {
                let starts = step.events.iter().any(|event| matches!(event, Event::Agent(AgentEvent::Starting { .. })));
                assert!(!starts, "started without a proposal: {step:?}");
            }
            (None, Kind::Other) => {}
        }
    }
}
