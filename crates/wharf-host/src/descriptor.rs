//! A session in short: AIP-46's `Session`, with Wharf's own fields besides (rule 2.3).

use serde::{Deserialize, Serialize};
use wharf_core::{
    COUNTING_RULE, EndReason, Millis, OutcomeKind, PauseReason, Session, SessionId, SpawnKey,
    Status, TurnState,
};

use crate::agent_usage::{AgentUsage, ReportedContext};
use crate::attention::{Attention, AttentionSource};
use crate::format_timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub id: String,
    pub adapter_slug: String,
    pub workspace_slug: String,
    pub cwd: String,
    pub status: Status,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub turn: TurnWord,
    pub queued: usize,
    pub clients: usize,
    pub last_seq: u64,
    pub resumable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<EndReason>,
    /// The agent is held because the log cannot be written (rule 10.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseReason>,
    /// The reason of the failure, or why the agent of a running session cannot be reached, for a
    /// person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The session whose agent started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<String>,
    /// How many sessions are above it; 0 for a session that a user started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: usize,
    /// The agent could copy it into a new session (rule 17.10).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forkable: bool,
    /// The session that it is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The memory and CPU time of its processes; only present while they run and can be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// The end of the newest turn, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<OutcomeKind>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The facts of its attention, which are the same for every person (rule 14.1).
    pub attention: Attention,
    /// The usage and cost that the agent reported; absent if it reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<AgentUsage>,
    /// The agent's context window, as it reported it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ReportedContext>,
    /// For the host alone.
    #[serde(skip)]
    pub(crate) spawned: Option<SpawnedWith>,
    /// It was never prompted; for the host alone.
    #[serde(skip)]
    pub(crate) unused: bool,
    /// The number of the rule by which the sums of tokens were made; for the host alone.
    #[serde(skip)]
    pub(crate) counting_rule: u32,
    /// Since when the first of the prompts has waited; for the host alone.
    #[serde(skip)]
    pub(crate) queued_since: Option<Millis>,
    /// The ids of its ancestors, the topmost first.
    #[serde(skip)]
    pub(crate) lineage: Vec<SessionId>,
    /// It is not known which session led to it: only admins may see it.
    #[serde(skip)]
    pub(crate) is_scope_lost: bool,
}

/// The session that was copied, and the last event of its log at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    pub session_id: String,
    pub event_id: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
const fn is_zero(depth: &usize) -> bool {
    *depth == 0
}

/// Memory and CPU time of a session's processes: the agent and everything that it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Resident memory without memory that is mapped from files, such as the program itself, which
    /// other processes share.
    pub memory_bytes: u64,
    /// CPU time since the agent was started.
    pub cpu_millis: u64,
    pub processes: u64,
    /// It uses more than `limits.session_memory`, and could not be put to sleep: it is at work, or
    /// cannot come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_limit: bool,
}

impl Resources {
    /// Tells whether two measurements are the same for a person: the figures change all the time.
    pub fn is_near(&self, other: &Self) -> bool {
        let step = (self.memory_bytes / 20).max(1 << 20);
        self.processes == other.processes
            && self.over_limit == other.over_limit
            && self.memory_bytes.abs_diff(other.memory_bytes) < step
            && self.cpu_millis.abs_diff(other.cpu_millis) < 1_000
    }
}

/// The key of the request that made the session, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnedWith {
    pub(crate) token: Option<String>,
    #[serde(flatten)]
    pub(crate) key: SpawnKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnWord {
    Idle,
    Running,
    AwaitingInput,
}

impl Descriptor {
    pub(crate) fn of_session(session: &Session, source: &AttentionSource) -> Self {
        let state = session.state();
        let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(ToString::to_string);
        Self {
            id: state.origin.session.to_string(),
            adapter_slug: state.origin.adapter.to_string(),
            workspace_slug: state.origin.workspace.to_string(),
            cwd: state.origin.cwd.to_string(),
            status: state.status,
            started_at: format_timestamp(state.created_at),
            ended_at: state.ended_at.map(format_timestamp),
            last_output_at: state.last_output_at.map(format_timestamp),
            exit_code: state.ending.as_ref().and_then(|ending| ending.exit_code),
            label: text(&state.origin.label),
            name: text(&state.origin.name),
            agent_session_id: text(&state.agent_session),
            title: state.title().map(ToString::to_string),
            turn: match state.turn() {
                TurnState::Idle => TurnWord::Idle,
                TurnState::Running => TurnWord::Running,
                TurnState::AwaitingInput => TurnWord::AwaitingInput,
            },
            queued: state.queue.len(),
            clients: session.clients(),
            last_seq: session.head().0,
            resumable: state.way_back().is_some(),
            end_reason: state.ending.as_ref().map(|ending| ending.reason),
            paused: state.paused.map(|paused| paused.why),
            message: state.ending.as_ref().and_then(|ending| text(&ending.message)),
            resources: None,
            last_outcome: state.last_outcome(),
            archived: state.archived,
            attention: source.describe(state),
            usage: AgentUsage::of_state(state),
            context: ReportedContext::of_state(state),
            spawned: state.origin.key.clone().map(|key| {
                let token = state.origin.by.as_ref().and_then(|by| text(&by.token));
                SpawnedWith { token, key }
            }),
            parent_session_id: state.origin.lineage.last().map(ToString::to_string),
            depth: state.origin.lineage.len(),
            forkable: state.forkable(),
            forked_from: state.origin.forked_from.as_ref().map(|source| ForkedFrom {
                session_id: source.session.to_string(),
                event_id: source.event.to_string(),
            }),
            lineage: state.origin.lineage.clone(),
            is_scope_lost: state.origin.is_scope_lost,
            unused: state.is_unused(),
            counting_rule: state.usage.rule(),
            queued_since: state.queue.iter().map(|queued| queued.accepted_at).min(),
        }
    }

