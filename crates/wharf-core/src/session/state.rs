//! What the log says about a session: a fold over its events, and nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::keys::Keys;
use crate::codec::present;
use crate::{
    AgentSetting, AgentTraits, Ask, AskId, EndReason, Ending, Millis, Origin, PauseReason, PromptEnd, PromptId, Raw,
    Sender, Seq, StartKind, StartNo, Status,
};

const fn yes() -> bool {
    true
}

/// The durable state. It changes only by [`State::apply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub origin: Origin,
    pub status: Status,
    /// How it ended, while it is ended.
    pub ending: Option<Ending>,
    pub created_at: Millis,
    /// When the agent was last set out to be started.
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    /// When the agent last said something: an update, an ask, an answer, its end.
    pub last_output_at: Option<Millis>,
    pub start: StartNo,
    pub agent_session: Option<Arc<str>>,
    pub traits: AgentTraits,
    /// The agent's last answer to `session/new`, `load` or `resume`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Raw>,
    /// The event that holds `answer`; zero in snapshots of old versions.
    #[serde(default, skip_serializing_if = "Seq::is_zero")]
    pub answer_at: Seq,
    /// The agent's settings in force. `None` until they are a fact: then the answer and the updates tell them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Vec<AgentSetting>>,
    pub queue: VecDeque<QueuedPrompt>,
    /// In the order in which they began. More than one only if the agent queues by itself.
    pub turns: Vec<Turn>,
    /// While the log cannot be written as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The open ones.
    pub asks: BTreeMap<AskId, Ask>,
    pub latest: Latest,
    pub head: Seq,
    /// Where the last snapshot is.
    pub snapshot: Option<Seq>,
    pub(super) keys: Keys,
    /// The asks that were settled last, the newest at the back.
    pub(super) settled: VecDeque<AskId>,
    /// The tool calls of the running turns that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) open_tools: Vec<Arc<str>>,
    /// How the agent was last set out to be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) how: Option<StartKind>,
    /// Has the agent's own session answered a prompt? Until then it has nothing to remember. A snapshot that does not
    /// tell counts as yes: no conversation is given up for want of a word.
    #[serde(default = "yes")]
    pub(super) answered: bool,
    /// How often the agent has gone away by itself or was given up, since the last answered prompt.
    #[serde(default)]
    pub(super) deaths: u32,
    /// How many starts have failed in a row.
    #[serde(default)]
    pub(super) failed_starts: u32,
    /// Has this start of the agent been found to ask too much?
    pub(super) flooded: bool,
}

/// A prompt that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedPrompt {
    pub prompt: PromptId,
    pub sender: Sender,
    pub frame: Raw,
    /// The event that holds `frame`.
    pub content: Seq,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    pub accepted_at: Millis,
    /// Has its turn been cut off once already?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeued: bool,
    /// The client that edited it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_by: Option<Sender>,
}

/// A prompt that the agent works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub prompt: PromptId,
    pub sender: Sender,
    pub frame: Raw,
    /// The event that holds `frame`.
    pub content: Seq,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    pub accepted_at: Millis,
    pub started_seq: Seq,
    pub started_at: Millis,
    /// Has its end been asked for?
    pub cancel: bool,
    /// For how long the agent was held while it ran.
    #[serde(default, skip_serializing_if = "Millis::is_zero")]
    pub held_for: Millis,
    /// Is it the second turn of a prompt whose first was cut off?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeued: bool,
}

/// Since when, and why, the agent is held (rule 10.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub why: PauseReason,
    pub since: Millis,
}

/// The latest of each update that states how things are, for those who join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latest {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub commands: Option<Raw>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub mode: Option<Raw>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub config: Option<Raw>,
    /// The events that hold `mode` and `config`; zero in snapshots of old versions.
    #[serde(skip_serializing_if = "Seq::is_zero")]
    pub mode_at: Seq,
    #[serde(skip_serializing_if = "Seq::is_zero")]
    pub config_at: Seq,
    /// The latest with a title, if there was any with one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub info: Option<Raw>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub usage: Option<Raw>,
    pub title: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    Idle,
    Running,
    /// The agent waits for an answer to an ask.
    AwaitingInput,
}

impl State {
    pub fn turn(&self) -> TurnState {
        if !self.asks.is_empty() {
            TurnState::AwaitingInput
        } else if !self.turns.is_empty() {
            TurnState::Running
        } else {
            TurnState::Idle
        }
    }

    /// Is its agent up with nothing to do: no turn, no prompt that waits, no open ask?
    pub fn is_idle(&self) -> bool {
        self.status == Status::Running && self.turns.is_empty() && self.queue.is_empty() && self.asks.is_empty()
    }

    /// How the agent could be started again with this conversation, if at all.
    pub fn way_back(&self) -> Option<StartKind> {
        self.agent_session.as_ref().and_then(|_| self.traits.way_back())
    }

    /// Has it ended, and can it come back? True also for one that a user killed: see [`State::killed_by_user`].
    pub fn resumable(&self) -> bool {
        !self.status.is_alive() && self.way_back().is_some()
    }

    /// Only an explicit resume brings such a session back.
    pub fn killed_by_user(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.reason == EndReason::User)
    }

    /// The end of a prompt that had an idempotency key and is not long past.
    pub fn prompt_end(&self, prompt: &PromptId) -> Option<&PromptEnd> {
        self.keys.find(prompt)?.end.as_ref()
    }

    /// Its place in the queue: 0 is next.
    pub fn position(&self, prompt: &PromptId) -> Option<usize> {
        self.queue.iter().position(|queued| queued.prompt == *prompt)
    }

    pub fn running(&self, prompt: &PromptId) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.prompt == *prompt)
    }

    /// Was this an ask that has had its end? Only the last few hundred are remembered.
    pub fn is_settled(&self, ask: AskId) -> bool {
        self.settled.contains(&ask)
    }
}
