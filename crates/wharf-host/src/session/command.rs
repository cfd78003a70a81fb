//! The commands of a session's task, from callers and from the work that it has started.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use wharf_core::{Ask, ClientId, Input, QueuedPrompt, Raw, Reply, Sender, Seq, StartNo, Turn};

use super::agent_calls::AgentAnswer;
use super::agent_connection::AgentDelete;
use super::attached::AttachedClient;
use super::handle::{AgentReport, Attendance, CallError, Forward, Taken};
use crate::agent::adoption::FoundAgent;
use crate::agent::initialize::StartFailure;
use crate::agent::{AgentExit, AgentProcess, OpenedAgent};
use crate::host::StartPriority;
use crate::limits::CountPermit;
use crate::settings::ReturnTerms;

/// A message to the task.
#[derive(Debug)]
pub(crate) enum Command {
    Input {
        input: Box<Input>,
        reply: ReplyTo,
    },
    /// How a client is reached past the log; `None` when it leaves.
    Attend {
        client: ClientId,
        attendance: Option<Box<Attendance>>,
    },
    Forward {
        forward: Forward,
        /// Told that it was taken; dropped if the client is not there any more.
        taken: Option<oneshot::Sender<Taken>>,
    },
    /// Sends the agent a request of a caller that is not a client of the session. Drops `answer` if
    /// the session has no agent.
    CallAgent {
        frame: Bytes,
        answer: oneshot::Sender<AgentAnswer>,
    },
    CancelForward {
        client: ClientId,
        request: Bytes,
    },
    RelayAnswer {
        client: ClientId,
        relay: u64,
        frame: Bytes,
    },
    /// A relayed request has waited too long.
    RelayLate {
        relay: u64,
    },
    Served(ServedAnswer),
    /// Returns the attached clients.
    Clients {
        reply: oneshot::Sender<Vec<AttachedClient>>,
    },
    Queue {
        reply: oneshot::Sender<Vec<QueuedPrompt>>,
    },
    Asks {
        reply: oneshot::Sender<Vec<Ask>>,
    },
    Turns {
        reply: oneshot::Sender<Vec<Turn>>,
    },
    /// Starts the agent of an ended session for an attached client.
    WakeFor {
        client: ClientId,
        reply: ReplyTo,
    },
    /// Returns true if this caller only observes.
    IsObserver {
        caller: Box<Sender>,
        reply: oneshot::Sender<bool>,
    },
    /// Returns the agent's last statement about itself.
    AgentReport {
        reply: oneshot::Sender<AgentReport>,
    },
    /// Brings the session back after a restart of the host, unless a user killed it meanwhile.
    ComeBack {
        need: StartPriority,
        reply: ReplyTo,
    },
    /// Brings an ended session back with these settings: for an attached client, or for a user, who
    /// may have killed it.
    ComeBackOn {
        client: Option<ClientId>,
        terms: ReturnTerms,
        reply: ReplyTo,
    },
    WaitUp {
        reply: UpTo,
    },
    /// The starter of `start` is done.
    AgentUp {
        start: StartNo,
        outcome: Box<Result<OpenedAgent, StartFailure>>,
    },
    /// The agent of `start` has exited, and its whole process tree is gone.
    AgentGone {
        start: StartNo,
        exit: AgentExit,
        stderr: String,
        /// Lets the keeper go when it is dropped: after the exit is in the log.
        process: AgentProcess,
    },
    /// The keeper of an earlier host's agent has answered, or will not any more.
    KeeperAnswered(Box<std::io::Result<FoundAgent>>),
    /// Leaves the agent to its keeper and ends the task: the host goes.
    Leave {
        done: oneshot::Sender<()>,
    },
    /// Ends the session for good and has its agent delete its own copy. Answered with `None` if the
    /// condition does not hold.
    Delete {
        condition: DeleteCondition,
        done: oneshot::Sender<Option<AgentDelete>>,
    },
    /// Has this session's agent delete another session of its adapter. Drops `done` if the session
    /// has no agent.
    DeleteOther {
        agent_session: Arc<str>,
        done: oneshot::Sender<AgentDelete>,
    },
    ShutDown {
        done: oneshot::Sender<()>,
    },
}

/// When a session may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteCondition {
    /// A user wants it.
    Always,
    /// Only if the session has ended, has no client, no ask and no waiting prompt, and is not
    /// archived.
    Unused,
}

/// Wharf's own answer to a request of the agent of `start`.
#[derive(Debug)]
pub(crate) struct ServedAnswer {
    pub(super) start: StartNo,
    /// The agent's id of the request.
    pub(super) agent_request: Raw,
    pub(super) frame: Bytes,
    /// The terminal that has ended.
    pub(super) ended: Option<String>,
    /// For an answer that may be large.
    pub(super) permit: Option<CountPermit>,
}

pub(crate) type ReplyTo = oneshot::Sender<Result<Reply, CallError>>;

/// The agent is up: its answer, and the event that says so.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) seq: Seq,
    pub(crate) answer: Raw,
}

pub(crate) type StartedTo = oneshot::Sender<Result<Started, StartFailure>>;
pub(super) type UpTo = oneshot::Sender<Result<(), StartFailure>>;
