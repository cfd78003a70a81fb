//! Events of prompts: the queue, the turns and their ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{PromptId, Raw, Sender, Seq};

/// A fact about a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptEvent {
    /// A prompt was accepted. From here on it has exactly one [`PromptEvent::Ended`].
    Accepted {
        prompt: PromptId,
        sender: Sender,
        /// The whole `session/prompt` request of the client.
        frame: Raw,
        /// The idempotency key.
        key: Option<Arc<str>>,
        /// True for an interrupt, which goes before the queued prompts.
        first: bool,
    },
    /// The frame of a queued prompt was replaced.
    Updated {
        prompt: PromptId,
        /// The client that edited the prompt.
        by: Sender,
        frame: Raw,
        /// The sender of the prompt, which stays its sender. `None` in older logs.
        sender: Option<Sender>,
    },
    /// A queued prompt was moved to `position` (0 = next).
    Moved { prompt: PromptId, by: Sender, position: usize },
    /// The prompt left the queue and is sent to the agent: a turn begins.
    TurnStarted {
        prompt: PromptId,
        /// The event that holds the current frame: the prompt's acceptance or its last update.
        content: Seq,
    },
    /// A client or a limit requested the end of the running turn.
    CancelRequested {
        prompt: PromptId,
        by: Option<Sender>,
        limit: Option<TurnLimit>,
        /// The reason that an amux client gave.
        reason: Option<Arc<str>>,
    },
    /// The single end of a prompt, whether its turn had begun or not.
    Ended {
        prompt: PromptId,
        end: PromptEnd,
        /// The failure for a person: the reason and the end of the agent's stderr, as
        /// [`FailureText`](crate::FailureText) joins them. The reason is empty if the agent
        /// answered with an error, which says it. `None` in older logs.
        failure: Option<Arc<str>>,
    },
    /// The host or the agent died during the turn: the prompt is queued again before all others. At
    /// most once per prompt.
    Requeued { prompt: PromptId },
}

impl PromptEvent {
    pub(super) const fn frame(&self) -> Option<&Raw> {
        match self {
            Self::Accepted { frame, .. } | Self::Updated { frame, .. } => Some(frame),
            Self::Ended {
                end: PromptEnd::Answered { frame, .. } | PromptEnd::Failed { frame },
                ..
            } => Some(frame),
            Self::Ended { .. }
            | Self::Moved { .. }
            | Self::TurnStarted { .. }
            | Self::CancelRequested { .. }
            | Self::Requeued { .. } => None,
        }
    }

    pub(super) const fn step(&self) -> Option<(&PromptId, PromptStep<'_>)> {
        match self {
            Self::Accepted { prompt, .. } => Some((prompt, PromptStep::Accepted)),
            Self::TurnStarted { prompt, content } => {
                Some((prompt, PromptStep::TurnStarted { content: *content }))
            }
            Self::Requeued { prompt } => Some((prompt, PromptStep::Requeued)),
            Self::Ended { prompt, end, .. } => Some((prompt, PromptStep::Ended(end))),
            Self::Updated { .. } | Self::Moved { .. } | Self::CancelRequested { .. } => None,
        }
    }
}

/// A step of a prompt from its acceptance to its end. Other events change its text, its place or
/// its turn's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStep<'a> {
    /// It waits in the queue.
    Accepted,
    /// Its turn begins. `content` is the event that holds its frame.
    TurnStarted {
        content: Seq,
    },
    /// It waits in the queue again.
    Requeued,
    Ended(&'a PromptEnd),
}

/// The end of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", try_from = "crate::codec::StoredEnd")]
pub enum PromptEnd {
    /// The agent answered; the frame is its unchanged response.
    Answered {
        stop_reason: Arc<str>,
        frame: Raw,
    },
    /// The agent answered with a JSON-RPC error.
    Failed {
        frame: Raw,
    },
    /// The prompt was cancelled before its turn began, or the agent did not settle in time after a
    /// cancel.
    Cancelled,
    /// The prompt was removed from the queue by its id.
    Removed {
        by: Option<Sender>,
    },
    AgentExited,
    StartFailed,
    /// The session was killed or closed.
    SessionEnded,
    HostShutdown,
    HostRestarted,
}

impl PromptEnd {
    /// Returns the reason of a turn's end in one word: the agent's own, or one of Wharf's.
    pub fn stop_reason(&self) -> &str {
        match self {
            Self::Answered { stop_reason, .. } => stop_reason,
            Self::Failed { .. } => "error",
            Self::Cancelled | Self::Removed { .. } => "cancelled",
            Self::AgentExited
            | Self::StartFailed
            | Self::SessionEnded
            | Self::HostShutdown
            | Self::HostRestarted => self.word(),
        }
    }

    /// Returns the name of the end in the log, which is also that of metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "answered",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
            Self::Removed { .. } => "removed",
            Self::AgentExited => "agent_exited",
            Self::StartFailed => "start_failed",
            Self::SessionEnded => "session_ended",
            Self::HostShutdown => "host_shutdown",
            Self::HostRestarted => "host_restarted",
        }
    }
}

/// A limit that a turn reached (rule 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnLimit {
    /// The turn took longer than `turn.deadline`.
    Deadline,
    /// The agent sent nothing for `turn.no_progress`.
    NoProgress,
}
