//! The inputs of a session, which the host reports.

use std::sync::Arc;

use crate::{
    AgentSetting, AgentTraits, AskId, AskKind, EndReason, Fault, Millis, Origin, PauseReason, PromptId, Raw, Sender,
    Seq, StartNo, ToolCall, UpdateKind,
};

/// The settings of the core's decisions. All durations in milliseconds; `None` means never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub cancel_timeout: Option<Millis>,
    pub ask_timeout: Option<Millis>,
    pub idle_ttl: Option<Millis>,
    /// The longest duration of a turn, and the longest silence of the agent in one (rule 2.8).
    pub turn_deadline: Option<Millis>,
    pub no_progress: Option<Millis>,
    pub on_restart: OnRestart,
    pub max_queue: usize,
    pub max_asks: usize,
    /// The delays after which a failed start is retried while prompts are queued (rule 12.5).
    pub start_retries: Vec<Millis>,
    /// A snapshot is taken at the first idle moment after this many events.
    pub snapshot_every: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cancel_timeout: Some(Millis(30_000)),
            ask_timeout: None,
            idle_ttl: None,
            turn_deadline: None,
            no_progress: None,
            on_restart: OnRestart::Mark,
            max_queue: 100,
            max_asks: 100,
            start_retries: vec![Millis(1_000), Millis(4_000), Millis(15_000)],
            snapshot_every: 10_000,
        }
    }
}

/// The party that needs an ended session's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeCause {
    /// A caller that waits for it.
    Caller,
    /// The waiting prompts: refused if there are none any more.
    Queue,
    /// A host that starts and brings back what it can: refused if the session was closed.
    HostStart,
}

/// The cause of a failed start, as far as it decides the next step (rule 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// The agent's program is missing, or the adapter is unknown: a retry would fail in the same way.
    NotInstalled,
    /// The agent requires its user to log in first.
    LoginNeeded,
    /// The agent refused an earlier mode or option: a person has to decide how to continue.
    SettingRefused,
    /// The start needs something that is missing or not allowed: a directory, the start parameters, a sandbox that suits them.
    Impossible,
    /// The agent does not know the session that it should load or resume.
    SessionUnknown,
    Other,
}

/// The treatment of a turn that a death of the host or the agent interrupted (rules 2.7, 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRestart {
    /// The turn is ended, and its sender notified.
    Mark,
    /// The prompt goes back to the head of the queue, once.
    Requeue,
}

#[derive(Clone, Debug)]
pub enum Input {
    /// The agent process of start `start` has answered `session/new`, `load` or `resume`.
    AgentStarted {
        start: StartNo,
        agent_session: Arc<str>,
        traits: AgentTraits,
        answer: Raw,
    },
    /// The agent could not be started.
    StartFailed {
        start: StartNo,
        cause: StartFault,
        /// The caller that creates the session waits for its agent, and is told at once.
        is_awaited: bool,
        exit_code: Option<i32>,
        message: Arc<str>,
    },
    /// The agent is gone. `message` holds the tail of its stderr.
    AgentExited {
        start: StartNo,
        exit_code: Option<i32>,
        message: Arc<str>,
    },
    /// The agent sent a `session/update`; its session id is already Wharf's.
    AgentUpdated {
        update: UpdateKind,
        frame: Raw,
        title: Option<Arc<str>>,
        /// The tool call, if the update begins or ends one.
        tool: Option<ToolCall>,
    },
    /// Settings of the agent were set or reported.
    SettingsChanged {
        settings: Vec<AgentSetting>,
    },
    /// The agent answered the prompt. `stop_reason` is `None` for a JSON-RPC error.
    AgentAnswered {
        prompt: PromptId,
        stop_reason: Option<Arc<str>>,
        frame: Raw,
    },
    AgentAsked {
        kind: AskKind,
        agent_request: Raw,
        frame: Raw,
        options: Vec<Arc<str>>,
        tool_call: Option<Arc<str>>,
    },
    /// The agent sent `$/cancel_request` for one of its asks.
    AgentWithdrew {
        agent_request: Raw,
    },
    AgentFaulted {
        fault: Fault,
        detail: Arc<str>,
    },

