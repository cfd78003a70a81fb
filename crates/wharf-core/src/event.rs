//! What a session's log is made of: facts, in the past tense.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::codec::present;
use crate::{AskId, ChosenId, ClientId, Millis, PromptId, Raw, Seq, SessionId, StartNo};

/// A fact of a session. The log holds these and nothing else (rule 1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Always the first.
    Created(Origin),
    /// The host set out to start the agent.
    AgentStarting { start: StartNo, how: StartKind },
    /// The agent answered `session/new` (or load, resume): the session runs.
    AgentStarted {
        start: StartNo,
        agent_session: Arc<str>,
        traits: AgentTraits,
        /// The agent's answer as it came: modes, config options, models.
        answer: Raw,
    },
    /// A start failed and is tried again after `retry_in`: the session goes on starting (rule 12.5).
    StartFailed {
        start: StartNo,
        exit_code: Option<i32>,
        /// The failure in words for a person.
        message: Option<Arc<str>>,
        retry_in: Millis,
    },
    /// The session is over, for now or for good.
    Ended(Ending),
    /// A prompt was taken on. From here on it has exactly one [`Event::PromptEnded`].
    PromptAccepted {
        prompt: PromptId,
        sender: Sender,
        /// The whole `session/prompt` request as the client sent it.
        frame: Raw,
        /// Idempotency key.
        key: Option<Arc<str>>,
        /// True: goes before the prompts that wait already (an interrupt).
        first: bool,
    },
    /// A waiting prompt's frame was replaced.
    PromptUpdated {
        prompt: PromptId,
        /// The editor.
        by: Sender,
        frame: Raw,
        /// The sender of the prompt, which stays its sender. `None` in older logs.
        sender: Option<Sender>,
    },
    /// A waiting prompt was moved to `position` (0 = next).
    PromptMoved { prompt: PromptId, by: Sender, position: usize },
    /// The prompt left the queue and is on its way to the agent: a turn begins.
    TurnStarted {
        prompt: PromptId,
        /// The event that holds the frame in force: its acceptance or its last update.
        content: Seq,
    },
    /// Someone asked for the running turn's end, or a limit did.
    CancelRequested {
        prompt: PromptId,
        by: Option<Sender>,
        limit: Option<TurnLimit>,
        /// The reason that an amux client gave.
        reason: Option<Arc<str>>,
    },
    /// The prompt's one end, whether its turn had begun or not.
    PromptEnded { prompt: PromptId, end: PromptEnd },
    /// The host or the agent died while the turn ran: the prompt waits again, before all others. At most once.
    PromptRequeued { prompt: PromptId },
    /// A `session/update` of the agent (or one that Wharf made in its stead), as clients are to see it.
    AgentUpdated {
        update: UpdateKind,
        frame: Raw,
        /// The title, if a `session_info_update` carries one.
        title: Option<Arc<str>>,
        /// The tool call, if the update begins or ends one.
        tool: Option<ToolCall>,
    },
    /// Settings of the agent were set or reported: from here on these are in force (rule 12.9).
    SettingsChanged { settings: Vec<AgentSetting> },
    /// The agent asked for something that needs one answer.
    AskOpened(Ask),
    /// The ask's one end.
    AskResolved { ask: AskId, outcome: AskOutcome, by: Option<Sender> },
    /// The agent broke the protocol in a way that is worth knowing and was survived.
    AgentFaulted { fault: Fault, detail: Arc<str> },
    /// The log could not be written: from here on the agent is held and prompts are refused (rule 10.5).
    Paused { why: PauseReason },
    /// It can be written again: all goes on.
    Continued,
    /// Everything before this, folded; a restore may begin here.
    Snapshot(Raw),
    /// An event of a kind that this version does not know: kept, shown to nobody, changes nothing.
    Unknown { kind: Arc<str>, body: Raw },
}

/// What the session was created with.
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
    /// A repeated request with this key (of the same token) is this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SpawnKey>,
    /// The sessions whose agents led to this one, the first that a user started at the front; empty for a user's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<SessionId>,
}

/// By which a repeated request for a session is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnKey {
    pub key: Arc<str>,
    /// What was asked for, in short: the same key with another request is a mistake.
    pub digest: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    New,
    Load,
    Resume,
}

