//! Events of the agent: its starts, its updates, its settings and its faults.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::codec::present;
use crate::{Millis, Raw, StartNo, UsageMeaning};

/// A fact about the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// The host began to start the agent.
    Starting { start: StartNo, how: StartKind },
    /// The agent answered `session/new` (or load, resume, fork): the session runs.
    Started {
        start: StartNo,
        agent_session: Arc<str>,
        traits: AgentTraits,
        /// The agent's unchanged answer: modes, config options, models.
        answer: Raw,
    },
    /// A start failed and is retried after `retry_in`: the session stays in the state starting
    /// (rule 12.5).
    StartFailed {
        start: StartNo,
        exit_code: Option<i32>,
        /// The failure in words for a person.
        message: Option<Arc<str>>,
        retry_in: Millis,
    },
    /// A `session/update` that the agent sent or that Wharf made on its behalf, in the form for
    /// clients.
    Updated {
        update: UpdateKind,
        frame: Raw,
        /// The title, if a `session_info_update` carries one.
        title: Option<Arc<str>>,
        /// The tool call, if the update begins or ends one.
        tool: Option<ToolCall>,
    },
    /// Settings of the agent were set or reported and are current from here on (rule 12.9).
    SettingsChanged {
        settings: Vec<AgentSetting>,
        /// True if an agent that has just started reports all of them, after the log had lost some.
        /// Omitted from the log if false, as before this member existed.
        are_all: bool,
    },
    /// The agent broke the protocol in a way that is worth recording; the session goes on.
    Faulted { fault: Fault, detail: Arc<str> },
}

impl AgentEvent {
    pub(super) const fn frame(&self) -> Option<&Raw> {
        match self {
            Self::Updated { frame, .. } | Self::Started { answer: frame, .. } => Some(frame),
            Self::SettingsChanged { .. }
            | Self::Starting { .. }
            | Self::StartFailed { .. }
            | Self::Faulted { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartKind {
    New,
    Load,
    Resume,
    /// The agent copies another of its sessions, with the conversation so far, into a new one.
    Fork,
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
    /// True if the agent can copy a session, with its conversation so far, into a new one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// The meaning of the agent's token counts. `None` in logs of old versions, which did not note
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageMeaning>,
    /// The kinds of content that a prompt may have. `None` in logs of old versions, which did not
    /// note them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepts: Option<AcceptedContent>,
}

/// The kinds of content besides text and links that an agent takes in a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcceptedContent {
    pub image: bool,
    pub audio: bool,
    /// Resources whose content is part of the prompt.
    pub embedded: bool,
}

impl AgentTraits {
    /// Returns how the agent could be brought back, if at all. Resume is preferred, since it has no
    /// replay to drop.
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

/// A setting of the agent and its current value. Ids and values are JSON text in the agent's
/// spelling.
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

    /// Returns true for updates that report settings or commands of the agent.
    pub const fn is_setting(self) -> bool {
        matches!(
            self,
            Self::AvailableCommandsUpdate | Self::CurrentModeUpdate | Self::ConfigOptionUpdate
        )
    }

    /// Returns true for updates that report settings of the agent.
    pub const fn changes_settings(self) -> bool {
        matches!(self, Self::CurrentModeUpdate | Self::ConfigOptionUpdate)
    }

    /// Returns true for updates that report a state, of which a joining client needs only the
    /// latest.
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
    /// Faults came faster than they are logged; `detail` holds their number so far and the last
    /// one.
    Suppressed,
}
