//! What the host is to do, and what the caller is told, after an input.

use std::sync::Arc;

use crate::{
    AgentSetting, Ask, AskId, Event, Latest, Member, PromptEnd, PromptId, QueuedPrompt, Raw, Seq, StartKind, StartNo,
    TurnState,
};

/// Everything that one input led to. The host appends the events, shows them, then runs the effects, in this order.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
    pub reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start the agent; an earlier start's process ends first.
    StartAgent { start: StartNo, how: StartKind },
    /// End this start's process tree.
    StopAgent { start: StartNo },
    /// Send the prompt's frame to the agent, ids replaced.
    SendPrompt { prompt: PromptId, frame: Raw },
    /// Send `session/cancel` to the agent.
    SendCancel,
    /// Answer the agent's request. Exactly once per ask, unless the agent is gone.
    AnswerAsk { agent_request: Raw, reply: AskReply },
    /// Tell the other attached clients: presence is announced, not logged.
    AnnouncePresence { member: Member, connected: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskReply {
    /// The client's response frame, `id` to be replaced.
    Frame(Raw),
    /// The kind's own way of saying "cancelled".
    Cancelled,
    /// `-32800`: the agent withdrew the request itself.
    Withdrawn,
    /// Over the limit of open asks.
    Refused,
}

/// What the caller of an input is told.
#[derive(Clone, Debug, Default)]
pub enum Reply {
    #[default]
    Done,
    Prompt(PromptReceipt),
    Joined(Box<Joined>),
    /// For a cancel: was a turn running that is now asked to end?
    Cancelled {
        was_busy: bool,
        /// True if the running turn is another client's and was left alone, since a turn of the caller's own ended just
        /// before.
        crossed: bool,
    },
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptReceipt {
    /// The prompt that stands for the submission: an earlier one if the idempotency key was known.
    pub prompt: PromptId,
    /// Place in the queue (0 = next), `None` once its turn has begun or it has ended.
    pub position: Option<usize>,
    pub duplicate: bool,
    /// For a duplicate: how it ended, if it has.
    pub end: Option<PromptEnd>,
}

/// What a newcomer needs besides the log: all of it true at `head`.
#[derive(Clone, Debug)]
pub struct Joined {
    pub head: Seq,
    pub open_asks: Vec<Ask>,
    pub others: Vec<Member>,
    /// The agent's last answer to `session/new`, `load` or `resume`.
    pub answer: Option<Raw>,
    /// The event that holds `answer`.
    pub answer_at: Seq,
    /// The agent's settings in force; see [`crate::State::settings`].
    pub settings: Option<Vec<AgentSetting>>,
    pub latest: Latest,
    pub turn: TurnState,
    /// The prompts that wait for their turn, in order.
    pub queued: Vec<QueuedPrompt>,
}

/// A no, as data. Each surface has its own words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session ended and cannot come back.
    NotResumable,
    /// A user killed it: only an explicit resume brings it back.
    Killed,
    /// The caller only observes.
    Observer,
    /// A turn is running and the caller did not want to queue.
    TurnInProgress,
    QueueFull {
        limit: usize,
    },
    /// No such waiting or running prompt.
    UnknownPrompt(PromptId),
    /// The prompt id is in use by another submission.
    PromptIdTaken(PromptId),
    /// The same sender used this idempotency key for this prompt, which said something else.
    KeyReused(PromptId),
    AlreadyStarted(PromptId),
    UnknownAsk(AskId),
    AlreadyAnswered(AskId),
    /// The option is none of those offered.
    InvalidOption {
        offered: Vec<Arc<str>>,
    },
    /// The session is already running or starting (for a resume).
    AlreadyRunning,
}