    Attach(Attachment),
    Detach {
        sender: Sender,
    },
    Prompt(Submission),
    /// `session/cancel` (rule 7.4).
    Cancel {
        by: Sender,
        scope: CancelScope,
    },
    /// Ends the running turn, whoever sent its prompt. Queued prompts stay.
    Interrupt {
        by: Sender,
    },
    /// A client gave a valid answer: `option` for a permission. `frame` is its response.
    Answer {
        ask: AskId,
        by: Sender,
        option: Option<Arc<str>>,
        frame: Raw,
    },
    /// A client answered with an error or `cancelled`, which counts once every attached controller has declined.
    Decline {
        ask: AskId,
        by: Sender,
        frame: Raw,
    },
    /// Cancels one prompt by its id: it leaves the queue, or its turn is cancelled. Others stay.
    CancelPrompt {
        prompt: PromptId,
        by: Sender,
        /// Recorded if the prompt's turn is cancelled. The caller bounds its length.
        reason: Option<Arc<str>>,
    },
    RemovePrompt {
        prompt: PromptId,
        by: Sender,
    },
    UpdatePrompt {
        prompt: PromptId,
        by: Sender,
        frame: Raw,
    },
    MovePrompt {
        prompt: PromptId,
        by: Sender,
        position: usize,
    },
    /// Ends the session: `User`, `Closed`, `Idle` or `HostShutdown`.
    Kill {
        reason: EndReason,
    },
    /// Puts the session to sleep if it is idle and can come back; refused otherwise. The reason is `Idle` or `Memory`.
    Sleep {
        reason: EndReason,
        /// The reason in words for a person.
        why: Arc<str>,
    },
    /// Brings an ended session back, also one that a user killed.
    Resume,
    /// Brings an ended session back because its agent is needed, unless a user killed it.
    Wake {
        cause: WakeCause,
    },
    /// The last decision could not be written as usual.
    StorageFailed {
        why: PauseReason,
    },
    /// There is space again.
    StorageBack,
    /// The first input after a restore by a new host.
    HostRestarted,
    /// A deadline of [`crate::Session::deadline`] may have passed.
    TimePassed,
}

impl Input {
    /// Returns true for a request that is taken even if the log cannot be written as usual: it ends things, or the agent
    /// waits for it. All of these are small.
    pub const fn cannot_wait(&self) -> bool {
        matches!(
            self,
            Self::Kill { .. }
                | Self::Cancel { .. }
                | Self::Interrupt { .. }
                | Self::CancelPrompt { .. }
                | Self::RemovePrompt { .. }
                | Self::Answer { .. }
                | Self::Decline { .. }
                | Self::Detach { .. }
        )
    }
}

/// The arguments of `Session::create`.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub origin: Origin,
    pub settings: Settings,
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub sender: Sender,
    pub role: Role,
    /// True if it can answer form elicitations.
    pub elicits: bool,
    /// Starts the agent if the session is cold and can come back (ignored for observers).
    pub wake: bool,
    /// True if the attachment is useless without an agent: a controller is refused if a user killed the session.
    pub needs_agent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything and changes nothing.
    Observer,
    Controller,
}

#[derive(Clone, Debug)]
pub struct Submission {
    pub prompt: PromptId,
    pub sender: Sender,
    pub frame: Raw,
    pub key: Option<Arc<str>>,
    pub overlap: Overlap,
    /// True to send it to an agent that queues by itself, even while a turn runs (rule 7.1).
    pub to_agent: bool,
}

/// The treatment of a prompt that arrives during a turn (rules 7.1, 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    Queue,
    Refuse,
    Interrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelScope {
    /// The last seq that the caller has been shown: it did not mean another client's turn that began later.
    pub seen: Seq,
    /// The last seq that it had been shown a second ago, or when its connection joined. If its own turn ended later,
    /// the cancel was meant for that one.
    pub settled: Seq,
    /// True to end the queued prompts of all clients.
    pub clear_queue: bool,
}
