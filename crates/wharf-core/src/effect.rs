//! The result of an input: effects for the host and a reply for the caller.

use std::sync::Arc;

use crate::{
    AgentSetting, Ask, AskId, Event, Latest, Member, PromptEnd, PromptId, QueuedPrompt, Raw, Seq,
    StartKind, StartNo, TurnState,
};

/// The complete result of one input. The host appends the events, publishes them, then runs the
/// effects, in this order.
#[derive(Clone, Debug, Default)]
#[must_use = "the events of a step are applied to the session already: unless they are appended, the log lacks them"]
pub struct Step {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
    pub reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Starts the agent; the process of an earlier start ends first.
    StartAgent { start: StartNo, how: StartKind },
    /// Ends the process tree of this start.
    StopAgent { start: StartNo },
    /// Sends the prompt's frame to the agent, with replaced ids.
    SendPrompt { prompt: PromptId, frame: Raw },
    /// Sends `session/cancel` to the agent.
    SendCancel,
    /// Answers the agent's request. Happens exactly once per ask, unless the agent is gone.
    AnswerAsk { agent_request: Raw, reply: AskReply },
    /// Notifies the other attached clients: presence is announced, not logged.
    AnnouncePresence { member: Member, connected: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskReply {
    /// The client's response frame, whose `id` is to be replaced.
    Frame(Raw),
    /// The form of "cancelled" that the kind of ask defines.
    Cancelled,
    /// `-32800`: the agent withdrew the request itself.
    Withdrawn,
    /// The agent has too many open asks.
    Refused,
}

/// The reply to the caller of an input.
#[derive(Clone, Debug, Default)]
#[must_use = "a reply may be a refusal, of which the caller has to be told"]
pub enum Reply {
    #[default]
    Done,
    Prompt(PromptReceipt),
    Joined(Box<Joined>),
    /// The reply to a cancel.
    Cancelled {
        was_busy: bool,
        /// True if the running turn is another client's and was left alone, since a turn of the
        /// caller's own ended just before.
        crossed: bool,
    },
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptReceipt {
    /// The prompt of the submission: an earlier one if the idempotency key was known.
    pub prompt: PromptId,
    /// The position in the queue (0 = next); `None` once its turn has begun or it has ended.
    pub position: Option<usize>,
    pub duplicate: bool,
    /// The end of a duplicate, if it has ended.
    pub end: Option<PromptEnd>,
}

/// The data that a joining client needs besides the log, as of `head`.
#[derive(Clone, Debug)]
pub struct Joined {
    pub head: Seq,
    pub open_asks: Vec<Ask>,
    pub others: Vec<Member>,
    /// The agent's last answer to `session/new`, `load` or `resume`.
    pub answer: Option<Raw>,
    /// The event that holds `answer`.
    pub answer_at: Seq,
    /// The agent's current settings; see [`crate::State::settings`].
    pub settings: Option<Vec<AgentSetting>>,
    pub latest: Latest,
    pub turn: TurnState,
    /// The queued prompts, in order.
    pub queued: Vec<QueuedPrompt>,
}

/// A refusal as data. Each surface has its own form of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session ended and cannot come back.
    NotResumable,
    /// A user killed the session: only an explicit resume brings it back.
    Killed,
    /// The caller is an observer.
    Observer,
    /// A turn is running and the caller did not want to queue.
    TurnInProgress,
    QueueFull {
        limit: usize,
    },
    /// There is no such queued or running prompt.
    UnknownPrompt(PromptId),
    /// The prompt id is in use by another submission.
    PromptIdTaken(PromptId),
    /// The same sender used this idempotency key for this prompt, whose content differs.
    KeyReused(PromptId),
    AlreadyStarted(PromptId),
    /// The agent takes no prompt while it works on another one.
    CannotSteer,
    UnknownAsk(AskId),
    AlreadyAnswered(AskId),
    /// The option is not one of those offered.
    InvalidOption {
        offered: Vec<Arc<str>>,
    },
    /// The session is already running or starting (for a resume).
    AlreadyRunning,
}
