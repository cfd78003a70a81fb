//! What can happen to a session, as the host tells it.

use std::sync::Arc;

use crate::{
    AgentSetting, AgentTraits, AskId, AskKind, EndReason, Fault, Millis, Origin, PauseReason, PromptId, Raw, Sender,
    Seq, StartNo, ToolCall, UpdateKind,
};

/// Settings that decide. All durations in milliseconds; `None` means never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub cancel_timeout: Option<Millis>,
    pub ask_timeout: Option<Millis>,
    pub idle_ttl: Option<Millis>,
    /// How long a turn may take, and how long the agent may say nothing in one (rule 2.8).
    pub turn_deadline: Option<Millis>,
    pub no_progress: Option<Millis>,
    pub on_restart: OnRestart,
    pub max_queue: usize,
    pub max_asks: usize,
    /// After which times a start that failed is tried again while prompts wait for it (rule 12.5).
    pub start_retries: Vec<Millis>,
    /// A snapshot is taken at the first quiet moment after this many events.
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

/// Why a start failed, as far as it decides what comes next (rule 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFault {
    /// The agent's program is missing, or the adapter is not known: a second try would find the same.
    NotInstalled,
    /// The agent wants its user to log in first.
    LoginNeeded,
    /// The agent refused a mode or an option that was in force: a person has to decide how to go on.
    SettingRefused,
    /// What the start needs is not there or not allowed: a directory, the start parameters, a sandbox that suits them.
    Impossible,
    /// The agent does not know the session that it was to load or resume.
    SessionUnknown,
    Other,
}

/// The fate of a turn that a death of the host or the agent cut off (rules 2.7, 12.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRestart {
    /// It is ended, and its sender told.
    Mark,
    /// It goes back to the head of the queue, once.
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
    /// It could not be started.
    StartFailed {
        start: StartNo,
        cause: StartFault,
        /// The caller that creates the session waits for its agent, and is told at once.
        is_awaited: bool,
        exit_code: Option<i32>,
        message: Arc<str>,
    },
    /// It is gone. `message` holds what is worth telling: the stderr tail.
    AgentExited {
        start: StartNo,
        exit_code: Option<i32>,
        message: Arc<str>,
    },
    /// A `session/update`, sessionId already Wharf's.
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
    /// The agent's response to the prompt. `stop_reason` is `None` for a JSON-RPC error.
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
    /// Ends the running turn, whoever sent its prompt. Waiting prompts stay.
    Interrupt {
        by: Sender,
    },
    /// A valid answer: `option` for a permission. `frame` is the client's response.
    Answer {
        ask: AskId,
        by: Sender,
        option: Option<Arc<str>>,
        frame: Raw,
    },
    /// An error or `cancelled`: counts once every attached controller has given one.
    Decline {
        ask: AskId,
        by: Sender,
        frame: Raw,
    },
    /// One prompt is taken back by name: it leaves the queue, or its turn is cancelled. Others stay.
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
    /// Puts the session to sleep, if it is idle and can come back; refused otherwise. `Idle` or `Memory`.
    Sleep {
        reason: EndReason,
        /// For a person.
        why: Arc<str>,
    },
    /// Brings an ended session back, also one that a user killed.
    Resume,
    /// Brings an ended session back because its agent is needed, unless a user killed it.
    Wake {
        cause: WakeCause,
    },
    /// What was decided last could not be written as usual.
    StorageFailed {
        why: PauseReason,
    },
    /// There is space again.
    StorageBack,
    /// First input after a restore by a new host incarnation.
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

/// Creates a session: the arguments of `Session::create`.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub origin: Origin,
    pub settings: Settings,
}

#[derive(Clone, Debug)]
pub struct Attachment {
    pub sender: Sender,
    pub role: Role,
    /// It can answer form elicitations.
    pub elicits: bool,
    /// Start the agent if the session is cold and can come back (ignored for observers).
    pub wake: bool,
    /// Without an agent there is no use in it: a controller is refused if a user killed the session.
    pub needs_agent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything, changes nothing.
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
    /// Hand it to an agent that queues by itself, even while a turn runs (rule 7.1).
    pub to_agent: bool,
}

/// What a prompt does when a turn is running (rules 7.1, 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    Queue,
    Refuse,
    Interrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelScope {
    /// How far the caller has been shown the log: a turn of someone else that began later is not what it meant.
    pub seen: Seq,
    /// How far it was shown the log a second ago, or when its connection joined. If a turn of its own ended later, the
    /// cancel was meant for that one.
    pub settled: Seq,
    /// Also everyone else's waiting prompts.
    pub clear_queue: bool,
}
