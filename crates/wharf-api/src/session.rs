//! A session, listings of sessions, and a session's end and return.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::{AttentionInfo, AttentionState, ContextUse, OnLabelChange, TokenUsage, TurnOutcome};

words! {
    /// Where the session is in its life.
    pub enum SessionStatus as "Status" {
        Starting = "starting",
        Running = "running",
        Exited = "exited",
        Killed = "killed",
        Error = "error",
    }
}

words! {
    /// The activity of the agent.
    pub enum TurnPhase as "Turn" {
        Idle = "idle",
        Running = "running",
        AwaitingInput = "awaiting_input",
    }
}

words! {
    /// Why the session ended.
    pub enum EndCause as "EndReason" {
        AgentExited = "agent_exited",
        StartFailed = "start_failed",
        Unresponsive = "unresponsive",
        User = "user",
        Closed = "closed",
        /// The caller that started it had no further work for it.
        Finished = "finished",
        Idle = "idle",
        Memory = "memory",
        LogFull = "log_full",
        HostShutdown = "host_shutdown",
        HostRestarted = "host_restarted",
    }
}

words! {
    /// Why the agent is held.
    pub enum StoragePause as "PauseReason" {
        StorageFull = "storage_full",
        StorageReadOnly = "storage_read_only",
    }
}

impl SessionStatus {
    /// Returns true while the session has an agent, or is about to. An unknown word counts as
    /// ended.
    pub const fn is_alive(&self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// AIP-46's `Session`, with Wharf's own members besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
#[schemars(rename = "Session")]
pub struct SessionInfo {
    /// Never changes.
    pub id: String,
    /// The adapter whose agent this is.
    pub adapter_slug: String,
    /// The workspace that it belongs to; `default` for none.
    pub workspace_slug: String,
    /// The directory that the agent runs in.
    pub cwd: String,
    pub status: SessionStatus,
    /// ISO 8601.
    pub started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_output_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub label: Option<String>,
    /// The name by which amux clients find it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// The agent's own id of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agent_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub title: Option<String>,
    pub turn: TurnPhase,
    /// Prompts that wait.
    pub queued: usize,
    /// Attached clients.
    pub clients: usize,
    /// The last event of its log.
    pub last_seq: u64,
    /// It can come back after its end; while it runs, it would be able to.
    pub resumable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub end_reason: Option<EndCause>,
    /// The agent is held because the disk is full or read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub paused: Option<StoragePause>,
    /// The failure, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub message: Option<String>,
    /// The session whose agent started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub parent_session_id: Option<String>,
    /// How many sessions are above it; absent for one that a user started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub depth: Option<usize>,
    /// The agent can copy it into a new session: `POST /sessions/{id}/fork`, while no turn runs.
    /// Left out if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forkable: bool,
    /// The session that it is a copy of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub forked_from: Option<ForkOrigin>,
    /// Memory and CPU that its processes use; only while they are there and can be measured
    /// (Linux), some seconds old at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resources: Option<ResourceUse>,
    /// Whether it wants something from the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub attention: Option<AttentionInfo>,
    /// How its newest turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_outcome: Option<TurnOutcome>,
    /// It is in the archive. Left out if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The tokens of all its turns, and its cost, as far as its agent reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub usage: Option<TokenUsage>,
    /// The context of its model, as its agent reported it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub context: Option<ContextUse>,
    /// Present if its agent goes on while there is no host (rule 2.14).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub keeper: Option<KeeperInfo>,
}

/// The process that keeps an agent while there is no host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeeperInfo {
    /// The version of the program that the keeper runs: that of the host which started it.
    pub version: String,
    /// How far the agent goes on. Left out if its keeper is too old to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub limits: Option<KeeperLimitsInfo>,
}

/// How far an agent goes on without a host.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeeperLimits)]
pub struct KeeperLimitsInfo {
    /// The milliseconds that it goes on, in a turn or idle as it is now. Left out: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub absence_millis: Option<u64>,
    /// The bytes of output that wait for the next host; more holds the agent back.
    pub output_bytes: u64,
}

impl SessionInfo {
    /// The names of all members, in the order of the JSON.
    pub const MEMBERS: &'static [&'static str] = &[
        "id",
        "adapterSlug",
        "workspaceSlug",
        "cwd",
        "status",
        "startedAt",
        "endedAt",
        "lastOutputAt",
        "exitCode",
        "label",
        "name",
        "agentSessionId",
        "title",
        "turn",
        "queued",
        "clients",
        "lastSeq",
        "resumable",
        "endReason",
        "paused",
        "message",
        "parentSessionId",
        "depth",
        "forkable",
        "forkedFrom",
        "resources",
        "attention",
        "lastOutcome",
        "archived",
        "usage",
        "context",
        "keeper",
    ];
}

