//! Inputs that end a session or bring it back, and the state of the storage.

use std::sync::Arc;

use crate::{EndReason, PauseReason};

/// A request to end the session or to bring it back.
#[derive(Clone, Debug)]
pub enum LifecycleInput {
    /// Ends the session: `User`, `Closed`, `Idle` or `HostShutdown`.
    Kill { reason: EndReason },
    /// Puts the session to sleep if it is idle and can come back; refused otherwise. The reason is
    /// `Idle` or `Memory`.
    Sleep {
        reason: EndReason,
        /// The reason in words for a person.
        why: Arc<str>,
    },
    /// Brings an ended session back, even if a user killed it.
    Resume,
    /// Brings an ended session back because its agent is needed, unless a user killed it.
    Wake { cause: WakeCause },
    /// The agent of an earlier host is gone. The first input after a restore if that is known then.
    /// It comes later if the agent's keeper answers later and the agent cannot be taken over, and
    /// after [`AgentAdopted`](Self::AgentAdopted) and the agent's last messages if the agent has
    /// ended without a host. It changes nothing in a session that has ended, unless the log has
    /// lost the end of a turn or of an ask.
    HostRestarted,
    /// A new host has taken over the agent of an earlier one. This is the first input after a
    /// restore, or a later input if the agent's keeper did not answer at once. No input from the
    /// agent comes before it.
    AgentAdopted {
        /// True if the log has lost events and the agent is known to be idle: turns that seem to
        /// run have ended.
        is_idle: bool,
        /// True if the agent has ended without a host. The rest of its output is still to come, and
        /// it takes no further prompt.
        has_ended: bool,
    },
}

/// A change of the storage below the log.
#[derive(Clone, Debug)]
pub enum StorageInput {
    /// The last decision could not be written as usual.
    Failed { why: PauseReason },
    /// There is space again.
    Back,
}

/// The party that needs an ended session's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeCause {
    /// A caller that waits for it.
    Caller,
    /// The queued prompts. Refused if the queue is empty by now.
    Queue,
    /// A host that starts and brings its sessions back. Refused if the session was closed.
    HostStart,
}
