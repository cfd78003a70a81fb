//! Inputs from the agent: its starts, its messages and its exit.

use std::sync::Arc;

use crate::{
    AgentSetting, AgentTraits, AskKind, Fault, PromptId, Raw, StartNo, ToolCall, UpdateKind,
};

/// Something that the agent did, or that happened to it.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// The agent process of start `start` has answered `session/new`, `load` or `resume`.
    Started { start: StartNo, agent_session: Arc<str>, traits: AgentTraits, answer: Raw },
    /// The agent could not be started.
    StartFailed {
        start: StartNo,
        cause: StartFault,
        /// True if the caller that creates the session waits for its agent. The host reports the
        /// failure to that caller at once.
        is_awaited: bool,
        exit_code: Option<i32>,
        message: Arc<str>,
    },
    /// The agent is gone. `message` holds the tail of its stderr.
    Exited { start: StartNo, exit_code: Option<i32>, message: Arc<str> },
    /// The agent sent a `session/update`; its session id is already Wharf's.
    Updated {
        update: UpdateKind,
        frame: Raw,
        title: Option<Arc<str>>,
        /// The tool call, if the update begins or ends one.
        tool: Option<ToolCall>,
    },
    /// Settings of the agent were set or reported.
    SettingsChanged {
        settings: Vec<AgentSetting>,
        /// True if the agent has just started and reports all that it has.
        are_all: bool,
    },
    /// The agent answered the prompt. `stop_reason` is `None` for a JSON-RPC error, which comes
    /// with the end of the agent's stderr.
    Answered {
        prompt: PromptId,
        stop_reason: Option<Arc<str>>,
        frame: Raw,
        stderr: Option<Arc<str>>,
    },
    /// The agent sent a request that clients answer.
    Asked {
        kind: AskKind,
        agent_request: Raw,
        frame: Raw,
        options: Vec<Arc<str>>,
        tool_call: Option<Arc<str>>,
    },
    /// The agent sent `$/cancel_request` for one of its asks.
    Withdrew { agent_request: Raw },
    /// The agent broke the protocol.
    Faulted { fault: Fault, detail: Arc<str> },
}

/// The cause of a failed start, as far as it decides the next step (rule 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// The agent's program is missing, or the adapter is unknown: a retry would fail in the same
    /// way.
    NotInstalled,
    /// The agent requires its user to log in first.
    LoginNeeded,
    /// The agent refused an earlier mode or option: a person has to decide how to continue.
    SettingRefused,
    /// The start needs something that is missing or not allowed: a directory, the start parameters,
    /// a sandbox that suits them.
    Impossible,
    /// The agent does not know the session that it should load or resume.
    SessionUnknown,
    Other,
}
