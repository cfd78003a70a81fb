//! A session as these surfaces show it: the host's descriptor, with a schema.

use schemars::JsonSchema;
use serde::Serialize;
use utoipa::ToSchema;
use wharf_host::core::{EndReason, PauseReason, Status};
use wharf_host::{Descriptor, Resources, TurnWord};

/// AIP-46's `Session`, with Wharf's own members besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// Never changes.
    pub(crate) id: String,
    /// The adapter whose agent this is.
    pub(crate) adapter_slug: String,
    /// The workspace that it belongs to; `default` for none.
    pub(crate) workspace_slug: String,
    /// The directory that the agent runs in.
    pub(crate) cwd: String,
    #[schema(value_type = StatusWord)]
    #[schemars(with = "StatusWord")]
    pub(crate) status: Status,
    /// ISO 8601.
    pub(crate) started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) last_output_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) label: Option<String>,
    /// The name by which amux clients find it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) name: Option<String>,
    /// The agent's own id of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) agent_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) title: Option<String>,
    #[schema(value_type = TurnKind)]
    #[schemars(with = "TurnKind")]
    pub(crate) turn: TurnWord,
    /// Prompts that wait.
    pub(crate) queued: usize,
    /// Attached clients.
    pub(crate) clients: usize,
    /// The last event of its log.
    pub(crate) last_seq: u64,
    /// It has ended and can come back.
    pub(crate) resumable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EndWord, nullable = false)]
    #[schemars(with = "Option<EndWord>")]
    pub(crate) end_reason: Option<EndReason>,
    /// The agent is held because the disk is full or read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PauseWord, nullable = false)]
    #[schemars(with = "Option<PauseWord>")]
    pub(crate) paused: Option<PauseReason>,
    /// What went wrong, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) message: Option<String>,
    /// The session whose agent started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) parent_session_id: Option<String>,
    /// How many sessions are above it; absent for one that a user started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) depth: Option<usize>,
    /// What its processes use; only while they are there and can be measured (Linux), some seconds old at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Used, nullable = false)]
    #[schemars(with = "Option<Used>")]
    pub(crate) resources: Option<Resources>,
}

/// What the processes of a session use: its agent's, and all that those started.
#[derive(ToSchema, JsonSchema)]
#[schema(as = Resources, rename_all = "camelCase")]
#[schemars(rename = "Resources", rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct Used {
    /// Resident memory without what is mapped from files.
    memory_bytes: u64,
    /// CPU time since the agent was started.
    cpu_millis: u64,
    processes: u64,
    /// More than `limits.session_memory`: so while it is at work, or if it could not come back. Left out if false.
    #[schema(nullable = false)]
    over_limit: Option<bool>,
}

/// Where the session is in its life.
#[derive(ToSchema, JsonSchema)]
#[schema(as = Status, rename_all = "snake_case")]
#[schemars(rename = "Status", rename_all = "snake_case")]
#[expect(dead_code, reason = "a schema")]
pub(crate) enum StatusWord {
    Starting,
    Running,
    Exited,
    Killed,
    Error,
}

/// What the agent is doing.
#[derive(ToSchema, JsonSchema)]
#[schema(as = Turn, rename_all = "snake_case")]
#[schemars(rename = "Turn", rename_all = "snake_case")]
#[expect(dead_code, reason = "a schema")]
pub(crate) enum TurnKind {
    Idle,
    Running,
    AwaitingInput,
}

/// Why the session ended.
#[derive(ToSchema, JsonSchema)]
#[schema(as = EndReason, rename_all = "snake_case")]
#[schemars(rename = "EndReason", rename_all = "snake_case")]
#[expect(dead_code, reason = "a schema")]
pub(crate) enum EndWord {
    AgentExited,
    StartFailed,
    Unresponsive,
    User,
    Closed,
    Idle,
    Memory,
    LogFull,
    HostShutdown,
    HostRestarted,
}

/// Why the agent is held.
#[derive(ToSchema, JsonSchema)]
#[schema(as = PauseReason, rename_all = "snake_case")]
#[schemars(rename = "PauseReason", rename_all = "snake_case")]
#[expect(dead_code, reason = "a schema")]
pub(crate) enum PauseWord {
    StorageFull,
    StorageReadOnly,
}

impl From<&Descriptor> for Session {
    fn from(known: &Descriptor) -> Self {
        let known = known.clone();
        Self {
            id: known.id,
            adapter_slug: known.adapter_slug,
            workspace_slug: known.workspace_slug,
            cwd: known.cwd,
            status: known.status,
            started_at: known.started_at,
            ended_at: known.ended_at,
            last_output_at: known.last_output_at,
            exit_code: known.exit_code,
            label: known.label,
            name: known.name,
            agent_session_id: known.agent_session_id,
            title: known.title,
            turn: known.turn,
            queued: known.queued,
            clients: known.clients,
            last_seq: known.last_seq,
            resumable: known.resumable,
            end_reason: known.end_reason,
            paused: known.paused,
            message: known.message,
            depth: known.parent_session_id.as_ref().map(|_| known.depth),
            parent_session_id: known.parent_session_id,
            resources: known.resources,
        }
    }
}
