//! The durable state of a session: the fold over its events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::attention::LastOutcome;
use super::keys::Keys;
use super::outcome::TurnCancel;
use super::reported_cost::ReportedCost;
use super::reported_usage::SessionTokens;
use crate::codec::present;
use crate::{
    AgentSetting, AgentTraits, Ask, AskId, EndReason, Ending, Millis, Origin, PauseReason,
    PromptEnd, PromptId, Raw, Sender, Seq, SettingsLoss, StartKind, StartNo, Status, TurnLimit,
};

const fn yes() -> bool {
    true
}

/// The durable state. It changes only by [`State::apply`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub origin: Origin,
    pub status: Status,
    /// The end of the session, while it is ended.
    pub ending: Option<Ending>,
    pub created_at: Millis,
    /// The time at which the agent's last start began.
    pub started_at: Millis,
    pub ended_at: Option<Millis>,
    /// The time of the agent's last message: an update, an ask, an answer, its exit.
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
    /// The agent's current settings. `None` until they are recorded: until then the answer and the
    /// updates hold them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Vec<AgentSetting>>,
    /// Whether the log has lost an event that may have changed the settings, and nothing since
    /// tells all of them.
    #[serde(default, skip_serializing_if = "SettingsLoss::is_none")]
    pub settings_loss: SettingsLoss,
    pub queue: VecDeque<QueuedPrompt>,
    /// The running turns in the order of their start. More than one only if the agent queues by
    /// itself.
    pub turns: Vec<Turn>,
    /// Set while the log cannot be written as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The open asks.
    pub asks: BTreeMap<AskId, Ask>,
    /// The times at which the open asks were opened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked_at: BTreeMap<AskId, Millis>,
    /// The end of the newest turn, or a later failure of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<LastOutcome>,
    /// The usage that the agent's answers reported.
    #[serde(default)]
    pub usage: SessionTokens,
    /// The newest cost that the agent reported: an update without one keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ReportedCost>,
    /// The title that a client gave; it beats the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_title: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    pub latest: Latest,
    pub head: Seq,
    /// The seq of the last snapshot.
    pub snapshot: Option<Seq>,
    pub(super) keys: Keys,
    /// The asks that were settled last, the newest at the back.
    pub(super) settled: VecDeque<AskId>,
    /// The tool calls of the running turns that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) open_tools: Vec<Arc<str>>,
    /// How the agent was last started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) how: Option<StartKind>,
    /// True if the agent's own session has answered a prompt; before that it has nothing to
    /// remember. Defaults to true for snapshots without it, so that no conversation is lost.
    #[serde(default = "yes")]
    pub(super) answered: bool,
    /// True once a prompt was accepted, or if the agent's session was there before. Defaults to
    /// true for snapshots without it, so that no session counts as unused by mistake.
    #[serde(default = "yes")]
    pub(super) prompted: bool,
    /// The number of times that the agent exited by itself or was killed as unresponsive since the
    /// last answered prompt.
    #[serde(default)]
    pub(super) deaths: u32,
    /// The number of starts that failed in a row.
    #[serde(default)]
    pub(super) failed_starts: u32,
    /// True if this start of the agent has exceeded the limit of asks.
    pub(super) flooded: bool,
    /// True if a fork has begun a new conversation since, so that it is no longer a copy of its
    /// source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) left_source: bool,
}

/// A queued prompt.
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
    /// True if its turn was interrupted before.
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
    /// True if its end was requested.
    pub cancel: bool,
    /// The limit that requested its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<TurnLimit>,
    /// The time during which the agent was paused while it ran.
    #[serde(default, skip_serializing_if = "Millis::is_zero")]
    pub held_for: Millis,
    /// True for the second turn of a prompt whose first one was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeued: bool,
    /// True if the log has lost an event since the turn began: it may have been the turn's end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_have_ended: bool,
}

/// The start and the reason of a storage pause (rule 10.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub why: PauseReason,
    pub since: Millis,
    /// The event that tells of it; zero in snapshots of old versions.
    #[serde(default, skip_serializing_if = "Seq::is_zero")]
    pub seq: Seq,
}

/// The latest update of each kind that reports a state, for joining clients.
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
    /// The latest info update with a title, if there was one.
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

impl Turn {
    pub(super) const fn cancelled(&self) -> TurnCancel {
        if self.cancel { TurnCancel::requested(self.limit) } else { TurnCancel::No }
    }
}

impl State {
    /// Returns the title for people: a client's, else the agent's.
    pub fn title(&self) -> Option<&Arc<str>> {
        self.user_title.as_ref().or(self.latest.title.as_ref())
    }

    pub fn turn(&self) -> TurnState {
        if !self.asks.is_empty() {
            TurnState::AwaitingInput
        } else if !self.turns.is_empty() {
            TurnState::Running
        } else {
            TurnState::Idle
        }
    }

    /// Returns true if the agent is up with no turn, no queued prompt and no open ask.
    pub fn is_idle(&self) -> bool {
        self.status == Status::Running
            && self.turns.is_empty()
            && self.queue.is_empty()
            && self.asks.is_empty()
    }

    /// Returns true if the session is new and was never prompted.
    pub fn is_unused(&self) -> bool {
        !self.prompted
    }

    /// Returns how the agent could be started again with this conversation, if at all. If the log
    /// has lost its first event, the adapter and the directory may be unknown.
    pub fn way_back(&self) -> Option<StartKind> {
        let is_origin_known = !self.origin.adapter.is_empty() && !self.origin.cwd.is_empty();
        self.agent_session
            .as_ref()
            .filter(|_| is_origin_known)
            .and_then(|_| self.traits.way_back())
    }

    /// Returns how an agent without a session of its own for this conversation is started: a fork
    /// copies its source, as long as it has answered nothing itself.
    pub(super) fn first_way(&self) -> StartKind {
        if self.is_copy() && !self.answered { StartKind::Fork } else { StartKind::New }
    }

    /// Returns true if the conversation began as a copy of another one.
    pub(super) const fn is_copy(&self) -> bool {
        self.origin.forked_from.is_some() && !self.left_source
    }

    /// Returns true if the agent could copy the conversation into a new session (rule 17.10).
    pub fn forkable(&self) -> bool {
        self.traits.fork && self.agent_session.is_some()
    }

    /// Returns true if the session has ended and can come back, also if a user killed it: see
    /// [`State::killed_by_user`].
    pub fn resumable(&self) -> bool {
        !self.status.is_alive() && self.way_back().is_some()
    }

    /// Returns true if a user killed the session: only an explicit resume brings it back.
    pub fn killed_by_user(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.reason == EndReason::User)
    }

    /// Returns the end of a recent prompt that had an idempotency key.
    pub fn prompt_end(&self, prompt: &PromptId) -> Option<&PromptEnd> {
        self.keys.find(prompt)?.end.as_ref()
    }

    /// Returns the prompt's position in the queue: 0 is next.
    pub fn position(&self, prompt: &PromptId) -> Option<usize> {
        self.queue.iter().position(|queued| queued.prompt == *prompt)
    }

    pub fn running(&self, prompt: &PromptId) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.prompt == *prompt)
    }

    /// Returns true if this ask was settled. Only the last few hundred are remembered.
    pub fn is_settled(&self, ask: AskId) -> bool {
        self.settled.contains(&ask)
    }
}
