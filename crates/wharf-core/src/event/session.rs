//! Events of the session as a whole: its creation, its description and its end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{EventId, Sender, SessionId};

/// A fact about the session as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session was created. Always the first event.
    Created(Origin),
    /// The session ended, for now or for good.
    Ended(Ending),
    /// A client gave the session a title, which beats the agent's, or took its own away.
    Renamed { title: Option<Arc<str>>, by: Option<Sender> },
    /// A client changed the label.
    Labelled { label: Option<Arc<str>>, by: Option<Sender> },
    /// The session was put into the archive or taken out of it; without a client if it left because
    /// it asks.
    Archived { archived: bool, by: Option<Sender> },
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
    /// The sessions whose agents led to this one, with the session that a user started first; empty
    /// for a user's own session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lineage: Vec<SessionId>,
    /// The session that this one is a copy of (rule 17.10). Omitted from the log for all others, as
    /// before this member existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkSource>,
    /// True if the log has lost its first event and it is not known which session led to this one:
    /// only admins see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scope_lost: bool,
}

/// The session that was copied, as it was then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkSource {
    pub session: SessionId,
    /// The last event of its log.
    pub event: EventId,
    /// The agent's own id of it.
    pub agent_session: Arc<str>,
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
    /// True if the start failed because the agent's user has to log in first. Omitted from the log
    /// if false, as before this member existed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_login: bool,
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
    /// The caller that started the session has no further work for it.
    Finished,
    /// No client was attached for `session.idle_ttl`, or the session was idle for as long as the
    /// agent's manifest says.
    Idle,
    /// The idle session was put to sleep because too much memory was in use.
    Memory,
    /// The session's log has reached `limits.log`.
    LogFull,
    HostShutdown,
    /// The log of a host that is gone shows the session alive.
    HostRestarted,
}
