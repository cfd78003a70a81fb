//! The events of a session's log: facts, in the past tense.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::codec::present;
use crate::{AskId, ChosenId, ClientId, Millis, PromptId, Raw, Seq, SessionId, StartNo};

/// A fact of a session. The log consists of these (rule 1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session was created. Always the first event.
    Created(Origin),
    /// The host began to start the agent.
    AgentStarting { start: StartNo, how: StartKind },
    /// The agent answered `session/new` (or load, resume): the session runs.
    AgentStarted {
        start: StartNo,
        agent_session: Arc<str>,
        traits: AgentTraits,
        /// The agent's unchanged answer: modes, config options, models.
        answer: Raw,
    },
    /// A start failed and is retried after `retry_in`: the session stays in the state starting (rule 12.5).
    StartFailed {
        start: StartNo,
        exit_code: Option<i32>,
        /// The failure in words for a person.
        message: Option<Arc<str>>,
        retry_in: Millis,
    },
    /// The session ended, for now or for good.
    Ended(Ending),
    /// A prompt was accepted. From here on it has exactly one [`Event::PromptEnded`].
    PromptAccepted {
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
    PromptUpdated {
        prompt: PromptId,
        /// The client that edited the prompt.
        by: Sender,
        frame: Raw,
        /// The sender of the prompt, which stays its sender. `None` in older logs.
        sender: Option<Sender>,
    },
    /// A queued prompt was moved to `position` (0 = next).
    PromptMoved { prompt: PromptId, by: Sender, position: usize },
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
    PromptEnded { prompt: PromptId, end: PromptEnd },
    /// The host or the agent died during the turn: the prompt is queued again before all others. At most once per
    /// prompt.
    PromptRequeued { prompt: PromptId },
    /// A `session/update` of the agent, or one that Wharf made on its behalf, in the form for clients.
    AgentUpdated {
        update: UpdateKind,
        frame: Raw,
        /// The title, if a `session_info_update` carries one.
        title: Option<Arc<str>>,
        /// The tool call, if the update begins or ends one.
        tool: Option<ToolCall>,
    },
    /// Settings of the agent were set or reported and are current from here on (rule 12.9).
    SettingsChanged { settings: Vec<AgentSetting> },
    /// The agent sent a request that needs one answer.
    AskOpened(Ask),
    /// The single end of an ask.
    AskResolved { ask: AskId, outcome: AskOutcome, by: Option<Sender> },
    /// The agent broke the protocol in a way that is worth recording; the session goes on.
    AgentFaulted { fault: Fault, detail: Arc<str> },
    /// The log could not be written: from here on the agent is paused and prompts are refused (rule 10.5).
    Paused { why: PauseReason },
    /// The log can be written again, and the agent continues.
    Continued,
    /// The folded state of everything before this event; a restore may begin here.
    Snapshot(Raw),
    /// An event of a kind that this version does not know. It is kept, not shown, and changes nothing.
    Unknown { kind: Arc<str>, body: Raw },
}

/// The parameters of the session's creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub session: SessionId,
    pub adapter: Arc<str>,
    pub workspace: Arc<str>,
    pub cwd: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Arc<str>>,
    /// The name by which amux clients find it (rule 9.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Sender>,
    /// The idempotency key: a repeated request with this key and the same token means this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SpawnKey>,
    /// The sessions whose agents led to this one, with the session that a user started first; empty for a user's own
    /// session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<SessionId>,
}

/// Identifies a repeated request for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnKey {
    pub key: Arc<str>,
    /// A digest of the request: the same key with another request is a mistake.
    pub digest: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    New,
    Load,
    Resume,
}

/// The agent's capabilities that the core needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentTraits {
    pub load: bool,
    pub resume: bool,
    pub close: bool,
    /// Omitted from the log if false, as before this member existed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
    /// True if the agent accepts a prompt while another runs and queues by itself.
    pub queues: bool,
    /// True if the agent wants `session/ready`.
    pub ready: bool,
}

impl AgentTraits {
    /// Returns how the agent could be brought back, if at all. Resume is preferred, since it has no replay to drop.
    pub const fn way_back(self) -> Option<StartKind> {
        if self.resume {
            Some(StartKind::Resume)
        } else if self.load {
            Some(StartKind::Load)
        } else {
            None
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Starting,
    Running,
    Exited,
    Killed,
    Error,
}

impl Status {
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `exited`, `killed` or `error`.
    pub status: Status,
    pub reason: EndReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The failure for a person: the error with the tail of the agent's stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The agent exited by itself.
    AgentExited,
    /// The agent could not be started.
    StartFailed,
    /// The agent did not settle a cancelled turn in time and was killed.
    Unresponsive,
    /// A user killed the session: only an explicit resume brings it back.
    User,
    /// The last client closed the session.
    Closed,
    /// No client was attached for `session.idle_ttl`, or the session was idle for as long as the agent's manifest says.
    Idle,
    /// The idle session was put to sleep because too much memory was in use.
    Memory,
    /// The session's log has reached `limits.log`.
    LogFull,
    HostShutdown,
    /// The log of a host that is gone shows the session alive.
    HostRestarted,
}

/// The client that did something. It is part of the fact and stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The connection.
    pub client: ClientId,
    /// The id that the client gave itself: by this and the token it is recognised on another connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
    /// The id of its token (never the token).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Its name among amux clients (rule 9.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
}

/// An amux client's own id, and the role that it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
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
    /// The prompt was cancelled before its turn began, or the agent did not settle in time after a cancel.
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

/// A setting of the agent and its current value. Ids and values are JSON text in the agent's spelling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSetting {
    pub of: SettingSpelling,
    /// The id of a config option.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub id: Option<Raw>,
    /// The category of a config option: `mode` and `model` have two spellings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Arc<str>>,
    pub value: Raw,
}

