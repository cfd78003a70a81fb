//! The events of a session's log: facts, in the past tense, in groups by their subject.

mod agent;
mod ask;
mod lost;
mod prompt;
mod session;
mod storage;
mod usage_meaning;

use std::sync::Arc;

pub use agent::{
    AcceptedContent, AgentEvent, AgentSetting, AgentTraits, Fault, SettingSpelling, StartKind,
    ToolCall, ToolCallState, UpdateKind,
};
pub use ask::{Ask, AskEvent, AskKind, AskOutcome};
pub use lost::{LostEvents, SettingsLoss};
pub use prompt::{PromptEnd, PromptEvent, PromptStep, TurnLimit};
pub use session::{EndReason, Ending, ForkSource, Origin, SessionEvent, SpawnKey, Status};
pub use storage::{PauseReason, StorageEvent};
pub use usage_meaning::{EXAMINED_AGENTS, ExaminedAgent, TokenSource, TokenSpan, UsageMeaning};

use crate::{PromptId, Raw, Sender};

/// A fact of a session. The log consists of these (rule 1.1).
///
/// The groups are not in the log: an encoded event has a `kind`, such as `prompt_accepted`, beside
/// its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Session(SessionEvent),
    Agent(AgentEvent),
    Prompt(PromptEvent),
    Ask(AskEvent),
    Storage(StorageEvent),
    /// An event of a kind that this version does not know. It is kept, not shown, and changes
    /// nothing.
    Unknown {
        kind: Arc<str>,
        body: Raw,
    },
    /// Events that cannot be read. It is never in the log.
    Lost(LostEvents),
}

/// Lets a group's event stand for the whole event.
macro_rules! from_group {
    ($($group:ident: $event:ident),*) => {
        $(impl From<$event> for Event {
            fn from(event: $event) -> Self {
                Self::$group(event)
            }
        })*
    };
}

from_group!(Session: SessionEvent, Agent: AgentEvent, Prompt: PromptEvent, Ask: AskEvent, Storage: StorageEvent);

impl Event {
    /// Returns true if a restore can begin with this event.
    pub const fn begins_restore(&self) -> bool {
        matches!(
            self,
            Self::Session(SessionEvent::Created(_)) | Self::Storage(StorageEvent::Snapshot(_))
        )
    }

    /// Returns a prompt's frame and its sender, if the event holds them: its acceptance or an edit.
    pub fn prompt_content(&self) -> Option<(&Raw, &Sender)> {
        match self {
            Self::Prompt(PromptEvent::Accepted { frame, sender, .. }) => Some((frame, sender)),
            Self::Prompt(PromptEvent::Updated { frame, by, sender, .. }) => {
                Some((frame, sender.as_ref().unwrap_or(by)))
            }
            Self::Prompt(_)
            | Self::Session(_)
            | Self::Agent(_)
            | Self::Ask(_)
            | Self::Storage(_)
            | Self::Unknown { .. }
            | Self::Lost(_) => None,
        }
    }

    /// Returns the failure that the end of a prompt tells.
    pub fn prompt_failure(&self) -> Option<&Arc<str>> {
        let Self::Prompt(PromptEvent::Ended { failure, .. }) = self else { return None };
        failure.as_ref()
    }

    /// Returns the frame or the other bytes that the event holds: almost all that it weighs.
    pub const fn frame(&self) -> Option<&Raw> {
        match self {
            Self::Agent(event) => event.frame(),
            Self::Prompt(event) => event.frame(),
            Self::Ask(AskEvent::Opened(ask)) => Some(&ask.frame),
            Self::Storage(StorageEvent::Snapshot(frame)) | Self::Unknown { body: frame, .. } => {
                Some(frame)
            }
            Self::Session(_) | Self::Ask(_) | Self::Storage(_) | Self::Lost(_) => None,
        }
    }

    /// Returns the agent's update that the event holds, with its kind.
    pub const fn agent_update(&self) -> Option<(UpdateKind, &Raw)> {
        if let Self::Agent(AgentEvent::Updated { update, frame, .. }) = self {
            Some((*update, frame))
        } else {
            None
        }
    }

    /// Returns the prompt that comes a step further with this event, and the step.
    pub const fn prompt_step(&self) -> Option<(&PromptId, PromptStep<'_>)> {
        if let Self::Prompt(event) = self { event.step() } else { None }
    }

    /// Returns true if the acknowledgement of this event, and its effects, wait for the disk (rule
    /// 1.4).
    pub const fn wants_sync(&self) -> bool {
        match self {
            Self::Session(_) => true,
            Self::Prompt(event) => {
                !matches!(event, PromptEvent::TurnStarted { .. } | PromptEvent::Requeued { .. })
            }
            Self::Ask(event) => matches!(event, AskEvent::Resolved { .. }),
            Self::Agent(_) | Self::Storage(_) | Self::Unknown { .. } | Self::Lost(_) => false,
        }
    }
}