    /// Tells whether a user has killed the session. Then only an explicit resume brings it back.
    pub fn is_killed(&self) -> bool {
        !self.status.is_alive() && self.end_reason == Some(EndReason::User)
    }

    /// Tells whether it is unknown which session led to this one. Only admins may see it then.
    pub const fn is_scope_lost(&self) -> bool {
        self.is_scope_lost
    }

    /// Returns true if the sums of tokens were made by the present rule.
    pub(crate) const fn has_current_sums(&self) -> bool {
        self.counting_rule >= COUNTING_RULE
    }

    /// Returns the ids of its ancestors, the topmost first.
    pub fn lineage(&self) -> &[SessionId] {
        &self.lineage
    }

    /// Tells whether this session was started, directly or not, by the agent of that session.
    pub fn descends_from(&self, session: &SessionId) -> bool {
        self.lineage.contains(session)
    }

    /// Returns the largest epoch of the events that it names.
    pub(crate) fn largest_epoch(&self) -> Option<u64> {
        let Attention { ask, newest_ask, raised, .. } = &self.attention;
        let asks = [ask, newest_ask].into_iter().flatten().map(|ask| ask.row);
        let raised = raised.as_ref().and_then(|raised| raised.row);
        asks.chain(raised).map(|event| event.epoch.0).max()
    }

    /// Returns the form that the index stores, internal fields included.
    pub(crate) fn to_summary(&self) -> Option<Vec<u8>> {
        #[derive(Serialize)]
        struct Summary<'a> {
            #[serde(flatten)]
            descriptor: &'a Descriptor,
            #[serde(skip_serializing_if = "Option::is_none")]
            spawned: Option<&'a SpawnedWith>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            lineage: &'a [SessionId],
            #[serde(skip_serializing_if = "Option::is_none")]
            queued_since: Option<Millis>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            unused: bool,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            is_scope_lost: bool,
            counting_rule: u32,
        }
        let Self { queued_since, unused, is_scope_lost, counting_rule, .. } = *self;
        let summary = Summary {
            descriptor: self,
            spawned: self.spawned.as_ref(),
            lineage: &self.lineage,
            queued_since,
            unused,
            is_scope_lost,
            counting_rule,
        };
        serde_json::to_vec(&summary).ok()
    }

    pub(crate) fn from_summary(summary: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Besides {
            spawned: Option<SpawnedWith>,
            #[serde(default)]
            lineage: Vec<SessionId>,
            queued_since: Option<Millis>,
            #[serde(default)]
            unused: bool,
            #[serde(default)]
            is_scope_lost: bool,
            #[serde(default)]
            counting_rule: u32,
        }
        let descriptor: Self = wharf_json::read_own(summary).ok()?;
        let Besides {
            spawned,
            lineage,
            queued_since,
            unused,
            is_scope_lost,
            counting_rule,
        } = wharf_json::read_own(summary).ok()?;
        Some(Self {
            spawned,
            lineage,
            queued_since,
            unused,
            is_scope_lost,
            counting_rule,
            ..descriptor
        })
    }

    /// Marks a session that the host could not load, with the reason.
    pub(crate) fn mark_failed(&mut self, message: &str, resumable: bool) {
        (self.status, self.turn, self.clients, self.paused) =
            (Status::Error, TurnWord::Idle, 0, None);
        (self.message, self.resumable) = (Some(message.to_owned()), resumable);
        (self.attention.asks, self.attention.ask, self.attention.newest_ask) = (0, None, None);
        self.attention.work = None;
    }

    pub(crate) fn set_last_output(&mut self, at: Millis) {
        self.last_output_at = Some(format_timestamp(at));
    }
}
