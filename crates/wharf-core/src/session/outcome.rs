//! How turns end, for a person (rule 13.2). Rows and attention both follow this one mapping.

use serde::{Deserialize, Serialize};

use crate::{PromptEnd, TurnLimit};

/// The cause of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeCause {
    EndTurn,
    /// The agent stopped before it was done: `max_tokens`, `max_turn_requests`, a cancel of its own
    /// or an unknown stop reason.
    Stopped,
    Refusal,
    /// A client requested the end.
    Cancelled,
    /// The agent answered with an error.
    Error,
    /// A limit of the turn (rule 2.8).
    Deadline,
    NoProgress,
    AgentExited,
    StartFailed,
    /// The start failed because its user has to log in first.
    LoginNeeded,
    SessionEnded,
    /// A person killed, closed or finished the session amid the turn.
    Killed,
    LogFull,
    HostShutdown,
    HostRestarted,
}

/// An outcome in one word for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    Done,
    Stopped,
    Refused,
    Cancelled,
    Failed,
    CutOff,
}

/// The request that a turn should end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnCancel {
    #[default]
    No,
    ByClient,
    ByLimit(TurnLimit),
}

impl TurnCancel {
    /// Returns the request of a `CancelRequested` event.
    pub const fn requested(limit: Option<TurnLimit>) -> Self {
        match limit {
            Some(limit) => Self::ByLimit(limit),
            None => Self::ByClient,
        }
    }
}

impl OutcomeCause {
    pub const fn kind(self) -> OutcomeKind {
        match self {
            Self::EndTurn => OutcomeKind::Done,
            Self::Stopped => OutcomeKind::Stopped,
            Self::Refusal => OutcomeKind::Refused,
            Self::Cancelled => OutcomeKind::Cancelled,
            Self::Error
            | Self::Deadline
            | Self::NoProgress
            | Self::AgentExited
            | Self::StartFailed
            | Self::LoginNeeded => OutcomeKind::Failed,
            Self::SessionEnded
            | Self::Killed
            | Self::LogFull
            | Self::HostShutdown
            | Self::HostRestarted => OutcomeKind::CutOff,
        }
    }

    /// Returns the cause of a turn's end. A requested end has the cause of its request, however the
    /// turn then ends: a client that cancelled it was there, and a limit was reached also if the
    /// agent says `end_turn` after it.
    pub fn of_end(end: &PromptEnd, cancel: TurnCancel) -> Self {
        match cancel {
            TurnCancel::ByClient => return Self::Cancelled,
            TurnCancel::ByLimit(TurnLimit::Deadline) => return Self::Deadline,
            TurnCancel::ByLimit(TurnLimit::NoProgress) => return Self::NoProgress,
            TurnCancel::No => {}
        }
        match end {
            PromptEnd::Answered { stop_reason, .. } => Self::of_stop_reason(stop_reason),
            PromptEnd::Failed { .. } => Self::Error,
            PromptEnd::Cancelled | PromptEnd::Removed { .. } => Self::Cancelled,
            PromptEnd::AgentExited => Self::AgentExited,
            PromptEnd::StartFailed => Self::StartFailed,
            PromptEnd::SessionEnded => Self::SessionEnded,
            PromptEnd::HostShutdown => Self::HostShutdown,
            PromptEnd::HostRestarted => Self::HostRestarted,
        }
    }

    /// Returns the cause for a stop reason of ACP if neither a client nor a limit requested the
    /// end. `cancelled` is then the agent's own choice, and so is a word that Wharf does not know.
    pub fn of_stop_reason(stop_reason: &str) -> Self {
        match stop_reason {
            "end_turn" => Self::EndTurn,
            "refusal" => Self::Refusal,
            "error" => Self::Error,
            _ => Self::Stopped,
        }
    }
}