/// The session that another one is a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    pub session_id: String,
    /// The last event of its log when the copy was asked for.
    pub event_id: String,
}

/// The description of a copy of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ForkArgs {
    /// A title, which beats the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Says what happens if another session has the label; `share` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_label: Option<OnLabelChange>,
}

/// Memory and CPU that the processes of a session use: its agent's, and all that those started.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resources)]
#[schemars(rename = "Resources")]
pub struct ResourceUse {
    /// Resident memory without what is mapped from files.
    pub memory_bytes: u64,
    /// CPU time since the agent was started.
    pub cpu_millis: u64,
    pub processes: u64,
    /// More than `limits.session_memory`: so while it is at work, or if it could not come back.
    /// Left out if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_limit: bool,
}

/// Selects sessions, and says how many.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionQuery {
    /// Sessions in a page.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
    #[serde(deserialize_with = "known_status")]
    pub status: Option<SessionStatus>,
    /// The slug of a workspace.
    pub workspace: Option<String>,
    /// The slug of an adapter.
    pub adapter: Option<String>,
    /// The whole label.
    pub label: Option<String>,
    /// True: those that are starting or running. False: those that have ended.
    pub alive: Option<bool>,
    /// The state of the caller's attention.
    #[serde(deserialize_with = "known_attention")]
    pub attention: Option<AttentionState>,
    #[serde(deserialize_with = "known_turn")]
    pub turn: Option<TurnPhase>,
    /// True: those in the archive. False: the others.
    pub archived: Option<bool>,
    /// Selects sessions that were active at or after this time (ISO 8601).
    pub since: Option<String>,
    /// Selects sessions that were started before this time (ISO 8601).
    pub before: Option<String>,
}

fn known_attention<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<AttentionState>, D::Error> {
    crate::word::read_known_word(deserializer, AttentionState::WORDS)
}

fn known_turn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TurnPhase>, D::Error> {
    crate::word::read_known_word(deserializer, TurnPhase::WORDS)
}

/// Changes of a session's description. A member that is left out stays as it is; null clears it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionPatch {
    /// A title, which beats the agent's.
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub title: Option<Option<String>>,
    #[serde(deserialize_with = "present_or_null", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub label: Option<Option<String>>,
    /// Says what happens if another session has the label; `share` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_label: Option<OnLabelChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// Reads a member that is there, so that null differs from a member that is left out.
pub(crate) fn present_or_null<'de, D>(deserializer: D) -> Result<Option<Option<String>>, D::Error>
where
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

fn known_status<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SessionStatus>, D::Error> {
    crate::word::read_known_word(deserializer, SessionStatus::WORDS)
}

/// A page of sessions, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SessionList)]
#[schemars(rename = "SessionList")]
pub struct SessionPage {
    pub sessions: Vec<SessionInfo>,
    /// There are more: ask again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// A [`SessionPage`] whose sessions keep their JSON text, for a client that passes them on.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawSessionPage {
    pub sessions: Vec<Box<RawValue>>,
    pub next_cursor: Option<String>,
}

/// The session is dead.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Killed {
    pub ok: bool,
    pub id: String,
}

/// The session has ended, its work being done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Finished {
    pub ok: bool,
    pub id: String,
}

/// `ok` is false if there was no such session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forgotten {
    pub ok: bool,
    pub id: String,
    /// `failed`: the agent did not delete its own copy, which may be left. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub agent_delete: Option<String>,
}

impl Forgotten {
    /// The word for an agent's own copy that may be left of a deleted session.
    pub const AGENT_DELETE_FAILED: &'static str = "failed";
}

/// The settings that a session comes back with, besides those that were in force.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeArgs {
    /// This mode instead of the one that was in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub session_mode: Option<String>,
    /// Take the settings that the agent has, instead of setting those that were in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_agent_settings: Option<bool>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_member_of_a_session_is_named() {
        let schema =
            serde_json::to_value(<SessionInfo as utoipa::PartialSchema>::schema()).unwrap();
        let members: BTreeSet<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, SessionInfo::MEMBERS.iter().copied().collect());
    }
}