/// The place where an agent reports a setting: `modes`, `models` or `configOptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingSpelling {
    Mode,
    Model,
    Option,
}

/// The `sessionUpdate` of an update, as far as Wharf distinguishes the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateKind {
    UserMessageChunk,
    AgentMessageChunk,
    AgentThoughtChunk,
    ToolCall,
    ToolCallUpdate,
    Plan,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    ConfigOptionUpdate,
    SessionInfoUpdate,
    UsageUpdate,
    /// Any other kind, known to ACP or not.
    Other,
}

impl UpdateKind {
    pub fn from_tag(tag: &str) -> Self {
        match tag {
            "user_message_chunk" => Self::UserMessageChunk,
            "agent_message_chunk" => Self::AgentMessageChunk,
            "agent_thought_chunk" => Self::AgentThoughtChunk,
            "tool_call" => Self::ToolCall,
            "tool_call_update" => Self::ToolCallUpdate,
            "plan" => Self::Plan,
            "available_commands_update" => Self::AvailableCommandsUpdate,
            "current_mode_update" => Self::CurrentModeUpdate,
            "config_option_update" => Self::ConfigOptionUpdate,
            "session_info_update" => Self::SessionInfoUpdate,
            "usage_update" => Self::UsageUpdate,
            _ => Self::Other,
        }
    }

    /// Returns the name in the log, which is also ACP's name for a kind that ACP has.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::UserMessageChunk => "user_message_chunk",
            Self::AgentMessageChunk => "agent_message_chunk",
            Self::AgentThoughtChunk => "agent_thought_chunk",
            Self::ToolCall => "tool_call",
            Self::ToolCallUpdate => "tool_call_update",
            Self::Plan => "plan",
            Self::AvailableCommandsUpdate => "available_commands_update",
            Self::CurrentModeUpdate => "current_mode_update",
            Self::ConfigOptionUpdate => "config_option_update",
            Self::SessionInfoUpdate => "session_info_update",
            Self::UsageUpdate => "usage_update",
            Self::Other => "other",
        }
    }

    /// Returns true for updates that report a state, of which a joining client needs only the latest.
    pub const fn is_state(self) -> bool {
        matches!(
            self,
            Self::AvailableCommandsUpdate
                | Self::CurrentModeUpdate
                | Self::ConfigOptionUpdate
                | Self::SessionInfoUpdate
                | Self::UsageUpdate
        )
    }
}

/// A tool call and its status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: Arc<str>,
    pub state: ToolCallState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallState {
    /// The tool call is pending or in progress.
    Open,
    /// The agent reported its end.
    Closed,
    /// Its turn was interrupted, and Wharf reported its end on the agent's behalf (rule 12.16).
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub id: AskId,
    pub kind: AskKind,
    /// The agent's request id in its spelling (`0`, `"7f…"`).
    pub agent_request: Raw,
    /// The agent's request in the form for clients; its `id` is replaced for each of them.
    pub frame: Raw,
    /// The option ids of a permission, against which answers are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Arc<str>>,
    /// The tool call that the permission is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Arc<str>>,
    /// The turn that was running when the ask was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    Permission,
    Elicitation,
}

/// The end of an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", try_from = "crate::codec::StoredOutcome")]
pub enum AskOutcome {
    /// A client gave the first valid answer. `answer` is its response frame; the id is replaced on the way to the
    /// agent.
    Answered {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<Arc<str>>,
        answer: Raw,
    },
    /// Every attached controller answered with an error or `cancelled`; holds the last frame.
    Declined { answer: Raw },
    /// A cancel, a time limit or the end of its turn closed the ask, or no attached client could handle it.
    Cancelled,
    /// The agent withdrew the ask.
    Withdrawn,
    /// The agent that asked is gone.
    AgentGone,
}

/// A breach of the protocol by an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A line that is not JSON, or not a JSON-RPC message.
    Malformed,
    NotUtf8,
    /// A line over the frame limit; it was skipped.
    Oversized,
    /// A message for a session that this agent does not have.
    ForeignSession,
    /// The agent opened asks over the limit; the extra ones are refused.
    TooManyAsks,
    /// Faults came faster than they are logged; `detail` holds the number of omitted ones.
    Suppressed,
}

/// The reason why a log could not be written for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    StorageFull,
    StorageReadOnly,
}

/// A client as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub sender: Sender,
    pub role: crate::Role,
}

impl Event {
    /// Returns a prompt's frame and its sender, if the event holds them: its acceptance or an edit.
    pub fn prompt_content(&self) -> Option<(&Raw, &Sender)> {
        if let Self::PromptAccepted { frame, sender, .. } = self {
            return Some((frame, sender));
        }
        let Self::PromptUpdated { frame, by, sender, .. } = self else { return None };
        Some((frame, sender.as_ref().unwrap_or(by)))
    }

    /// Returns true if the acknowledgement of this event, and its effects, wait for the disk (rule 1.4).
    pub const fn wants_sync(&self) -> bool {
        matches!(
            self,
            Self::PromptAccepted { .. }
                | Self::PromptUpdated { .. }
                | Self::PromptMoved { .. }
                | Self::PromptEnded { .. }
                | Self::CancelRequested { .. }
                | Self::AskResolved { .. }
                | Self::Created(_)
                | Self::Ended(_)
        )
    }
}

/// The id of an ask is the seq of the event that opened it.
impl From<Seq> for AskId {
    fn from(seq: Seq) -> Self {
        Self(seq.0)
    }
}