/// What the core needs to know of the agent's capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentTraits {
    pub load: bool,
    pub resume: bool,
    pub close: bool,
    /// Left out of the log where the agent has it not, as before there was this member.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
    /// It takes a prompt while another runs and queues by itself.
    pub queues: bool,
    /// It wants `session/ready`.
    pub ready: bool,
}

impl AgentTraits {
    /// How the agent could be brought back, if at all. Resume is preferred: no replay to swallow.
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
    /// What happened, for a person: the error with the tail of the agent's stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The agent went by itself.
    AgentExited,
    /// The agent could not be started.
    StartFailed,
    /// The agent did not settle a cancelled turn in time and was ended.
    Unresponsive,
    /// A user killed it: only an explicit resume brings it back.
    User,
    /// The last client closed it.
    Closed,
    /// Nobody was attached for `session.idle_ttl`, or nothing was to do for as long as the agent's manifest says.
    Idle,
    /// Put to sleep while it was idle: too much memory was in use.
    Memory,
    /// Its log has reached `limits.log`.
    LogFull,
    HostShutdown,
    /// Found alive in the log of a host that is gone.
    HostRestarted,
}

/// Who did something. Part of the fact, kept with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The connection that it came by.
    pub client: ClientId,
    /// The id that it gave itself: by this and the token it is known again on another connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
    /// The id of the token it came with (never the token).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// What it calls itself among amux clients (rule 9.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
}

/// An amux client's own id, and the word that it chose for its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub id: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Arc<str>>,
}

/// A limit that a turn came up against (rule 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnLimit {
    /// It took longer than `turn.deadline`.
    Deadline,
    /// The agent said nothing for `turn.no_progress`.
    NoProgress,
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", try_from = "crate::codec::StoredEnd")]
pub enum PromptEnd {
    /// The agent answered; the frame is its response as it came.
    Answered {
        stop_reason: Arc<str>,
        frame: Raw,
    },
    /// The agent answered with a JSON-RPC error.
    Failed {
        frame: Raw,
    },
    /// Cancelled before its turn began, or the agent did not settle in time after a cancel.
    Cancelled,
    /// Taken out of the queue by name.
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

/// A setting of the agent and the value that is in force. Ids and values are JSON text as the agent spelled it.
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

/// Where an agent tells a setting: in `modes`, in `models` or in `configOptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingSpelling {
    Mode,
    Model,
    Option,
}

/// The `sessionUpdate` of an update, as far as Wharf treats kinds differently.
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
    /// Anything else, known to ACP or not.
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

    /// The spelling in the log; of a kind that ACP has, also ACP's.
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

    /// True for updates that state how things are, of which a joiner needs only the latest.
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

/// A tool call, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: Arc<str>,
    pub state: ToolCallState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallState {
    /// It is pending or in progress.
    Open,
    /// The agent told its end.
    Closed,
    /// Its turn was cut off, and Wharf told its end in the agent's stead (rule 12.16).
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub id: AskId,
    pub kind: AskKind,
    /// The agent's request id as it spelled it (`0`, `"7f…"`).
    pub agent_request: Raw,
    /// The agent's request as clients are to see it; its `id` is replaced for each of them.
    pub frame: Raw,
    /// The option ids of a permission, to tell a valid answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Arc<str>>,
    /// The tool call that the permission is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Arc<str>>,
    /// The turn that was running when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    Permission,
    Elicitation,
}

/// How an ask ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", try_from = "crate::codec::StoredOutcome")]
pub enum AskOutcome {
    /// The first valid answer. `answer` is the client's response frame; its id is replaced on the way to the agent.
    Answered {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<Arc<str>>,
        answer: Raw,
    },
    /// Every attached controller gave an error or `cancelled`; the last one's frame.
    Declined { answer: Raw },
    /// By a cancel, a time limit, the end of its turn, or because nobody attached could handle it.
    Cancelled,
    /// The agent took it back.
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
    /// Asks over the limit; the extra ones are refused.
    TooManyAsks,
    /// Faults came faster than they are logged; `detail` says how many were left out.
    Suppressed,
}

/// Why a log could not be written for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    StorageFull,
    StorageReadOnly,
}

/// A party as others see it.
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

    /// True if the acknowledgement of this fact, or what is done because of it, waits for the disk (rule 1.4).
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

/// Which event an ask's opening is: the ask's id is its seq.
impl From<Seq> for AskId {
    fn from(seq: Seq) -> Self {
        Self(seq.0)
    }
}
