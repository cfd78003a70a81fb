//! The things that the parts of a session's task have in common, and those that its creator hands
//! over.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::command::{Command, ReplyTo, StartedTo};
use super::shared::Shared;
use crate::agent::InitializedAgent;
use crate::agent::adoption::{AdoptedAgent, SilentKeeper};
use crate::host::Inner;
use crate::limits::CountPermit;

/// The surroundings of a session's task. Its parts share one, so that the task holds one reference
/// to [`Shared`]: the registry counts them.
#[derive(Debug)]
pub(super) struct TaskContext {
    pub(super) host: Arc<Inner>,
    pub(super) shared: Arc<Shared>,
    /// The way to the task itself, for its own starters and watchers.
    pub(super) commands: mpsc::Sender<Command>,
}

/// Holds the resources and the waiting callers of a new session. A session that is opened from its
/// log has none, except for those of an agent that an earlier host has left.
#[derive(Debug, Default)]
pub(crate) struct FirstStart {
    /// Its permit among the sessions with a running agent.
    pub(crate) permit: Option<CountPermit>,
    /// An agent that has answered `initialize` already.
    pub(crate) spare: Option<InitializedAgent>,
    /// Told when the agent is up, or why not.
    pub(crate) started_tx: Option<StartedTo>,
    /// Told when the first step is in the log.
    pub(crate) created_tx: Option<ReplyTo>,
    /// An agent that was taken over from an earlier host.
    pub(crate) adopted: Option<Box<AdoptedAgent>>,
    /// The keeper of such an agent, if it has not answered yet.
    pub(crate) silent_keeper: Option<SilentKeeper>,
    /// The session's creator waits for the first start: if it fails, it is not tried again.
    pub(crate) caller_waits: bool,
}
